//! What a scenario assumes: protocol, time, resource, faults.

use std::time::Duration;

use redfence::proto::retry::Backoff;
use redfence::proto::session::{Config, Mode};
use redfence::proto::{Drift, Quorum, Ttl};

use super::operator::Job;

/// The most nodes a world has.
pub const MAX_NODES: usize = 5;

/// Everything a world is built from. Two worlds with equal settings have equal states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How many nodes.
    pub nodes: usize,
    /// How many clients.
    pub clients: usize,
    /// How often each client tries to acquire.
    pub attempts: u8,
    /// Fenced or classic.
    pub mode: Mode,
    /// Whether there is time, and how much.
    pub time: Time,
    /// What clients send as hint.
    pub hint: Hint,
    /// What the holder does with the lock.
    pub work: Work,
    /// The number each node starts from.
    pub numbers: [u8; MAX_NODES],
    /// A caller may give up an attempt at any moment.
    pub abandon: bool,
    /// A holder may release.
    pub release: bool,
    /// What is left out because it cannot matter.
    pub economy: Economy,
    /// How often a session sends a release to one node at most.
    pub release_rounds: u8,
    /// What becomes of a node that lost its data.
    pub rejoin: Rejoin,
    /// Who draws owner values.
    pub owners: Owners,
    /// Which node a client means by a number.
    pub wiring: Wiring,
    /// A key is set in one step and given its TTL in another.
    pub two_steps: bool,
    /// Those who start nodes or bring them back. Where one of them starts nodes, all begin empty.
    pub operators: &'static [Job],
    /// A client begins only when the operator of its number has found a quorum of nodes ready: that operator is the client itself.
    pub look_first: bool,
    /// Operators may work at the same time; else each waits for the one before to end or die.
    pub overlap: bool,
    /// Keep in mind who took over from whom.
    pub takeovers: bool,
    /// Which faults may happen, and how often each.
    pub faults: Faults,
    /// Nodes and clients are alike: count states that differ only in their numbering once.
    pub symmetric: bool,
}

/// Whether there is time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// A key may end at any moment; no client ever sees its validity end. Proves what needs no clock.
    Untimed,
    /// One tick is a millisecond. Keys count down, clients look at their clocks.
    Timed {
        /// Life of a key, ticks.
        ttl: u8,
        /// Drift that clients allow for, ticks.
        margin: u8,
        /// A node's clock may run so fast that a key ends this many ticks early. Drawn when the key is set.
        fast: u8,
        /// A client's clock may run so slowly that it misses this many ticks. Drawn when the attempt begins.
        slow: u8,
    },
}

/// What a client sends as hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Nothing.
    None,
    /// One more than the largest number it has seen: what the product does.
    Best,
    /// Anything up to this number.
    Any(u8),
}

/// What a holder does with the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: only the lock is looked at.
    Nothing,
    /// Reads a value, computes, writes it back, once.
    Update(Guard),
}

/// What the guarded resource checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Nothing.
    Open,
    /// The token of every write.
    Writes,
    /// That a write comes from whoever has read last: a claim by a random value, without order.
    Claim,
    /// The token of every read and every write; a read raises the mark.
    ReadsAndWrites,
}

/// What is left out because it cannot matter for what is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Economy {
    /// Nothing.
    Full,
    /// After its last attempt a client leaves. What it has sent may still arrive; nobody waits for the answers. So a session's
    /// own tidying up after its first release is not seen: it could only end keys that nobody believes in.
    Leave,
    /// The same, and releases get lost. For untimed worlds without interest in releases: there a key may end at any moment
    /// anyway, which is all that a release does.
    LoseReleases,
    /// The same, and what tells nobody anything takes no step. For untimed worlds that ask about tokens alone:
    ///
    /// * A key ends at the moment at which a request meets it: nothing else can tell when it ended.
    /// * A grant that a node would refuse does not arrive while its attempt goes on. A refusal changes nothing at the node, and
    ///   what the client learns from it can only end the attempt. Requests of an attempt that was given up may get lost.
    /// * Answers are heard together with the one that makes the client act.
    /// * An operator that works alone, when no node can lose its data any more, begins, looks and claims as soon as it can: that
    ///   concerns no client, and no client's step concerns it.
    /// * A client may begin its next attempt at any moment. So it does all that one does which failed or released.
    /// * When no client can win any more, nothing happens any more.
    Terse,
}

/// What becomes of a node that lost its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejoin {
    /// It stays as it is: empty, which in fenced mode does not vote.
    AsItIs,
    /// It votes again at once, in the old epoch, with numbers from zero.
    AsIfNew,
    /// As it is, but it is silent for this many ticks.
    AfterSilence(u8),
}

/// Who draws owner values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owners {
    /// A fresh one for each attempt, as the product does.
    PerAttempt,
    /// One for each client, for all its attempts.
    PerClient,
}

