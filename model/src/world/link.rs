//! The connection of one client to one node.
//!
//! At most one request is on its way; the next leaves when it has been answered or given up (the rule for hosts in
//! `redfence::proto`). A request given up may still arrive: its old connection's bytes are read late, or never.

use redfence::proto::message::{MAX_NUMBER, Record};
use redfence::proto::session::Mode;
use redfence::proto::{Owner, Reply, Request, Round, Stand, Ttl};

/// How many requests can wait behind the one on its way.
const QUEUE: usize = 7;

/// What is asked, small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ask {
    /// Set the key.
    #[default]
    Grant,
    /// Rise to the number.
    Confirm,
    /// The n-th extension.
    Extend,
    /// Delete the key.
    Release,
}

/// A request, small: everything else follows from the settings and from who sends it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Packet {
    /// Which attempt of the client sends it.
    pub attempt: u8,
    /// What is asked.
    pub ask: Ask,
    /// Hint, number to rise to, or number of the extension.
    pub number: u8,
}

/// A reply, small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// The key is yours; number and epoch.
    Mine(u8, u8),
    /// The key is another's; number.
    Taken(u8),
    /// The key is not yours.
    NotMine,
    /// No epoch.
    Empty,
    /// Extended.
    Extended,
    /// Released.
    Released,
    /// It did not happen and will not.
    Refused,
}

/// What is between a client and a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Slot {
    /// Nothing.
    #[default]
    Idle,
    /// A request that has not arrived.
    Asked(Packet),
    /// An answer that has not arrived.
    Answered(Packet, Answer),
}

/// One connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// On its way.
    pub slot: Slot,
    /// Given up by the client; may still arrive.
    pub stale: Option<Packet>,
    waiting: [Packet; QUEUE],
    waits: u8,
}

impl Packet {
    /// From what a session sends.
    pub fn new(attempt: u8, round: Round, request: Request) -> Self {
        let (ask, number) = match (round, request) {
            (_, Request::Acquire { hint, .. }) => (Ask::Grant, small(hint)),
            (_, Request::Confirm { number, .. }) => (Ask::Confirm, small(number)),
            (Round::Extend(n), _) => (Ask::Extend, small(u64::from(n))),
            (Round::Release, _) => (Ask::Release, 0),
            _ => (Ask::Grant, 0),
        };
        Self { attempt, ask, number }
    }

    /// What the node is asked.
    pub fn request(self, owner: Owner, mode: Mode, ttl: Ttl) -> Request {
        let number = u64::from(self.number);
        match (self.ask, mode) {
            (Ask::Grant, Mode::Fenced) => Request::Acquire { owner, ttl, hint: number },
            (Ask::Grant, Mode::Classic) => Request::AcquireClassic { owner, ttl },
            (Ask::Confirm, _) => Request::Confirm { owner, number },
            (Ask::Extend, _) => Request::Extend { owner, ttl },
            (Ask::Release, _) => Request::Release { owner },
        }
    }

    /// Under which name the session waits for the answer.
    pub fn round(self) -> Round {
        match self.ask {
            Ask::Grant => Round::Grant,
            Ask::Confirm => Round::Confirm,
            Ask::Extend => Round::Extend(u32::from(self.number)),
            Ask::Release => Round::Release,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.attempt) | (self.ask as u64) << 3 | u64::from(self.number) << 5 | 1 << 13
    }
}

impl Answer {
    /// From what the node says.
    pub fn new(reply: Reply) -> Self {
        match reply {
            Reply::Mine(Stand { number, epoch }) => Self::Mine(small(number), small(epoch)),
            Reply::Taken { number } => Self::Taken(small(number)),
            Reply::NotMine => Self::NotMine,
            Reply::Empty => Self::Empty,
            Reply::Extended => Self::Extended,
            Reply::Released => Self::Released,
            Reply::Record(Record { .. }) | Reply::Refused | Reply::Unknown => Self::Refused,
        }
    }

