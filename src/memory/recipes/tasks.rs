//! Tasks that are each done once: claimed under a lease, completed under the number of the claim.
//!
//! A claim ends by itself, so that the task of a worker that died is claimed again (lobehub/lobehub#16821 is what happens without numbers:
//! a step that outlasts its lock is done twice, and both count). The number rises with every claim of a task: whoever completes
//! under an older one is refused, however late it comes. What the worker writes elsewhere needs the same protection: take the
//! lock of what it writes to, or hand on the number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::{Change, Edit, Operation, SharedMemory, Strategy, UpdateError, Written};
use super::form::{FormError, parsed, unix_millis, written};
use crate::memory::StoreError;

/// How many keys are looked at in one go.
const PAGE: usize = 64;

/// A queue of tasks in a shared memory: one key for each task, below one prefix. Tasks are in no particular order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redfence::memory::recipes::TaskError> {
/// use std::time::Duration;
/// use redfence::memory::recipes::TaskQueue;
/// use redfence::memory::{InProcessStore, SharedMemory};
///
/// let queue = TaskQueue::new(SharedMemory::new(InProcessStore::default()), "ingest");
/// assert!(queue.add("report-7", b"https://example.org/7").await?);
/// assert!(!queue.add("report-7", b"again").await?, "it is there already");
/// let claim = queue.claim("agent-1", Duration::from_secs(60)).await?.expect("a task");
/// assert!(queue.claim("agent-2", Duration::from_secs(60)).await?.is_none());
/// queue.complete(&claim).await?;
/// assert!(!queue.add("report-7", b"again").await?, "done is done");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct TaskQueue {
    memory: SharedMemory,
    prefix: String,
}

/// A task that its holder may work on until the claim ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Which task.
    pub task: String,
    /// What is to be done.
    pub payload: Vec<u8>,
    /// The how manieth claim of this task it is, from 1.
    pub number: u32,
}

/// Why a queue did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The claim has ended, and the task was claimed again or is done. The work must not count.
    #[error("claim {number} of task {task:?} has ended: it was claimed again, or is done")]
    Stale {
        /// Which task.
        task: String,
        /// Which claim.
        number: u32,
    },
    /// Something else is at a task's key.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The memory failed.
    #[error(transparent)]
    Memory(Box<UpdateError>),
}

impl From<UpdateError<Self>> for TaskError {
    fn from(error: UpdateError<Self>) -> Self {
        match error.split() {
            Ok(own) => own,
            Err(memory) => Self::Memory(Box::new(memory)),
        }
    }
}

impl From<StoreError> for TaskError {
    fn from(error: StoreError) -> Self {
        Self::Memory(Box::new(error.into()))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Task {
    payload: Vec<u8>,
    claims: u32,
    holder: Option<Holder>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Holder {
    name: String,
    until_unix_ms: u64,
}

impl Task {
    fn is_free(&self, now: u64) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder.until_unix_ms <= now)
    }
}

impl TaskQueue {
    /// The queue of this name.
    pub fn new(memory: SharedMemory, name: &str) -> Self {
        Self { memory, prefix: format!("{name}/") }
    }

    /// Adds a task; false if it was added before, whether it is done or not.
    ///
    /// # Errors
    /// A [`TaskError`] of the memory.
    pub async fn add(&self, task: &str, payload: &[u8]) -> Result<bool, TaskError> {
        let value = written(&Task { payload: payload.to_vec(), claims: 0, holder: None })?;
        // A version above 0 says that there was one, also where it is done and gone.
        let change = Change::set(&value).expecting(0).by(Operation::draw());
        Ok(matches!(self.memory.store().write(&self.key(task), change).await?, Written::Applied { .. }))
    }

    /// Takes a task for as long as this, if one is free: never claimed, or claimed by somebody whose time is over by this machine's
    /// wall clock. A clock that is wrong makes two work on one task; only one of them can complete it.
    ///
    /// # Errors
    /// A [`TaskError`] of the memory.
    pub async fn claim(&self, holder: &str, lease: Duration) -> Result<Option<Claim>, TaskError> {
        let mut after: Option<String> = None;
        loop {
            let mut keys = self.memory.store().keys(&self.prefix, after.as_deref(), PAGE).await?;
            let Some(last) = keys.last().cloned() else { return Ok(None) };
            // Not all begin at the same one.
            let begin = fastrand::usize(..keys.len());
            keys.rotate_left(begin);
            for key in keys {
                if let Some(claim) = self.try_claim(&key, holder, lease).await? {
                    return Ok(Some(claim));
                }
            }
            after = Some(last);
        }
    }

    async fn try_claim(&self, key: &str, holder: &str, lease: Duration) -> Result<Option<Claim>, TaskError> {
        let free = |value: &[u8]| parsed::<Task>(value).map(|task| task.is_free(unix_millis()));
        match self.memory.get(key).await? {
            Some(value) if free(&value)? => {}
            _ => return Ok(None),
        }
        let mut claim = None;
        let claimed = self.change(key, |value| {
            claim = None;
            let Some(value) = value else { return Ok(Edit::Keep) };
            let mut task: Task = parsed(&value)?;
            let now = unix_millis();
            if !task.is_free(now) {
                return Ok(Edit::Keep);
            }
            task.claims += 1;
            let until_unix_ms = now.saturating_add(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
            task.holder = Some(Holder { name: holder.to_owned(), until_unix_ms });
            claim = Some(Claim {
                task: key.strip_prefix(&self.prefix).unwrap_or(key).to_owned(),
                payload: task.payload.clone(),
                number: task.claims,
            });
            Ok(Edit::Set(written(&task)?))
        });
        claimed.await?;
        Ok(claim)
    }

    /// Says that a task is done, and removes it.
    ///
    /// # Errors
    /// [`TaskError::Stale`] if the task was claimed by another meanwhile: the work must not count.
    pub async fn complete(&self, claim: &Claim) -> Result<(), TaskError> {
        self.under(claim, |_| Ok(Edit::Remove)).await
    }

    /// Gives a task back, for anybody to claim.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn give_back(&self, claim: &Claim) -> Result<(), TaskError> {
        self.under(claim, |mut task| {
            task.holder = None;
            Ok(Edit::Set(written(&task)?))
        })
        .await
    }

