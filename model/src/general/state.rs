//! What there is at one moment, and one number for all moments that differ only in numbering.

use std::hash::{Hash, Hasher};

use redfence::proto::node::execute;
use redfence::proto::{ByNode, NodeId, Reply, Request, Stand};

use crate::world::{Node, Operator, Time, each_order, mix};

use super::MOST;

/// Numbers of one epoch, in the bits of an answer.
const NUMBERS: u64 = MOST as u64 + 1;

/// Nodes, and what each attempt has been told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State<const N: usize, const A: usize> {
    /// The nodes.
    pub nodes: [Node; N],
    /// Every answer each attempt got from each node, one bit for each number and epoch.
    pub answers: [[u64; N]; A],
    /// The largest token won when each attempt began.
    pub before: [u8; A],
    /// Which attempts had been granted before a grant to this one at this node, and whether this one was: one bit each.
    pub(super) earlier: [[u8; N]; A],
    /// Those who bring nodes back.
    pub operators: Vec<Operator<N>>,
    /// How often a node may still lose its data.
    pub wipes: u8,
    /// The largest number that was ever lost, where a clock is known to be at or above it.
    pub(super) lost: u8,
    symmetric: bool,
}

impl<const N: usize, const A: usize> State<N, A> {
    pub(super) fn new(wipes: u8, operators: Vec<Operator<N>>, symmetric: bool) -> Self {
        Self {
            nodes: [Node { epoch: 1, ..Node::default() }; N],
            answers: [[0; N]; A],
            before: [0; A],
            earlier: [[0; N]; A],
            operators,
            wipes,
            lost: 0,
            symmetric,
        }
    }

    /// Whether a node has ever answered it.
    pub fn has_begun(&self, attempt: u8) -> bool {
        self.answers[usize::from(attempt)] != [0; N]
    }

    pub(super) fn has_heard(&self, attempt: u8, node: u8, stand: Stand) -> bool {
        self.answers[usize::from(attempt)][usize::from(node)] & bit(stand) != 0
    }

    pub(super) fn answer(&mut self, attempt: u8, node: u8, stand: Stand) {
        self.answers[usize::from(attempt)][usize::from(node)] |= bit(stand);
    }

    pub(super) fn granted(&mut self, attempt: u8, node: u8) {
        let (index, at) = (usize::from(attempt), usize::from(node));
        for other in 0..A {
            let was_granted = self.earlier[other][at] & 1 << other;
            self.earlier[index][at] |= was_granted;
        }
        self.earlier[index][at] |= 1 << attempt;
    }

    /// Whether every grant to `later` came after every one to `first` at this node.
    pub(super) fn is_granted_after(&self, first: usize, later: usize, at: usize) -> bool {
        self.earlier[later][at] & 1 << first != 0 && self.earlier[first][at] & 1 << later == 0
    }

    /// The operator that may begin: the one before has ended, and there is something to do.
    pub(super) fn next_to_begin(&self) -> Option<u8> {
        let one = self.nodes[0].epoch;
        let is_needed = self.nodes.iter().any(|node| node.epoch == 0 || node.epoch != one);
        let (operator, index) = self.operators.iter().zip(0u8..).find(|(operator, _)| !operator.is_over())?;
        (is_needed && !operator.has_begun()).then_some(index)
    }

    pub(super) fn operate(&mut self, operator: u8, node: u8) {
        let (index, at) = (usize::from(operator), usize::from(node));
        let Some(request) = self.operators[index].call(at) else { return };
        let reply = self.done_for_operator(node, request);
        self.operators[index].hear(at, reply);
    }

    pub(super) fn done_for_operator(&mut self, node: u8, request: Request) -> Reply {
        let node = &mut self.nodes[usize::from(node)];
        let mut reference = node.reference();
        let reply = execute(&mut reference, request).unwrap_or(Reply::Refused);
        node.take(&reference, Time::Untimed);
        reply
    }

    /// Lets an operator begin, look and claim: no client can tell when.
    pub(super) fn hurry(&mut self) {
        loop {
            if let Some(operator) = self.next_to_begin() {
                self.operators[usize::from(operator)].begin();
            }
            let unseen = |request| matches!(request, Request::Inspect | Request::Claim { .. });
            let calls = self.operators.iter().zip(0u8..).flat_map(|(operator, index)| {
                (0..N).zip(0u8..).map(move |(at, node)| (operator.call(at), index, node))
            });
            let mut calls = calls.filter(|(request, ..)| request.is_some_and(unseen));
            let Some((_, operator, node)) = calls.next() else { return };
            drop(calls);
            self.operate(operator, node);
        }
    }

    /// The state as one number.
    pub fn plain(&self) -> u64 {
        self.numbered(&std::array::from_fn(|index| index), false)
    }

    /// The same number for all states that differ only in the numbering of nodes and attempts.
    pub fn canonical(&self) -> u64 {
        let rank: [u64; A] = std::array::from_fn(|index| self.rank(index));
        let mut order: [usize; A] = std::array::from_fn(|index| index);
        order.sort_unstable_by_key(|&index| rank[index]);
        let mut least = u64::MAX;
        each_order(&mut order, 0, &rank, &mut |order| least = least.min(self.numbered(order, true)));
        least
    }

    /// What tells attempts apart, whichever node is called what.
    fn rank(&self, index: usize) -> u64 {
        let held =
            |at: usize| self.nodes[at].signer.client().is_some_and(|client| usize::from(client) == index);
        let mut cells: [u64; N] =
            std::array::from_fn(|at| self.answers[index][at] << 1 | u64::from(held(at)));
        cells.sort_unstable();
        mix(|h| {
            h.write_u8(self.before[index]);
            cells.iter().for_each(|&cell| h.write_u64(cell));
        })
    }

    fn numbered(&self, order: &[usize; A], sort: bool) -> u64 {
        let mut place = [0u8; A];
        for (to, &from) in (0u8..).zip(order) {
            place[from] = to;
        }
        let mut columns: [u64; N] = std::array::from_fn(|at| {
            mix(|h| {
                h.write_u64(self.nodes[at].word(&place));
                for &index in order {
                    h.write_u64(self.answers[index][at]);
                    h.write_u8(placed(self.earlier[index][at], &place));
                }
                self.operators.iter().for_each(|operator| operator.hash_node(NodeId::new(at), h));
            })
        });
        if sort {
            columns.sort_unstable();
        }
        mix(|h| {
            columns.iter().for_each(|&column| h.write_u64(column));
            order.iter().for_each(|&index| h.write_u8(self.before[index]));
            self.operators.iter().for_each(|operator| operator.hash_shared(h));
            h.write_u8(self.wipes);
            h.write_u8(self.lost);
        })
    }
}

/// A set of attempts, by their places.
fn placed(set: u8, place: &[u8]) -> u8 {
    (0..).zip(place).filter(|(index, _)| set & 1 << index != 0).fold(0, |set, (_, place)| set | 1 << place)
}

fn bit(stand: Stand) -> u64 {
    1 << (NUMBERS * (stand.epoch - 1) + stand.number)
}

/// Answers by their number alone.
pub(super) fn numbers(answers: u64) -> u64 {
    answers.to_le_bytes().into_iter().fold(0, |all, epoch| all | u64::from(epoch))
}

impl<const N: usize, const A: usize> Hash for State<N, A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(if self.symmetric { self.canonical() } else { self.plain() });
    }
}