    /// What the session is told.
    pub fn reply(self) -> Reply {
        match self {
            Self::Mine(number, epoch) => {
                Reply::Mine(Stand { number: u64::from(number), epoch: u64::from(epoch) })
            }
            Self::Taken(number) => Reply::Taken { number: u64::from(number) },
            Self::NotMine => Reply::NotMine,
            Self::Empty => Reply::Empty,
            Self::Extended => Reply::Extended,
            Self::Released => Reply::Released,
            Self::Refused => Reply::Refused,
        }
    }

    fn word(self) -> u64 {
        match self {
            Self::Mine(number, epoch) => 1 | u64::from(number) << 3 | u64::from(epoch) << 11,
            Self::Taken(number) => 2 | u64::from(number) << 3,
            Self::NotMine => 3,
            Self::Empty => 4,
            Self::Extended => 5,
            Self::Released => 6,
            Self::Refused => 7,
        }
    }
}

impl Link {
    /// Sends a packet as soon as the line is free.
    pub fn send(&mut self, packet: Packet) {
        if self.slot == Slot::Idle {
            self.slot = Slot::Asked(packet);
            return;
        }
        let free = &mut self.waiting[usize::from(self.waits)];
        *free = packet;
        self.waits += 1;
    }

    /// The line is free: the next packet leaves.
    pub fn advance(&mut self) {
        self.slot = Slot::Idle;
        if self.waits > 0 {
            self.slot = Slot::Asked(self.waiting[0]);
            self.waiting.copy_within(1.., 0);
            self.waiting[QUEUE - 1] = Packet::default();
            self.waits -= 1;
        }
    }

    /// The client forgets what has not left.
    pub fn forget(&mut self) {
        self.waiting = Default::default();
        self.waits = 0;
    }

    /// Packets waiting to leave.
    pub fn waiting(&self) -> &[Packet] {
        &self.waiting[..usize::from(self.waits)]
    }

    /// Everything, in three words.
    pub fn words(&self) -> [u64; 3] {
        let slot = match self.slot {
            Slot::Idle => 0,
            Slot::Asked(packet) => packet.word(),
            Slot::Answered(packet, answer) => packet.word() | answer.word() << 14,
        };
        let stale = self.stale.map_or(0, Packet::word);
        let line = |packets: &[Packet]| packets.iter().fold(0, |sum, packet| sum << 14 | packet.word());
        let (near, far) = self.waiting().split_at(self.waiting().len().min(4));
        [slot | stale << 40, line(near), line(far)]
    }
}

/// Numbers of a model are small; one that is not is a mistake in a scenario's bounds.
pub(super) fn small(number: u64) -> u8 {
    debug_assert!(number <= MAX_NUMBER);
    u8::try_from(number).expect("numbers in a model stay below 256")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_packet_leaves_when_the_line_is_free() {
        let packet = |number| Packet { attempt: 1, ask: Ask::Confirm, number };
        let mut link = Link::default();
        for number in 1..=8 {
            link.send(packet(number));
        }
        for number in 1..=8 {
            assert_eq!(link.slot, Slot::Asked(packet(number)));
            link.advance();
        }
        assert_eq!(link, Link::default(), "an idle line is always the same value");
    }

    #[test]
    fn the_words_tell_lines_apart() {
        let packets = [Ask::Grant, Ask::Confirm, Ask::Extend, Ask::Release].map(|ask| Packet {
            attempt: 1,
            ask,
            number: 3,
        });
        let mut seen = std::collections::BTreeSet::new();
        let mut lines = 0;
        for first in packets {
            for second in packets {
                for answer in [Answer::Mine(1, 1), Answer::Taken(1), Answer::NotMine, Answer::Refused] {
                    for stale in [None, Some(second)] {
                        let mut link = Link { slot: Slot::Answered(first, answer), stale, ..Link::default() };
                        seen.insert(link.words());
                        link.send(second);
                        seen.insert(link.words());
                        lines += 2;
                    }
                }
            }
        }
        // A line without the second packet and without a stale one is the same for all four second packets.
        assert_eq!(seen.len(), lines - 4 * 4 * 3);
    }
}
