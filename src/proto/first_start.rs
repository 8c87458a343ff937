//! Giving fresh nodes their epoch (`R10`).
//!
//! A newcomer's fresh nodes must just work, and a node that lost its data must not slip in by the same door. So the automatic
//! start acts only if *all* nodes answer and none has ever granted anything: each is empty, or has the first epoch and has
//! never gone above the number it started from. Two clients at once, or one that dies half-way, do no harm: the epoch is
//! the same, and the next client completes it. For that nobody sends an attempt too early: see [`super::ready`].

use core::hash::{Hash, Hasher};

use super::message::{Record, Reply, Request};
use super::symmetry::ByNode;
use super::tally::{MAX_NODES, NodeId, NodeSet, Quorum};

/// The epoch that an automatic start gives.
pub const FIRST_EPOCH: u64 = 1;

/// Who starts the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Start {
    /// The client itself, when it finds only fresh nodes.
    Automatic {
        /// The number to start from: the time in microseconds, so that nodes that were all wiped start higher than
        /// before, as far as their clocks are right. Best effort.
        floor: u64,
    },
    /// An operator, who vouches that no token was ever issued, or gives a floor above all of them. Refused if any node
    /// has an epoch.
    Operator {
        /// A random number.
        epoch: u64,
        /// At least the largest token ever used.
        floor: u64,
    },
}

/// What a first start, or a re-admission, tells its host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step<O = Outcome> {
    /// Send this to each of these nodes.
    Send {
        /// The nodes.
        to: NodeSet,
        /// What to ask.
        request: Request,
    },
    /// It is over.
    Done(O),
}

/// How a first start ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Every node has an epoch now.
    Started,
    /// Nothing to do: no node is empty.
    NotNeeded,
    /// Some nodes did not answer; nothing was changed.
    Unanswered(NodeSet),
    /// Some nodes have an epoch already, or have granted: the empty ones lost their data, and must be re-admitted.
    InUse {
        /// Nodes that are empty.
        empty: NodeSet,
    },
    /// Some nodes were asked to take the epoch and did not answer, or have taken another meanwhile. Run again.
    Partial(NodeSet),
}

/// One first start, on up to `MAX` nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FirstStart<const MAX: usize = MAX_NODES> {
    start: Start,
    quorum: Quorum,
    phase: Phase<MAX>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase<const MAX: usize> {
    Looking { seen: [Option<Record>; MAX], silent: NodeSet },
    Starting { epoch: u64, asked: NodeSet, silent: NodeSet },
    Done,
}

impl<const MAX: usize> FirstStart<MAX> {
    /// Begins: asks every node what it is.
    ///
    /// # Panics
    /// If the quorum has more than `MAX` nodes.
    pub fn new(quorum: Quorum, start: Start) -> (Self, Step) {
        assert!(quorum.nodes() <= MAX, "a first start of {MAX} nodes");
        let phase = Phase::Looking { seen: [None; MAX], silent: NodeSet::EMPTY };
        (Self { start, quorum, phase }, Step::Send { to: quorum.all(), request: Request::Inspect })
    }

    /// The same after all nodes were asked what they are already.
    pub(super) fn after_look(
        quorum: Quorum,
        start: Start,
        seen: [Option<Record>; MAX],
        silent: NodeSet,
    ) -> (Self, Step) {
        let mut machine = Self { start, quorum, phase: Phase::Looking { seen, silent } };
        let step = machine.decide();
        (machine, step)
    }

    /// Takes one node's answer; anything but a record means that it did not answer.
    pub fn handle(&mut self, node: NodeId, reply: Reply) -> Option<Step> {
        if !self.quorum.all().contains(node) {
            return None;
        }
        match (&mut self.phase, reply) {
            (Phase::Looking { seen, silent }, reply) => {
                match reply {
                    Reply::Record(record) => seen[node.index()] = Some(record),
                    _ => {
                        silent.insert(node);
                    }
                }
                let answered = seen.iter().flatten().count() + silent.len();
                if answered < self.quorum.nodes() {
                    return None;
                }
                let step = self.decide();
                Some(step)
            }
            (Phase::Starting { epoch, asked, silent }, reply) => {
                if !asked.remove(node) {
                    return None;
                }
                if !matches!(reply, Reply::Record(record) if record.epoch == Some(*epoch)) {
                    silent.insert(node);
                }
                if !asked.is_empty() {
                    return None;
                }
                let outcome = if silent.is_empty() { Outcome::Started } else { Outcome::Partial(*silent) };
                self.phase = Phase::Done;
                Some(Step::Done(outcome))
            }
            (Phase::Done, _) => None,
        }
    }

