//! Whether an attempt can be sent yet, and the first start if that is what is missing (`R10`).
//!
//! While fewer nodes than a quorum have an epoch nobody can win. An attempt sent all the same would raise the numbers of those few,
//! and then they look like nodes in use beside nodes that lost their data: a first start that died half-way could never be
//! completed. So **no attempt is sent before a quorum of nodes was seen with an epoch**, and whoever does not see one completes
//! the start or fails. (The model: `v5b-look-first`, and what happens without it.)
//!
//! A look is not one moment: nodes that it saw empty may have been started, and then another one used, before it saw that one.
//! Nodes that are new then look as if they had lost their data. Nobody uses a node before a quorum has an epoch, so a look that
//! begins now finds that quorum: it is taken **once more** before it says what would be wrong. (The model: `m-look-once`.)

use core::hash::{Hash, Hasher};

use super::first_start::{FirstStart, Outcome, Start, Step};
use super::message::{Record, Reply, Request};
use super::mutant::mutated;
use super::symmetry::ByNode;
use super::tally::{MAX_NODES, NodeId, NodeSet, Quorum};

/// What was found, or brought about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Readiness {
    /// A quorum of nodes has an epoch.
    Ready,
    /// A quorum has one now: this run has given it to fresh nodes.
    Started,
    /// Fewer than a quorum has one, and this client does not start fresh nodes.
    Unstarted {
        /// Nodes that are empty.
        empty: NodeSet,
    },
    /// Fewer than a quorum has one, and the first start did not come about.
    NotStarted(Outcome),
}

impl Readiness {
    /// Whether an attempt can be sent.
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Started)
    }
}

/// A look at up to `MAX` nodes, a second one where the first may be outdated, and perhaps one first start.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GetReady<const MAX: usize = MAX_NODES> {
    quorum: Quorum,
    /// The number from which fresh nodes are started; `None`: they are not.
    floor: Option<u64>,
    /// The look under way is the second.
    again: bool,
    phase: Phase<MAX>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase<const MAX: usize> {
    Looking { seen: [Option<Record>; MAX], silent: NodeSet },
    Starting(FirstStart<MAX>),
    Done,
}

impl<const MAX: usize> GetReady<MAX> {
    /// Begins: asks every node what it is. With a `floor` (the time in microseconds), fresh nodes are started from it.
    ///
    /// # Panics
    /// If the quorum has more than `MAX` nodes.
    pub fn new(quorum: Quorum, floor: Option<u64>) -> (Self, Step<Readiness>) {
        assert!(quorum.nodes() <= MAX, "a look at {MAX} nodes");
        let mut machine = Self { quorum, floor, again: false, phase: Phase::Done };
        let step = machine.look();
        (machine, step)
    }

    fn look(&mut self) -> Step<Readiness> {
        self.phase = Phase::Looking { seen: [None; MAX], silent: NodeSet::EMPTY };
        Step::Send { to: self.quorum.all(), request: Request::Inspect }
    }

    /// Takes one node's answer; anything but a record means that it did not answer. The look ends at a quorum of nodes with
    /// an epoch: nobody waits for the slowest node.
    pub fn handle(&mut self, node: NodeId, reply: Reply) -> Option<Step<Readiness>> {
        if !self.quorum.all().contains(node) {
            return None;
        }
        match &mut self.phase {
            Phase::Done => None,
            Phase::Looking { seen, silent } => {
                match reply {
                    Reply::Record(record) => seen[node.index()] = Some(record),
                    _ => {
                        silent.insert(node);
                    }
                }
                self.decide()
            }
            Phase::Starting(start) => {
                let step = start.handle(node, reply)?;
                Some(self.follow(step))
            }
        }
    }

    fn decide(&mut self) -> Option<Step<Readiness>> {
        let Phase::Looking { seen, silent } = &self.phase else { return None };
        let members = seen.iter().flatten().filter(|record| record.epoch.is_some()).count();
        if members >= self.quorum.needed() {
            return Some(self.end(Readiness::Ready));
        }
        if seen.iter().flatten().count() + silent.len() < self.quorum.nodes() {
            return None;
        }
        let step = match self.floor {
            None => {
                let is_empty = |record: &Option<Record>| record.is_some_and(|record| record.epoch.is_none());
                let empty = seen.iter().enumerate().filter(|(_, record)| is_empty(record));
                let empty = empty.map(|(index, _)| NodeId::new(index)).collect();
                self.end(Readiness::Unstarted { empty })
            }
            Some(floor) => {
                let start = Start::Automatic { floor };
                let (start, step) = FirstStart::after_look(self.quorum, start, *seen, *silent);
                self.phase = Phase::Starting(start);
                self.follow(step)
            }
        };
        let outdated = match step {
            Step::Done(Readiness::Unstarted { .. } | Readiness::NotStarted(Outcome::InUse { .. })) => {
                members > 0 && !self.again
            }
            _ => false,
        };
        if outdated && !mutated!(LookOnce) {
            self.again = true;
            return Some(self.look());
        }
        Some(step)
    }

