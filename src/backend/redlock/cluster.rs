//! All nodes of one lock: attempts, hints, first start.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::bells::{Bell, Bells};
use super::driver::{Attempt, Failed, Won};
use super::node::Node;
use super::scripts::Keys;
use super::wire::{Answer, Inspection, Question};
use crate::lock::clock::{Clock, Entropy};
use crate::lock::error::AcquireError;
use crate::lock::hold::Hold;
use crate::lock::report::{NodeAnswer, NodeError, NodeReport, Report};
use crate::proto::first_start::{Outcome, Start, Step};
use crate::proto::message::MAX_NUMBER;
use crate::proto::retry::Backoff;
use crate::proto::session::{AcquireFailure, AutoExtend, Config, Mode};
use crate::proto::tally::MAX_NODES;
use crate::proto::{Drift, FirstStart, NodeId, Quorum, Request, Ttl};

/// Hints kept: one small number per resource lately locked. Losing one costs a round trip.
const HINTS: usize = 10_000;

/// After finding that a first start is not possible, how long not to look again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What all attempts share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    pub(crate) mode: Mode,
    pub(crate) drift: Drift,
    pub(crate) patience: Duration,
    pub(crate) prefix: String,
    pub(crate) auto_init: bool,
}

/// What one attempt asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) resource: String,
    pub(crate) ttl: Ttl,
    pub(crate) extend: Option<AutoExtend>,
}

#[derive(Debug)]
pub(crate) struct Redlock {
    pub(crate) settings: Settings,
    nodes: Arc<[Arc<Node>]>,
    bells: Arc<Bells>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tasks: TaskTracker,
    hints: Mutex<HashMap<String, u64>>,
    not_fresh: Mutex<Option<NotFresh>>,
}

/// A first start was found impossible.
#[derive(Debug)]
struct NotFresh {
    at: Instant,
    /// Nodes that could not be given an epoch, and why.
    refused: Vec<(NodeId, NodeError)>,
}

impl Redlock {
    pub(crate) fn new(
        settings: Settings,
        nodes: Vec<Arc<Node>>,
        bells: Arc<Bells>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        let (hints, not_fresh) = (Mutex::default(), Mutex::default());
        Self { settings, nodes: nodes.into(), bells, clock, entropy, tasks, hints, not_fresh }
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.entropy.as_ref()
    }

    pub(crate) fn keys(&self, resource: &str) -> Keys {
        Keys::new(&self.settings.prefix, resource)
    }

    /// Tries once; twice if the nodes turn out to be fresh and take their first epoch in between.
    pub(crate) async fn attempt(&self, wanted: &Wanted) -> Result<Hold, AcquireError> {
        let failed = match self.try_once(wanted).await? {
            Ok(hold) => return Ok(hold),
            Err(failed) => failed,
        };
        if self.may_be_fresh(&failed) && self.start_fresh_nodes().await {
            return self.try_once(wanted).await?.map_err(|failed| self.error(wanted, failed));
        }
        Err(self.error(wanted, self.with_refusals(failed)))
    }

    async fn try_once(&self, wanted: &Wanted) -> Result<Result<Hold, Failed>, AcquireError> {
        let keys = Arc::new(self.keys(&wanted.resource));
        let attempt = Attempt {
            config: self.config(wanted),
            resource: wanted.resource.clone(),
            owner: self.entropy.owner(),
            hint: self.hint(&keys.lock),
            keys: Arc::clone(&keys),
            nodes: Arc::clone(&self.nodes),
            clock: Arc::clone(&self.clock),
        };
        let (task, running) = attempt.start();
        self.tasks.spawn(task);
        let verdict = running.verdict.await.map_err(|_| AcquireError::Shutdown)?;
        let won = verdict.map(|(lease, best)| Won { hold: Hold { lease, commands: running.commands }, best });
        let best = won.as_ref().map_or_else(|failed| failed.best, |won| won.best);
        self.learn(&keys.lock, best);
        Ok(won.map(|won| won.hold))
    }

