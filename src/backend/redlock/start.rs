//! Fresh nodes, and nodes that lost their data: whether an attempt can be sent yet, the first start, re-admission (`R10`).
//!
//! The machines of `proto` decide; here they are asked and obeyed, and their answers are kept for those who want to know why.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::StreamExt;
use tokio::time::Instant;

use super::cluster::Redlock;
use super::driver::Failed;
use super::scripts::Keys;
use super::wire::Question;
use crate::lock::report::{NodeAnswer, NodeError, Report};
use crate::proto::first_start::{Outcome, Start, Step};
use crate::proto::readmit::Readmitted;
use crate::proto::ready::Readiness;
use crate::proto::session::{AcquireFailure, Mode};
use crate::proto::tally::MAX_NODES;
use crate::proto::{FirstStart, GetReady, NodeId, Readmit, Reply, Request};

/// After finding that a first start is not possible, how long not to try one again; and how often empty nodes are told.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What is known of the nodes' start.
#[derive(Debug, Default)]
pub(super) struct FirstStarts {
    /// A quorum of nodes was seen with an epoch.
    ready: AtomicBool,
    failed: Mutex<Option<FailedStart>>,
    /// When empty nodes beside a quorum were told of last.
    told: Mutex<Option<Instant>>,
}

/// A first start was found impossible.
#[derive(Debug)]
struct FailedStart {
    at: Instant,
    /// Nodes that could not be given an epoch, and why.
    refused: Vec<(NodeId, NodeError)>,
}

/// How a run of a machine ended, and what the nodes said last.
struct Ran<O> {
    /// `None`: the machine was not content with any answer.
    outcome: Option<O>,
    report: Report,
    /// Empty nodes that could not be given what they were asked to take, and why.
    refused: Vec<(NodeId, NodeError)>,
}

