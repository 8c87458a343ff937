//! For how long: validity, extension, loss.
//!
//! Loss (`R7`) is decided by the clock alone: `now >= valid_until`, on every wake and every answer, whether or not any node speaks.
//! An extension (`R11`) that fails changes nothing: what was promised before still holds, and the next one may succeed. Only "not
//! mine" from so many nodes that no quorum can be mine is proof, and ends the belief at once.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use super::super::message::{FencingToken, Reply, Request};
use super::super::mutant::mutated;
use super::super::symmetry::ByNode;
use super::super::tally::{NodeId, NodeSet, Verdict};
use super::super::time::Timestamp;
use super::super::validity::{Ttl, valid_until};
use super::{Config, Event, Known, Output, Round};

/// Extension without being asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AutoExtend {
    /// Time from the beginning of one extension to that of the next.
    pub every: Duration,
    /// Longest time to hold the lock in all. Without a bound, a stuck holder starves everybody (Redis page).
    pub max_hold: Duration,
}

/// Why an extension did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExtendFailure {
    /// Too many nodes failed or were silent.
    NoQuorum,
    /// A newer extension took its place.
    Superseded,
    /// The lock was lost meanwhile.
    Lost,
    /// The lock was released meanwhile.
    Released,
}

/// Why the lock may be another's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LostReason {
    /// Validity ended.
    Expired,
    /// So many nodes say "not yours" that a quorum cannot be: proof.
    QuorumGone,
    /// The longest hold allowed is over.
    MaxHold,
    /// The holder gave it back. Never said by a session: a lease that outlives its holder reads so.
    Released,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Held {
    token: Option<FencingToken>,
    valid_until: Timestamp,
    /// The end of the longest hold.
    cap: Option<Timestamp>,
    /// When to begin an extension without being asked.
    next: Option<Timestamp>,
    extension: Extension,
}

/// The latest extension; number 0 is the acquisition itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Extension {
    round: u32,
    start: Timestamp,
    ttl: Ttl,
    /// Somebody waits for its outcome.
    open: bool,
    extended: NodeSet,
    not_mine: NodeSet,
    failed: NodeSet,
}

impl Held {
    pub(super) fn new(known: &Known, config: &Config, token: Option<FencingToken>, until: Timestamp) -> Self {
        let cap = config.extend.map(|auto| known.start + auto.max_hold);
        let extension = Extension {
            round: 0,
            start: known.start,
            ttl: config.ttl,
            open: false,
            extended: NodeSet::EMPTY,
            not_mine: NodeSet::EMPTY,
            failed: NodeSet::EMPTY,
        };
        let next = config.extend.map(|auto| known.start + auto.every);
        Self { token, valid_until: until, cap, next, extension }
    }

    pub(super) fn token(&self) -> Option<FencingToken> {
        self.token
    }

    pub(super) fn valid_until(&self) -> Timestamp {
        self.valid_until
    }

    pub(super) fn open_round(&self) -> Option<u32> {
        self.extension.open.then_some(self.extension.round)
    }

    pub(super) fn next_wake(&self, config: &Config) -> Timestamp {
        let own =
            if self.extension.open { Some(self.extension.start + config.patience) } else { self.next_auto() };
        own.map_or(self.valid_until, |at| at.min(self.valid_until))
    }

    /// An extension that could not move the end of validity is not begun.
    fn next_auto(&self) -> Option<Timestamp> {
        self.next.filter(|_| self.cap.is_none_or(|cap| self.valid_until < cap))
    }

