//! Does to an experiment what its faults say, and counts it.
//!
//! Some faults strike the worker that has the lock, at a moment in its critical section; the others strike nodes and links, beside
//! the work. All come when a certain share of the work is done, so that there is work left for the others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::EmbeddedCluster;
use super::links::{Flow, Links};
use super::{ExperimentError, Fault, Watch};
use crate::lock::DistributedLock;
use crate::proto::Quorum;

/// How often a fault strikes in a run.
const STRIKES: u64 = 3;

/// How long it lasts, if it lasts.
const HOLD: Duration = Duration::from_millis(400);

/// The longest delay of one message.
const DELAY: Duration = Duration::from_millis(20);

/// How long a holder waits for others to get in beside it, in updates of theirs.
const UPDATES: u64 = 3;

/// What happens to the worker that has the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    /// Stands still just before it writes.
    Pause(Duration),
    /// Takes its time between the read and its last look at the lease, while clocks jump.
    ClockJump,
}

/// The faults of one run.
#[derive(Debug)]
pub(super) struct Injector {
    ttl: Duration,
    /// By the number of the critical section in which they come.
    moments: BTreeMap<u64, Moment>,
    /// By the number of updates after which they come, sorted.
    strikes: Vec<(u64, Fault)>,
    sections: AtomicU64,
    /// Updates done in this run.
    done: AtomicU64,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    pub(super) field: Field,
}

/// What can be struck.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) cluster: Option<EmbeddedCluster>,
    pub(super) links: Arc<Links>,
    /// Of all nodes, as the lock names them.
    pub(super) addresses: Vec<String>,
    /// For what only an operator does: re-admission.
    pub(super) operator: Option<DistributedLock>,
    pub(super) fenced: bool,
    pub(super) dice: Mutex<fastrand::Rng>,
}

impl Injector {
    pub(super) fn new(faults: &[Fault], expected: u64, ttl: Duration, field: Field) -> Self {
        let (mut moments, mut strikes) = (BTreeMap::new(), Vec::new());
        for (place, &fault) in faults.iter().enumerate() {
            // Not two at once.
            let place = place as u64;
            match fault {
                Fault::Pause => {
                    moments.insert(expected / 3 + 1 + place, Moment::Pause(ttl * 2));
                }
                Fault::ClockJump => {
                    let share = |strike| expected * strike / (STRIKES + 1) + 1 + place;
                    moments.extend((1..=STRIKES).map(|strike| (share(strike), Moment::ClockJump)));
                }
                _ => {
                    let share = |strike| expected * strike / (STRIKES + 2);
                    strikes.extend((1..=STRIKES).map(|strike| (share(strike), fault)));
                }
            }
        }
        strikes.sort_by_key(|strike| strike.0);
        let (sections, done, counts) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Self { ttl, moments, strikes, sections, done, counts, field }
    }

    /// Strikes until the work is done; then all is healed. If the faults cannot be done, nor can the experiment.
    pub(super) async fn beside<T>(
        &self,
        work: impl Future<Output = Result<T, ExperimentError>>,
        watch: &Watch,
    ) -> Result<T, ExperimentError> {
        tokio::pin!(work);
        let struck = tokio::select! {
            biased;
            worked = &mut work => return self.field.heal().await.and(worked),
            struck = self.strike_all() => struck,
        };
        if struck.is_err() {
            watch.stop();
        }
        let worked = work.await;
        self.field.heal().await.and(struck).and(worked)
    }

    /// Counts one critical section; tells what is to happen in it.
    pub(super) fn moment(&self) -> Option<Moment> {
        if self.moments.is_empty() {
            return None;
        }
        let number = self.sections.fetch_add(1, Ordering::Relaxed) + 1;
        self.moments.get(&number).copied()
    }

    /// One update is done.
    pub(super) fn tick(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, fault: Fault) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(fault.name()).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys of the holder end before their time; waits until others have done something, or for half a TTL.
    pub(super) async fn jump_under_holder(&self) {
        let Some(cluster) = &self.field.cluster else { return };
        let (before, begun) = (self.done.load(Ordering::Relaxed), Instant::now());
        let past = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX / 2) + 1_000;
        for node in self.field.some(self.field.majority()) {
            cluster.jump(node, past);
        }
        self.count(Fault::ClockJump);
        while self.done.load(Ordering::Relaxed) < before + UPDATES && begun.elapsed() < self.ttl / 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Strikes nodes and links, until there is nothing left to strike. May be dropped at any time; heal then.
    async fn strike_all(&self) -> Result<(), ExperimentError> {
        for &(after, fault) in &self.strikes {
            while self.done.load(Ordering::Relaxed) < after {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tracing::info!(%fault, after, "fault");
            self.count(fault);
            self.strike(fault).await?;
        }
        Ok(())
    }

    async fn strike(&self, fault: Fault) -> Result<(), ExperimentError> {
        let which = self.field.some(match fault {
            Fault::PartitionMajority => self.field.majority(),
            Fault::Delay => self.field.addresses.len(),
            _ => self.field.minority(),
        });
        match fault {
            Fault::NodeRestart => {
                for &node in &which {
                    self.field.take_away(node).await;
                }
            }
            Fault::NodeEmpty => self.field.wipe(&which)?,
            Fault::NodeHang => self.field.set(&which, |_| Flow::Hang),
            Fault::PartitionMinority | Fault::PartitionMajority => self.field.set(&which, |_| Flow::Cut),
            Fault::Delay => self.field.set(&which, |dice| Flow::Delay(DELAY.mul_f64(dice.f64()))),
            // They come in critical sections.
            Fault::Pause | Fault::ClockJump => {}
        }
        // Keys that an empty node has forgotten may live elsewhere for a TTL.
        tokio::time::sleep(if fault == Fault::NodeEmpty { HOLD.max(self.ttl) } else { HOLD }).await;
        self.field.heal().await
    }
}

impl Field {
    fn majority(&self) -> usize {
        Quorum::of(self.addresses.len()).needed()
    }

    fn minority(&self) -> usize {
        Quorum::of(self.addresses.len()).spare()
    }

    fn some(&self, number: usize) -> Vec<usize> {
        self.dice().choose_multiple(0..self.addresses.len(), number)
    }

    fn dice(&self) -> std::sync::MutexGuard<'_, fastrand::Rng> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, which: &[usize], flow: impl Fn(&mut fastrand::Rng) -> Flow) {
        for &node in which {
            self.links.set(&self.addresses[node], flow(&mut self.dice()));
        }
    }

    async fn take_away(&self, node: usize) {
        if let Some(cluster) = &self.cluster {
            cluster.take_away(node).await;
        }
    }

    fn wipe(&self, which: &[usize]) -> Result<(), ExperimentError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        which.iter().try_for_each(|&node| cluster.wipe(node))
    }

    /// Everything is as it was: links pass, nodes are back, and those that lost their data vote again.
    async fn heal(&self) -> Result<(), ExperimentError> {
        self.links.pass_all();
        let Some(cluster) = &self.cluster else { return Ok(()) };
        for node in 0..self.addresses.len() {
            cluster.bring_back(node).await?;
        }
        match &self.operator {
            Some(operator) if self.fenced => drop(operator.readmit().await),
            _ => {}
        }
        Ok(())
    }
}
