//! What there is at one moment.

use redfence::proto::message::Record;
use redfence::proto::node::NodeState;
use redfence::proto::{Owner, Session, Timestamp};

use super::link::{Link, small};
use super::operator::Operator;
use super::settings::{FAULTS, MAX_NODES, Settings, Time, Wiring};
use super::takeover::Takeovers;

/// Remaining life of a key without a TTL.
pub(super) const ETERNAL: u8 = u8::MAX;

/// A node, small. [`NodeState`] is made from it for each request, and put back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Node {
    /// 0: none, the node is empty.
    pub epoch: u8,
    /// Number of a counter that does not exist.
    pub floor: u8,
    /// Largest number ever set.
    pub high: u8,
    /// Its claim, 0 for none.
    pub joining: u8,
    /// The counter.
    pub counter: Option<u8>,
    /// Who signed the lock key: 0 for no key, else see [`Signer`].
    pub signer: Signer,
    /// Remaining life of the key, ticks; 1 in an untimed world.
    pub left: u8,
    /// Ticks of silence to come.
    pub silent: u8,
}

/// An owner value: which client, which of its attempts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Signer(u8);

impl Signer {
    /// Nobody.
    pub const NOBODY: Self = Self(0);

    /// The `attempt`-th attempt of `client`.
    pub const fn new(client: u8, attempt: u8) -> Self {
        Self((client + 1) << 4 | attempt)
    }

    /// Whether there is one.
    pub const fn is_somebody(self) -> bool {
        self.0 != 0
    }

    /// Which client, if anybody.
    pub const fn client(self) -> Option<u8> {
        (self.0 >> 4).checked_sub(1)
    }

    /// Which of its attempts.
    pub const fn attempt(self) -> u8 {
        self.0 & 15
    }

    /// As the protocol knows it.
    pub const fn owner(self) -> Owner {
        Owner(self.0 as u128)
    }

    fn from_owner(owner: Owner) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        Self(owner.0 as u8)
    }
}

/// What a client is doing with the lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum App {
    /// Not asked for it yet.
    #[default]
    Idle,
    /// Waiting for the lock.
    Waiting,
    /// Has the lock.
    Holding,
    /// Has read the value.
    Read,
    /// Has looked at its validity, and is about to write.
    Checked,
    /// Has sent the write.
    Sent,
    /// Has written.
    Wrote,
    /// Was refused by the resource.
    Fenced,
    /// Done, for this attempt.
    Over,
    /// Did not get the lock.
    Failed,
    /// Dead.
    Dead,
}

/// Whether a client runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Pace {
    /// It does.
    #[default]
    Running,
    /// It is paused; its clock goes on.
    Paused,
    /// It is paused, and its clock with it.
    Stopped,
}

/// One client: its session, and what it does with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client<const N: usize> {
    /// The attempt in hand.
    pub session: Option<Session<N>>,
    /// Attempts begun.
    pub attempt: u8,
    /// Largest number that earlier attempts have seen.
    pub best: u8,
    /// Its clock since the attempt began, ticks; below zero while it has ticks to miss.
    pub clock: i8,
    /// Whether it runs.
    pub pace: Pace,
    /// What it does.
    pub app: App,
    /// Its token in this attempt, 0 for none.
    pub token: u8,
    /// Largest token won when this attempt began.
    pub before: u8,
    /// Somebody has written since it read.
    pub outdated: bool,
}

impl<const N: usize> Default for Client<N> {
    fn default() -> Self {
        Self {
            session: None,
            attempt: 0,
            best: 0,
            clock: 0,
            pace: Pace::Running,
            app: App::Idle,
            token: 0,
            before: 0,
            outdated: false,
        }
    }
}

impl<const N: usize> Client<N> {
    /// The time its session is told.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(u64::from(self.clock.max(0).unsigned_abs()))
    }

    /// Whether it is inside its validity, by its own clock.
    pub fn believes(&self) -> bool {
        self.app != App::Dead
            && self.session.as_ref().and_then(Session::held).is_some_and(|(_, until)| self.now() < until)
    }

    /// Whether its session says that it has the lock.
    pub fn holds(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.held().is_some())
    }

    /// Whether its latest attempt is over.
    pub fn is_idle(&self) -> bool {
        match self.app {
            App::Idle | App::Over | App::Failed => true,
            App::Fenced => !self.holds(),
            _ => false,
        }
    }

    /// Whether an answer to this attempt still matters.
    pub fn listens(&self, attempt: u8) -> bool {
        self.app != App::Dead
            && self.attempt == attempt
            && self.session.as_ref().is_some_and(|session| !session.is_done())
    }
}

/// The guarded resource: the largest token it has seen, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resource {
    /// Largest token seen, or who claimed it last.
    pub mark: u8,
    /// Largest token of a holder that has claimed it; only where claims are the guard.
    pub claimed: u8,
}

