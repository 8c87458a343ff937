//! One attempt's life on one resource.
//!
//! ```text
//!            Q equal stands, validity left            validity ends, or a quorum is provably gone
//! Acquiring ------------------------------> Held ------------------------------------------------> Lost
//!     |                                      |                                                      |
//!     | Q impossible, deadline, given up     | released                                    released  |
//!     `------------------------------------> Releasing <--------------------------------------------'
//!                                              | every node that may hold the key has answered, or no key can be left
//!                                              v
//!                                             Done
//! ```
//!
//! The rooms: `acquiring` decides who wins, `held` for how long, `releasing` when nothing is left behind.

mod acquiring;
mod held;
mod releasing;

use core::hash::{Hash, Hasher};
use core::time::Duration;

use super::message::{FencingToken, Owner, Reply, Request, Stand};
use super::mutant::mutated;
use super::retry::Backoff;
use super::symmetry::ByNode;
use super::tally::{MAX_NODES, NodeId, NodeSet, Quorum};
use super::time::Timestamp;
use super::validity::{Drift, Ttl};
use acquiring::Acquiring;
use held::Held;
pub use held::{AutoExtend, ExtendFailure, LostReason};
pub use releasing::ReleaseOutcome;
use releasing::Releasing;

/// Which protocol a session speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Mode {
    /// Redlock with fencing tokens.
    #[default]
    Fenced,
    /// The Redis page as written: no token, and no guard against nodes that lost their data.
    Classic,
}

/// What a session goes by. The same for its whole life; kept by the host beside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// Of how many nodes.
    pub quorum: Quorum,
    /// Fenced or classic.
    pub mode: Mode,
    /// Life of the keys.
    pub ttl: Ttl,
    /// Clock error allowed for.
    pub drift: Drift,
    /// How long one attempt, one extension or one release may wait for nodes; above zero.
    pub patience: Duration,
    /// Automatic extension, if wanted.
    pub extend: Option<AutoExtend>,
    /// Pauses between releases sent again to nodes that may still hold the key.
    pub release_backoff: Backoff,
    /// How often a release is sent to one node at most.
    pub release_rounds: u8,
}

/// Which question an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Round {
    /// The first: set the key.
    Grant,
    /// Rise to the largest number.
    Confirm,
    /// The n-th extension.
    Extend(u32),
    /// Delete the key.
    Release,
}

/// What the host tells a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A node has answered, or will not.
    Reply {
        /// Which node.
        node: NodeId,
        /// To which question.
        round: Round,
        /// What it said.
        reply: Reply,
    },
    /// The time given by `poll_timeout` has come (or any other: waking early is harmless).
    Wake,
    /// The holder asks for more time.
    Extend {
        /// Life of the keys from now.
        ttl: Ttl,
    },
    /// The holder is done, or the caller gave up.
    Release,
}

/// What a session tells its host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Send this to each of these nodes.
    Send {
        /// The nodes.
        to: NodeSet,
        /// Under this name the answers come back.
        round: Round,
        /// What to ask.
        request: Request,
    },
    /// Tell the caller.
    Event(Event),
}

/// What happened to the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The lock is held.
    Acquired {
        /// `None` in classic mode.
        token: Option<FencingToken>,
        /// The holder may believe until then.
        valid_until: Timestamp,
    },
    /// The lock is not held; releases have been sent.
    Failed(AcquireFailure),
    /// The lock is held for longer.
    Extended {
        /// Which extension.
        round: u32,
        /// The holder may believe until then.
        valid_until: Timestamp,
    },
    /// An extension did not reach a quorum. What was promised before still holds.
    NotExtended {
        /// Which extension.
        round: u32,
        /// Why.
        reason: ExtendFailure,
    },
    /// The lock may be another's from now on. Comes before the keys can expire.
    Lost(LostReason),
    /// The release is decided.
    Released(ReleaseOutcome),
}

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AcquireFailure {
    /// Somebody holds it on so many nodes that a quorum was impossible. Waiting helps.
    Contended,
    /// So many nodes are down, empty, failing or silent that a quorum was impossible.
    NoQuorum,
    /// The nodes were too slow: TTL - elapsed - drift left nothing (or the longest hold was over already).
    ValidityExhausted,
    /// The caller gave up.
    GivenUp,
}

/// One owner's life on one resource, on up to `MAX` nodes.
///
/// The model takes a small `MAX` to keep its states small; the live host takes the default.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session<const MAX: usize = MAX_NODES> {
    known: Known,
    phase: Phase<MAX>,
}

/// What stays true from phase to phase.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Known {
    owner: Owner,
    /// When the attempt began.
    start: Timestamp,
    /// Largest number any node has told: the next attempt's hint.
    best: u64,
    /// Nodes that have said that a key of ours is or was there.
    signed: NodeSet,
    /// Nodes whose grant has no definite answer: it may still be done there.
    unanswered: NodeSet,
    /// The longest life asked for any key.
    longest: Ttl,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase<const MAX: usize> {
    Acquiring(Acquiring<MAX>),
    Held(Held),
    Lost(LostReason),
    Releasing(Releasing),
    Done,
}

