//! The one loop that feeds a session.
//!
//! It carries: requests to nodes, answers to the machine, events to the caller. It decides nothing about locks; the words for
//! that do not occur here.
//!
//! Each node has a lane (`R12`): requests to it are started in order, each when the one before has ended. So a late request never
//! overtakes an earlier one, and every lane runs by itself: nobody waits for the slowest node. The loop outlives its caller
//! for as long as the machine has something to clear up.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::node::Node;
use super::scripts::Keys;
use super::wire::{Answer, Question};
use crate::lock::clock::Clock;
use crate::lock::error::ExtendError;
use crate::lock::hold::{Command, Hold, Lease, Released};
use crate::lock::record::{Recorder, Step};
use crate::lock::report::{NodeAnswer, NodeReport, Report};
use crate::proto::session::{AcquireFailure, Config, Event, ExtendFailure, Input, LostReason, Output, Round};
use crate::proto::{NodeId, Owner, Session, Timestamp};

/// Why an attempt failed, and what every node said.
pub(crate) struct Failed {
    pub(crate) reason: AcquireFailure,
    pub(crate) elapsed: Duration,
    pub(crate) best: u64,
    pub(crate) report: Report,
}

/// What an attempt is about.
pub(crate) struct Attempt {
    pub(crate) config: Config,
    pub(crate) resource: String,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: Owner,
    pub(crate) hint: u64,
    pub(crate) nodes: Arc<[Arc<Node>]>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
}

/// A successful attempt; `best` is the largest number that any node has told.
pub(crate) struct Won {
    pub(crate) hold: Hold,
    pub(crate) best: u64,
}

/// The caller's end of a running attempt. Dropping it gives up.
pub(crate) struct Running {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) verdict: oneshot::Receiver<Result<(Lease, u64), Failed>>,
}

impl Attempt {
    /// The attempt as a task, and the caller's end of it.
    pub(crate) fn start(self) -> (impl Future<Output = ()> + Send, Running) {
        let (commands, requests) = mpsc::unbounded_channel();
        let (decided, verdict) = oneshot::channel();
        let start = self.clock.now();
        let mut outputs = Vec::new();
        let session = Session::new(&self.config, self.owner, self.hint, start, &mut outputs);
        let (resource, config, hint) = (self.resource.as_str(), &self.config, self.hint);
        self.record(Step::Begun { resource, config, hint, now: start });
        self.record_outputs(&outputs);
        let lanes = self.nodes.iter().map(|_| Lane::default()).collect();
        let said = vec![NodeAnswer::Silent; self.nodes.len()];
        let driver = Driver {
            attempt: self,
            session,
            start,
            outputs,
            lanes,
            open: FuturesUnordered::new(),
            said,
            requests: Some(requests),
            decided: Some(decided),
            lease: None,
            extensions: HashMap::new(),
            released: None,
            kept: false,
        };
        (driver.run(), Running { commands, verdict })
    }

