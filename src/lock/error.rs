//! One error enum per operation; each says what every node answered, and what to do.

use std::time::Duration;

use super::report::Report;
use crate::proto::session::LostReason;

/// A configuration or an argument that cannot work. Nothing was sent to any node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No node was given.
    #[error("no nodes: give at least one Redis URL, better three or five")]
    NoNodes,
    /// Too many nodes were given.
    #[error("{given} nodes, the most is {most}: more make a quorum slower and not safer")]
    TooManyNodes {
        /// How many were given.
        given: usize,
        /// How many are allowed.
        most: usize,
    },
    /// The same node was given twice: a quorum of copies of one node is no quorum.
    #[error("node {address} is given twice (places {first} and {second}): a quorum needs independent nodes")]
    DuplicateNode {
        /// Its address.
        address: String,
        /// First place in the list, from 1.
        first: usize,
        /// Second place in the list, from 1.
        second: usize,
    },
    /// More than one kind of back end was given.
    #[error("one lock has one back end, but {first} and {second} are given")]
    SeveralBackends {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// The back end is not in this build.
    #[error("{backend} is not in this build of redfence: build it with the cargo feature {backend:?}{needs}")]
    NotCompiled {
        /// The back end, and the name of its feature.
        backend: &'static str,
        /// What else the build needs.
        needs: &'static str,
    },
    /// Something that this back end does not have.
    #[error("{what} is not for {backend}")]
    NotForBackend {
        /// What was asked for.
        what: &'static str,
        /// The back end.
        backend: &'static str,
    },
    /// An address of etcd or ZooKeeper that cannot be read.
    #[error("{backend} endpoint {address:?}: {reason}; expected {expected}")]
    BadEndpoint {
        /// The back end.
        backend: &'static str,
        /// As given, without credentials.
        address: String,
        /// What is wrong with it.
        reason: String,
        /// The form of a right one.
        expected: &'static str,
    },
    /// A longer TTL than the one that was granted, where a lease lives by the TTL of its grant.
    #[error(
        "ttl {asked:?}: the lock was granted {granted:?}, and is renewed for as long as that; ask for more when acquiring"
    )]
    TtlFixed {
        /// The TTL asked for.
        asked: Duration,
        /// The TTL granted.
        granted: Duration,
    },
    /// A node address that cannot be read.
    #[error(
        "node {address:?}: {reason}; expected redis://[user:password@]host:port, rediss://.. or unix:///path"
    )]
    BadNode {
        /// As given, without credentials.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS certificates were given, and a node that would be spoken to without TLS.
    #[error(
        "TLS certificates are given, but node {address} is spoken to without TLS: write rediss://{address}"
    )]
    PlainNode {
        /// Its address.
        address: String,
    },
    /// One node, or an even number of nodes, without saying that it is meant.
    #[error(
        "{nodes} node(s) tolerate only {spare} failure(s): give an odd number of at least three, or allow this with allow_weak_quorum"
    )]
    WeakQuorum {
        /// How many were given.
        nodes: usize,
        /// How many may fail.
        spare: usize,
    },
    /// A TTL that no node can keep.
    #[error("ttl {0:?}: it must be a whole number of milliseconds from 1ms to about 24 days")]
    Ttl(Duration),
    /// A TTL that leaves the holder nothing.
    #[error("ttl {ttl:?} leaves no validity: clock drift takes {drift:?}; take at least {least:?}")]
    NoValidity {
        /// The TTL.
        ttl: Duration,
        /// The margin for clock drift.
        drift: Duration,
        /// A TTL that would do.
        least: Duration,
    },
    /// A patience of zero.
    #[error("patience {0:?}: an attempt must wait for its nodes at least 1ms")]
    Patience(Duration),
    /// Extension that would come too late.
    #[error("extending every {every:?} is too rare for a validity of {validity:?}; take at most {most:?}")]
    ExtendTooRare {
        /// The interval.
        every: Duration,
        /// What a fresh lease is good for.
        validity: Duration,
        /// The longest interval.
        most: Duration,
    },
    /// A resource without a name.
    #[error("the resource name is empty")]
    EmptyResource,
    /// A resource name beyond what is sensible as a key.
    #[error("the resource name has {bytes} bytes, the most is {most}")]
    LongResource {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// A resource whose key would collide with redfence's own keys.
    #[error(
        "the key {key:?} begins with {reserved:?}, which is kept for redfence's own keys; choose another name or prefix"
    )]
    ReservedResource {
        /// The key it would get.
        key: String,
        /// The reserved beginning.
        reserved: &'static str,
    },
    /// A number to start from that leaves no tokens.
    #[error("floor {floor}: tokens end at 2^53 - 1; take at most {most}")]
    Floor {
        /// As given.
        floor: u64,
        /// The largest.
        most: u64,
    },
    /// The lock was made outside a tokio runtime.
    #[error("no tokio runtime: locks are acquired inside one")]
    NoRuntime,
}

