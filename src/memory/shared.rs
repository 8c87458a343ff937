//! Read, compute, write: an update that is not lost, by lock or by version.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::adaptive::{AdaptiveRule, Phases};
use super::fence::Fence;
use super::guarded::{Read, Written};
use super::operation::Operation;
use super::store::{Change, Store, StoreError};
use crate::lock::error::AcquireError;
use crate::lock::{DistributedLock, LockGuard};
use crate::proto::retry::Backoff;

/// How an update keeps others out, or notices them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// Under the lock of the key, with its fencing token: others wait. For work that is long or dear, such as the call of a model.
    Locked,
    /// By version: whoever finds that another has written computes again. For work that is short, on keys that are rarely shared.
    Optimistic,
    /// By version until conflicts persist, then under the lock until they fade: see [`AdaptiveRule`].
    #[default]
    Adaptive,
}

/// What becomes of the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// This is the new value.
    Set(Vec<u8>),
    /// It is removed.
    Remove,
    /// It stays as it is; nothing is written.
    Keep,
}

impl From<Vec<u8>> for Edit {
    fn from(value: Vec<u8>) -> Self {
        Self::Set(value)
    }
}

/// An update that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Updated {
    /// The version that it made, or found where nothing was to change.
    pub version: u64,
    /// How often another had written meanwhile.
    pub conflicts: u32,
    /// How often the lease ended before the write, or a larger token had been seen.
    pub fenced: u32,
    /// Whether it was made under the lock.
    pub locked: bool,
    /// Whether it had to wait for the lock.
    pub waited: bool,
}

/// An update that was not made, or of which that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError<E = Infallible> {
    /// The work itself failed; nothing was written.
    #[error("the work failed")]
    Work(#[source] E),
    /// Others wrote every time. Nothing was written.
    #[error("gave up after {tries} tries: others wrote every time; use the lock for this key")]
    Conflicts {
        /// How often it was tried.
        tries: u32,
    },
    /// Every lease ended before the work did. Nothing was written.
    #[error("gave up after {tries} tries: the lease ended every time before the write")]
    LeaseLost {
        /// How often it was tried.
        tries: u32,
    },
    /// The strategy needs a lock, and this memory has none.
    #[error("this strategy takes locks, and the memory was built without: see SharedMemory::with_locks")]
    NoLocks,
    /// The lock was not to be had. Nothing was written.
    #[error("the lock was not acquired")]
    Acquire(#[from] AcquireError),
    /// The write was sent and not answered, again and again: it was done or it was not. Sending the same operation again later tells.
    #[error("not known whether the write was done")]
    Unknown {
        /// Which operation.
        operation: Operation,
        /// What the store said last.
        source: StoreError,
    },
    /// The store failed, and nothing was written.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl<E> UpdateError<E> {
    /// The work's own error, or else what went wrong around it.
    pub fn split(self) -> Result<E, UpdateError> {
        Err(match self {
            Self::Work(error) => return Ok(error),
            Self::Conflicts { tries } => UpdateError::Conflicts { tries },
            Self::LeaseLost { tries } => UpdateError::LeaseLost { tries },
            Self::NoLocks => UpdateError::NoLocks,
            Self::Acquire(error) => UpdateError::Acquire(error),
            Self::Unknown { operation, source } => UpdateError::Unknown { operation, source },
            Self::Store(error) => UpdateError::Store(error),
        })
    }
}

/// Bounds on one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    tries: u32,
    resends: u32,
    wait: Duration,
    backoff: Backoff,
    rule: AdaptiveRule,
}

/// Memory that several writers update: a store, and the locks for it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redfence::memory::{InProcessStore, SharedMemory, Strategy, UpdateError};
///
/// let memory = SharedMemory::new(InProcessStore::default());
/// let add_one = |value: Option<Vec<u8>>| async move {
///     let text = String::from_utf8(value.unwrap_or_else(|| b"0".to_vec()))?;
///     Ok((text.parse::<u64>()? + 1).to_string().into_bytes())
/// };
/// let updated = memory
///     .update("visits", Strategy::Optimistic, add_one)
///     .await
///     .map_err(|error: UpdateError<Box<dyn std::error::Error>>| error.to_string())?;
/// assert_eq!((updated.version, updated.conflicts), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SharedMemory {
    store: Arc<dyn Store>,
    locks: Option<DistributedLock>,
    /// One lock for all keys, instead of one by each key's name.
    resource: Option<Arc<str>>,
    limits: Limits,
    phases: Arc<Phases>,
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMemory").field("store", &self.store).field("limits", &self.limits).finish()
    }
}

impl SharedMemory {
    /// Memory in this store, for optimistic updates.
    pub fn new(store: impl Store) -> Self {
        Self::shared(Arc::new(store))
    }

