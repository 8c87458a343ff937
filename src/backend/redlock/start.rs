//! Fresh nodes, and nodes that lost their data: whether an attempt can succeed yet, the first start, re-admission (`R10`).

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::StreamExt;
use tokio::time::Instant;

use super::cluster::Redlock;
use super::driver::Failed;
use super::scripts::Keys;
use super::wire::{Answer, Question};
use crate::lock::report::{NodeAnswer, NodeError, Report};
use crate::proto::first_start::{FIRST_EPOCH, Outcome, Start, Step};
use crate::proto::readmit::Readmitted;
use crate::proto::session::{AcquireFailure, Mode};
use crate::proto::tally::MAX_NODES;
use crate::proto::{FirstStart, NodeId, Readmit, Reply, Request};

/// After finding that a first start is not possible, how long not to look again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What is known of the nodes' start.
#[derive(Debug, Default)]
pub(super) struct FirstStarts {
    /// A quorum of nodes has an epoch.
    done: AtomicBool,
    failed: Mutex<Option<FailedStart>>,
}

impl FirstStarts {
    fn failed(&self) -> MutexGuard<'_, Option<FailedStart>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a look at the nodes has found.
struct Seen {
    report: Report,
    /// Some node has the first epoch and has never granted.
    untouched: bool,
}

/// A first start was found impossible.
#[derive(Debug)]
struct FailedStart {
    at: Instant,
    /// Nodes that could not be given an epoch, and why.
    refused: Vec<(NodeId, NodeError)>,
}

impl Redlock {
    /// Looks at the nodes before the first attempt, and starts them if they are fresh.
    ///
    /// While fewer nodes than a quorum have an epoch nobody can acquire, but an attempt would raise the number of those few,
    /// and then they look like nodes in use beside nodes that lost their data. So a first start that died half-way is
    /// completed before anything else is asked; if it cannot be, that is the answer.
    ///
    /// Costs the first acquisition one round trip. Goes on at a quorum; silent nodes are waited for a tenth of `patience`.
    pub(super) async fn ready(&self) -> Result<(), Failed> {
        if self.settings.mode == Mode::Classic || self.first_start.done.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Boxed: rare, and large beside an attempt.
        let first: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.look_first());
        first.await
    }

    async fn look_first(&self) -> Result<(), Failed> {
        let begun = self.clock.now();
        let mut seen = self.look().await;
        if self.is_ready(&seen) {
            return Ok(());
        }
        let empty = seen.report.count(|answer| *answer == NodeAnswer::Empty) > 0;
        if empty && self.may_start() {
            match self.start_fresh_nodes().await {
                Outcome::Started | Outcome::NotNeeded | Outcome::InUse { .. } => return Ok(()),
                Outcome::Unanswered(_) => {}
                Outcome::Partial(_) => seen = self.look().await,
            }
        }
        // With nothing to spoil, the attempt tells more than the look.
        if self.is_ready(&seen) || !seen.untouched {
            return Ok(());
        }
        let (reason, elapsed) = (AcquireFailure::NoQuorum, self.clock.now().since(begun));
        Err(self.with_refusals(Failed { reason, elapsed, best: 0, report: seen.report }))
    }

    fn is_ready(&self, seen: &Seen) -> bool {
        let ready = seen.report.count(|answer| *answer == NodeAnswer::Ready) >= self.settings.quorum.needed();
        if ready {
            self.first_start.done.store(true, Ordering::Relaxed);
        }
        ready
    }

    /// What the nodes are, until a quorum is ready or the time is over.
    async fn look(&self) -> Seen {
        let mut seen = Seen { report: self.silence(), untouched: false };
        let mut ready = 0;
        let question = Question::new(&Arc::new(Keys::of_no_resource()), Request::Inspect);
        let mut open = self.ask(self.settings.quorum.all(), question);
        let looking = async {
            while ready < self.settings.quorum.needed()
                && let Some((id, Answer { reply, answer })) = open.next().await
            {
                seen.untouched |= is_untouched(reply);
                ready += usize::from(answer == NodeAnswer::Ready);
                seen.report.0[id.index()].answer = answer;
            }
        };
        let _ = tokio::time::timeout(self.settings.patience / 10, looking).await;
        seen
    }