impl<const MAX: usize> Session<MAX> {
    /// Begins an attempt: asks every node. `hint` is one more than the largest number known for the resource, or 0.
    ///
    /// # Panics
    /// If the quorum has more than `MAX` nodes.
    pub fn new(config: &Config, owner: Owner, hint: u64, now: Timestamp, out: &mut Vec<Output>) -> Self {
        assert!(config.quorum.nodes() <= MAX, "a session of {MAX} nodes");
        let request = match config.mode {
            Mode::Fenced => Request::Acquire { owner, ttl: config.ttl, hint },
            Mode::Classic => Request::AcquireClassic { owner, ttl: config.ttl },
        };
        let all = config.quorum.all();
        out.push(Output::Send { to: all, round: Round::Grant, request });
        let longest = config.ttl;
        let known = Known { owner, start: now, best: 0, signed: NodeSet::EMPTY, unanswered: all, longest };
        Self { known, phase: Phase::Acquiring(Acquiring::default()) }
    }

    /// Takes one input; what follows from it is appended to `out`.
    pub fn handle(&mut self, config: &Config, now: Timestamp, input: Input, out: &mut Vec<Output>) {
        let input = match input {
            // No node of this lock: only the time it tells is heard.
            Input::Reply { node, .. } if !config.quorum.all().contains(node) => Input::Wake,
            other => other,
        };
        if let Input::Reply { node, round, reply } = input {
            self.known.note(node, round, reply);
        }
        match (&mut self.phase, input) {
            (
                Phase::Acquiring(acquiring),
                Input::Reply { node, round: Round::Grant | Round::Confirm, reply },
            ) => {
                acquiring.count(node, reply);
                self.decide(config, now, out);
            }
            (Phase::Acquiring(_), Input::Wake) => self.decide(config, now, out),
            (Phase::Acquiring(_), Input::Release) => {
                self.fail(config, now, AcquireFailure::GivenUp, out);
            }
            (Phase::Held(held), Input::Reply { node, round: Round::Extend(round), reply }) => {
                held.count(config, now, node, round, reply, out);
                self.expire(config, now, out);
            }
            // Also a late grant or confirm: it changes nothing, but the clock is looked at whenever there is an input.
            (Phase::Held(_), Input::Reply { .. } | Input::Wake) => self.expire(config, now, out),
            (Phase::Held(held), Input::Extend { ttl }) => {
                if now < held.valid_until() {
                    held.extend(&mut self.known, config, now, ttl, out);
                }
                self.expire(config, now, out);
            }
            (Phase::Held(_) | Phase::Lost(_), Input::Release) => self.release(config, now, true, out),
            (Phase::Releasing(releasing), Input::Reply { node, round, reply }) => {
                releasing.count(&self.known, node, round, reply, out);
                self.settle(config, now, out);
            }
            (Phase::Releasing(_), Input::Wake) => self.settle(config, now, out),
            // Answers to a question that no longer matters; a late grant is in `known`.
            (Phase::Acquiring(_) | Phase::Lost(_) | Phase::Done, Input::Reply { .. }) => {}
            // Nothing to do: extending what is not held is refused by the host's handle.
            (
                Phase::Acquiring(_) | Phase::Lost(_) | Phase::Releasing(_) | Phase::Done,
                Input::Extend { .. },
            ) => {}
            (Phase::Lost(_) | Phase::Done, Input::Wake) => {}
            (Phase::Releasing(_) | Phase::Done, Input::Release) => {}
        }
        debug_assert!(mutated!() || self.check(config), "inconsistent session: {self:?}");
    }

    /// When to call `handle` with [`Input::Wake`] at the latest.
    pub fn poll_timeout(&self, config: &Config) -> Option<Timestamp> {
        match &self.phase {
            Phase::Acquiring(_) => Some(acquiring::deadline(&self.known, config)),
            Phase::Held(held) => Some(held.next_wake(config)),
            Phase::Releasing(releasing) => Some(releasing.next_wake(&self.known, config)),
            Phase::Lost(_) | Phase::Done => None,
        }
    }

    /// The value that signs this attempt's keys.
    pub fn owner(&self) -> Owner {
        self.known.owner
    }

    /// The largest number any node has told, 0 if none: one more is the next attempt's hint.
    pub fn best(&self) -> u64 {
        self.known.best
    }

    /// The token and the end of validity, while held.
    pub fn held(&self) -> Option<(Option<FencingToken>, Timestamp)> {
        match &self.phase {
            Phase::Held(held) => Some((held.token(), held.valid_until())),
            _ => None,
        }
    }

    /// Whether an extension is waiting for answers, and which.
    pub fn extending(&self) -> Option<u32> {
        match &self.phase {
            Phase::Held(held) => held.open_round(),
            _ => None,
        }
    }

    /// Whether nothing is left to do: the host may forget the session.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Nodes that have said that a key of this attempt is or was there.
    pub fn signed(&self) -> NodeSet {
        self.known.signed
    }