    /// The same with a store that is used elsewhere too.
    pub fn shared(store: Arc<dyn Store>) -> Self {
        let limits = Limits {
            tries: 100,
            resends: 8,
            wait: Duration::from_secs(60),
            backoff: Backoff { first: Duration::from_millis(2), most: Duration::from_millis(200) },
            rule: AdaptiveRule::default(),
        };
        Self { store, locks: None, resource: None, limits, phases: Arc::default() }
    }

    /// With locks, for the other strategies. The lock of a key is the resource of that name.
    pub fn with_locks(mut self, locks: DistributedLock) -> Self {
        self.locks = Some(locks);
        self
    }

    /// One lock for all keys, of this name: for keys that are never used again, since a lock's number is kept for ever.
    pub fn one_lock(mut self, resource: &str) -> Self {
        self.resource = Some(Arc::from(resource));
        self
    }

    /// How often an update is tried, at least once; 100 if not said.
    pub fn tries(mut self, tries: u32) -> Self {
        self.limits.tries = tries.max(1);
        self
    }

    /// How long to wait for a lock; a minute if not said.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.limits.wait = wait;
        self
    }

    /// Pauses after a conflict: they double from `first` to `most`, with jitter. 2 ms and 200 ms if not said.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.limits.backoff = Backoff { first, most };
        self
    }

    /// Another rule for [`Strategy::Adaptive`].
    pub fn adaptive(mut self, rule: AdaptiveRule) -> Self {
        self.limits.rule = AdaptiveRule { persist: rule.persist.max(1), ..rule };
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The locks.
    pub fn locks(&self) -> Option<&DistributedLock> {
        self.locks.as_ref()
    }

    /// Whether [`Strategy::Adaptive`] takes the lock of this key now.
    pub fn takes_lock(&self, key: &str) -> bool {
        self.phases.is_locked(key)
    }

    /// Reads as it is, under no lock: what is read may be old when it is looked at.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(match self.store.read(key, None).await? {
            Read::Value { value, .. } => Some(value),
            Read::Missing { .. } | Read::Fenced { .. } => None,
        })
    }

    /// Computes a new value from what is there, and writes it; exactly once, whoever else writes and whatever answer is lost.
    ///
    /// `work` is run again whenever its result could not be written: it must have no effect but its result. It is dropped
    /// half-way when its lease ends.
    ///
    /// # Errors
    /// An [`UpdateError`]; all but [`Unknown`](UpdateError::Unknown) say that nothing was written.
    pub async fn update<R, E, F>(
        &self,
        key: &str,
        strategy: Strategy,
        mut work: impl FnMut(Option<Vec<u8>>) -> F,
    ) -> Result<Updated, UpdateError<E>>
    where
        R: Into<Edit>,
        F: Future<Output = Result<R, E>>,
    {
        let mut update =
            Update { memory: self, key, operation: Operation::draw(), so_far: Updated::default() };
        let (tries, rule) = (self.limits.tries, self.limits.rule);
        match strategy {
            Strategy::Optimistic => update.by_version(tries, &mut work).await,
            Strategy::Locked => update.under_lock(&mut work).await,
            Strategy::Adaptive => {
                if !self.phases.is_locked(key) {
                    match update.by_version(tries.min(rule.persist), &mut work).await {
                        Err(UpdateError::Conflicts { .. }) if tries > rule.persist => self.phases.lock(key),
                        ended => return ended,
                    }
                }
                let before = update.so_far.conflicts;
                let updated = update.under_lock(&mut work).await;
                let calm = !update.so_far.waited && update.so_far.conflicts == before;
                self.phases.note(key, calm, rule);
                updated
            }
        }
    }
}

/// One update under way.
struct Update<'a> {
    memory: &'a SharedMemory,
    key: &'a str,
    /// The same for all tries: a try whose answer was lost is then found to be done, and is not done again.
    operation: Operation,
    so_far: Updated,
}

/// How a try ended that did not fail.
enum Tried {
    Done(Updated),
    /// Another has written meanwhile.
    Conflict,
    /// A larger token has been seen, or the lease has ended.
    Fenced,
}

