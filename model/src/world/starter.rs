//! Somebody who gives fresh nodes their epoch: the shipped first start, with its own connections.

use std::hash::{Hash, Hasher};

use redfence::proto::first_start::{FirstStart, Start, Step};
use redfence::proto::{ByNode, NodeId, NodeSet, Quorum, Reply, Request};

/// One first start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Starter<const N: usize> {
    machine: Option<FirstStart<N>>,
    /// The number it starts nodes from.
    floor: u8,
    calls: [Call; N],
}

/// What is between a starter and a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Call {
    /// Nothing.
    #[default]
    Idle,
    /// A request that has not arrived.
    Asked(Request),
    /// An answer that has not arrived.
    Answered(Reply),
}

impl<const N: usize> Starter<N> {
    /// One that has not begun.
    pub fn new(floor: u8) -> Self {
        Self { machine: None, floor, calls: [Call::Idle; N] }
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.machine.is_some()
    }

    /// What is between it and a node.
    pub fn call(&self, node: usize) -> Call {
        self.calls[node]
    }

    /// Asks every node what it is.
    pub(super) fn begin(&mut self) {
        let start = Start::Automatic { floor: u64::from(self.floor) };
        let (machine, step) = FirstStart::new(Quorum::of(N), start);
        self.machine = Some(machine);
        self.obey(step);
    }

    /// A node has done what it was asked.
    pub(super) fn answered(&mut self, node: usize, reply: Reply) {
        self.calls[node] = Call::Answered(reply);
    }

    /// An answer arrives.
    pub(super) fn hear(&mut self, node: usize) {
        let Call::Answered(reply) = std::mem::take(&mut self.calls[node]) else { return };
        let step = self.machine.as_mut().and_then(|machine| machine.handle(NodeId::new(node), reply));
        if let Some(step) = step {
            self.obey(step);
        }
    }

    fn obey(&mut self, step: Step) {
        let Step::Send { to, request } = step else { return };
        self.ask(to, request);
    }

    fn ask(&mut self, to: NodeSet, request: Request) {
        for node in to.iter().take(N) {
            self.calls[node.index()] = Call::Asked(request);
        }
    }
}

impl<const N: usize> ByNode for Starter<N> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.floor);
        match &self.machine {
            None => state.write_u8(0),
            Some(machine) => machine.hash_shared(state),
        }
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        self.calls[node.index()].hash(state);
        if let Some(machine) = &self.machine {
            machine.hash_node(node, state);
        }
    }
}