    pub(super) fn may_be_fresh(&self, failed: &Failed) -> bool {
        let empty = failed.report.count(|answer| *answer == NodeAnswer::Empty);
        if empty > self.settings.quorum.spare() {
            // All of them may be new: look again before the next attempt.
            self.first_start.done.store(false, Ordering::Relaxed);
        }
        empty > 0 && self.may_start()
    }

    fn may_start(&self) -> bool {
        let tried = self.first_start.failed();
        self.settings.auto_init && tried.as_ref().is_none_or(|tried| tried.at.elapsed() >= LOOK_AGAIN)
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

    /// Gives fresh nodes their first epoch, if it is certain that they are fresh.
    pub(super) async fn start_fresh_nodes(&self) -> Outcome {
        let start = Start::Automatic { floor: self.clock.unix_micros() };
        let starting: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.start_nodes(start));
        let (outcome, refused) = starting.await;
        let mut failed = self.first_start.failed();
        *failed = Some(FailedStart { at: Instant::now(), refused });
        match &outcome {
            Outcome::Started | Outcome::NotNeeded => {
                tracing::info!(%outcome, "first start of fresh nodes");
                *failed = None;
                self.first_start.done.store(true, Ordering::Relaxed);
            }
            Outcome::InUse { empty } => {
                tracing::error!(nodes = %empty, "empty nodes beside nodes in use: they lost their data and do not vote");
            }
            Outcome::Unanswered(_) | Outcome::Partial(_) => {
                tracing::warn!(%outcome, "fresh nodes cannot start before all nodes answer");
            }
        }
        outcome
    }

    /// Gives fresh nodes their epoch.
    pub(crate) async fn first_start(&self, start: Start) -> Outcome {
        self.start_nodes(start).await.0
    }

    /// The same, with the nodes that failed.
    async fn start_nodes(&self, start: Start) -> (Outcome, Vec<(NodeId, NodeError)>) {
        let (mut machine, step) = FirstStart::<{ MAX_NODES }>::new(self.settings.quorum, start);
        let (outcome, refused) = self.run(step, |id, reply| machine.handle(id, reply)).await;
        (outcome.unwrap_or(Outcome::Unanswered(self.settings.quorum.all())), refused)
    }

    /// Brings nodes that lost their data back.
    pub(crate) async fn readmit(&self) -> Readmitted {
        // From 1 to 2^32: no run repeats an epoch, and no run uses many of them up.
        let draw = u64::from(self.entropy().owner().0 as u32) + 1;
        let (mut machine, step) = Readmit::<{ MAX_NODES }>::new(self.settings.quorum, draw);
        let (outcome, _) = self.run(step, |id, reply| machine.handle(id, reply)).await;
        let outcome = outcome.unwrap_or(Readmitted::Stopped { at: self.settings.quorum.all() });
        match outcome {
            Readmitted::Done { .. } | Readmitted::NotNeeded => tracing::info!(%outcome, "re-admission"),
            Readmitted::TooFew { .. } | Readmitted::Stopped { .. } => {
                tracing::warn!(%outcome, "re-admission")
            }
        }
        outcome
    }

    /// Runs a machine that asks nodes step by step, each step when all have answered; with the nodes that failed.
    async fn run<O>(
        &self,
        mut step: Step<O>,
        mut handle: impl FnMut(NodeId, Reply) -> Option<Step<O>>,
    ) -> (Option<O>, Vec<(NodeId, NodeError)>) {
        let mut refused = Vec::new();
        let keys = Arc::new(Keys::of_no_resource());
        loop {
            let (to, request) = match step {
                Step::Done(outcome) => return (Some(outcome), refused),
                Step::Send { to, request } => (to, request),
            };
            let mut open = self.ask(to, Question::new(&keys, request));
            let mut next = None;
            while let Some((id, answer)) = open.next().await {
                next = handle(id, answer.reply).or(next);
                if let NodeAnswer::Failed(error) = answer.answer {
                    refused.push((id, error));
                }
            }
            match next {
                Some(next) => step = next,
                None => return (None, refused),
            }
        }
    }
}

/// The first epoch, and no number given since.
fn is_untouched(reply: Reply) -> bool {
    matches!(reply, Reply::Record(record) if record.epoch == Some(FIRST_EPOCH) && record.high == record.floor)
}