    fn follow(&mut self, step: Step) -> Step<Readiness> {
        match step {
            Step::Send { to, request } => Step::Send { to, request },
            Step::Done(outcome) => {
                let started = match outcome {
                    Outcome::Started | Outcome::NotNeeded => true,
                    // What is not known to have the epoch is counted as if it had not.
                    Outcome::Partial(without) => self.quorum.nodes() - without.len() >= self.quorum.needed(),
                    Outcome::Unanswered(_) | Outcome::InUse { .. } => false,
                };
                self.end(if started { Readiness::Started } else { Readiness::NotStarted(outcome) })
            }
        }
    }

    fn end(&mut self, found: Readiness) -> Step<Readiness> {
        self.phase = Phase::Done;
        Step::Done(found)
    }
}

impl<const MAX: usize> ByNode for GetReady<MAX> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.quorum, self.floor, self.again, core::mem::discriminant(&self.phase)).hash(state);
        if let Phase::Starting(start) = &self.phase {
            start.hash_shared(state);
        }
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        match &self.phase {
            Phase::Looking { seen, silent } => (seen[node.index()], silent.contains(node)).hash(state),
            Phase::Starting(start) => start.hash_node(node, state),
            Phase::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_start::FIRST_EPOCH;
    use super::super::first_start::testing::run_on;
    use super::super::node::NodeState;
    use super::*;

    fn run(nodes: &mut [NodeState], floor: Option<u64>, down: &[usize]) -> Readiness {
        let (mut machine, step) = GetReady::<5>::new(Quorum::of(nodes.len()), floor);
        run_on(nodes, down, step, |node, reply| machine.handle(node, reply))
    }

    fn begun(members: usize, empty: usize) -> Vec<NodeState> {
        let mut nodes = vec![NodeState::member(FIRST_EPOCH, 60); members];
        nodes.resize(members + empty, NodeState::default());
        nodes
    }

    #[test]
    fn a_quorum_with_an_epoch_is_enough_and_ends_the_look() {
        let (mut machine, _) = GetReady::<5>::new(Quorum::of(5), Some(9));
        let member = Reply::Record(NodeState::member(7, 0).record);
        assert_eq!(machine.handle(NodeId::new(3), member), None);
        assert_eq!(machine.handle(NodeId::new(0), member), None);
        assert_eq!(machine.handle(NodeId::new(1), member), Some(Step::Done(Readiness::Ready)));
        assert_eq!(machine.handle(NodeId::new(2), Reply::Unknown), None, "it is over");
        let mut nodes = begun(3, 2);
        assert_eq!(run(&mut nodes, Some(70), &[3, 4]), Readiness::Ready);
        assert_eq!(nodes, begun(3, 2), "nothing was changed");
    }

    #[test]
    fn fresh_nodes_and_a_start_that_died_half_way_are_started() {
        for members in 0..3 {
            let mut nodes = begun(members, 5 - members);
            assert_eq!(run(&mut nodes, Some(70), &[]), Readiness::Started);
            assert!(nodes.iter().all(|node| node.record.epoch == Some(FIRST_EPOCH)));
        }
    }

    #[test]
    fn below_a_quorum_nothing_is_done_while_a_node_is_silent() {
        for members in 0..3 {
            let mut nodes = begun(members, 5 - members);
            let found = run(&mut nodes, Some(70), &[4]);
            assert_eq!(found, Readiness::NotStarted(Outcome::Unanswered(NodeSet::only(NodeId::new(4)))));
            assert!(!found.is_ready());
            assert_eq!(nodes, begun(members, 5 - members));
        }
    }

    #[test]
    fn below_a_quorum_beside_a_grant_empty_nodes_lost_their_data() {
        let mut nodes = begun(1, 2);
        nodes[0].record.high += 1;
        let empty = [1, 2].map(NodeId::new).into_iter().collect();
        assert_eq!(run(&mut nodes, Some(70), &[]), Readiness::NotStarted(Outcome::InUse { empty }));
    }

    /// Three nodes are seen empty; somebody else starts all five and uses the others before they are seen.
    #[test]
    fn a_look_that_was_overtaken_by_another_first_start_is_taken_again() {
        for floor in [Some(70), None] {
            let empty = Reply::Record(NodeState::default().record);
            let mut used = NodeState::member(FIRST_EPOCH, 60);
            used.record.high += 1;
            let (mut machine, step) = GetReady::<5>::new(Quorum::of(5), floor);
            for node in [0, 1, 2] {
                assert_eq!(machine.handle(NodeId::new(node), empty), None);
            }
            assert_eq!(machine.handle(NodeId::new(3), Reply::Record(used.record)), None);
            let again = machine.handle(NodeId::new(4), Reply::Record(used.record));
            assert_eq!(again, Some(step), "it looks again");
            let answer = |node| machine.handle(NodeId::new(node), Reply::Record(used.record));
            assert_eq!([0, 1, 2].map(answer), [None, None, Some(Step::Done(Readiness::Ready))]);
        }
    }

    #[test]
    fn who_starts_no_nodes_says_which_are_empty() {
        let mut nodes = begun(2, 3);
        let empty = [2, 3, 4].map(NodeId::new).into_iter().collect();
        assert_eq!(run(&mut nodes, None, &[]), Readiness::Unstarted { empty });
        assert_eq!(nodes, begun(2, 3));
    }
}
