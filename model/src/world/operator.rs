//! Somebody who starts fresh nodes, or brings a wiped one back: the shipped machines, with connections of their own.

use std::hash::{Hash, Hasher};

use redfence::proto::first_start::{FirstStart, Outcome, Start, Step};
use redfence::proto::ready::Readiness;
use redfence::proto::{ByNode, GetReady, NodeId, NodeSet, Quorum, Readmit, Reply, Request};

/// What an operator is there for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Job {
    /// Looks whether an attempt can be sent, and starts fresh nodes automatically.
    Start {
        /// The number it starts them from.
        floor: u8,
    },
    /// Starts fresh nodes because it was told to.
    Init {
        /// The epoch it gives.
        epoch: u8,
        /// The number it starts them from.
        floor: u8,
    },
    /// Brings wiped nodes back.
    Readmit {
        /// What it draws.
        draw: u8,
    },
}

impl Job {
    /// Whether it gives fresh nodes their epoch.
    pub const fn starts(self) -> bool {
        matches!(self, Self::Start { .. } | Self::Init { .. })
    }
}

/// One operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator<const N: usize> {
    job: Job,
    machine: Machine<N>,
    /// Requests that have not arrived. Answers arrive at once: an operator only waits for all of them, and what it asks next
    /// may take any time to arrive.
    calls: [Option<Request>; N],
    /// Requests that the operator has given up, or sent a second time; they may still arrive, in this order.
    stale: [[Option<Request>; 2]; N],
    found: Found,
}

/// What a look at the nodes has come to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Found {
    /// Nothing yet, or not enough answers.
    Nothing,
    /// A quorum of nodes is ready.
    Ready,
    /// Empty nodes beside nodes in use: they are said to have lost their data.
    Lost,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Machine<const N: usize> {
    Idle,
    GettingReady(GetReady<N>),
    Starting(FirstStart<N>),
    Readmitting(Readmit<N>),
    /// It has ended, or died and its connections are closed.
    Over,
}

impl<const N: usize> Operator<N> {
    /// One that has not begun.
    pub fn new(job: Job) -> Self {
        Self { job, machine: Machine::Idle, calls: [None; N], stale: [[None; 2]; N], found: Found::Nothing }
    }

    /// What it is there for.
    pub fn job(&self) -> Job {
        self.job
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        !matches!(self.machine, Machine::Idle)
    }

    /// Whether it has ended or died, and nothing of it is on its way.
    pub fn is_over(&self) -> bool {
        matches!(self.machine, Machine::Over) && self.calls.iter().all(Option::is_none)
    }

    /// What it asks of a node.
    pub fn call(&self, node: usize) -> Option<Request> {
        self.calls[node]
    }

    /// Asks every node what it is.
    pub(crate) fn begin(&mut self) {
        match self.job {
            Job::Start { floor } => {
                let (machine, step) = GetReady::new(Quorum::of(N), Some(u64::from(floor)));
                self.machine = Machine::GettingReady(machine);
                self.obey_readiness(step);
            }
            Job::Init { epoch, floor } => {
                let start = Start::Operator { epoch: u64::from(epoch), floor: u64::from(floor) };
                let (machine, step) = FirstStart::new(Quorum::of(N), start);
                self.machine = Machine::Starting(machine);
                self.obey(step);
            }
            Job::Readmit { draw } => {
                let (machine, step) = Readmit::new(Quorum::of(N), u64::from(draw));
                self.machine = Machine::Readmitting(machine);
                self.obey(step);
            }
        }
    }

    /// Dies; its connections are closed.
    pub(crate) fn die(&mut self) {
        *self = Self { machine: Machine::Over, ..Self::new(self.job) };
    }

    /// A node has done what it was asked.
    pub(crate) fn hear(&mut self, node: usize, reply: Reply) {
        self.calls[node] = None;
        let id = NodeId::new(node);
        match &mut self.machine {
            Machine::GettingReady(machine) => {
                if let Some(step) = machine.handle(id, reply) {
                    self.obey_readiness(step);
                }
            }
            Machine::Starting(machine) => {
                if let Some(step) = machine.handle(id, reply) {
                    self.obey(step);
                }
            }
            Machine::Readmitting(machine) => {
                if let Some(step) = machine.handle(id, reply) {
                    self.obey(step);
                }
            }
            Machine::Idle | Machine::Over => {}
        }
    }

    /// Its request is on its way still, but it waits no longer.
    pub(super) fn give_up(&mut self, node: usize) {
        let [first, second] = &mut self.stale[node];
        *(if first.is_none() { first } else { second }) = self.calls[node];
        self.hear(node, Reply::Unknown);
    }

    /// The request arrives, and a copy of it may arrive later.
    pub(crate) fn repeat(&mut self, node: usize) {
        let [first, second] = &mut self.stale[node];
        *(if first.is_none() { first } else { second }) = self.calls[node];
    }

    /// Whether another request can be given up or sent twice.
    pub(crate) fn has_room(&self, node: usize) -> bool {
        self.stale[node][1].is_none()
    }

    /// The first request given up or sent twice, on its way.
    pub fn stale(&self, node: usize) -> Option<Request> {
        self.stale[node][0]
    }

    /// It arrives.
    pub(crate) fn take_stale(&mut self, node: usize) -> Option<Request> {
        let [first, second] = &mut self.stale[node];
        std::mem::replace(first, second.take())
    }

    /// Whether it has found a quorum of nodes ready.
    pub fn is_ready(&self) -> bool {
        self.found == Found::Ready
    }

    /// Whether it has said that nodes lost their data.
    pub fn accuses(&self) -> bool {
        self.found == Found::Lost
    }

    fn obey_readiness(&mut self, step: Step<Readiness>) {
        if let Step::Done(found) = step {
            self.found = match found {
                _ if found.is_ready() => Found::Ready,
                Readiness::NotStarted(Outcome::InUse { .. }) => Found::Lost,
                _ => Found::Nothing,
            };
            // It goes on to its attempt; what it has asked and not heard makes no difference.
            self.calls = [None; N];
        }
        self.obey(step);
    }

    fn obey<O>(&mut self, step: Step<O>) {
        match step {
            Step::Send { to, request } => self.ask(to, request),
            Step::Done(_) => self.machine = Machine::Over,
        }
    }

    fn ask(&mut self, to: NodeSet, request: Request) {
        for node in to.iter().take(N) {
            self.calls[node.index()] = Some(request);
        }
    }
}

impl<const N: usize> ByNode for Operator<N> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.job, self.found).hash(state);
        match &self.machine {
            Machine::Idle => state.write_u8(0),
            Machine::GettingReady(machine) => machine.hash_shared(state),
            Machine::Starting(machine) => machine.hash_shared(state),
            Machine::Readmitting(machine) => machine.hash_shared(state),
            Machine::Over => state.write_u8(1),
        }
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        (self.calls[node.index()], self.stale[node.index()]).hash(state);
        match &self.machine {
            Machine::GettingReady(machine) => machine.hash_node(node, state),
            Machine::Starting(machine) => machine.hash_node(node, state),
            Machine::Readmitting(machine) => machine.hash_node(node, state),
            Machine::Idle | Machine::Over => {}
        }
    }
}