    fn record(&self, step: Step<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.record(self.owner, step);
        }
    }

    fn record_outputs(&self, outputs: &[Output]) {
        if !outputs.is_empty() {
            self.record(Step::Outputs(outputs));
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = (NodeId, Round, Answer)> + Send>>;

struct Driver {
    attempt: Attempt,
    session: Session,
    start: Timestamp,
    outputs: Vec<Output>,
    lanes: Vec<Lane>,
    open: FuturesUnordered<Asking>,
    /// What each node said last.
    said: Vec<NodeAnswer>,
    /// `None` once the caller has let go.
    requests: Option<mpsc::UnboundedReceiver<Command>>,
    /// Where the verdict goes, until it is there.
    decided: Option<oneshot::Sender<Result<(Lease, u64), Failed>>>,
    lease: Option<Lease>,
    extensions: HashMap<u32, oneshot::Sender<Result<(), ExtendError>>>,
    released: Option<oneshot::Sender<Released>>,
    /// The caller has left the keys at the nodes: nothing is asked of them any more.
    kept: bool,
}

/// One node's requests: at most one under way.
#[derive(Default)]
struct Lane {
    busy: bool,
    waiting: VecDeque<(Round, Arc<Question>)>,
}

impl Lane {
    /// Extensions that a slow node has kept from leaving: what comes after them makes them pointless, and a release would
    /// have to wait for them.
    fn forget_extensions(&mut self) {
        self.waiting.retain(|(round, _)| !matches!(round, Round::Extend(_)));
    }
}

enum Woken {
    Answer(NodeId, Round, Answer),
    Command(Option<Command>),
    Time,
}

impl Driver {
    async fn run(mut self) {
        loop {
            self.follow();
            if self.session.is_done() {
                return self.hear_out();
            }
            if self.kept {
                return self.leave().await;
            }
            match self.wait().await {
                Woken::Answer(node, round, answer) => self.answered(node, round, answer),
                Woken::Command(command) => self.command(command),
                Woken::Time => self.handle(Input::Wake),
            }
        }
    }

    /// Nothing that is still under way matters to this attempt, but it does to the next: a connection that died without a word is
    /// recognised by a request that stays unanswered, and one that is being opened is worth having. Ends by the nodes' own
    /// limits.
    fn hear_out(self) {
        let mut open = self.open;
        if !open.is_empty() {
            tokio::spawn(async move { while open.next().await.is_some() {} });
        }
    }

    async fn wait(&mut self) -> Woken {
        let now = self.attempt.clock.now();
        let wake = self.session.poll_timeout(&self.attempt.config);
        let sleep = async {
            match wake {
                Some(at) => self.attempt.clock.sleep(at.since(now)).await,
                None => std::future::pending().await,
            }
        };
        let command = async {
            match &mut self.requests {
                Some(requests) => requests.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = command => Woken::Command(command),
            Some((node, round, answer)) = self.open.next() => Woken::Answer(node, round, answer),
            () = sleep => Woken::Time,
        }
    }

    fn handle(&mut self, input: Input) {
        let now = self.attempt.clock.now();
        self.attempt.record(Step::Input { now, input });
        let before = self.outputs.len();
        self.session.handle(&self.attempt.config, now, input, &mut self.outputs);
        self.attempt.record_outputs(&self.outputs[before..]);
    }

    /// Does everything the machine has asked for.
    fn follow(&mut self) {
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Send { to, round, request } => {
                    let question = Arc::new(Question::new(&self.attempt.keys, request));
                    to.iter().for_each(|node| self.send(node, round, Arc::clone(&question)));
                }
                Output::Event(event) => self.tell(event),
            }
        }
    }

    fn send(&mut self, node: NodeId, round: Round, question: Arc<Question>) {
        let lane = &mut self.lanes[node.index()];
        if matches!(round, Round::Extend(_) | Round::Release) {
            lane.forget_extensions();
        }
        lane.waiting.push_back((round, question));
        if !lane.busy {
            self.start_next(node);
        }
    }

    fn start_next(&mut self, id: NodeId) {
        let lane = &mut self.lanes[id.index()];
        let Some((round, question)) = lane.waiting.pop_front() else {
            lane.busy = false;
            return;
        };
        lane.busy = true;
        let node = Arc::clone(&self.attempt.nodes[id.index()]);
        self.open.push(Box::pin(async move { (id, round, node.ask(&question).await) }));
    }

    fn answered(&mut self, node: NodeId, round: Round, answer: Answer) {
        tracing::debug!(
            resource = self.attempt.resource,
            owner = self.attempt.owner.short(),
            node = self.attempt.nodes[node.index()].address,
            %round,
            answer = %answer.answer,
            "node answered"
        );
        self.said[node.index()] = answer.answer;
        self.handle(Input::Reply { node, round, reply: answer.reply });
        self.start_next(node);
    }

    fn command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Extend { ttl, done }) => {
                let before = self.session.extending();
                self.handle(Input::Extend { ttl });
                match self.session.extending() {
                    Some(round) if Some(round) != before => {
                        self.extensions.insert(round, done);
                    }
                    _ => {
                        let _ = done.send(Err(self.not_extended(ExtendFailure::Lost)));
                    }
                }
            }
            Some(Command::Release { done }) => {
                self.released = Some(done);
                self.let_go();
            }
            Some(Command::Keep) => self.kept = true,
            None => self.let_go(),
        }
    }

    /// Waits for what is on its way to the nodes, and leaves the lease to its own clock.
    async fn leave(mut self) {
        while let Some((node, round, answer)) = self.open.next().await {
            self.answered(node, round, answer);
            self.outputs.clear();
        }
        if let Some(lease) = self.lease.take() {
            tracing::info!(resource = self.attempt.resource, owner = lease.owner().short(), "kept");
            tokio::spawn(async move { lease.lost().await });
        }
    }

    /// The caller is done, or gone.
    fn let_go(&mut self) {
        self.requests = None;
        if let Some(lease) = &self.lease {
            lease.lose(LostReason::Released);
        }
        self.handle(Input::Release);
    }

    /// Tells the caller, and the log: each event once.
    fn tell(&mut self, event: Event) {
        let (resource, owner) = (self.attempt.resource.as_str(), self.attempt.owner.short());
        let elapsed = self.attempt.clock.now().since(self.start);
        match event {
            Event::Acquired { token, valid_until } => {
                let validity = valid_until.since(self.attempt.clock.now());
                let token_number = token.map(|token| token.0);
                tracing::info!(resource, owner, token = token_number, ?validity, ?elapsed, nodes = %self.report(), "acquired");
                let clock = Arc::clone(&self.attempt.clock);
                let cap = self.attempt.config.extend.map(|auto| self.start + auto.max_hold);
                let lease =
                    Lease::new(resource.to_owned(), self.attempt.owner, token, valid_until, cap, clock);
                self.lease = Some(lease.clone());
                let best = self.session.best();
                self.decide(Ok((lease, best)));
            }
            Event::Failed(reason) => {
                let report = self.report();
                tracing::info!(resource, owner, %reason, ?elapsed, nodes = %report, "not acquired");
                self.decide(Err(Failed { reason, elapsed, best: self.session.best(), report }));
            }
            Event::Extended { round, valid_until } => {
                let validity = valid_until.since(self.attempt.clock.now());
                tracing::info!(resource, owner, round, ?validity, "extended");
                if let Some(lease) = &self.lease {
                    lease.prolong(valid_until);
                }
                self.extension(round, Ok(()));
            }
            Event::NotExtended { round, reason } => {
                tracing::warn!(resource, owner, round, %reason, nodes = %self.report(), "not extended");
                let error = self.not_extended(reason);
                self.extension(round, Err(error));
            }
            Event::Lost(reason) => {
                tracing::warn!(resource, owner, %reason, nodes = %self.report(), "lost");
                self.lanes.iter_mut().for_each(Lane::forget_extensions);
                if let Some(lease) = &self.lease {
                    lease.lose(reason);
                }
            }
            Event::Released(outcome) => {
                let report = self.report();
                tracing::info!(resource, owner, %outcome, nodes = %report, "released");
                if let Some(done) = self.released.take() {
                    let _ = done.send(Released { outcome, report });
                }
            }
        }
    }

    /// A caller that is gone has let go: its closed command channel says so.
    fn decide(&mut self, verdict: Result<(Lease, u64), Failed>) {
        if let Some(decided) = self.decided.take() {
            let _ = decided.send(verdict);
        }
    }

    fn extension(&mut self, round: u32, outcome: Result<(), ExtendError>) {
        if let Some(done) = self.extensions.remove(&round) {
            let _ = done.send(outcome);
        }
    }

    fn not_extended(&self, reason: ExtendFailure) -> ExtendError {
        let lost = self.lease.as_ref().and_then(Lease::lost_reason);
        match (reason, lost) {
            (ExtendFailure::Superseded | ExtendFailure::Released, _) => ExtendError::Overtaken,
            (_, Some(reason)) => ExtendError::Lost(reason),
            // The event that marks the lease comes next; whoever is told now must find it lost already.
            (ExtendFailure::Lost, None) => {
                let proof = LostReason::QuorumGone;
                ExtendError::Lost(self.lease.as_ref().map_or(proof, |lease| lease.lose(proof)))
            }
            (ExtendFailure::NoQuorum, None) => {
                let remaining = self.lease.as_ref().map(Lease::remaining).unwrap_or_default();
                ExtendError::NoQuorum { remaining, report: self.report() }
            }
        }
    }

    fn report(&self) -> Report {
        let line = |(node, answer): (&Arc<Node>, &NodeAnswer)| NodeReport {
            node: node.id,
            address: node.address.clone(),
            answer: answer.clone(),
        };
        Report(self.attempt.nodes.iter().zip(&self.said).map(line).collect())
    }
}