    /// Asks every node for `ttl` from now.
    pub(super) fn extend(
        &mut self,
        known: &mut Known,
        config: &Config,
        now: Timestamp,
        ttl: Ttl,
        out: &mut Vec<Output>,
    ) {
        if let Some(round) = self.open_round() {
            out.push(Output::Event(Event::NotExtended { round, reason: ExtendFailure::Superseded }));
        }
        let round = self.extension.round.saturating_add(1);
        self.extension = Extension {
            round,
            start: now,
            ttl,
            open: true,
            extended: NodeSet::EMPTY,
            not_mine: NodeSet::EMPTY,
            failed: NodeSet::EMPTY,
        };
        self.next = config.extend.map(|auto| now + auto.every);
        known.longest = known.longest.max(ttl);
        let request = Request::Extend { owner: known.owner, ttl };
        out.push(Output::Send { to: config.quorum.all(), round: Round::Extend(round), request });
    }

    /// Counts one answer to an extension.
    pub(super) fn count(
        &mut self,
        config: &Config,
        now: Timestamp,
        node: NodeId,
        round: u32,
        reply: Reply,
        out: &mut Vec<Output>,
    ) {
        let extension = &mut self.extension;
        if round != extension.round || now >= self.valid_until {
            return;
        }
        let counted = match reply {
            Reply::Extended => &mut extension.extended,
            Reply::NotMine => &mut extension.not_mine,
            _ => &mut extension.failed,
        };
        let new = counted.insert(node);
        let needed = config.quorum.needed() - usize::from(mutated!(ExtendMinority));
        if reply == Reply::Extended && new && extension.extended.len() == needed {
            // Also when it comes late: the keys do live that long.
            let start = if mutated!(ExtendFromAnswer) { now } else { extension.start };
            let until = valid_until(start, extension.ttl, config.drift);
            extension.open = false;
            self.valid_until = capped(self.valid_until.max(until), self.cap);
            out.push(Output::Event(Event::Extended { round, valid_until: self.valid_until }));
            return;
        }
        let against = extension.not_mine.union(extension.failed).len();
        let hopeless =
            extension.open && config.quorum.verdict(extension.extended.len(), against) == Verdict::Lost;
        // With the proof of loss the extension has not just failed: it ends with the lock, and says so.
        if hopeless && self.lost(config, now).is_none() {
            self.give_up(config, now, out);
        }
    }

    /// Why the lock is lost, if it is.
    pub(super) fn lost(&self, config: &Config, now: Timestamp) -> Option<LostReason> {
        if now >= self.valid_until {
            let capped = self.cap == Some(self.valid_until);
            return Some(if capped { LostReason::MaxHold } else { LostReason::Expired });
        }
        let proof = config.quorum.verdict(0, self.extension.not_mine.len()) == Verdict::Lost;
        proof.then_some(LostReason::QuorumGone)
    }

    /// Ends an extension that has waited long enough; begins the next one when it is due.
    pub(super) fn wake(&mut self, known: &mut Known, config: &Config, now: Timestamp, out: &mut Vec<Output>) {
        if self.extension.open && now >= self.extension.start + config.patience {
            self.give_up(config, now, out);
        }
        if !self.extension.open && self.next_auto().is_some_and(|at| now >= at) {
            self.extend(known, config, now, config.ttl, out);
        }
    }

    /// No quorum this time. Tries again sooner than after a success.
    fn give_up(&mut self, config: &Config, now: Timestamp, out: &mut Vec<Output>) {
        self.extension.open = false;
        let sooner = |auto: super::AutoExtend| now + (auto.every / 4).max(Duration::from_millis(1));
        self.next = config.extend.map(sooner);
        let reason = ExtendFailure::NoQuorum;
        out.push(Output::Event(Event::NotExtended { round: self.extension.round, reason }));
    }
}

impl ByNode for Held {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        (self.token, self.valid_until, self.cap, self.next).hash(state);
        let Extension { round, start, ttl, open, .. } = self.extension;
        (round, start, ttl, open).hash(state);
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        let Extension { extended, not_mine, failed, .. } = &self.extension;
        let sets = [extended, not_mine, failed];
        state.write_u8(sets.iter().fold(1, |bits, set| bits << 1 | u8::from(set.contains(node))));
    }
}

fn capped(until: Timestamp, cap: Option<Timestamp>) -> Timestamp {
    cap.map_or(until, |cap| until.min(cap))
}
