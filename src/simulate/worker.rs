//! One worker: reads the counter, adds 1, writes it back; again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::counter::{Access, Seat, number};
use super::inject::{Injector, Moment};
use super::report::Tally;
use super::{ExperimentError, Fault, RESOURCE, Watch};
use crate::lock::error::AcquireError;
use crate::lock::{DistributedLock, LockGuard};
use crate::memory::{self, Operation, SharedMemory};

/// How long to wait for the lock before looking whether waiting makes sense.
const WAIT: Duration = Duration::from_secs(10);

/// How long to wait at the end for releases on their way: on a busy machine they take their time, and the process ends next.
pub(super) const TIDYING: Duration = Duration::from_secs(10);

/// How often that may be in vain for want of a quorum, where faults take it away for a while.
const PATIENT: u32 = 3;

pub(super) struct Worker {
    pub(super) ops: u64,
    /// `None`: nothing protects the counter.
    pub(super) locks: Option<DistributedLock>,
    /// Whether the counter is shown the token.
    pub(super) fenced: bool,
    /// How updates are made that do not always take the lock.
    pub(super) by_version: Option<memory::Strategy>,
    pub(super) counter: Seat,
    /// `None`: nothing goes wrong on purpose.
    pub(super) injector: Option<Arc<Injector>>,
    pub(super) dice: fastrand::Rng,
    pub(super) watch: Watch,
    pub(super) tally: Tally,
}

/// How one try of an operation ended.
enum Tried {
    Done,
    /// The lease was lost, or the counter has seen a larger token.
    Again,
}

impl Worker {
    pub(super) async fn run(mut self) -> Result<Tally, ExperimentError> {
        let worked = self.work().await;
        // What is still being released would be cut off by the end of the process, also where the work was.
        if let Some(locks) = &self.locks {
            locks.drain(TIDYING).await;
        }
        worked.map(|()| self.tally)
    }

    async fn work(&mut self) -> Result<(), ExperimentError> {
        if let Some(strategy) = self.by_version {
            return self.work_by_version(strategy).await;
        }
        for _ in 0..self.ops {
            let operation = Operation::draw();
            while let Tried::Again = self.attempt(operation).await? {
                self.tally.retries += 1;
            }
            self.watch.tick();
            self.injector.iter().for_each(|injector| injector.tick());
            // Who goes on at once only ever sees its own last write: nobody would build on what another has done.
            self.think().await;
        }
        Ok(())
    }

    async fn work_by_version(&mut self, strategy: memory::Strategy) -> Result<(), ExperimentError> {
        let memory = SharedMemory::shared(Arc::clone(self.counter.store())).tries(u32::MAX).wait(WAIT);
        let memory = match self.locks.clone() {
            Some(locks) => memory.with_locks(locks).one_lock(RESOURCE),
            None => memory,
        };
        for _ in 0..self.ops {
            let begun = Instant::now();
            let dice = &mut self.dice;
            let update = memory.update(self.counter.key(), strategy, |value| {
                let turns = dice.u32(1..=4);
                async move {
                    let value = number(&value.unwrap_or_default())?;
                    give_turns(turns).await;
                    Ok((value + 1).to_string().into_bytes())
                }
            });
            let updated = tokio::select! {
                biased;
                () = self.watch.stop.cancelled() => return Err(ExperimentError::Stopped),
                updated = update => updated.map_err(ExperimentError::from)?,
            };
            self.tally.conflicts += u64::from(updated.conflicts);
            self.tally.fenced_rejections += u64::from(updated.fenced);
            if updated.locked {
                self.tally.acquired(begun.elapsed());
            }
            self.watch.tick();
            self.think().await;
        }
        Ok(())
    }

    async fn attempt(&mut self, operation: Operation) -> Result<Tried, ExperimentError> {
        if self.watch.stop.is_cancelled() {
            return Err(ExperimentError::Stopped);
        }
        if self.locks.is_none() {
            return self.add_one(operation, None, None).await;
        }
        let guard = self.acquire().await?;
        let lease = guard.lease().clone();
        let tried = match self.injector.as_ref().and_then(|injector| injector.moment()) {
            // Who stands still does not notice that the lease has ended.
            moment @ Some(Moment::Pause(_)) => self.add_one(operation, Some(&guard), moment).await,
            moment => tokio::select! {
                biased;
                _ = lease.lost() => Ok(Tried::Again),
                tried = self.add_one(operation, Some(&guard), moment) => tried,
            },
        };
        guard.release().await;
        tried
    }

    /// Waits for as long as others hold the lock; gives up only if there is no quorum, and no fault of ours explains it.
    async fn acquire(&mut self) -> Result<LockGuard, ExperimentError> {
        let Some(locks) = &self.locks else { return Err(ExperimentError::Internal("no lock".to_owned())) };
        let begun = Instant::now();
        let mut patience = if self.injector.is_some() { PATIENT } else { 0 };
        loop {
            let acquired = tokio::select! {
                biased;
                () = self.watch.stop.cancelled() => return Err(ExperimentError::Stopped),
                acquired = locks.acquire(RESOURCE, WAIT) => acquired,
            };
            match acquired {
                Ok(guard) => {
                    self.tally.acquired(begun.elapsed());
                    return Ok(guard);
                }
                Err(AcquireError::Contended { .. } | AcquireError::ValidityExhausted { .. }) => {}
                Err(AcquireError::NoQuorum { .. }) if patience > 0 => patience -= 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The critical section.
    async fn add_one(
        &mut self,
        operation: Operation,
        guard: Option<&LockGuard>,
        moment: Option<Moment>,
    ) -> Result<Tried, ExperimentError> {
        let token = guard.filter(|_| self.fenced).and_then(|guard| guard.token());
        let Access::Value(value) = self.counter.read(token).await? else { return Ok(self.fenced_off()) };
        self.think().await;
        if let (Some(Moment::ClockJump), Some(injector)) = (moment, &self.injector) {
            injector.jump_under_holder().await;
        }
        if guard.is_some_and(|guard| !guard.is_held()) {
            return Ok(Tried::Again);
        }
        if let (Some(Moment::Pause(length)), Some(injector)) = (moment, &self.injector) {
            tracing::info!(?length, "pauses just before it writes");
            injector.count(Fault::Pause);
            tokio::time::sleep(length).await;
        }
        match self.counter.write(value + 1, token, operation).await? {
            Access::Value(_) => Ok(Tried::Done),
            Access::Fenced => Ok(self.fenced_off()),
        }
    }

    fn fenced_off(&mut self) -> Tried {
        self.tally.fenced_rejections += 1;
        Tried::Again
    }

    /// The work between two accesses: the others have their turn.
    async fn think(&mut self) {
        give_turns(self.dice.u32(1..=4)).await;
    }
}

async fn give_turns(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}
