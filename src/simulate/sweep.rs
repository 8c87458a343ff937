//! Where a version check beats a lock, and where it collapses: the same work under each, for more and more writers on fewer and fewer keys.
//!
//! Every cell runs for a fixed time, counts, and then compares what the counters show with what was counted: a cell that lost an
//! update is no measurement but a finding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::counter::{Counter, number};
use super::report::rounded;
use super::worker::TIDYING;
use super::{Experiment, ExperimentError, RESOURCE, Strategy, Watch};
use crate::memory::{self, SharedMemory};

/// What is swept: every combination of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// Nodes, memory, TTL, prefix, seed; workers, operations and runs are not looked at.
    pub experiment: Experiment,
    /// How updates are made.
    pub strategies: Vec<memory::Strategy>,
    /// Writers at the same time.
    pub workers: Vec<u32>,
    /// Keys that they write to, one drawn for each update.
    pub keys: Vec<u32>,
    /// How long the work between read and write takes.
    pub holds: Vec<Duration>,
    /// How long each combination is measured.
    pub each: Duration,
}

/// All cells of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepReport {
    /// `redfence.sweep/1`.
    pub schema: &'static str,
    /// Every combination.
    pub cells: Vec<Cell>,
}

/// One combination, measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// `locked`, `optimistic` or `adaptive`.
    pub strategy: &'static str,
    /// Writers at the same time.
    pub workers: u32,
    /// Keys that they share.
    pub keys: u32,
    /// The work between read and write, in milliseconds.
    pub hold_ms: u64,
    /// Updates made.
    pub updates: u64,
    /// Updates per second.
    pub updates_per_s: f64,
    /// Work done in vain, for each update made: how often it was computed and could not be written.
    pub conflicts_per_update: f64,
    /// Updates made under the lock, as a share of all.
    pub locked: f64,
    /// Milliseconds from wanting an update to having it: the median.
    pub p50_ms: f64,
    /// One in a hundred took longer.
    pub p99_ms: f64,
    /// Updates that the counters do not show. Anything but 0 is a mistake in redfence.
    pub lost: i64,
}

impl Sweep {
    /// The usual one: writers from 1 to 32, keys from 1 to 64, work of 0, 1 and 10 milliseconds.
    pub fn new(experiment: Experiment) -> Self {
        use memory::Strategy::{Adaptive, Locked, Optimistic};
        Self {
            experiment: Experiment { strategy: Strategy::Adaptive, ..experiment },
            strategies: vec![Locked, Optimistic, Adaptive],
            workers: vec![1, 2, 4, 8, 16, 32],
            keys: vec![1, 4, 16, 64],
            holds: [0, 1, 10].map(Duration::from_millis).to_vec(),
            each: Duration::from_millis(500),
        }
    }

    /// How many combinations there are.
    pub fn cells(&self) -> usize {
        self.strategies.len() * self.workers.len() * self.keys.len() * self.holds.len()
    }

    /// Measures all, one after the other. The watch counts cells.
    ///
    /// # Errors
    /// An [`ExperimentError`] if the sweep could not be done.
    pub async fn run(&self, watch: &Watch) -> Result<SweepReport, ExperimentError> {
        self.experiment.probe().await?;
        let mut cells = Vec::with_capacity(self.cells());
        for &hold in &self.holds {
            for &keys in &self.keys {
                for &workers in &self.workers {
                    for &strategy in &self.strategies {
                        if watch.stop.is_cancelled() {
                            return Err(ExperimentError::Stopped);
                        }
                        cells.push(self.cell(strategy, workers, keys, hold).await?);
                        watch.tick();
                    }
                }
            }
        }
        Ok(SweepReport { schema: "redfence.sweep/1", cells })
    }

