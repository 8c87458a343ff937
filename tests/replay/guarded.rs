//! The guarded value: a number to which every holder adds one.

use redfence::invariants::{Violation, no_lost_update};

/// What it checks of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fence {
    None,
    Writes,
    ReadsAndWrites,
}

#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) fence: Fence,
    pub(crate) value: u64,
    pub(crate) mark: u64,
    version: u64,
    /// What each client has read last, and at which version.
    read: Vec<Option<(u64, u64)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Done,
    /// It was done, and another's update is gone.
    Damaged(Violation),
    Refused,
}

impl Guarded {
    pub(crate) fn new(fence: Fence, clients: usize) -> Self {
        Self { fence, value: 0, mark: 0, version: 0, read: vec![None; clients] }
    }

    pub(crate) fn read(&mut self, client: usize, token: u64) -> Access {
        if self.fence == Fence::ReadsAndWrites && !self.passes(token) {
            return Access::Refused;
        }
        self.read[client] = Some((self.value, self.version));
        Access::Done
    }

    /// Writes what was read, and one more.
    pub(crate) fn write(&mut self, client: usize, token: u64) -> Access {
        let (value, base) = self.read[client].take().expect("whoever writes has read");
        if self.fence != Fence::None && !self.passes(token) {
            return Access::Refused;
        }
        let judged = no_lost_update(base, self.version);
        self.value = value + 1;
        self.version += 1;
        judged.err().map_or(Access::Done, Access::Damaged)
    }

    /// Somebody has written since this client read.
    pub(crate) fn is_outdated(&self, client: usize) -> bool {
        self.read[client].is_some_and(|(_, version)| version != self.version)
    }

    fn passes(&mut self, token: u64) -> bool {
        if token < self.mark {
            return false;
        }
        self.mark = token;
        true
    }
}
