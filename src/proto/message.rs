//! What is asked of one node, and what it may answer.

use core::fmt;
use core::str::FromStr;

use super::validity::Ttl;

/// The random value that signs a lock key: 128 bits, fresh for each attempt.
///
/// Unique over all clients and all attempts (Redis page: "unique across all clients and all lock requests"); it is
/// drawn by the host, never by a caller, and no two attempts share one (`R6`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(pub u128);

impl Owner {
    /// The first eight digits, for logs. The small values of models and tests are written as they are: `A`.
    pub fn short(self) -> String {
        if self.0 <= u128::from(u32::MAX) {
            return format!("{:X}", self.0);
        }
        let mut text = self.to_string();
        text.truncate(8);
        text
    }
}

impl fmt::Display for Owner {
    /// 32 hexadecimal digits, as stored at the node.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Owner {
    type Err = ParseOwnerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !digits {
            return Err(ParseOwnerError);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ParseOwnerError)
    }
}

/// The text is not an owner value: 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseOwnerError;

impl fmt::Display for ParseOwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an owner value is 32 lower-case hexadecimal digits")
    }
}

impl core::error::Error for ParseOwnerError {}

/// A number that grows with each new holder of a resource.
///
/// A resource that remembers the largest token it has seen, on reads and on writes, can refuse a holder whose lease has
/// passed to another (Kleppmann, "How to do distributed locking"; `R9`). Unique and ordered with no clock (`R8`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(pub u64);

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The largest number a node keeps: Lua computes in doubles, which are exact up to here.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A hint further above a node's number than this is ignored, so that one absurd hint cannot use the numbers up.
pub const MAX_HINT_LEAD: u64 = 1 << 32;

/// A node's number for the resource, and the epoch it belongs to, read while the key was the asking owner's.
///
/// The token is a number for which a quorum has answered equal stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stand {
    /// The node's counter for the resource.
    pub number: u64,
    /// Which set of intact data the node belongs to.
    pub epoch: u64,
}

impl Stand {
    /// What classic Redlock answers: no number. All such stands are equal, so Q grants are a win.
    pub const CLASSIC: Self = Self { number: 0, epoch: 0 };
}

/// The node record: what a node knows of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Record {
    /// `None`: the node is empty (fresh, or it lost its data) and does not vote.
    pub epoch: Option<u64>,
    /// Number of a counter that does not exist.
    pub floor: u64,
    /// Largest number ever set here.
    pub high: u64,
    /// An empty node's claim: the epoch of the re-admission that wants it.
    pub joining: Option<u64>,
}

/// What is asked of one node about one resource. Each is atomic there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Request {
    /// Set the key if it is absent, and raise the number.
    Acquire {
        /// Signs the key.
        owner: Owner,
        /// Life of the key.
        ttl: Ttl,
        /// Raise the number to at least this: advice, any value is safe.
        hint: u64,
    },
    /// Classic Redlock: set the key if it is absent.
    AcquireClassic {
        /// Signs the key.
        owner: Owner,
        /// Life of the key.
        ttl: Ttl,
    },
    /// If the key is mine, raise the number to at least `number` and tell it.
    Confirm {
        /// Must have signed the key.
        owner: Owner,
        /// Raise the number to at least this.
        number: u64,
    },
    /// If the key is mine, let it live at least `ttl` from now. Never creates a key, never shortens its life.
    Extend {
        /// Must have signed the key.
        owner: Owner,
        /// Life of the key from now.
        ttl: Ttl,
    },
    /// If the key is mine, delete it.
    Release {
        /// Must have signed the key.
        owner: Owner,
    },
    /// Tell the node record. Changes nothing.
    Inspect,
    /// If the node is empty, give it an epoch.
    Init {
        /// The epoch to take.
        epoch: u64,
        /// The number to start from.
        floor: u64,
    },
    /// Re-admission: if the node is empty and no larger claim stands there, note that this run wants it.
    Claim {
        /// The epoch of the run.
        epoch: u64,
    },
    /// Re-admission: if the node's epoch is smaller, take this one. Refused otherwise, also the second time.
    Raise {
        /// The epoch of the run.
        epoch: u64,
    },
    /// Re-admission: if the node is empty and claimed by this run, it takes part from this number on.
    Admit {
        /// The epoch of the run.
        epoch: u64,
        /// At least every number that a quorum of intact nodes has ever told.
        floor: u64,
    },
}

impl Request {
    /// Who signs the request; `None` if it is about the node itself and not about one lock.
    #[must_use]
    pub const fn owner(self) -> Option<Owner> {
        match self {
            Self::Acquire { owner, .. }
            | Self::AcquireClassic { owner, .. }
            | Self::Confirm { owner, .. }
            | Self::Extend { owner, .. }
            | Self::Release { owner } => Some(owner),
            Self::Inspect
            | Self::Init { .. }
            | Self::Claim { .. }
            | Self::Raise { .. }
            | Self::Admit { .. } => None,
        }
    }

    /// Whether it is about the node itself and no resource.
    pub const fn is_about_the_node(self) -> bool {
        match self {
            Self::Init { .. } | Self::Claim { .. } | Self::Raise { .. } | Self::Admit { .. } => true,
            Self::Acquire { .. }
            | Self::AcquireClassic { .. }
            | Self::Confirm { .. }
            | Self::Extend { .. }
            | Self::Release { .. }
            | Self::Inspect => false,
        }
    }
}

/// What one node answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reply {
    /// To an acquire or a confirm: the key is yours, and this is where the node stands.
    Mine(Stand),
    /// To an acquire: the key is another's. The number is the node's, 0 if not told.
    Taken {
        /// The node's number for the resource.
        number: u64,
    },
    /// To a confirm, extend or release: the key is not yours; absent is not yours.
    NotMine,
    /// To an acquire or a confirm: the node has no epoch and does not vote.
    Empty,
    /// To an extend: the key is yours and lives at least the TTL from now.
    Extended,
    /// To a release: the key was yours and is gone.
    Released,
    /// To inspect, init and the steps of a re-admission: the node record as it now is.
    Record(Record),
    /// The node did not do it and will not: it answered with an error, or the request never left.
    Refused,
    /// No answer. *Not a refusal: the node may have done it, or may still do it.*
    Unknown,
}