impl FirstStarts {
    fn failed(&self) -> MutexGuard<'_, Option<FailedStart>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redlock {
    /// Returns when a quorum of nodes was seen with an epoch; before that no attempt may be sent.
    ///
    /// Costs the first acquisition one round trip, a little more where fresh nodes are started. Who sees no quorum within
    /// `patience` has the answer of a failed attempt.
    pub(super) async fn ready(&self) -> Result<(), Failed> {
        if self.settings.mode == Mode::Classic || self.first_start.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Boxed: rare, and large beside an attempt.
        let first: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.get_ready());
        first.await
    }

    async fn get_ready(&self) -> Result<(), Failed> {
        let begun = self.clock.now();
        let floor = self.may_start().then(|| self.clock.unix_micros());
        let (mut machine, step) = GetReady::<{ MAX_NODES }>::new(self.settings.quorum, floor);
        let ran = self.run(step, |id, reply| machine.handle(id, reply)).await;
        let found =
            ran.outcome.unwrap_or(Readiness::NotStarted(Outcome::Unanswered(self.settings.quorum.all())));
        let empty = ran.report.count(|answer| *answer == NodeAnswer::Empty);
        tell(found, empty > 0);
        if found.is_ready() {
            self.first_start.ready.store(true, Ordering::Relaxed);
            *self.first_start.failed() = None;
            return Ok(());
        }
        // Where no node was seen empty there was nothing to start: nodes that come up fresh in a moment need not wait.
        if empty > 0 && matches!(found, Readiness::NotStarted(_)) {
            *self.first_start.failed() = Some(FailedStart { at: Instant::now(), refused: ran.refused });
        }
        let (reason, elapsed) = (AcquireFailure::NoQuorum, self.clock.now().since(begun));
        Err(self.with_refusals(Failed { reason, elapsed, best: 0, report: ran.report }))
    }

    /// Whether an attempt failed because too many nodes are empty: they may all be new, and are looked at again.
    pub(super) fn may_be_fresh(&self, failed: &Failed) -> bool {
        let empty = failed.report.count(|answer| *answer == NodeAnswer::Empty);
        if empty <= self.settings.quorum.spare() {
            self.tell_of_empty(empty, failed);
            return false;
        }
        self.first_start.ready.store(false, Ordering::Relaxed);
        true
    }

    fn tell_of_empty(&self, empty: usize, failed: &Failed) {
        let mut told = self.first_start.told.lock().unwrap_or_else(PoisonError::into_inner);
        if empty > 0 && told.is_none_or(|at| at.elapsed() >= TRY_AGAIN) {
            *told = Some(Instant::now());
            tracing::error!(nodes = %failed.report, "empty nodes beside nodes in use: they lost their data and do not vote");
        }
    }

    fn may_start(&self) -> bool {
        let tried = self.first_start.failed();
        self.settings.auto_init && tried.as_ref().is_none_or(|tried| tried.at.elapsed() >= TRY_AGAIN)
    }

    /// An empty node that cannot be given an epoch says why: a replica, a right that is missing.
    pub(super) fn with_refusals(&self, mut failed: Failed) -> Failed {
        let tried = self.first_start.failed();
        let refused = tried.iter().flat_map(|tried| &tried.refused);
        for (node, error) in refused {
            let said = failed.report.0.iter_mut().find(|report| report.node == *node);
            if let Some(report) = said.filter(|report| report.answer == NodeAnswer::Empty) {
                report.answer = NodeAnswer::Failed(error.clone());
            }
        }
        failed
    }

    /// Gives fresh nodes their epoch.
    pub(crate) async fn first_start(&self, start: Start) -> Outcome {
        let (mut machine, step) = FirstStart::<{ MAX_NODES }>::new(self.settings.quorum, start);
        let ran = self.run(step, |id, reply| machine.handle(id, reply)).await;
        ran.outcome.unwrap_or(Outcome::Unanswered(self.settings.quorum.all()))
    }

    /// Brings nodes that lost their data back.
    pub(crate) async fn readmit(&self) -> Readmitted {
        // From 1 to 2^32: no run repeats an epoch, and no run uses many of them up.
        let draw = u64::from(self.entropy().owner().0 as u32) + 1;
        let (mut machine, step) = Readmit::<{ MAX_NODES }>::new(self.settings.quorum, draw);
        let ran = self.run(step, |id, reply| machine.handle(id, reply)).await;
        let outcome = ran.outcome.unwrap_or(Readmitted::Stopped { at: self.settings.quorum.all() });
        match outcome {
            Readmitted::Done { .. } | Readmitted::NotNeeded => tracing::info!(%outcome, "re-admission"),
            Readmitted::TooFew { .. } | Readmitted::Stopped { .. } => {
                tracing::warn!(%outcome, "re-admission")
            }
        }
        outcome
    }

    /// Runs a machine that asks nodes step by step, until it says what it asks next, or that it is done.
    async fn run<O>(
        &self,
        mut step: Step<O>,
        mut handle: impl FnMut(NodeId, Reply) -> Option<Step<O>>,
    ) -> Ran<O> {
        let (mut report, mut refused) = (self.silence(), Vec::new());
        let keys = Arc::new(Keys::of_no_resource());
        loop {
            let (to, request) = match step {
                Step::Done(outcome) => return Ran { outcome: Some(outcome), report, refused },
                Step::Send { to, request } => (to, request),
            };
            let looks = request == Request::Inspect;
            let mut open = self.ask(to, Question::new(&keys, request));
            let mut next = None;
            while next.is_none()
                && let Some((id, answer)) = open.next().await
            {
                next = handle(id, answer.reply);
                let said = &mut report.0[id.index()].answer;
                if let (NodeAnswer::Empty, NodeAnswer::Failed(error), false) = (&*said, &answer.answer, looks)
                {
                    refused.push((id, error.clone()));
                }
                *said = answer.answer;
            }
            match next {
                Some(next) => step = next,
                None => return Ran { outcome: None, report, refused },
            }
        }
    }
}

/// Silent nodes are told by the error; only if there are `empty` ones beside them is it about a start.
fn tell(found: Readiness, empty: bool) {
    match found {
        Readiness::Ready => {}
        Readiness::Started => tracing::info!(%found, "first start of fresh nodes"),
        Readiness::NotStarted(Outcome::InUse { empty }) => {
            tracing::error!(nodes = %empty, "empty nodes beside nodes in use: they lost their data and do not vote");
        }
        Readiness::Unstarted { .. } | Readiness::NotStarted(_) if empty => {
            tracing::warn!(%found, "fresh nodes cannot start before all nodes answer");
        }
        Readiness::Unstarted { .. } | Readiness::NotStarted(_) => {}
    }
}