    fn decide(&mut self) -> Step {
        let Phase::Looking { seen, silent } = &self.phase else { return Step::Done(Outcome::NotNeeded) };
        let is = |test: fn(&Record) -> bool| -> NodeSet {
            let matching = seen.iter().enumerate().filter(|(_, record)| record.as_ref().is_some_and(test));
            matching.map(|(index, _)| NodeId::new(index)).collect()
        };
        let empty = is(|record| record.epoch.is_none());
        let untouched = is(|record| record.epoch == Some(FIRST_EPOCH) && record.high == record.floor);
        let (epoch, floor, allowed) = match self.start {
            Start::Automatic { floor } => (FIRST_EPOCH, floor, empty.union(untouched) == self.quorum.all()),
            Start::Operator { epoch, floor } => (epoch, floor, empty == self.quorum.all()),
        };
        let outcome = if !silent.is_empty() {
            Outcome::Unanswered(*silent)
        } else if empty.is_empty() {
            Outcome::NotNeeded
        } else if !allowed {
            Outcome::InUse { empty }
        } else {
            self.phase = Phase::Starting { epoch, asked: empty, silent: NodeSet::EMPTY };
            return Step::Send { to: empty, request: Request::Init { epoch, floor } };
        };
        self.phase = Phase::Done;
        Step::Done(outcome)
    }
}

impl<const MAX: usize> ByNode for FirstStart<MAX> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.start, self.quorum, core::mem::discriminant(&self.phase)).hash(state);
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        let bit = |set: &NodeSet| set.contains(node);
        match &self.phase {
            Phase::Looking { seen, silent } => (seen[node.index()], bit(silent)).hash(state),
            Phase::Starting { asked, silent, .. } => (bit(asked), bit(silent)).hash(state),
            Phase::Done => {}
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::super::node::{NodeState, execute};
    use super::*;

    /// Runs a machine to its end on these nodes, one round after the other; `down` ones do not answer.
    pub(in super::super) fn run_on<O>(
        nodes: &mut [NodeState],
        down: &[usize],
        mut step: Step<O>,
        mut handle: impl FnMut(NodeId, Reply) -> Option<Step<O>>,
    ) -> O {
        loop {
            let (to, request) = match step {
                Step::Send { to, request } => (to, request),
                Step::Done(outcome) => return outcome,
            };
            let mut next = None;
            for node in to.iter() {
                let reply = match down.contains(&node.index()) {
                    true => Reply::Unknown,
                    false => execute(&mut nodes[node.index()], request).unwrap_or(Reply::Refused),
                };
                next = handle(node, reply).or(next);
            }
            step = next.expect("all nodes have answered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::NodeState;
    use super::testing::run_on;
    use super::*;

    /// Runs a first start to its end on these nodes; `down` ones do not answer.
    fn run(start: Start, nodes: &mut [NodeState], down: &[usize]) -> Outcome {
        let (mut machine, step) = FirstStart::<5>::new(Quorum::of(nodes.len()), start);
        run_on(nodes, down, step, |node, reply| machine.handle(node, reply))
    }

    const AUTO: Start = Start::Automatic { floor: 70 };

    #[test]
    fn fresh_nodes_start_and_start_once() {
        let mut nodes = [NodeState::default(); 3];
        assert_eq!(run(AUTO, &mut nodes, &[]), Outcome::Started);
        assert_eq!(nodes, [NodeState::member(FIRST_EPOCH, 70); 3]);
        assert_eq!(run(Start::Automatic { floor: 99 }, &mut nodes, &[]), Outcome::NotNeeded);
        assert_eq!(nodes, [NodeState::member(FIRST_EPOCH, 70); 3]);
    }

    #[test]
    fn a_start_that_died_half_way_is_completed_by_the_next() {
        let mut nodes = [NodeState::member(FIRST_EPOCH, 60), NodeState::default(), NodeState::default()];
        assert_eq!(run(AUTO, &mut nodes, &[]), Outcome::Started);
        assert_eq!(nodes[0].record.floor, 60);
        assert_eq!(nodes[2].record.epoch, Some(FIRST_EPOCH));
    }

    #[test]
    fn an_empty_node_beside_one_that_has_granted_stays_out() {
        let mut granted = NodeState::member(FIRST_EPOCH, 0);
        granted.record.high = 1;
        for other in [granted, NodeState::member(9, 0)] {
            let mut nodes = [other, NodeState::default(), other];
            let empty = NodeSet::only(NodeId::new(1));
            assert_eq!(run(AUTO, &mut nodes, &[]), Outcome::InUse { empty });
            assert_eq!(nodes[1], NodeState::default());
        }
    }

    #[test]
    fn one_silent_node_is_enough_to_do_nothing() {
        let mut nodes = [NodeState::default(); 3];
        let silent = NodeSet::only(NodeId::new(2));
        assert_eq!(run(AUTO, &mut nodes, &[2]), Outcome::Unanswered(silent));
        assert_eq!(nodes, [NodeState::default(); 3]);
    }

    #[test]
    fn an_operator_is_refused_where_any_node_has_an_epoch() {
        let operator = Start::Operator { epoch: 33, floor: 5 };
        let mut nodes = [NodeState::default(), NodeState::member(FIRST_EPOCH, 0), NodeState::default()];
        assert!(matches!(run(operator, &mut nodes, &[]), Outcome::InUse { .. }));
        let mut nodes = [NodeState::default(); 3];
        assert_eq!(run(operator, &mut nodes, &[]), Outcome::Started);
        assert_eq!(nodes[1].record, Record { epoch: Some(33), floor: 5, high: 5, joining: None });
    }
}