impl Update<'_> {
    async fn by_version<R, E, F>(
        &mut self,
        tries: u32,
        work: &mut impl FnMut(Option<Vec<u8>>) -> F,
    ) -> Result<Updated, UpdateError<E>>
    where
        R: Into<Edit>,
        F: Future<Output = Result<R, E>>,
    {
        for tried in 0..tries {
            if let Tried::Done(updated) = self.once(None, work).await? {
                return Ok(updated);
            }
            self.so_far.conflicts += 1;
            if tried + 1 < tries {
                self.pause(tried).await;
            }
        }
        Err(UpdateError::Conflicts { tries })
    }

    async fn under_lock<R, E, F>(
        &mut self,
        work: &mut impl FnMut(Option<Vec<u8>>) -> F,
    ) -> Result<Updated, UpdateError<E>>
    where
        R: Into<Edit>,
        F: Future<Output = Result<R, E>>,
    {
        self.so_far.locked = true;
        let tries = self.memory.limits.tries;
        for _ in 0..tries {
            let guard = self.acquire().await?;
            let tried = self.while_held(&guard, work).await;
            guard.release().await;
            match tried? {
                Tried::Done(updated) => return Ok(updated),
                Tried::Conflict => return Err(UpdateError::Conflicts { tries }),
                Tried::Fenced => self.so_far.fenced += 1,
            }
        }
        Err(UpdateError::LeaseLost { tries })
    }

    async fn acquire<E>(&mut self) -> Result<LockGuard, UpdateError<E>> {
        let locks = self.memory.locks.as_ref().ok_or(UpdateError::NoLocks)?;
        let resource = self.memory.resource.as_deref().unwrap_or(self.key);
        let lock = || locks.on(resource).auto_extend(true);
        match lock().try_acquire().await {
            Err(AcquireError::Contended { .. }) => self.so_far.waited = true,
            acquired => return Ok(acquired?),
        }
        Ok(lock().wait(self.memory.limits.wait).acquire().await?)
    }

    /// Conflicts come only from writers that take no lock: it is tried again under the same lease.
    async fn while_held<R, E, F>(
        &mut self,
        guard: &LockGuard,
        work: &mut impl FnMut(Option<Vec<u8>>) -> F,
    ) -> Result<Tried, UpdateError<E>>
    where
        R: Into<Edit>,
        F: Future<Output = Result<R, E>>,
    {
        let lease = guard.lease().clone();
        let backend = self.memory.locks.as_ref().map(DistributedLock::backend_id);
        // Classic locks have no token; there the version alone guards the write.
        let fence = lease.token().zip(backend).map(|(token, backend)| Fence::new(backend, token));
        let tries = async {
            for _ in 0..self.memory.limits.tries {
                match self.once(fence.as_ref(), work).await? {
                    Tried::Conflict => self.so_far.conflicts += 1,
                    ended => return Ok(ended),
                }
            }
            Ok(Tried::Conflict)
        };
        tokio::select! {
            biased;
            _ = lease.lost() => Ok(Tried::Fenced),
            tried = tries => tried,
        }
    }

    async fn once<R, E, F>(
        &mut self,
        fence: Option<&Fence>,
        work: &mut impl FnMut(Option<Vec<u8>>) -> F,
    ) -> Result<Tried, UpdateError<E>>
    where
        R: Into<Edit>,
        F: Future<Output = Result<R, E>>,
    {
        let (value, version) = match self.read(fence).await? {
            Read::Value { value, version } => (Some(value), version),
            Read::Missing { version } => (None, version),
            Read::Fenced { .. } => return Ok(Tried::Fenced),
        };
        let value = match work(value).await.map_err(UpdateError::Work)?.into() {
            Edit::Keep => return Ok(Tried::Done(Updated { version, ..self.so_far })),
            Edit::Set(value) => Some(value),
            Edit::Remove => None,
        };
        let (operation, expected) = (self.operation, Some(version));
        let change = Change { value: value.as_deref(), fence, expected, operation };
        Ok(match self.write(change).await? {
            Written::Applied { version } => Tried::Done(Updated { version, ..self.so_far }),
            Written::Conflict { .. } | Written::Missing { .. } => Tried::Conflict,
            Written::Fenced { .. } => Tried::Fenced,
        })
    }

    async fn read(&self, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        let mut sent = 0;
        loop {
            match self.memory.store.read(self.key, fence).await {
                Err(error) if error.is_retryable() && sent < self.memory.limits.resends => sent += 1,
                ended => return ended,
            }
            self.pause(sent).await;
        }
    }

    /// Sends the same again where no answer came: its operation is done once.
    async fn write<E>(&self, change: Change<'_>) -> Result<Written<Vec<u8>>, UpdateError<E>> {
        let (mut sent, mut doubtful) = (0, false);
        loop {
            let error = match self.memory.store.write(self.key, change).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            doubtful |= matches!(error, StoreError::Unknown { .. });
            if !error.is_retryable() || sent >= self.memory.limits.resends {
                let operation = self.operation;
                return Err(match doubtful {
                    true => UpdateError::Unknown { operation, source: error },
                    false => UpdateError::Store(error),
                });
            }
            sent += 1;
            self.pause(sent).await;
        }
    }

    async fn pause(&self, tried: u32) {
        tokio::time::sleep(self.memory.limits.backoff.delay(tried, fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests;
