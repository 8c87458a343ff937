//! One agent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::line::{Line, Said};
use super::report::Tally;
use super::shelf::Shelf;
use super::{AgentsError, Document};
use crate::lock::error::AcquireError;
use crate::lock::{DistributedLock, LockGuard};
use crate::memory::recipes::{Claim, TaskError};
use crate::memory::{Fence, Read, Written};

/// How long to wait for a lock before looking whether waiting makes sense.
const WAIT: Duration = Duration::from_secs(10);

/// When to look again for tasks, while others have all that are left.
const IDLE: Duration = Duration::from_millis(50);

/// How fast agents work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The shortest time to think about a document.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
    /// How long a task stays with who claimed it.
    pub claim: Duration,
}

impl Pace {
    /// Thinks for `least` to `most`, with locks that live for `ttl`. Claims outlive both, so that only who is dead or frozen loses one.
    pub fn new(least: Duration, most: Duration, ttl: Duration) -> Self {
        let claim = ttl + most.saturating_mul(2) + Duration::from_millis(500);
        Self { least, most: most.max(least), claim }
    }

    fn draw(&self) -> Duration {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(fastrand::u64(micros(self.least)..=micros(self.most)))
    }
}

/// One agent: takes tasks until none is left.
#[derive(Debug)]
pub struct Worker {
    name: String,
    shelf: Shelf,
    locks: DistributedLock,
    pace: Pace,
    line: Line,
}

/// How a try to add a document ended.
enum Added {
    /// It is there.
    Done,
    /// It is not; try again.
    Again,
    /// Another has the task now.
    Others,
}

impl Worker {
    /// An agent with a name, on a store that was filled.
    pub fn new(
        name: impl Into<String>,
        shelf: Shelf,
        locks: DistributedLock,
        pace: Pace,
        line: Line,
    ) -> Self {
        Self { name: name.into(), shelf, locks, pace, line }
    }

    /// Works until no task is left, or until it is stopped; then it has given back what it held.
    ///
    /// # Errors
    /// [`AgentsError::Stopped`], and what the lock and the store could not do.
    pub async fn run(mut self, stop: &CancellationToken) -> Result<Tally, AgentsError> {
        let worked = tokio::select! {
            biased;
            () = stop.cancelled() => Err(AgentsError::Stopped),
            worked = self.work() => worked,
        };
        // What is still being released would be cut off by the end of the process.
        self.locks.drain(Duration::from_secs(2)).await;
        worked.map(|()| self.line.tally())
    }

    async fn work(&mut self) -> Result<(), AgentsError> {
        self.shelf.require_filled().await?;
        loop {
            if let Some(claim) = self.shelf.queue().claim(&self.name, self.pace.claim).await? {
                self.serve(&claim).await?;
            } else if self.shelf.queue().open_tasks().await? == 0 {
                return Ok(());
            } else {
                tokio::time::sleep(IDLE).await;
            }
        }
    }

    async fn serve(&mut self, claim: &Claim) -> Result<(), AgentsError> {
        let document: Document = serde_json::from_slice(&claim.payload)?;
        loop {
            match self.add(claim, &document).await? {
                Added::Done => break,
                Added::Again => self.line.say(Said::Again { times: 1 }),
                Added::Others => return Ok(()),
            }
        }
        let pace = self.pace;
        // Whoever sums up a topic thinks as well, only shorter.
        let conflicts = self.shelf.list(&document, || tokio::time::sleep(pace.draw() / 10)).await?;
        if conflicts > 0 {
            self.line.say(Said::Conflicts { times: conflicts });
            self.line.say(Said::Again { times: conflicts });
        }
        match self.shelf.queue().complete(claim).await {
            // Another does it again, and finds it done.
            Ok(()) | Err(TaskError::Stale { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn add(&mut self, claim: &Claim, document: &Document) -> Result<Added, AgentsError> {
        let guard = self.acquire(&document.key).await?;
        let added = self.add_under(&guard, claim, document).await;
        guard.release().await;
        added
    }

    /// Waits for as long as another holds it.
    async fn acquire(&self, document: &str) -> Result<LockGuard, AgentsError> {
        loop {
            match self.locks.on(document).auto_extend(true).wait(WAIT).acquire().await {
                Ok(guard) => return Ok(guard),
                Err(AcquireError::Contended { .. } | AcquireError::ValidityExhausted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The critical section.
    async fn add_under(
        &mut self,
        guard: &LockGuard,
        claim: &Claim,
        document: &Document,
    ) -> Result<Added, AgentsError> {
        match self.shelf.queue().extend(claim, self.pace.claim).await {
            Err(TaskError::Stale { .. }) => return Ok(Added::Others),
            extended => extended?,
        }
        let token = guard.token().ok_or(AgentsError::NoToken)?;
        let fence = Fence::new(self.locks.backend_id(), token);
        let version = match self.shelf.look(&document.key, &fence).await? {
            // Who wrote it was killed before it could say that the task is done.
            Read::Value { .. } => return Ok(Added::Done),
            Read::Missing { version } => version,
            Read::Fenced { .. } => {
                self.line.say(Said::ReadRefused { document: document.key.clone() });
                return Ok(Added::Again);
            }
        };
        self.line.say(Said::Took { document: document.key.clone(), token: token.0 });
        let lease = guard.lease().clone();
        tokio::select! {
            biased;
            _ = lease.lost() => return Ok(Added::Again),
            () = tokio::time::sleep(self.pace.draw()) => {}
        }
        // The last look at the lease. Whatever happens from here to the write, only the store can notice (`R9`).
        if !guard.is_held() {
            return Ok(Added::Again);
        }
        self.line.ask_to_write(&document.key, token.0).await?;
        let written = self.shelf.put(document, &self.name, &fence, version).await?;
        Ok(self.heard(written, document, token.0))
    }

    fn heard(&mut self, written: Written<Vec<u8>>, document: &Document, token: u64) -> Added {
        let document = document.key.clone();
        match written {
            Written::Applied { .. } => {
                self.line.say(Said::Wrote { document });
                return Added::Done;
            }
            Written::Conflict { .. } | Written::Missing { .. } => self.line.say(Said::Conflicts { times: 1 }),
            Written::Fenced { .. } => self.line.say(Said::WriteRefused { document, token }),
        }
        Added::Again
    }
}
