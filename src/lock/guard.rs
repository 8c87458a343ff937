//! The live handle of a lock.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use tokio::sync::oneshot;

use super::error::{ConfigError, ExtendError};
use super::hold::{Command, Hold, Lease, Released};
use super::report::Report;
use crate::proto::Ttl;
use crate::proto::session::{LostReason, ReleaseOutcome};

/// A lock that is held. Dropping it starts a release in the background.
///
/// The guard reads like its [`Lease`]: `token`, `remaining`, `is_held`, `lost`, `cancellation_token`.
///
/// Dropping works anywhere, also outside a runtime and in a panic; it never blocks. The release itself runs on the runtime on
/// which the lock was acquired: if that runtime ends at once, the keys end with their TTL. Where that matters, call
/// [`release`](Self::release), or `DistributedLock::drain` before the end.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    hold: Hold,
    /// The keys stay: see [`LockGuard::keep`].
    kept: bool,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold, kept: false }
    }

    /// The lease: to look at, to clone, to hand to other tasks. It does not keep the lock.
    pub fn lease(&self) -> &Lease {
        &self.hold.lease
    }

    /// Lets the lock live for `ttl` from now: same token, validity TTL - elapsed - drift from the start of this call.
    ///
    /// An extension only lengthens; a `ttl` shorter than what is left changes nothing. On etcd and ZooKeeper a lease lives by the TTL
    /// of its grant: it is renewed for that long, and a longer `ttl` is [`ConfigError::TtlFixed`].
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lock is lost: stop. [`ExtendError::NoQuorum`] when too few nodes answered in
    /// time: what was promised before still holds.
    pub async fn extend(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let ttl = Ttl::from_duration(ttl).ok_or(ConfigError::Ttl(ttl))?;
        if let Some(reason) = self.lost_reason() {
            return Err(ExtendError::Lost(reason));
        }
        let (done, outcome) = oneshot::channel();
        let sent = self.hold.commands.send(Command::Extend { ttl, done });
        if sent.is_err() {
            return Err(ExtendError::Shutdown);
        }
        // The deadline ends the wait as well: after it, no answer can matter.
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or(Err(ExtendError::Shutdown))?,
            reason = self.lost() => return Err(ExtendError::Lost(reason)),
        }
        match self.lost_reason() {
            None => Ok(self.remaining()),
            Some(reason) => Err(ExtendError::Lost(reason)),
        }
    }

    /// Gives the lock back, and says what became of it. After this the lease reads as lost.
    ///
    /// Dropping the returned future half-way is harmless: the release goes on in the background.
    pub async fn release(self) -> Released {
        let (done, outcome) = oneshot::channel();
        let gone = Released { outcome: ReleaseOutcome::Unknown, report: Report::default() };
        if self.hold.commands.send(Command::Release { done }).is_err() {
            self.hold.lease.lose(LostReason::Released);
            return gone;
        }
        outcome.await.unwrap_or(gone)
    }

    /// Leaves the keys at the nodes until their TTL ends, also when this process ends before: for a holder that goes on
    /// elsewhere, and knows the owner value. Nothing is extended any more, and nothing is released but by
    /// [`DistributedLock::release_owner`](super::DistributedLock::release_owner).
    ///
    /// On ZooKeeper the lock lives by a session of this process: who holds it elsewhere cannot extend it.
    ///
    /// The lease goes on: it is lost when its validity ends. `DistributedLock::drain` waits for grants still on their way.
    pub fn keep(mut self) -> Lease {
        self.kept = self.hold.commands.send(Command::Keep).is_ok();
        self.hold.lease.clone()
    }
}

impl Drop for LockGuard {
    /// The closing channel asks for the release; copies of the lease must not go on believing.
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.hold.lease.lose(LostReason::Released);
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.hold.lease
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.hold.lease).finish()
    }
}
