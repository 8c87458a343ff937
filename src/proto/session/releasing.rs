//! When nothing is left behind.
//!
//! A release goes to every node, also to those that refused or did not answer (`R5`, `R12`). It is sent again to nodes that may hold our key
//! and have not said that it is gone. A node whose grant is *unknown* may do it after the release (an old connection's
//! bytes can be read late), so there "not mine" is not the last word: the release is repeated, a bounded number of times.

use core::hash::{Hash, Hasher};

use super::super::message::{Reply, Request};
use super::super::symmetry::ByNode;
use super::super::tally::{NodeId, NodeSet, Verdict};
use super::super::time::Timestamp;
use super::{Config, Event, Known, Output, Round};

/// What became of a release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReleaseOutcome {
    /// A quorum of keys was ours and is gone.
    Released,
    /// So many nodes say "not yours" that the lock was not held any more.
    NotHeld,
    /// Too few nodes answered. What is left ends with the TTL; the release is still being sent.
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Releasing {
    /// Somebody waits for the outcome.
    report: bool,
    /// When to say [`ReleaseOutcome::Unknown`].
    report_by: Timestamp,
    /// After this no key set or extended before the release can be left (clocks within the drift allowed for).
    horizon: Timestamp,
    /// How often the release has been sent.
    rounds: u8,
    /// When to send it again.
    next: Timestamp,
    /// Nodes that have been asked and have not answered.
    asked: NodeSet,
    released: NodeSet,
    absent: NodeSet,
    /// Nodes where a release may have been done without our hearing of it.
    unsure: NodeSet,
    /// Nodes whose grant came while a release was on its way: "not mine" to that release may be older than the key.
    late: NodeSet,
}

impl Releasing {
    pub(super) fn new(known: &Known, config: &Config, now: Timestamp, asked: NodeSet, report: bool) -> Self {
        Self {
            report,
            report_by: now + config.patience,
            horizon: now + known.longest.as_duration() + config.drift.margin(known.longest),
            rounds: 1,
            next: now + config.release_backoff.delay(0, 1.0),
            asked,
            released: NodeSet::EMPTY,
            absent: NodeSet::EMPTY,
            unsure: NodeSet::EMPTY,
            late: NodeSet::EMPTY,
        }
    }

    /// Counts one answer: to the release, or a grant that comes after the verdict.
    pub(super) fn count(
        &mut self,
        known: &Known,
        node: NodeId,
        round: Round,
        reply: Reply,
        out: &mut Vec<Output>,
    ) {
        if round != Round::Release {
            if matches!(reply, Reply::Mine(_)) {
                self.straggler(known, node, out);
            }
            return;
        }
        self.asked.remove(node);
        let late = self.late.remove(node);
        match reply {
            Reply::Released => {
                self.released.insert(node);
                self.absent.remove(node);
            }
            Reply::NotMine if late => self.straggler(known, node, out),
            Reply::NotMine if self.released.contains(node) => {}
            // Our earlier release may have been the one that did it.
            Reply::NotMine if self.unsure.contains(node) && known.signed.contains(node) => {
                self.released.insert(node);
            }
            Reply::NotMine => {
                self.absent.insert(node);
            }
            Reply::Unknown => {
                self.unsure.insert(node);
            }
            _ => {}
        }
    }

    /// The key may be there in spite of what this node has answered to a release.
    fn straggler(&mut self, known: &Known, node: NodeId, out: &mut Vec<Output>) {
        self.absent.remove(node);
        if !self.asked.insert(node) {
            self.late.insert(node);
            return;
        }
        let request = Request::Release { owner: known.owner };
        out.push(Output::Send { to: NodeSet::only(node), round: Round::Release, request });
    }

    /// Reports the outcome when it is decided, sends again when it is time; true when nothing is left to do.
    pub(super) fn settle(
        &mut self,
        known: &Known,
        config: &Config,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> bool {
        let open = self.unsettled(known);
        let spent = self.asked.is_empty() && !self.may_repeat(config);
        if self.report {
            // While somebody waits for the outcome, nodes that hold no key of ours are heard too.
            let heard = open.is_empty() && self.asked.is_empty();
            let outcome = match self.verdict(config) {
                Verdict::Won => Some(ReleaseOutcome::Released),
                Verdict::Lost => Some(ReleaseOutcome::NotHeld),
                Verdict::Pending if heard || spent || now >= self.report_by => Some(ReleaseOutcome::Unknown),
                Verdict::Pending => None,
            };
            if let Some(outcome) = outcome {
                self.report = false;
                out.push(Output::Event(Event::Released(outcome)));
            }
        }
        if !self.report && (open.is_empty() || spent || now >= self.horizon) {
            return true;
        }
        let again = open.without(self.asked);
        if !again.is_empty() && now >= self.next && self.may_repeat(config) {
            self.asked = self.asked.union(again);
            self.next = now + config.release_backoff.delay(u32::from(self.rounds), 1.0);
            self.rounds += 1;
            let request = Request::Release { owner: known.owner };
            out.push(Output::Send { to: again, round: Round::Release, request });
        }
        false
    }

    fn may_repeat(&self, config: &Config) -> bool {
        self.rounds < config.release_rounds
    }

    fn verdict(&self, config: &Config) -> Verdict {
        config.quorum.verdict(self.released.len(), self.absent.len())
    }

    /// Nodes that may still hold our key.
    fn unsettled(&self, known: &Known) -> NodeSet {
        let said = self.released.union(self.absent).without(known.unanswered);
        known.at_risk().without(said)
    }

    pub(super) fn next_wake(&self, known: &Known, config: &Config) -> Timestamp {
        let again = self.may_repeat(config) && !self.unsettled(known).without(self.asked).is_empty();
        let end = if self.report { self.report_by } else { self.horizon };
        if again { end.min(self.next) } else { end }
    }
}

impl ByNode for Releasing {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.report, self.report_by, self.horizon, self.rounds, self.next).hash(state);
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        let sets = [&self.asked, &self.released, &self.absent, &self.unsure, &self.late];
        state.write_u8(sets.iter().fold(1, |bits, set| bits << 1 | u8::from(set.contains(node))));
    }
}
