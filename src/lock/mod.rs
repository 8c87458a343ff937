//! The public face of the lock, the same for every back end.
//!
//! `options` finds what cannot work, `wait` tries until it works, `guard` and `hold` are what the holder has, `scope` runs work
//! under a lock, `capabilities` says how back ends differ, `clock` is the only place that reads a clock, `record` lets an attempt be run again, `report` and `error` say what
//! each node said.

mod capabilities;
pub mod clock;
pub mod error;
mod guard;
pub(crate) mod hold;
pub(crate) mod options;
pub mod record;
pub mod report;
mod scope;
mod wait;

use std::sync::Arc;
use std::time::Duration;

pub use capabilities::Capabilities;
pub use guard::LockGuard;
pub use hold::{Lease, Released};
pub use options::{LockBuilder, MAX_RESOURCE_BYTES};
pub use scope::RunError;
pub use wait::Acquire;

pub use crate::backend::redlock::node::{ByteStream, Connecting, Connector};
pub use crate::backend::redlock::wire::Inspection;
pub use crate::proto::first_start::Outcome as InitOutcome;
pub use crate::proto::readmit::Readmitted;
pub use crate::proto::session::{LostReason, Mode, ReleaseOutcome};

use crate::backend::Backend;
use crate::memory::BackendId;
use crate::proto::first_start::Start;
use crate::proto::message::MAX_NUMBER;
use crate::proto::{NodeSet, Owner, Quorum};
use error::{AcquireError, ConfigError};
use options::Defaults;
use report::{NodeError, Report};

/// A distributed lock on a quorum of independent Redis nodes, on etcd or on ZooKeeper.
///
/// One value serves any number of resources and tasks; clones share their connections. Nothing is connected until it is needed.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redfence::DistributedLock;
///
/// let locks = DistributedLock::builder()
///     .nodes(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
///     .ttl(Duration::from_secs(10))
///     .build()?;
///
/// let guard = locks.acquire("invoices/42", Duration::from_secs(5)).await?;
/// let token = guard.token();              // give it to every read and write of what the lock protects
/// // .. work, while guard.is_held() ..
/// guard.release().await;
/// # Ok(()) }
/// ```
///
/// A lock on clocks and timeouts cannot exclude by itself: a holder may be paused for longer than its lease. What must not be
/// lost needs the fencing token as well, on reads and on writes (`docs/safety.md`, `R9`).
#[derive(Clone, Debug)]
pub struct DistributedLock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    defaults: Defaults,
    id: BackendId,
}

impl DistributedLock {
    /// Starts to build a lock.
    pub fn builder() -> LockBuilder {
        LockBuilder::default()
    }

    fn new(backend: Backend, defaults: Defaults, id: BackendId) -> Self {
        Self { inner: Arc::new(Inner { backend, defaults, id }) }
    }

    /// Tries once, and does not wait for another holder.
    ///
    /// Cancel-safe: dropping the future leaves no key behind.
    ///
    /// # Errors
    /// [`AcquireError::Contended`] if somebody else holds the lock; the others as documented there.
    pub async fn try_acquire(&self, resource: &str) -> Result<LockGuard, AcquireError> {
        self.on(resource).try_acquire().await
    }

    /// Tries until it works, for at most `wait`.
    ///
    /// Woken by the release, and backstopped by the holder's remaining TTL and by polling with jitter; it never spins. On Redis there
    /// is no queue: waiters race; on etcd and ZooKeeper they are served in order. Cancel-safe: dropping the future leaves no key
    /// behind.
    ///
    /// # Errors
    /// What the last attempt met, when the time is over; at once what waiting cannot cure.
    pub async fn acquire(&self, resource: &str, wait: Duration) -> Result<LockGuard, AcquireError> {
        self.on(resource).wait(wait).acquire().await
    }

    /// One acquisition with its own TTL, wait, number of attempts or extension.
    pub fn on(&self, resource: &str) -> Acquire {
        Acquire::new(self.clone(), resource)
    }

    /// Runs `work` under the lock, extends it while the work runs, stops the work when the lock is lost, and releases.
    ///
    /// The work is handed the [`Lease`]. It is stopped by dropping its future, at the latest at its next `.await`; what it has
    /// spawned or blocks on is not stopped: hand those the lease's cancellation token, and the fencing token to what they
    /// write.
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the work was not begun, [`RunError::Lost`] if it was stopped.
    pub async fn run<T, F>(
        &self,
        resource: &str,
        wait: Duration,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<T, RunError>
    where
        F: Future<Output = T>,
    {
        self.on(resource).wait(wait).run(work).await
    }

    /// What the back end can do.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.backend.capabilities()
    }