    fn config(&self, wanted: &Wanted) -> Config {
        Config {
            quorum: self.settings.quorum,
            mode: self.settings.mode,
            ttl: wanted.ttl,
            drift: self.settings.drift,
            patience: self.settings.patience,
            extend: wanted.extend,
            release_backoff: Backoff { first: Duration::from_millis(100), most: Duration::from_secs(5) },
            release_rounds: 12,
        }
    }

    fn hint(&self, lock: &str) -> u64 {
        let hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        hints.get(lock).map_or(0, |best| best + 1)
    }

    fn learn(&self, lock: &str, best: u64) {
        if best == 0 || best >= MAX_NUMBER {
            return;
        }
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.len() >= HINTS && !hints.contains_key(lock) {
            hints.clear();
        }
        let known = hints.entry(lock.to_owned()).or_default();
        *known = best.max(*known);
    }

    fn may_be_fresh(&self, failed: &Failed) -> bool {
        let empty = failed.report.count(|answer| *answer == NodeAnswer::Empty) > 0;
        let looked = self.not_fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looked.as_ref().is_none_or(|looked| looked.at.elapsed() >= LOOK_AGAIN);
        empty && self.settings.auto_init && look
    }

    /// An empty node that cannot be given an epoch says why: a replica, a right that is missing.
    fn with_refusals(&self, mut failed: Failed) -> Failed {
        let looked = self.not_fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = looked.iter().flat_map(|looked| &looked.refused);
        for (node, error) in refused {
            let said = failed.report.0.iter_mut().find(|report| report.node == *node);
            if let Some(report) = said.filter(|report| report.answer == NodeAnswer::Empty) {
                report.answer = NodeAnswer::Failed(error.clone());
            }
        }
        failed
    }