    /// Lets a claim live for this long from now.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn extend(&self, claim: &Claim, lease: Duration) -> Result<(), TaskError> {
        let until = unix_millis().saturating_add(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        self.under(claim, |mut task| {
            if let Some(holder) = &mut task.holder {
                holder.until_unix_ms = holder.until_unix_ms.max(until);
            }
            Ok(Edit::Set(written(&task)?))
        })
        .await
    }

    /// How many tasks are open: waiting or claimed.
    ///
    /// # Errors
    /// A [`TaskError`] of the memory.
    pub async fn open_tasks(&self) -> Result<usize, TaskError> {
        let (mut count, mut after) = (0, None::<String>);
        loop {
            let keys = self.memory.store().keys(&self.prefix, after.as_deref(), 1_000).await?;
            count += keys.len();
            match keys.last() {
                None => return Ok(count),
                Some(last) => after = Some(last.clone()),
            }
        }
    }

    /// Changes a task whose latest claim this is.
    async fn under(
        &self,
        claim: &Claim,
        mut change: impl FnMut(Task) -> Result<Edit, FormError>,
    ) -> Result<(), TaskError> {
        self.change(&self.key(&claim.task), |value| {
            let stale = || TaskError::Stale { task: claim.task.clone(), number: claim.number };
            let task: Task = parsed(&value.ok_or_else(stale)?)?;
            if task.claims != claim.number || task.holder.is_none() {
                return Err(stale());
            }
            Ok(change(task)?)
        })
        .await
    }

    async fn change(
        &self,
        key: &str,
        mut change: impl FnMut(Option<Vec<u8>>) -> Result<Edit, TaskError>,
    ) -> Result<(), TaskError> {
        let changed = self.memory.update(key, Strategy::Optimistic, |value| {
            let changed = change(value);
            async move { changed }
        });
        changed.await?;
        Ok(())
    }

    fn key(&self, task: &str) -> String {
        format!("{}{task}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::InProcessStore;
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn queue() -> TaskQueue {
        TaskQueue::new(SharedMemory::new(InProcessStore::default()), "q")
    }

    #[tokio::test]
    async fn every_task_is_claimed_and_completed_once() {
        let queue = queue();
        for number in 0..200 {
            assert!(queue.add(&number.to_string(), b"work").await.unwrap());
        }
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..8 {
            let queue = queue.clone();
            workers.spawn(async move {
                let mut done = Vec::new();
                while let Some(claim) = queue.claim(&worker.to_string(), LONG).await.unwrap() {
                    tokio::task::yield_now().await;
                    queue.complete(&claim).await.unwrap();
                    done.push(claim.task);
                }
                done
            });
        }
        let mut times = BTreeMap::new();
        for task in workers.join_all().await.into_iter().flatten() {
            *times.entry(task).or_insert(0) += 1;
        }
        assert_eq!(times.len(), 200);
        assert!(times.values().all(|&times| times == 1), "{times:?}");
        assert_eq!(queue.open_tasks().await.unwrap(), 0);
    }

    #[tokio::test]
    async fn who_comes_too_late_with_its_work_is_refused() {
        let queue = queue();
        queue.add("one", b"work").await.unwrap();
        // Its lease ends at once: a worker that is frozen, or whose step takes longer than its claim.
        let slow = queue.claim("slow", Duration::ZERO).await.unwrap().unwrap();
        let other = queue.claim("other", LONG).await.unwrap().unwrap();
        assert_eq!((slow.number, other.number, &other.task), (1, 2, &slow.task));
        for refused in
            [queue.complete(&slow).await, queue.extend(&slow, LONG).await, queue.give_back(&slow).await]
        {
            assert!(matches!(refused, Err(TaskError::Stale { number: 1, .. })), "{refused:?}");
        }
        queue.complete(&other).await.unwrap();
        assert!(matches!(queue.complete(&other).await, Err(TaskError::Stale { .. })));
        assert!(matches!(queue.complete(&slow).await, Err(TaskError::Stale { .. })));
    }

    #[tokio::test]
    async fn a_claim_that_nobody_followed_is_still_good() {
        let queue = queue();
        queue.add("one", b"work").await.unwrap();
        let slow = queue.claim("slow", Duration::ZERO).await.unwrap().unwrap();
        queue.extend(&slow, LONG).await.unwrap();
        assert!(queue.claim("other", LONG).await.unwrap().is_none());
        queue.give_back(&slow).await.unwrap();
        assert!(matches!(queue.complete(&slow).await, Err(TaskError::Stale { .. })), "it was given back");
        assert_eq!(queue.claim("other", LONG).await.unwrap().unwrap().number, 2);
    }
}
