//! Trying until it works.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::DistributedLock;
use super::error::{AcquireError, ConfigError};
use super::guard::LockGuard;
use super::hold::Lease;
use super::options::{Defaults, checked_extend, checked_ttl};
use super::scope::{self, RunError};
use crate::backend::redlock::{Bell, Mark};
use crate::backend::{Backend, Wait, Wanted};

/// One acquisition with its own settings; see [`DistributedLock::on`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before acquire, try_acquire or run"]
pub struct Acquire {
    locks: DistributedLock,
    resource: String,
    defaults: Defaults,
    wait: Option<Duration>,
    attempts: Option<u32>,
    extend: bool,
}

impl Acquire {
    pub(super) fn new(locks: DistributedLock, resource: &str) -> Self {
        let defaults = locks.inner.defaults;
        Self { locks, resource: resource.to_owned(), defaults, wait: None, attempts: None, extend: false }
    }

    /// Another TTL than the lock's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Waits for at most this long. Without it, for ever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Makes at most this many attempts, at least one. Where there is a queue, an attempt is a place in it, and one attempt
    /// alone does not wait.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts.max(1));
        self
    }

    /// Other pauses between attempts than the lock's.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.defaults.backoff = crate::proto::retry::Backoff { first, most };
        self
    }

    /// Extends the lock without being asked, for as long as the guard lives, at most [`max_hold`](Self::max_hold).
    pub fn auto_extend(mut self, on: bool) -> Self {
        self.extend = on;
        self
    }

    /// Another longest hold than the lock's, where extension is automatic.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = max_hold;
        self
    }

    /// Tries once.
    ///
    /// # Errors
    /// As [`DistributedLock::try_acquire`].
    pub async fn try_acquire(self) -> Result<LockGuard, AcquireError> {
        let wanted = self.wanted()?;
        self.locks.inner.backend.attempt(&wanted, Wait::No).await.map(LockGuard::new)
    }

    /// Tries until it works, or the wait or the attempts are used up.
    ///
    /// # Errors
    /// As [`DistributedLock::acquire`].
    pub async fn acquire(self) -> Result<LockGuard, AcquireError> {
        let wanted = self.wanted()?;
        let backend = &self.locks.inner.backend;
        let begun = Instant::now();
        let deadline = self.wait.and_then(|wait| begun.checked_add(wait));
        let mut waiter = Waiter { acquire: &self, bell: None, quiet: 0 };
        let mut attempt = 0;
        loop {
            let before = waiter.mark();
            attempt += 1;
            let last = self.attempts.is_some_and(|most| attempt >= most);
            let error = match backend.attempt(&wanted, self.patience(deadline)).await {
                Ok(hold) => return Ok(LockGuard::new(hold)),
                Err(error) => error.after(begun.elapsed(), attempt),
            };
            // Who was in the queue and is no longer must hear of it: another place is another decision.
            let over = last || !error.is_retryable() || matches!(error, AcquireError::PlaceLost { .. });
            if over || !waiter.pause(&error, before, deadline).await {
                return Err(error);
            }
        }
    }

    /// Runs work under the lock; see [`DistributedLock::run`].
    ///
    /// # Errors
    /// As [`DistributedLock::run`].
    pub async fn run<T, F>(self, work: impl FnOnce(Lease) -> F) -> Result<T, RunError>
    where
        F: Future<Output = T>,
    {
        let guard = self.auto_extend(true).acquire().await?;
        scope::run(guard, work).await
    }

    /// How long one attempt may stand in a queue.
    fn patience(&self, deadline: Option<Instant>) -> Wait {
        match deadline {
            _ if self.attempts == Some(1) => Wait::No,
            Some(at) => Wait::AtMost(at.saturating_duration_since(Instant::now())),
            None => Wait::ForEver,
        }
    }

    fn wanted(&self) -> Result<Wanted, ConfigError> {
        let drift = self.locks.inner.backend.drift();
        let resource = self.locks.checked(&self.resource)?;
        let ttl = checked_ttl(self.defaults.ttl, drift)?;
        let extend = match self.extend {
            true => Some(checked_extend(&self.defaults, ttl, drift)?),
            false => None,
        };
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ConfigError::NoRuntime);
        }
        Ok(Wanted { resource, ttl, extend })
    }
}

/// The pauses of one acquisition.
struct Waiter<'a> {
    acquire: &'a Acquire,
    /// Hung at the first contention: most acquisitions never wait.
    bell: Option<Arc<Bell>>,
    /// Attempts since the bell last rang.
    quiet: u32,
}

impl Waiter<'_> {
    fn mark(&self) -> Mark {
        self.bell.as_ref().map(|bell| bell.mark()).unwrap_or_default()
    }

    /// Waits for a reason to try again; false if the time is over.
    async fn pause(&mut self, error: &AcquireError, before: Mark, deadline: Option<Instant>) -> bool {
        let backend = &self.acquire.locks.inner.backend;
        let (needed, backoff) = (backend.quorum().needed(), self.acquire.defaults.backoff);
        let contended = matches!(error, AcquireError::Contended { .. });
        let mut pause = backoff.delay(self.quiet, backend.entropy().chance());
        if contended
            && self.bell.is_none()
            && let Backend::Redlock(redlock) = backend
        {
            self.bell = Some(redlock.bell(&self.acquire.resource));
        }
        // The holder's keys end then at the latest, released or not.
        let free = error.report().filter(|_| contended).and_then(|report| report.free_after(needed));
        pause = free.map_or(pause, |free| pause.min(free + Duration::from_millis(1)));
        self.quiet += 1;
        let over = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if over.is_some_and(|over| over.is_zero()) {
            return false;
        }
        let heard = async {
            match &self.bell {
                Some(bell) if contended => bell.rung_since(before, needed).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = heard => {
                self.quiet = 0;
                // Everybody who waits has heard it: do not split the vote.
                backend.clock().sleep(backoff.first.mul_f64(backend.entropy().chance() / 2.0)).await;
            }
            () = backend.clock().sleep(over.map_or(pause, |over| pause.min(over))) => {}
        }
        true
    }
}
