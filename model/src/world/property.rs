//! What is asked of a world.

use redfence::invariants;
use redfence::proto::Owner;

use super::link::{Ask, Slot};
use super::operator::Operator;
use super::settings::{Fault, Settings};
use super::state::{App, Client, ETERNAL, Node, State};

/// Whether a property is about every state or about some.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// True in every reachable state.
    Always,
    /// True in some reachable state.
    Sometimes,
}

/// A question with a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Property {
    /// Never two clients inside their validity at once.
    Belief,
    /// No accepted update is lost.
    Damage,
    /// Tokens are unique, and a later holder's is larger.
    TokenOrder,
    /// Who took over from another at every node they share has the larger token.
    TakeoverOrder,
    /// No request ends another owner's key.
    ReleaseSafety,
    /// No key outlives its TTL.
    Orphan,
    /// No older holder writes after a newer one has come.
    LockOrder,
    /// No lock is announced whose validity is over.
    HollowWin,
    /// No session wants to be woken again and again for nothing.
    WakesEnd,
    /// While no node has lost its data, fresh nodes can still be started: none has granted before a quorum has an epoch.
    Startable,
    /// While no node has lost its data, no look at the nodes ends with the word that one has.
    FalseAlarm,
    /// Somebody wins.
    Win,
    /// Every client has won at least once.
    AllWin,
    /// At least two acquisitions have won.
    SecondWin,
    /// A confirm is asked for.
    Confirm,
    /// The resource refuses a holder.
    FenceRefuses,
    /// An attempt fails.
    Failure,
    /// Every client's last attempt has failed, and no key is anybody's.
    NobodyWins,
    /// A key is left though its attempt is over and its session has nothing more to do.
    KeyLeftBehind,
    /// A client that is dead still locks a quorum.
    DeadHolder,
    /// A majority of the nodes is silent.
    MajoritySilent,
    /// Every client waits, every node is locked, and nobody has a quorum.
    SplitVote,
    /// A client still believes a TTL after its attempt began, while another has failed.
    Outlasts,
    /// The fault happened.
    Happens(Fault),
}

impl Property {
    /// What must always be true, whatever happens, if the lock is safe.
    pub const SAFETY: [Self; 5] =
        [Self::Belief, Self::Damage, Self::TokenOrder, Self::ReleaseSafety, Self::Orphan];

    /// Its name in scenarios and JSON.
    pub fn name(self) -> String {
        match self {
            Self::Belief => "belief".into(),
            Self::Damage => "damage".into(),
            Self::TokenOrder => "token-order".into(),
            Self::TakeoverOrder => "takeover-order".into(),
            Self::ReleaseSafety => "release-safety".into(),
            Self::Orphan => "orphan".into(),
            Self::LockOrder => "lock-order".into(),
            Self::HollowWin => "hollow-win".into(),
            Self::WakesEnd => "wakes-end".into(),
            Self::Startable => "startable".into(),
            Self::FalseAlarm => "false-alarm".into(),
            Self::Win => "win".into(),
            Self::AllWin => "all-win".into(),
            Self::SecondWin => "second-win".into(),
            Self::Confirm => "confirm".into(),
            Self::FenceRefuses => "fence-refuses".into(),
            Self::Failure => "failure".into(),
            Self::NobodyWins => "nobody-wins".into(),
            Self::KeyLeftBehind => "key-left-behind".into(),
            Self::DeadHolder => "dead-holder".into(),
            Self::MajoritySilent => "majority-silent".into(),
            Self::SplitVote => "split-vote".into(),
            Self::Outlasts => "outlasts-ttl".into(),
            Self::Happens(fault) => format!("fault-{}", fault.name()),
        }
    }