    fn decide(&mut self, config: &Config, now: Timestamp, out: &mut Vec<Output>) {
        let Phase::Acquiring(acquiring) = &mut self.phase else { return };
        match acquiring.decide(&self.known, config, now) {
            acquiring::Decision::Wait => {}
            acquiring::Decision::Confirm(number) => {
                let request = Request::Confirm { owner: self.known.owner, number };
                out.push(Output::Send { to: config.quorum.all(), round: Round::Confirm, request });
            }
            acquiring::Decision::Won(token, valid_until) => {
                let held = Held::new(&self.known, config, token, valid_until);
                let valid_until = held.valid_until();
                self.phase = Phase::Held(held);
                out.push(Output::Event(Event::Acquired { token, valid_until }));
            }
            acquiring::Decision::Lost(reason) => self.fail(config, now, reason, out),
        }
    }

    fn fail(&mut self, config: &Config, now: Timestamp, reason: AcquireFailure, out: &mut Vec<Output>) {
        self.release(config, now, false, out);
        out.push(Output::Event(Event::Failed(reason)));
    }

    fn expire(&mut self, config: &Config, now: Timestamp, out: &mut Vec<Output>) {
        let Phase::Held(held) = &mut self.phase else { return };
        let Some(reason) = held.lost(config, now) else {
            held.wake(&mut self.known, config, now, out);
            return;
        };
        if let Some(round) = held.open_round() {
            out.push(Output::Event(Event::NotExtended { round, reason: ExtendFailure::Lost }));
        }
        self.phase = Phase::Lost(reason);
        out.push(Output::Event(Event::Lost(reason)));
    }

    /// Sends a release to every node, also to those that did not answer. `report`: somebody waits for the outcome.
    fn release(&mut self, config: &Config, now: Timestamp, report: bool, out: &mut Vec<Output>) {
        if let Phase::Held(held) = &self.phase
            && let Some(round) = held.open_round()
        {
            out.push(Output::Event(Event::NotExtended { round, reason: ExtendFailure::Released }));
        }
        let all = if mutated!(ReleaseOnlySigned) { self.known.signed } else { config.quorum.all() };
        let request = Request::Release { owner: self.known.owner };
        out.push(Output::Send { to: all, round: Round::Release, request });
        self.phase = Phase::Releasing(Releasing::new(&self.known, config, now, all, report));
    }

    fn settle(&mut self, config: &Config, now: Timestamp, out: &mut Vec<Output>) {
        let Phase::Releasing(releasing) = &mut self.phase else { return };
        if releasing.settle(&self.known, config, now, out) {
            self.phase = Phase::Done;
        }
    }

    /// The relations that hold in every state.
    fn check(&self, config: &Config) -> bool {
        let all = config.quorum.all();
        let known = self.known.signed.union(self.known.unanswered).without(all).is_empty();
        let held = match &self.phase {
            Phase::Held(held) => {
                self.known.signed.len() >= config.quorum.needed()
                    && held.token().is_some() == (config.mode == Mode::Fenced)
            }
            _ => true,
        };
        known && held
    }
}

impl Known {
    /// Notes what an answer tells whatever the phase.
    fn note(&mut self, node: NodeId, round: Round, reply: Reply) {
        if let Reply::Mine(Stand { number, .. }) | Reply::Taken { number } = reply {
            self.best = self.best.max(number);
        }
        let granted = matches!(reply, Reply::Mine(_) | Reply::Extended | Reply::Released);
        if granted {
            self.signed.insert(node);
        }
        if granted || (round == Round::Grant && reply != Reply::Unknown) {
            self.unanswered.remove(node);
        }
    }

    /// Nodes where a key of ours may be, now or later.
    fn at_risk(&self) -> NodeSet {
        self.signed.union(self.unanswered)
    }
}

impl<const MAX: usize> ByNode for Session<MAX> {
    fn hash_shared<H: Hasher>(&self, state: &mut H) {
        let Known { owner: _, start, best, signed: _, unanswered: _, longest } = self.known;
        (start, best, longest).hash(state);
        core::mem::discriminant(&self.phase).hash(state);
        match &self.phase {
            Phase::Acquiring(acquiring) => acquiring.hash_shared(state),
            Phase::Held(held) => held.hash_shared(state),
            Phase::Lost(reason) => reason.hash(state),
            Phase::Releasing(releasing) => releasing.hash_shared(state),
            Phase::Done => {}
        }
    }

    fn hash_node<H: Hasher>(&self, node: NodeId, state: &mut H) {
        let Known { signed, unanswered, .. } = &self.known;
        state.write_u8(u8::from(signed.contains(node)) | u8::from(unanswered.contains(node)) << 1);
        match &self.phase {
            Phase::Acquiring(acquiring) => acquiring.hash_node(node, state),
            Phase::Held(held) => held.hash_node(node, state),
            Phase::Releasing(releasing) => releasing.hash_node(node, state),
            Phase::Lost(_) | Phase::Done => {}
        }
    }
}