    async fn start_fresh_nodes(&self) -> bool {
        // Boxed: rare, and large beside an attempt.
        let start = Start::Automatic { floor: self.clock.unix_micros() };
        let starting: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.start_nodes(start));
        let (outcome, refused) = starting.await;
        match &outcome {
            Outcome::Started | Outcome::NotNeeded => {
                tracing::info!(%outcome, "first start of fresh nodes");
                *self.not_fresh.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return true;
            }
            Outcome::InUse { empty } => {
                tracing::error!(nodes = %empty, "empty nodes beside nodes in use: they lost their data and do not vote");
            }
            Outcome::Unanswered(_) | Outcome::Partial(_) => {
                tracing::warn!(%outcome, "fresh nodes cannot start before all nodes answer");
            }
        }
        *self.not_fresh.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(NotFresh { at: Instant::now(), refused });
        false
    }

    /// Gives fresh nodes their epoch.
    pub(crate) async fn first_start(&self, start: Start) -> Outcome {
        self.start_nodes(start).await.0
    }

    /// The same, with the nodes that failed.
    async fn start_nodes(&self, start: Start) -> (Outcome, Vec<(NodeId, NodeError)>) {
        let mut refused = Vec::new();
        let keys = Arc::new(Keys::of_no_resource());
        let (mut machine, mut step) = FirstStart::<{ MAX_NODES }>::new(self.settings.quorum, start);
        loop {
            let (to, request) = match step {
                Step::Done(outcome) => return (outcome, refused),
                Step::Send { to, request } => (to, request),
            };
            let question = Arc::new(Question::new(&keys, request));
            let ask = |id: NodeId| {
                let (node, question) = (Arc::clone(&self.nodes[id.index()]), Arc::clone(&question));
                let patience = self.settings.patience;
                async move {
                    let answer = tokio::time::timeout(patience, node.ask(&question)).await;
                    let silent = || Answer::failed(NodeError::NoAnswer("too slow".into()));
                    (id, answer.unwrap_or_else(|_| silent()))
                }
            };
            let mut open: FuturesUnordered<_> = to.iter().map(ask).collect();
            let mut next = None;
            while let Some((id, answer)) = open.next().await {
                next = machine.handle(id, answer.reply).or(next);
                if let NodeAnswer::Failed(error) = answer.answer {
                    refused.push((id, error));
                }
            }
            step = next.unwrap_or(Step::Done(Outcome::Unanswered(to)));
        }
    }

    /// Asks every node what it knows of a lock; `None` after `patience`.
    pub(crate) async fn inspect(&self, resource: &str) -> Vec<(String, Result<Inspection, NodeError>)> {
        let keys = Arc::new(self.keys(resource));
        let ask = |node: &Arc<Node>| {
            let (node, keys) = (Arc::clone(node), Arc::clone(&keys));
            async move {
                let answer = tokio::time::timeout(self.settings.patience, node.inspect(&keys)).await;
                let slow =
                    || Err(NodeError::NoAnswer(format!("nothing within {:?}", self.settings.patience)));
                (node.id, node.address.clone(), answer.unwrap_or_else(|_| slow()))
            }
        };
        let open: FuturesUnordered<_> = self.nodes.iter().map(ask).collect();
        let mut all: Vec<_> = open.collect().await;
        all.sort_by_key(|(id, ..)| *id);
        all.into_iter().map(|(_, address, answer)| (address, answer)).collect()
    }

    /// Asks every node to do one thing, and waits for all of them, each for `patience`.
    pub(crate) async fn ask_all(&self, resource: &str, request: Request) -> Report {
        let question = Arc::new(Question::new(&Arc::new(self.keys(resource)), request));
        let ask = |node: &Arc<Node>| {
            let (node, question) = (Arc::clone(node), Arc::clone(&question));
            async move {
                let answer = tokio::time::timeout(self.settings.patience, node.ask(&question)).await;
                let slow = || {
                    NodeAnswer::Failed(NodeError::NoAnswer(format!(
                        "nothing within {:?}",
                        self.settings.patience
                    )))
                };
                let answer = answer.map_or_else(|_| slow(), |answer| answer.answer);
                NodeReport { node: node.id, address: node.address.clone(), answer }
            }
        };
        let open: FuturesUnordered<_> = self.nodes.iter().map(ask).collect();
        let mut all: Vec<NodeReport> = open.collect().await;
        all.sort_by_key(|report| report.node);
        Report(all)
    }

    /// A bell that rings when the resource is released.
    pub(crate) fn bell(&self, resource: &str) -> Arc<Bell> {
        let channel = self.keys(resource).channel;
        let (bell, hung) = self.bells.hang(&channel);
        for node in self.nodes.iter() {
            let (node, channel) = (Arc::clone(node), channel.clone());
            let (new, dropped) = (hung.new, hung.dropped.clone());
            if new {
                self.tasks.spawn(async move {
                    node.subscribe(&channel).await;
                    for channel in dropped {
                        node.unsubscribe(&channel).await;
                    }
                });
            }
        }
        bell
    }

    /// Waits until nothing is left to clear up.
    pub(crate) async fn drain(&self) {
        self.tasks.wait().await;
    }

    fn error(&self, wanted: &Wanted, failed: Failed) -> AcquireError {
        let Failed { reason, elapsed, report, .. } = failed;
        let resource = wanted.resource.clone();
        let (needed, nodes) = (self.settings.quorum.needed(), self.settings.quorum.nodes());
        let spare = self.settings.quorum.spare();
        let not_locks = report.count(|a| matches!(a, NodeAnswer::Failed(NodeError::NotALock(_))));
        let lasting = report.count(|a| matches!(a, NodeAnswer::Failed(error) if error.is_permanent()));
        let (waited, attempts) = (elapsed, 1);
        match reason {
            _ if not_locks > spare => AcquireError::NotALock { resource, report },
            AcquireFailure::Contended => AcquireError::Contended { resource, waited, attempts, report },
            AcquireFailure::NoQuorum if lasting > spare => {
                AcquireError::Unusable { resource, needed, nodes, report }
            }
            AcquireFailure::NoQuorum => {
                AcquireError::NoQuorum { resource, needed, nodes, waited, attempts, report }
            }
            AcquireFailure::ValidityExhausted => {
                let (ttl, drift) = (wanted.ttl.as_duration(), self.settings.drift.margin(wanted.ttl));
                AcquireError::ValidityExhausted { resource, ttl, elapsed, drift, report }
            }
            AcquireFailure::GivenUp => AcquireError::Shutdown,
        }
    }
}
