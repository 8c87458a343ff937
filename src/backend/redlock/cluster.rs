//! All nodes of one lock: attempts, hints, first start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_util::task::TaskTracker;

use super::bells::{Bell, Bells};
use super::driver::{Attempt, Failed, Won};
use super::node::Node;
use super::scripts::Keys;
use super::start::FirstStarts;
use super::wire::{Answer, Inspection, Question};
use crate::backend::Wanted;
use crate::lock::clock::{Clock, Entropy};
use crate::lock::error::AcquireError;
use crate::lock::hold::Hold;
use crate::lock::record::Recorder;
use crate::lock::report::{NodeAnswer, NodeError, NodeReport, Report};
use crate::proto::message::MAX_NUMBER;
use crate::proto::retry::Backoff;
use crate::proto::session::{AcquireFailure, Config, Mode};
use crate::proto::{Drift, NodeId, NodeSet, Quorum, Request};

/// Hints kept: one small number per resource lately locked. Losing one costs a round trip.
const HINTS: usize = 10_000;

/// What all attempts share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    pub(crate) mode: Mode,
    pub(crate) drift: Drift,
    pub(crate) patience: Duration,
    pub(crate) prefix: String,
    pub(crate) auto_init: bool,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
}

#[derive(Debug)]
pub(crate) struct Redlock {
    pub(crate) settings: Settings,
    nodes: Arc<[Arc<Node>]>,
    bells: Arc<Bells>,
    pub(super) clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tasks: TaskTracker,
    hints: Mutex<HashMap<String, u64>>,
    pub(super) first_start: FirstStarts,
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
        let (hints, first_start) = (Mutex::default(), FirstStarts::default());
        Self { settings, nodes: nodes.into(), bells, clock, entropy, tasks, hints, first_start }
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.entropy.as_ref()
    }

    pub(crate) fn keys(&self, resource: &str) -> Keys {
        Keys::new(&self.settings.prefix, resource)
    }

    /// Tries once; twice if the nodes turn out to be fresh and take their first epoch in between.
    pub(crate) async fn attempt(&self, wanted: &Wanted) -> Result<Hold, AcquireError> {
        self.ready().await.map_err(|failed| self.error(wanted, failed))?;
        let failed = match self.try_once(wanted).await? {
            Ok(hold) => return Ok(hold),
            Err(failed) => failed,
        };
        if self.may_be_fresh(&failed) && self.ready().await.is_ok() {
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
            recorder: self.settings.recorder.clone(),
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

    /// Asks every node what it knows of a lock; `None` after `patience`.
    pub(crate) async fn inspect(&self, resource: &str) -> Vec<(String, Result<Inspection, NodeError>)> {
        let keys = Arc::new(self.keys(resource));
        let ask = |node: &Arc<Node>| {
            let (node, keys) = (Arc::clone(node), Arc::clone(&keys));
            async move {
                let (id, address) = (node.id, node.address.clone());
                let answer = within(self.settings.patience, async move { node.inspect(&keys).await }).await;
                (id, address, answer.unwrap_or_else(Err))
            }
        };
        let open: FuturesUnordered<_> = self.nodes.iter().map(ask).collect();
        let mut all: Vec<_> = open.collect().await;
        all.sort_by_key(|(id, ..)| *id);
        all.into_iter().map(|(_, address, answer)| (address, answer)).collect()
    }

    /// Asks every node to do one thing, and waits for all of them, each for `patience`.
    pub(crate) async fn ask_all(&self, resource: &str, request: Request) -> Report {
        let question = Question::new(&Arc::new(self.keys(resource)), request);
        let mut report = self.silence();
        let mut open = self.ask(self.settings.quorum.all(), question);
        while let Some((id, answer)) = open.next().await {
            report.0[id.index()].answer = answer.answer;
        }
        report
    }

    /// Asks these nodes at once, each for at most `patience`; the answers as they come.
    pub(super) fn ask(
        &self,
        to: NodeSet,
        question: Question,
    ) -> FuturesUnordered<impl Future<Output = (NodeId, Answer)> + use<>> {
        let (question, patience) = (Arc::new(question), self.settings.patience);
        let ask = |id: NodeId| {
            let (node, question) = (Arc::clone(&self.nodes[id.index()]), Arc::clone(&question));
            async move {
                let answer = within(patience, async move { node.ask(&question).await }).await;
                (id, answer.unwrap_or_else(Answer::failed))
            }
        };
        to.iter().map(ask).collect()
    }

    /// What is known before any node has answered.
    pub(super) fn silence(&self) -> Report {
        let line = |node: &Arc<Node>| NodeReport {
            node: node.id,
            address: node.address.clone(),
            answer: NodeAnswer::Silent,
        };
        Report(self.nodes.iter().map(line).collect())
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

/// Waits so long for one node's answer. The question goes on when nobody waits any more: one that stays unanswered is how a
/// connection is found dead, and patience is shorter than that takes.
async fn within<T: Send + 'static>(
    patience: Duration,
    asking: impl Future<Output = T> + Send + 'static,
) -> Result<T, NodeError> {
    let answer = tokio::time::timeout(patience, tokio::spawn(asking)).await;
    let slow = || NodeError::NoAnswer(format!("nothing within {patience:?}"));
    answer.ok().and_then(Result::ok).ok_or_else(slow)
}
