//! What is said to a node: key names and Lua scripts, as text.
//!
//! `proto::node` says the same in Rust; `tests/conformance` holds the two together.

/// The keys of one resource, and the channel that tells of its release. With the node record they are all that is ever touched
/// on a node (`R14`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Keys {
    /// The lock key: the resource name itself behind the configured prefix, so that other Redlock clients on the same
    /// nodes and this one exclude each other.
    pub lock: String,
    /// The number of the resource. No TTL.
    pub counter: String,
    /// Where releases are published.
    pub channel: String,
}

/// The node record: one per node, no TTL.
pub const NODE_RECORD: &str = "redfence:node";

/// Lock keys may not begin with this: they could collide with our own keys.
pub const RESERVED: &str = "redfence:";

impl Keys {
    /// The keys of `resource` behind `prefix`.
    pub fn new(prefix: &str, resource: &str) -> Self {
        let lock = format!("{prefix}{resource}");
        let counter = format!("redfence:counter:{lock}");
        let channel = format!("redfence:released:{lock}");
        Self { lock, counter, channel }
    }

    /// For questions about the node itself: keys that never exist, inside our own namespace, so that a user who may touch
    /// nothing else may ask.
    pub fn of_no_resource() -> Self {
        let absent = || format!("{RESERVED}none");
        Self { lock: absent(), counter: absent(), channel: absent() }
    }
}

/// One of our scripts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Script {
    /// KEYS lock, counter, record; ARGV owner, TTL, hint.
    Acquire,
    /// KEYS lock, counter, record; ARGV owner, number.
    Confirm,
    /// KEYS lock; ARGV owner, TTL.
    Extend,
    /// KEYS lock; ARGV owner, channel.
    Release,
    /// KEYS lock, counter, record.
    Inspect,
    /// KEYS record; ARGV epoch, floor.
    Init,
    /// KEYS record; ARGV step, epoch, floor.
    Readmit,
}

impl Script {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Acquire, Self::Confirm, Self::Extend, Self::Release, Self::Inspect, Self::Init, Self::Readmit];

    /// The Lua text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Acquire => include_str!("scripts/acquire.lua"),
            Self::Confirm => include_str!("scripts/confirm.lua"),
            Self::Extend => include_str!("scripts/extend.lua"),
            Self::Release => include_str!("scripts/release.lua"),
            Self::Inspect => include_str!("scripts/inspect.lua"),
            Self::Init => include_str!("scripts/init.lua"),
            Self::Readmit => include_str!("scripts/readmit.lua"),
        }
    }
}