/// What has gone wrong on the way here, one flag for each rule that looks at steps and not at states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Wrongs {
    /// Two acquisitions won with one token, or a later one with a smaller token.
    pub token: bool,
    /// Who took over has the smaller token.
    pub takeover: bool,
    /// An accepted update was lost.
    pub damage: bool,
    /// A request ended another owner's key.
    pub release: bool,
    /// A key was left to live longer than its TTL.
    pub orphan: bool,
    /// An older holder wrote after a newer one had come.
    pub order: bool,
    /// A lock was announced whose validity was over.
    pub hollow: bool,
    /// A session wanted to be woken again and again, for nothing.
    pub restless: bool,
}

/// The world at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State<const N: usize, const C: usize> {
    /// The nodes.
    pub nodes: [Node; N],
    /// Old copies of the nodes, where the scenario lets a node fall back to one.
    pub saved: Option<Box<[Node; N]>>,
    /// The clients.
    pub clients: [Client<N>; C],
    /// The connection of each client to each node.
    pub links: [[Link; N]; C],
    /// Those who start nodes or bring them back.
    pub operators: Vec<Operator<N>>,
    /// The guarded resource.
    pub resource: Resource,
    /// Tokens won, one bit each.
    pub issued: u64,
    /// Who took over from whom, where that is asked.
    pub takeovers: Option<Box<Takeovers<N>>>,
    /// Faults that may still happen.
    pub budget: [u8; FAULTS],
    /// What has gone wrong.
    pub wrongs: Wrongs,
    /// Hash the canonical form.
    pub symmetric: bool,
    /// The operator of a client's number is the client itself.
    pub paired: bool,
    /// Which node a client means by a number.
    pub wiring: Wiring,
}

impl<const N: usize, const C: usize> State<N, C> {
    /// Where it begins.
    pub fn new(settings: &Settings) -> Self {
        let node = |index: usize| {
            let number = settings.numbers[index.min(MAX_NODES - 1)];
            match settings.operators.iter().any(|job| job.starts()) {
                true => Node::default(),
                false => Node { epoch: 1, floor: number, high: number, ..Node::default() },
            }
        };
        let nodes = std::array::from_fn(node);
        Self {
            nodes,
            saved: (settings.faults.rollback > 0).then(|| Box::new(nodes)),
            clients: std::array::from_fn(|_| Client::default()),
            links: [[Link::default(); N]; C],
            operators: settings.operators.iter().map(|job| Operator::new(*job)).collect(),
            resource: Resource::default(),
            issued: 0,
            takeovers: settings.takeovers.then(Box::default),
            budget: settings.faults.counts(),
            wrongs: Wrongs::default(),
            symmetric: settings.symmetric,
            paired: settings.look_first,
            wiring: settings.wiring,
        }
    }

    /// The node that a client means by this number.
    pub fn meant(&self, client: usize, at: usize) -> usize {
        match self.wiring {
            Wiring::Straight => at,
            Wiring::OneTwice => at.min(N - 2),
            Wiring::OwnLists => at + 2 * client,
        }
    }

    /// The largest token won, 0 if none.
    pub fn largest_token(&self) -> u8 {
        #[allow(clippy::cast_possible_truncation)]
        match self.issued {
            0 => 0,
            issued => 63 - issued.leading_zeros() as u8,
        }
    }

    /// The clients that are inside their validity.
    pub fn believers(&self) -> impl Iterator<Item = usize> {
        self.clients.iter().enumerate().filter(|(_, client)| client.believes()).map(|(index, _)| index)
    }
}

impl Node {
    /// Whether its key, if there is one, has a TTL.
    pub fn has_ttl(&self) -> bool {
        self.left != ETERNAL
    }

    /// As the reference knows it.
    pub fn reference(&self) -> NodeState {
        let number = u64::from;
        NodeState {
            record: Record {
                epoch: (self.epoch > 0).then_some(number(self.epoch)),
                floor: number(self.floor),
                high: number(self.high),
                joining: (self.joining > 0).then_some(number(self.joining)),
            },
            counter: self.counter.map(number),
            lock: self.signer.is_somebody().then(|| (self.signer.owner(), number(self.left))),
        }
    }

    /// Takes over what the reference has become.
    pub fn take(&mut self, reference: &NodeState, time: Time) {
        self.epoch = reference.record.epoch.map_or(0, small);
        self.floor = small(reference.record.floor);
        self.high = small(reference.record.high);
        self.joining = reference.record.joining.map_or(0, small);
        self.counter = reference.counter.map(small);
        (self.signer, self.left) = match (reference.lock, time) {
            (None, _) => (Signer::NOBODY, 0),
            (Some((owner, _)), Time::Untimed) => (Signer::from_owner(owner), 1),
            (Some((owner, left)), Time::Timed { .. }) => (Signer::from_owner(owner), small(left)),
        };
    }

    /// Lets the reference do something.
    pub fn with(&mut self, time: Time, change: impl FnOnce(&mut NodeState)) {
        let mut reference = self.reference();
        change(&mut reference);
        self.take(&reference, time);
    }
}
