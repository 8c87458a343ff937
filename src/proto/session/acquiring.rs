//! Who wins: grants, the fast path, the confirm round.
//!
//! **The token is a number for which Q nodes have answered the same stand while the key was mine.** Nothing else is a win. The
//! fast path is no rule of its own: a grant that answers v is at once a confirmation of v at that node, so Q equal grants
//! are the whole acquisition. If they differ, every node is asked to rise to the largest number, and the count goes on.

use super::super::message::{FencingToken, Reply, Stand};
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
        if let Some(stand) = self.agreed(quorum.needed()) {
            if now >= until {
                return Decision::Lost(AcquireFailure::ValidityExhausted);
            }
            let token = (config.mode == Mode::Fenced).then_some(FencingToken(stand.number));
            return Decision::Won(token, until);
        }
        let granted = self.last.iter().flatten().count();
        if quorum.verdict(granted, self.refused.len()) == Verdict::Lost {
            return Decision::Lost(self.blame(config));
        }
        if now >= deadline(known, config) {
            let slow = now >= until;
            let reason = if slow { AcquireFailure::ValidityExhausted } else { AcquireFailure::NoQuorum };
            return Decision::Lost(reason);
        }
        let largest = self.last.iter().flatten().map(|stand| stand.number).max().unwrap_or(0);
        if granted >= quorum.needed() && largest > self.sent {
            self.sent = largest;
            return Decision::Confirm(largest);
        }
        Decision::Wait
    }

    /// A stand that `needed` nodes have told.
    fn agreed(&self, needed: usize) -> Option<Stand> {
        let votes = |stand: &Stand| self.last.iter().flatten().filter(|other| *other == stand).count();
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

fn set(nodes: &mut NodeSet, node: NodeId, member: bool) {
    if member {
        nodes.insert(node);
    } else {
        nodes.remove(node);
    }
}
