//! Bringing back a node that lost its data (`R10`).
//!
//! A wiped node has forgotten which numbers it told, so it must not vote until it stands above all of them, and nobody may count
//! what it said before. A run does both: it claims the empty nodes, then brings a quorum of intact nodes into a **new epoch** and
//! learns their largest number, then admits the claimed nodes into that epoch, from that number on. An acquisition in flight
//! meanwhile sees two epochs, fails and tries again; that is the intended effect.
//!
//! ```text
//! inspect all -> claim(E) at each empty node -> raise(E) at each intact node, once, after all claims -> admit(E, F) at each claimed node
//! ```
//!
//! Runs follow one another: the one before has ended, or its process is dead and its connections are closed. Two at the same time can
//! break the order of tokens (the model shows how). Whatever is in doubt stops a run; one that stopped half-way harms no token, and
//! the next run joins again what it left apart.

use core::hash::{Hash, Hasher};

use super::first_start::Step;
use super::message::{Record, Reply, Request};
use super::mutant::mutated;
use super::symmetry::ByNode;
use super::tally::{MAX_NODES, NodeId, NodeSet, Quorum};

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Readmitted {
    /// Nothing to do: no node that answered is empty, and all have one epoch.
    NotNeeded,
    /// These nodes take part again. Without an empty node: the intact ones have one epoch again.
    Done {
        /// Nodes that were empty.
        admitted: NodeSet,
        /// The new epoch.
        epoch: u64,
        /// The number they start from.
        floor: u64,
    },
    /// Fewer than a quorum of nodes still have their numbers, whatever those that did not answer have. Nothing was changed, and
    /// nothing but a first start with a floor above every token ever used helps.
    TooFew {
        /// Nodes that have an epoch.
        intact: NodeSet,
    },
    /// These nodes refused or did not answer while the run needed them: another run was there, or the network failed. Run again.
    Stopped {
        /// The nodes.
        at: NodeSet,
    },
}

/// One run, on up to `MAX` nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Readmit<const MAX: usize = MAX_NODES> {
    quorum: Quorum,
    /// Random and above zero: makes an epoch that no earlier run has used.
    draw: u64,
    phase: Phase<MAX>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase<const MAX: usize> {
    Looking { seen: [Option<Standing>; MAX], silent: NodeSet },
    Working(Work),
    Done,
}

