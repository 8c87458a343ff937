//! How back ends differ, as values that a program can ask for.

use std::time::Duration;

use crate::proto::Drift;

/// What a back end can do: [`DistributedLock::capabilities`](super::DistributedLock::capabilities).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// Waiters are served in the order in which they came.
    pub fair: bool,
    /// The fencing token is a number of the service's own history. Otherwise a quorum of nodes mints it.
    pub native_token: bool,
    /// An extension renews for the TTL of the grant, and not for any TTL.
    pub fixed_ttl: bool,
    /// A lock can be extended by its owner value from another process than its holder's.
    pub extend_by_owner: bool,
    /// The shortest TTL worth asking for: a shorter one is refused, or raised to this. The service may grant more than it is
    /// asked for (etcd's elections, ZooKeeper's ticks): [`Lease::remaining`](super::Lease::remaining) tells.
    pub min_ttl: Duration,
}

impl Capabilities {
    pub(crate) fn of_redlock(drift: Drift) -> Self {
        let min_ttl = super::options::least_ttl(drift);
        Self { fair: false, native_token: false, fixed_ttl: false, extend_by_owner: true, min_ttl }
    }
}