    /// About every state, or some.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Belief
            | Self::Damage
            | Self::TokenOrder
            | Self::TakeoverOrder
            | Self::ReleaseSafety
            | Self::Orphan
            | Self::LockOrder
            | Self::HollowWin
            | Self::WakesEnd
            | Self::Startable
            | Self::FalseAlarm => Kind::Always,
            _ => Kind::Sometimes,
        }
    }

    /// Whether it is true here.
    pub fn is_true<const N: usize, const C: usize>(self, settings: &Settings, state: &State<N, C>) -> bool {
        let clients = &state.clients;
        match self {
            Self::Belief => {
                invariants::exclusion(state.believers().map(|index| Owner(index as u128))).is_ok()
            }
            Self::Damage => !state.wrongs.damage,
            Self::TokenOrder => !state.wrongs.token,
            Self::TakeoverOrder => !state.wrongs.takeover,
            Self::ReleaseSafety => !state.wrongs.release,
            Self::Orphan => {
                let dead = |client: u8| clients[usize::from(client)].app == App::Dead;
                let for_ever = |node: &Node| node.left == ETERNAL && node.signer.client().is_some_and(dead);
                !state.wrongs.orphan && !state.nodes.iter().any(for_ever)
            }
            Self::LockOrder => !state.wrongs.order,
            Self::HollowWin => !state.wrongs.hollow,
            Self::WakesEnd => !state.wrongs.restless,
            Self::Startable => {
                let members = state.nodes.iter().filter(|node| node.epoch > 0);
                let granted = state.nodes.iter().any(|node| node.high > node.floor);
                !granted || members.count() >= settings.config().quorum.needed()
            }
            Self::FalseAlarm => {
                let wiped = Self::Happens(Fault::Wipe).is_true(settings, state);
                wiped || !state.operators.iter().any(Operator::accuses)
            }
            Self::Win => clients.iter().any(|client| client.app == App::Holding),
            Self::AllWin => clients.iter().all(|client| (App::Holding..=App::Over).contains(&client.app)),
            Self::SecondWin => state.issued.count_ones() > 1,
            Self::Confirm => {
                let asks = |slot: Slot| matches!(slot, Slot::Asked(packet) if packet.ask == Ask::Confirm);
                state.links.iter().flatten().any(|link| asks(link.slot))
            }
            Self::FenceRefuses => clients.iter().any(|client| client.app == App::Fenced),
            Self::Failure => clients.iter().any(|client| client.app == App::Failed),
            Self::NobodyWins => {
                let failed =
                    |client: &Client<N>| client.app == App::Failed && client.attempt == settings.attempts;
                clients.iter().all(failed) && state.nodes.iter().all(|node| !node.signer.is_somebody())
            }
            Self::KeyLeftBehind => state.nodes.iter().any(|node| {
                node.signer.client().is_some_and(|client| {
                    let client = &clients[usize::from(client)];
                    client.session.as_ref().is_some_and(|session| session.is_done())
                })
            }),
            Self::DeadHolder => (0..C).any(|index| {
                let held =
                    state.nodes.iter().filter(|node| node.signer.client().map(usize::from) == Some(index));
                clients[index].app == App::Dead && held.count() > N / 2
            }),
            Self::MajoritySilent => state.nodes.iter().filter(|node| node.silent > 0).count() > N / 2,
            Self::SplitVote => {
                let keys = |index: usize| {
                    let mine = |node: &&Node| node.signer.client().map(usize::from) == Some(index);
                    state.nodes.iter().filter(mine).count()
                };
                let stuck = |index: usize| clients[index].app == App::Waiting && keys(index) <= N / 2;
                (0..C).all(stuck) && state.nodes.iter().all(|node| node.signer.is_somebody())
            }
            Self::Outlasts => {
                let ttl = settings.config().ttl.as_millis();
                let long = |client: &Client<N>| client.believes() && client.now().as_micros() >= ttl * 1_000;
                clients.iter().any(long) && clients.iter().any(|client| client.app == App::Failed)
            }
            Self::Happens(fault) => state.budget[fault as usize] < settings.faults.counts()[fault as usize],
        }
    }
}