/// What matters of a node before the run: its numbers do not, they are asked for again with the raise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Standing {
    Empty { claim: u64 },
    Member { epoch: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Work {
    epoch: u64,
    /// The largest number that a raised node has told.
    floor: u64,
    /// What the nodes in `asked` are asked for.
    errand: Errand,
    asked: NodeSet,
    /// Nodes that have an epoch.
    intact: NodeSet,
    /// Empty nodes.
    empty: NodeSet,
    raised: NodeSet,
    /// Nodes that refused, or may have done it and did not say so.
    doubtful: NodeSet,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Errand {
    Claim,
    Raise,
    Admit,
}

impl<const MAX: usize> Readmit<MAX> {
    /// Begins: asks every node what it is. `draw` is random, from 1 to 2^32.
    ///
    /// # Panics
    /// If the quorum has more than `MAX` nodes.
    pub fn new(quorum: Quorum, draw: u64) -> (Self, Step<Readmitted>) {
        assert!(quorum.nodes() <= MAX, "a re-admission of {MAX} nodes");
        let phase = Phase::Looking { seen: [None; MAX], silent: NodeSet::EMPTY };
        (Self { quorum, draw, phase }, Step::Send { to: quorum.all(), request: Request::Inspect })
    }

    /// Takes one node's answer; anything but a record means that it refused or did not answer.
    pub fn handle(&mut self, node: NodeId, reply: Reply) -> Option<Step<Readmitted>> {
        if !self.quorum.all().contains(node) {
            return None;
        }
        let next = match &mut self.phase {
            Phase::Looking { seen, silent } => {
                match reply {
                    Reply::Record(record) => seen[node.index()] = Some(Standing::of(&record)),
                    _ => {
                        silent.insert(node);
                    }
                }
                if seen.iter().flatten().count() + silent.len() < self.quorum.nodes() {
                    return None;
                }
                Next::plan(self.quorum, self.draw, seen, *silent)
            }
            Phase::Working(work) => {
                if !work.asked.remove(node) {
                    return None;
                }
                work.count(node, reply);
                let hasty = mutated!(ReadmitMinority) && !work.raised.is_empty();
                if !work.asked.is_empty() && !hasty {
                    return None;
                }
                work.next(self.quorum)
            }
            Phase::Done => return None,
        };
        Some(match next {
            Next::Ask(work) => {
                self.phase = Phase::Working(work);
                Step::Send { to: work.asked, request: work.request() }
            }
            Next::End(outcome) => {
                self.phase = Phase::Done;
                Step::Done(outcome)
            }
        })
    }
}

impl Standing {
    fn of(record: &Record) -> Self {
        match record.epoch {
            None => Self::Empty { claim: record.joining.unwrap_or(0) },
            Some(epoch) => Self::Member { epoch },
        }
    }
}

enum Next {
    Ask(Work),
    End(Readmitted),
}

impl Next {
    fn plan(quorum: Quorum, draw: u64, seen: &[Option<Standing>], silent: NodeSet) -> Self {
        let is = |test: fn(&Standing) -> bool| -> NodeSet {
            let matching = seen.iter().enumerate().filter(|(_, node)| node.as_ref().is_some_and(test));
            matching.map(|(index, _)| NodeId::new(index)).collect()
        };
        let empty = is(|node| matches!(node, Standing::Empty { .. }));
        let intact = is(|node| matches!(node, Standing::Member { .. }));
        let mut nodes = seen.iter().flatten();
        let one = nodes.next();
        if empty.is_empty() && nodes.all(|node| Some(node) == one) {
            return Self::End(Readmitted::NotNeeded);
        }
        if intact.len() < quorum.needed() && !mutated!(ReadmitMinority) {
            // Who is only silent may have its numbers still: that is no loss to be told of, and the next run finds it.
            let lost = intact.len() + silent.len() < quorum.needed();
            let outcome =
                if lost { Readmitted::TooFew { intact } } else { Readmitted::Stopped { at: silent } };
            return Self::End(outcome);
        }
        let told = |node: &Standing| match *node {
            Standing::Empty { claim } => claim,
            Standing::Member { epoch } => epoch,
        };
        let largest = seen.iter().flatten().map(told).max().unwrap_or(0);
        let work = Work {
            epoch: if mutated!(ReadmitKeepsEpoch) { largest } else { largest.saturating_add(draw) },
            floor: 0,
            errand: Errand::Claim,
            asked: empty,
            intact,
            empty,
            raised: NodeSet::EMPTY,
            doubtful: NodeSet::EMPTY,
        };
        if empty.is_empty() || mutated!(AdmitUnclaimed) { work.next(quorum) } else { Self::Ask(work) }
    }
}

impl Work {
    fn request(&self) -> Request {
        match self.errand {
            Errand::Claim => Request::Claim { epoch: self.epoch },
            Errand::Raise => Request::Raise { epoch: self.epoch },
            Errand::Admit => Request::Admit { epoch: self.epoch, floor: self.floor },
        }
    }

    fn count(&mut self, node: NodeId, reply: Reply) {
        let Self { epoch, errand, .. } = *self;
        let Reply::Record(record) = reply else {
            // A raise that nobody answered is as good as one that was never sent: its node is not counted.
            if errand != Errand::Raise || reply == Reply::Refused {
                self.doubtful.insert(node);
            }
            return;
        };
        let done = match errand {
            Errand::Claim => record.epoch.is_none() && record.joining == Some(epoch),
            Errand::Raise | Errand::Admit => record.epoch == Some(epoch),
        };
        if !done {
            self.doubtful.insert(node);
        } else if errand == Errand::Raise {
            self.raised.insert(node);
            self.floor = self.floor.max(record.high);
        }
    }

    /// All nodes that were asked have answered, or will not.
    fn next(mut self, quorum: Quorum) -> Next {
        if !self.doubtful.is_empty() {
            return Next::End(Readmitted::Stopped { at: self.doubtful });
        }
        let needed = if mutated!(ReadmitMinority) { 1 } else { quorum.needed() };
        (self.errand, self.asked) = match self.errand {
            Errand::Claim => (Errand::Raise, self.intact),
            Errand::Raise if self.raised.len() < needed => {
                return Next::End(Readmitted::Stopped { at: self.intact.without(self.raised) });
            }
            Errand::Raise if mutated!(AdmitUnclaimed) => (Errand::Admit, quorum.all()),
            Errand::Raise if !self.empty.is_empty() => (Errand::Admit, self.empty),
            Errand::Raise | Errand::Admit => {
                let Self { empty: admitted, epoch, floor, .. } = self;
                return Next::End(Readmitted::Done { admitted, epoch, floor });
            }
        };
        Next::Ask(self)
    }
}

impl<const MAX: usize> ByNode for Readmit<MAX> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.quorum, self.draw, core::mem::discriminant(&self.phase)).hash(state);
        if let Phase::Working(Work { epoch, floor, errand, .. }) = self.phase {
            (epoch, floor, errand).hash(state);
        }
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        match &self.phase {
            Phase::Looking { seen, silent } => (seen[node.index()], silent.contains(node)).hash(state),
            Phase::Working(Work { asked, intact, empty, raised, doubtful, .. }) => {
                let sets = [asked, intact, empty, raised, doubtful];
                state.write_u8(sets.iter().fold(1, |bits, set| bits << 1 | u8::from(set.contains(node))));
            }
            Phase::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_start::testing::run_on;
    use super::super::node::{NodeState, execute};
    use super::*;

    /// Runs to the end on these nodes; `down` ones do not answer.
    fn run(draw: u64, nodes: &mut [NodeState], down: &[usize]) -> Readmitted {
        let (mut machine, step) = Readmit::<5>::new(Quorum::of(nodes.len()), draw);
        run_on(nodes, down, step, |node, reply| machine.handle(node, reply))
    }

    fn only(node: usize) -> NodeSet {
        NodeSet::only(NodeId::new(node))
    }

    fn stood(epoch: u64, high: u64) -> NodeState {
        let mut node = NodeState::member(epoch, 0);
        node.record.high = high;
        node.counter = Some(high);
        node
    }

    #[test]
    fn a_wiped_node_comes_back_above_every_number_of_the_others() {
        let mut nodes = [stood(1, 7), NodeState::default(), stood(1, 4)];
        let outcome = run(5, &mut nodes, &[]);
        assert_eq!(outcome, Readmitted::Done { admitted: only(1), epoch: 6, floor: 7 });
        assert_eq!(nodes.map(|node| node.record.epoch), [Some(6); 3]);
        assert_eq!((nodes[1].record.floor, nodes[1].record.joining), (7, None));
        assert_eq!(run(5, &mut nodes, &[]), Readmitted::NotNeeded);
    }

    #[test]
    fn a_node_that_was_away_is_brought_into_the_common_epoch() {
        let mut nodes = [stood(1, 7), stood(6, 4), stood(6, 9)];
        let none = NodeSet::EMPTY;
        assert_eq!(run(2, &mut nodes, &[]), Readmitted::Done { admitted: none, epoch: 8, floor: 9 });
        assert_eq!(nodes.map(|node| node.record.epoch), [Some(8); 3]);
    }

    #[test]
    fn too_few_intact_nodes_change_nothing() {
        let mut nodes = [NodeState::default(), NodeState::default(), stood(1, 4)];
        assert_eq!(run(5, &mut nodes, &[]), Readmitted::TooFew { intact: only(2) });
        assert_eq!(nodes, [NodeState::default(), NodeState::default(), stood(1, 4)]);
    }

    /// A node that is away for a moment must not be given up for lost.
    #[test]
    fn nodes_that_do_not_answer_are_not_counted_as_lost() {
        let mut nodes = [stood(1, 7), NodeState::default(), stood(1, 4)];
        assert_eq!(run(5, &mut nodes, &[0]), Readmitted::Stopped { at: only(0) });
        let mut nodes = [NodeState::default(), NodeState::default(), stood(1, 4), stood(1, 4), stood(1, 5)];
        let away = [2, 4].map(NodeId::new).into_iter().collect();
        assert_eq!(run(5, &mut nodes, &[2, 4]), Readmitted::Stopped { at: away });
        let mut nodes =
            [NodeState::default(), NodeState::default(), NodeState::default(), stood(1, 4), stood(1, 5)];
        assert_eq!(run(5, &mut nodes, &[4]), Readmitted::TooFew { intact: only(3) });
        let mut nodes = [stood(1, 7); 3];
        assert_eq!(run(5, &mut nodes, &[0]), Readmitted::NotNeeded);
    }

    #[test]
    fn one_silent_node_of_five_stops_nothing() {
        let mut nodes = [stood(1, 7), NodeState::default(), stood(1, 4), stood(1, 5), stood(1, 99)];
        let outcome = run(1, &mut nodes, &[4]);
        assert_eq!(outcome, Readmitted::Done { admitted: only(1), epoch: 2, floor: 7 });
        assert_eq!(nodes[4].record.epoch, Some(1), "the next run brings it along");
    }

    #[test]
    fn a_larger_claim_stops_a_run() {
        let mut nodes = [stood(1, 7), NodeState::default(), stood(1, 4)];
        let (mut machine, _) = Readmit::<3>::new(Quorum::of(3), 1);
        for (node, state) in (0..3).zip(nodes) {
            machine.handle(NodeId::new(node), Reply::Record(state.record));
        }
        execute(&mut nodes[1], Request::Claim { epoch: 9 }).unwrap();
        let late = execute(&mut nodes[1], Request::Claim { epoch: 2 }).unwrap();
        assert_eq!(
            machine.handle(NodeId::new(1), late),
            Some(Step::Done(Readmitted::Stopped { at: only(1) }))
        );
        assert_eq!(run(3, &mut nodes, &[]), Readmitted::Done { admitted: only(1), epoch: 12, floor: 7 });
    }
}