/// Which node a client means by a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wiring {
    /// The node of that number.
    Straight,
    /// The last two numbers are two addresses of one node.
    OneTwice,
    /// Each client has a list of three nodes of its own; two lists share one node.
    OwnLists,
}

/// Declares the faults once: field, name, what happens.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $field:ident $variant:ident $name:literal;)+) => {
        /// A fault of the world outside the protocol.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Fault { $($(#[doc = $doc])+ $variant,)+ }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name in scenarios, properties and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        /// How often each fault may happen; none by default.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Faults { $($(#[doc = $doc])+ pub $field: u8,)+ }

        impl Faults {
            /// No fault.
            pub const NONE: Self = Self { $($field: 0,)+ };

            /// The same, but with another count for one of them.
            #[must_use]
            pub const fn with(mut self, fault: Fault, count: u8) -> Self {
                match fault { $(Fault::$variant => self.$field = count,)+ }
                self
            }

            /// As counters, in the order of [`Fault::ALL`].
            pub const fn counts(&self) -> [u8; FAULTS] {
                [$(self.$field,)+]
            }
        }

        /// How many kinds of fault there are.
        pub const FAULTS: usize = Fault::ALL.len();
    };
}

faults! {
    /// A client gives up waiting for a node; the request or the answer is lost, or arrives late.
    loss Loss "loss";
    /// A node's clock jumps forward past the end of its key.
    jump Jump "jump";
    /// A node's clock jumps back: its key lives longer.
    jump_back JumpBack "jump-back";
    /// A client stops for a while; its clock goes on.
    pause Pause "pause";
    /// A client stops for a while, and so does its clock.
    stop Stop "stopped-clock";
    /// A write is delayed in the network.
    delay Delay "delayed-write";
    /// A node restarts with all its data.
    restart Restart "durable-restart";
    /// A node restarts and has lost all its data.
    wipe Wipe "empty-restart";
    /// A node restarts, or fails over, with an old copy of its data.
    rollback Rollback "old-copy";
    /// A node's lock key is evicted, flushed or deleted by hand.
    evict Evict "eviction";
    /// A client dies.
    crash Crash "client-crash";
    /// A client's clock is set back by a TTL.
    clock_back ClockBack "client-clock-back";
    /// A holder extends its lock.
    extend Extend "extension";
    /// A request is sent twice: the second arrives at any later moment.
    repeat Repeat "repeated-request";
    /// Another resource on the same node gets a number above all before.
    neighbour Neighbour "other-resource";
    /// An operator dies half-way, and its connections are closed.
    operator_crash OperatorCrash "operator-crash";
    /// An operator gives up waiting for a node; its request may still arrive.
    operator_loss OperatorLoss "operator-loss";
    /// A request of an operator arrives twice, the second time at any later moment.
    operator_repeat OperatorRepeat "operator-repeat";
}

impl Settings {
    /// Three nodes, two clients, one attempt each, fenced, untimed, the resource fenced on reads and writes, no fault.
    pub const BASIC: Self = Self {
        nodes: 3,
        clients: 2,
        attempts: 1,
        mode: Mode::Fenced,
        time: Time::Untimed,
        hint: Hint::Best,
        work: Work::Update(Guard::ReadsAndWrites),
        numbers: [0; MAX_NODES],
        abandon: true,
        release: true,
        economy: Economy::Leave,
        release_rounds: 1,
        rejoin: Rejoin::AsItIs,
        owners: Owners::PerAttempt,
        wiring: Wiring::Straight,
        two_steps: false,
        operators: &[],
        look_first: false,
        overlap: false,
        takeovers: false,
        faults: Faults::NONE,
        symmetric: true,
    };

    /// Three nodes, two clients, one attempt each, classic, TTL 3 with a margin of 1, an open resource, no fault.
    pub const CLASSIC: Self = Self {
        mode: Mode::Classic,
        time: Time::Timed { ttl: 3, margin: 1, fast: 0, slow: 0 },
        hint: Hint::None,
        work: Work::Update(Guard::Open),
        abandon: false,
        ..Self::BASIC
    };

    /// The same world without symmetry, to test that it changes no verdict.
    #[must_use]
    pub const fn plain(self) -> Self {
        Self { symmetric: false, ..self }
    }

    /// What sessions go by.
    pub fn config(&self) -> Config {
        let (ttl, margin) = match self.time {
            Time::Untimed => (8, 0),
            Time::Timed { ttl, margin, .. } => (ttl, margin),
        };
        Config {
            quorum: Quorum::of(if self.wiring == Wiring::OwnLists { 3 } else { self.nodes }),
            mode: self.mode,
            ttl: Ttl::from_millis(u64::from(ttl)).unwrap_or(Ttl::MAX),
            drift: Drift { rate_ppm: 0, fixed: Duration::from_millis(u64::from(margin)) },
            patience: Duration::from_millis(u64::from(ttl)),
            extend: None,
            release_backoff: Backoff { first: Duration::from_millis(1), most: Duration::from_millis(1) },
            release_rounds: self.release_rounds,
        }
    }
}
