//! Who wins: grants, the fast path, the confirm round.
//!
//! **The token is a number for which Q nodes have answered the same stand while the key was mine.** Nothing else is a win. The
//! fast path is no rule of its own: a grant that answers v is at once a confirmation of v at that node, so Q equal grants
//! are the whole acquisition. If they differ, every node is asked to rise to the largest number, and the count goes on.

use core::hash::{Hash, Hasher};

use super::super::message::{FencingToken, Reply, Stand};
use super::super::mutant::mutated;
use super::super::symmetry::ByNode;
use super::super::tally::{NodeId, NodeSet, Verdict};
use super::super::time::Timestamp;
use super::super::validity::valid_until;
use super::{AcquireFailure, Config, Known, Mode};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Acquiring<const MAX: usize> {
    /// The latest stand each node has told, while it says "mine".
    last: [Option<Stand>; MAX],
    /// Nodes that said no or failed. A late "mine" brings one back.
    refused: NodeSet,
    /// Of these, nodes where another holds the key.
    taken: NodeSet,
    /// The largest number the nodes were asked to rise to.
    sent: u64,
}

pub(super) enum Decision {
    Wait,
    Confirm(u64),
    Won(Option<FencingToken>, Timestamp),
    Lost(AcquireFailure),
}

impl<const MAX: usize> Default for Acquiring<MAX> {
    fn default() -> Self {
        Self { last: [None; MAX], refused: NodeSet::EMPTY, taken: NodeSet::EMPTY, sent: 0 }
    }
}

/// When an attempt ends at the latest: its patience is over, or winning would leave no validity.
pub(super) fn deadline(known: &Known, config: &Config) -> Timestamp {
    (known.start + config.patience).min(promise(known, config))
}

/// Until when the lock may be believed in if it is won: the longest hold bounds it too.
fn promise(known: &Known, config: &Config) -> Timestamp {
    let until = valid_until(known.start, config.ttl, config.drift);
    config.extend.map_or(until, |auto| until.min(known.start + auto.max_hold))
}

impl<const MAX: usize> Acquiring<MAX> {
    /// Notes one answer to a grant or a confirm.
    pub(super) fn count(&mut self, node: NodeId, reply: Reply) {
        let stand = match reply {
            Reply::Mine(stand) => Some(stand),
            Reply::Unknown if mutated!(UnknownIsGrant) => Some(Stand::CLASSIC),
            _ => None,
        };
        self.last[node.index()] = stand;
        let taken = matches!(reply, Reply::Taken { .. } | Reply::NotMine);
        set(&mut self.refused, node, stand.is_none());
        set(&mut self.taken, node, taken);
    }

    pub(super) fn decide(&mut self, known: &Known, config: &Config, now: Timestamp) -> Decision {
        let quorum = config.quorum;
        let until = promise(known, config);
        let until =
            if mutated!(ValidityFromEnd) { valid_until(now, config.ttl, config.drift) } else { until };
        if let Some(stand) = self.agreed(self.needed(config)) {
            if now >= until && !mutated!(NoElapsedCheck) {
                return Decision::Lost(AcquireFailure::ValidityExhausted);
            }
            let token = (config.mode == Mode::Fenced).then_some(FencingToken(stand.number));
            return Decision::Won(token, until);
        }
        let granted = self.last.iter().flatten().count();
        if quorum.verdict(granted, self.refused.len()) == Verdict::Lost {
            return Decision::Lost(self.blame(config));
        }
        if now >= deadline(known, config) && !mutated!(NoElapsedCheck) && !mutated!(ValidityFromEnd) {
            let slow = now >= until;
            let reason = if slow { AcquireFailure::ValidityExhausted } else { AcquireFailure::NoQuorum };
            return Decision::Lost(reason);
        }
        let largest = self.last.iter().flatten().map(|stand| stand.number).max().unwrap_or(0);
        if granted >= quorum.needed() && largest > self.sent && !mutated!(NeverConfirms) {
            self.sent = largest;
            return Decision::Confirm(largest);
        }
        Decision::Wait
    }

    /// Equal stands that make a win.
    fn needed(&self, config: &Config) -> usize {
        let needed = config.quorum.needed();
        let fast = mutated!(FastPathMinority) && self.sent == 0;
        let confirmed = mutated!(ConfirmMinority) && self.sent > 0;
        if fast || confirmed {
            return needed - 1;
        }
        if mutated!(MajorityOfAnswers) {
            let answers = self.last.iter().flatten().count() + self.taken.len();
            return answers / 2 + 1;
        }
        needed
    }

    /// A stand that `needed` nodes have told.
    fn agreed(&self, needed: usize) -> Option<Stand> {
        if mutated!(NoWriteBack) {
            let largest = self.last.iter().flatten().max_by_key(|stand| stand.number).copied();
            return largest.filter(|_| self.last.iter().flatten().count() >= needed);
        }
        let equal = |one: &Stand, other: &Stand| {
            one == other
                || (mutated!(NumbersMayDiffer) && one.number + 1 == other.number)
                || (mutated!(EpochIgnored) && one.number == other.number)
                || (mutated!(LargerConfirms) && one.number == self.sent && one.number < other.number)
                || (mutated!(SmallerConfirms) && one.number == self.sent && one.number > other.number)
        };
        let votes = |stand: &Stand| self.last.iter().flatten().filter(|other| equal(stand, other)).count();
        self.last.iter().flatten().find(|stand| votes(stand) >= needed).copied()
    }

    /// Waiting helps unless the nodes that failed make a quorum impossible by themselves.
    fn blame(&self, config: &Config) -> AcquireFailure {
        let failed = self.refused.without(self.taken).len();
        match config.quorum.verdict(0, failed) {
            Verdict::Lost => AcquireFailure::NoQuorum,
            Verdict::Pending | Verdict::Won => AcquireFailure::Contended,
        }
    }
}

impl<const MAX: usize> ByNode for Acquiring<MAX> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        self.sent.hash(state);
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        self.last[node.index()].hash(state);
        state.write_u8(u8::from(self.refused.contains(node)) | u8::from(self.taken.contains(node)) << 1);
    }
}

fn set(nodes: &mut NodeSet, node: NodeId, member: bool) {
    if member {
        nodes.insert(node);
    } else {
        nodes.remove(node);
    }
}