    /// Where the locks are: `redlock`, `etcd` or `zookeeper`.
    pub fn backend_name(&self) -> &'static str {
        self.inner.backend.name()
    }

    /// Whose tokens its holders have: what a store is shown beside the token ([`Fence`](crate::memory::Fence)).
    pub fn backend_id(&self) -> BackendId {
        self.inner.id.clone()
    }

    /// How many nodes there are, and how many must agree. One of one for etcd and ZooKeeper, which vote within themselves.
    pub fn quorum(&self) -> Quorum {
        self.inner.backend.quorum()
    }

    /// The addresses of the nodes, without credentials; one for the whole of etcd or ZooKeeper.
    pub fn addresses(&self) -> Vec<String> {
        self.inner.backend.addresses()
    }

    /// What every node knows of a lock: address, and what it said. Changes nothing.
    ///
    /// # Errors
    /// If the resource name cannot be one.
    pub async fn inspect(
        &self,
        resource: &str,
    ) -> Result<Vec<(String, Result<Inspection, NodeError>)>, ConfigError> {
        let resource = self.checked(resource)?;
        Ok(self.inner.backend.inspect(&resource).await)
    }

    /// Releases a lock by its owner value: for scripts, and after a crash. Prefer [`LockGuard::release`].
    ///
    /// # Errors
    /// If the resource name cannot be one.
    pub async fn release_owner(&self, resource: &str, owner: Owner) -> Result<Report, ConfigError> {
        let resource = self.checked(resource)?;
        Ok(self.inner.backend.release_owner(&resource, owner).await)
    }

    /// Extends a lock by its owner value: for scripts. Prefer [`LockGuard::extend`].
    ///
    /// The lock lives on only if a quorum of nodes says [`report::NodeAnswer::Extended`].
    ///
    /// # Errors
    /// If the resource name cannot be one, or the TTL leaves no validity. On etcd, if the TTL is longer than the one that the lock was
    /// granted; on ZooKeeper always, since only the holder's own session can be renewed.
    pub async fn extend_owner(
        &self,
        resource: &str,
        owner: Owner,
        ttl: Duration,
    ) -> Result<Report, ConfigError> {
        let resource = self.checked(resource)?;
        let ttl = options::checked_ttl(ttl, self.inner.backend.drift())?;
        self.inner.backend.extend_owner(&resource, owner, ttl).await
    }

    /// Gives a cluster of empty nodes its first epoch: what `redfence init` does. Refused if any node has one.
    ///
    /// `floor` is the number from which tokens start: 0 for a new cluster; for one that replaces an older one, at least the
    /// largest token ever used.
    ///
    /// # Errors
    /// If the floor leaves no numbers: tokens end at 2^53 - 1. If the back end is not Redlock: [`ConfigError::NotForBackend`].
    pub async fn init(&self, floor: u64) -> Result<InitOutcome, ConfigError> {
        if floor >= MAX_NUMBER {
            return Err(ConfigError::Floor { floor, most: MAX_NUMBER - 1 });
        }
        let redlock = self.inner.backend.redlock("a first start")?;
        // Random, so that it cannot equal the epoch of any other cluster that these nodes might meet.
        let epoch = (redlock.entropy().owner().0 as u64 >> 16) | 2;
        Ok(redlock.first_start(Start::Operator { epoch, floor }).await)
    }

    /// Brings nodes that lost their data back, into a new epoch and above every number: what `redfence readmit` does (`R10`).
    ///
    /// One run at a time, over all clients: the one before has ended, or its process is dead. Tokens are right whenever it runs;
    /// for mutual exclusion let the longest TTL in use pass first, since the keys that the node held are gone too.
    /// Attempts under way meanwhile may fail and are tried again. Back ends other than Redlock bring their own members back, and
    /// never need it.
    pub async fn readmit(&self) -> Readmitted {
        match self.inner.backend.redlock("re-admission") {
            Ok(redlock) => redlock.readmit().await,
            Err(_) => Readmitted::NotNeeded,
        }
    }

    /// Waits until everything left in the background is done: releases, late answers. True if all is done within `limit`.
    ///
    /// For the end of a program: a guard that is still held is not done.
    pub async fn drain(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.inner.backend.drain()).await.is_ok()
    }

    fn checked(&self, resource: &str) -> Result<String, ConfigError> {
        options::checked_resource(self.inner.backend.prefix(), resource)
    }
}

/// Nodes by their place in the configured list, as an [`InitOutcome`] or [`Readmitted`] names them.
pub type Nodes = NodeSet;