/// Why a lock was not acquired. Releases have been sent to every node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds it. Wait, or do without.
    #[error("{resource:?} is held by another (waited {waited:.1?}, {attempts} attempts) [{report}]")]
    Contended {
        /// The resource.
        resource: String,
        /// Time spent.
        waited: Duration,
        /// Attempts made.
        attempts: u32,
        /// What every node said.
        report: Report,
    },
    /// Its place in the queue was gone before its turn came: this process was frozen or cut off for longer than the TTL, or somebody
    /// removed the place. It was **not** given the lock.
    #[error(
        "the place in the queue for {resource:?} was lost after {waited:.1?}: its lease ended or was removed"
    )]
    PlaceLost {
        /// The resource.
        resource: String,
        /// Time spent.
        waited: Duration,
    },
    /// Too many nodes are down, silent or empty. Page someone.
    #[error(
        "no quorum for {resource:?}: {needed} of {nodes} nodes are needed (waited {waited:.1?}, {attempts} attempts) [{report}]"
    )]
    NoQuorum {
        /// The resource.
        resource: String,
        /// How many nodes must grant.
        needed: usize,
        /// How many there are.
        nodes: usize,
        /// Time spent.
        waited: Duration,
        /// Attempts made.
        attempts: u32,
        /// What every node said.
        report: Report,
    },
    /// The nodes were too slow for the TTL. Raise the TTL, or look at the nodes.
    #[error(
        "too slow for {resource:?}: ttl {ttl:?} - elapsed {elapsed:.1?} - drift {drift:?} leaves no validity [{report}]"
    )]
    ValidityExhausted {
        /// The resource.
        resource: String,
        /// The TTL asked for.
        ttl: Duration,
        /// How long the attempt took.
        elapsed: Duration,
        /// The margin for clock drift.
        drift: Duration,
        /// What every node said.
        report: Report,
    },
    /// The key holds data that is not a lock. It was not touched.
    #[error("{resource:?} is not a lock on so many nodes that no quorum is possible [{report}]")]
    NotALock {
        /// The resource.
        resource: String,
        /// What every node said.
        report: Report,
    },
    /// So many nodes refuse for a lasting reason that waiting cannot help.
    #[error(
        "nodes cannot serve {resource:?} as they are configured: {needed} of {nodes} are needed [{report}]"
    )]
    Unusable {
        /// The resource.
        resource: String,
        /// How many nodes must grant.
        needed: usize,
        /// How many there are.
        nodes: usize,
        /// What every node said.
        report: Report,
    },
    /// The arguments cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Shutdown,
}

impl AcquireError {
    /// Whether trying again later may succeed without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Contended { .. }
            | Self::PlaceLost { .. }
            | Self::NoQuorum { .. }
            | Self::ValidityExhausted { .. } => true,
            Self::NotALock { .. } | Self::Unusable { .. } | Self::Config(_) | Self::Shutdown => false,
        }
    }

    /// The same error, after this much waiting.
    pub(crate) fn after(mut self, spent: Duration, made: u32) -> Self {
        match &mut self {
            Self::Contended { waited, attempts, .. } | Self::NoQuorum { waited, attempts, .. } => {
                (*waited, *attempts) = (spent, made);
            }
            Self::PlaceLost { waited, .. } => *waited = spent,
            _ => {}
        }
        self
    }

    /// What every node said, if nodes were asked.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Contended { report, .. }
            | Self::NoQuorum { report, .. }
            | Self::ValidityExhausted { report, .. }
            | Self::NotALock { report, .. }
            | Self::Unusable { report, .. } => Some(report),
            Self::PlaceLost { .. } | Self::Config(_) | Self::Shutdown => None,
        }
    }
}

/// Why a lease was not extended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is lost. Stop.
    #[error("the lock is lost: {0}")]
    Lost(LostReason),
    /// Too few nodes answered in time. What was promised before still holds; try again.
    #[error("no quorum for the extension; the lock is still held for {remaining:?} [{report}]")]
    NoQuorum {
        /// Validity left.
        remaining: Duration,
        /// What every node said.
        report: Report,
    },
    /// Another extension took its place, or the lock is being released.
    #[error("the extension was overtaken by another one or by a release")]
    Overtaken,
    /// The arguments cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Shutdown,
}