    async fn cell(
        &self,
        strategy: memory::Strategy,
        workers: u32,
        keys: u32,
        hold: Duration,
    ) -> Result<Cell, ExperimentError> {
        let mut counters = vec![Counter::create(&self.experiment.memory).await?];
        for _ in 1..keys {
            counters.push(counters[0].another().await?);
        }
        let keys_of: Arc<[String]> = counters.iter().map(|counter| counter.key().to_owned()).collect();
        let (over, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(workers as usize + 1)));
        let mut dice = fastrand::Rng::with_seed(self.experiment.seed);
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let writer = Writer {
                memory: self.memory(&counters[0], dice.u64(..)).await?,
                keys: Arc::clone(&keys_of),
                strategy,
                hold,
                dice: dice.fork(),
                over: Arc::clone(&over),
            };
            let start = Arc::clone(&start);
            tasks.spawn(async move {
                start.wait().await;
                writer.run().await
            });
        }
        start.wait().await;
        let begun = Instant::now();
        tokio::time::sleep(self.each).await;
        over.store(true, Ordering::Relaxed);
        let mut total = Counts::new()?;
        while let Some(ended) = tasks.join_next().await {
            let counts = ended.map_err(|error| ExperimentError::Internal(error.to_string()))??;
            total.add(&counts)?;
        }
        let wall = begun.elapsed();
        let mut shown = 0;
        for counter in counters {
            shown += counter.finish().await?;
        }
        Ok(total.cell(strategy, workers, keys, hold, wall, shown))
    }

    /// A writer's own store and locks.
    async fn memory(&self, counter: &Counter, seed: u64) -> Result<SharedMemory, ExperimentError> {
        let locks = self.experiment.worker_lock(seed, counter, None)?;
        let memory = SharedMemory::shared(Arc::clone(counter.open().await?.store())).tries(u32::MAX);
        Ok(locks.map(|locks| memory.clone().with_locks(locks)).unwrap_or(memory))
    }
}

/// The name of a strategy of updates.
const fn name(strategy: memory::Strategy) -> &'static str {
    match strategy {
        memory::Strategy::Locked => "locked",
        memory::Strategy::Optimistic => "optimistic",
        memory::Strategy::Adaptive => "adaptive",
    }
}

struct Writer {
    memory: SharedMemory,
    keys: Arc<[String]>,
    strategy: memory::Strategy,
    hold: Duration,
    dice: fastrand::Rng,
    over: Arc<AtomicBool>,
}

impl Writer {
    async fn run(mut self) -> Result<Counts, ExperimentError> {
        let mut counts = Counts::new()?;
        let hold = self.hold;
        while !self.over.load(Ordering::Relaxed) {
            let place = self.dice.usize(..self.keys.len());
            // A number at a node is kept for ever: the locks have the same few names in every sweep.
            let memory = self.memory.clone().one_lock(&format!("{RESOURCE}/{place}"));
            let begun = Instant::now();
            let update = memory.update(&self.keys[place], self.strategy, |value| async move {
                let value = number(&value.unwrap_or_default())?;
                match hold.is_zero() {
                    true => tokio::task::yield_now().await,
                    false => tokio::time::sleep(hold).await,
                }
                Ok((value + 1).to_string().into_bytes())
            });
            let updated = update.await.map_err(ExperimentError::from)?;
            counts.made(&updated, begun.elapsed());
        }
        if let Some(locks) = self.memory.locks() {
            locks.drain(TIDYING).await;
        }
        Ok(counts)
    }
}

struct Counts {
    updates: u64,
    conflicts: u64,
    locked: u64,
    micros: Histogram<u64>,
}

impl Counts {
    fn new() -> Result<Self, ExperimentError> {
        let micros = Histogram::new_with_bounds(1, 3_600_000_000, 3);
        let micros = micros.map_err(|error| ExperimentError::Internal(error.to_string()))?;
        Ok(Self { updates: 0, conflicts: 0, locked: 0, micros })
    }

    fn made(&mut self, updated: &memory::Updated, took: Duration) {
        self.updates += 1;
        self.conflicts += u64::from(updated.conflicts);
        self.locked += u64::from(updated.locked);
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn add(&mut self, other: &Self) -> Result<(), ExperimentError> {
        self.updates += other.updates;
        self.conflicts += other.conflicts;
        self.locked += other.locked;
        self.micros.add(&other.micros).map_err(|error| ExperimentError::Internal(error.to_string()))
    }

    fn cell(
        &self,
        strategy: memory::Strategy,
        workers: u32,
        keys: u32,
        hold: Duration,
        wall: Duration,
        shown: u64,
    ) -> Cell {
        let per_update = |count: u64| rounded(count as f64 / self.updates.max(1) as f64);
        let millis = |quantile| rounded(self.micros.value_at_quantile(quantile) as f64 / 1e3);
        Cell {
            strategy: name(strategy),
            workers,
            keys,
            hold_ms: u64::try_from(hold.as_millis()).unwrap_or(u64::MAX),
            updates: self.updates,
            updates_per_s: rounded(self.updates as f64 / wall.as_secs_f64().max(1e-3)),
            conflicts_per_update: per_update(self.conflicts),
            locked: per_update(self.locked),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            lost: i64::try_from(i128::from(self.updates) - i128::from(shown)).unwrap_or(i64::MAX),
        }
    }
}

impl SweepReport {
    /// Whether no cell lost or doubled an update.
    pub fn is_exact(&self) -> bool {
        self.cells.iter().all(|cell| cell.lost == 0)
    }
}
