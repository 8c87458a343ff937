//! What an experiment found, and how it is said. The names in JSON are fixed: other tools rely on them.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Experiment, ExperimentError, Strategy};

/// Names the form of [`Summary`] in JSON.
pub const SCHEMA: &str = "redfence.simulate/1";

/// The longest acquisition told apart, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

/// All runs of one experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The strategy's name.
    pub strategy: &'static str,
    /// Workers at the same time.
    pub workers: u32,
    /// Operations of each worker.
    pub ops_per_worker: u64,
    /// What the counter must show after each run.
    pub expected: u64,
    /// What went wrong on purpose: names with commas between them; nothing if nothing did.
    pub fault: Option<String>,
    /// Every run.
    pub runs: Vec<RunReport>,
    /// Mean of `final`.
    pub mean_final: f64,
    /// Mean of `lost`.
    pub mean_lost: f64,
    /// The same in percent of `expected`.
    pub mean_lost_pct: f64,
    /// Time from asking for the lock to having it, over all runs; zeros where there is no lock.
    pub acquire_us: AcquireMicros,
    /// Operations per second of wall time, over all runs.
    pub ops_per_s: f64,
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunReport {
    /// What the counter showed at the end.
    #[serde(rename = "final")]
    pub last: u64,
    /// Updates lost: expected minus final. Below zero if updates were counted twice.
    pub lost: i64,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
    /// Locks acquired.
    pub acquisitions: u64,
    /// Operations begun again, after the lock was lost or the counter refused the token.
    pub retries: u64,
    /// Writes refused because somebody else had written meanwhile; only optimistic strategies see any.
    pub conflicts: u64,
    /// Reads and writes that the counter refused because it had seen a larger token.
    pub fenced_rejections: u64,
    /// How often each fault struck, by its name.
    pub faults_injected: BTreeMap<&'static str, u64>,
}

/// Percentiles of a latency, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct AcquireMicros {
    /// The median.
    pub p50: u64,
    /// One in a hundred took longer.
    pub p99: u64,
}

impl Summary {
    pub(super) fn new(experiment: &Experiment, runs: Vec<RunReport>, latencies: &Histogram<u64>) -> Self {
        let expected = experiment.expected();
        let mean = |of: fn(&RunReport) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let (mean_final, mean_lost) = (mean(|run| run.last as f64), mean(|run| run.lost as f64));
        let seconds = runs.iter().map(|run| run.wall_ms as f64).sum::<f64>() / 1e3;
        let faults: Vec<_> = experiment.faults.iter().map(|fault| fault.name()).collect();
        let operations = expected as f64 * runs.len() as f64;
        Self {
            schema: SCHEMA,
            strategy: experiment.strategy.name(),
            workers: experiment.workers,
            ops_per_worker: experiment.ops,
            expected,
            fault: (!faults.is_empty()).then(|| faults.join(",")),
            mean_final: rounded(mean_final),
            mean_lost: rounded(mean_lost),
            mean_lost_pct: rounded(100.0 * mean_lost / expected as f64),
            acquire_us: AcquireMicros {
                p50: latencies.value_at_quantile(0.5),
                p99: latencies.value_at_quantile(0.99),
            },
            // A run may take less than the millisecond it is measured in.
            ops_per_s: rounded(operations / seconds.max(runs.len() as f64 * 1e-3)),
            runs,
        }
    }

    /// Whether every run ended at the expected value.
    pub fn is_exact(&self) -> bool {
        self.runs.iter().all(|run| run.lost == 0)
    }

    /// Whether a strategy that promises to lose nothing kept its word; true for one that promises nothing.
    pub fn kept_its_word(&self) -> bool {
        let protected = Strategy::ALL.iter().any(|s| s.name() == self.strategy && s.is_protected());
        !protected || self.is_exact()
    }
}

/// To a hundredth: more digits say nothing.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// What one worker counts, and what all count together.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) acquisitions: u64,
    pub(super) retries: u64,
    pub(super) conflicts: u64,
    pub(super) fenced_rejections: u64,
    pub(super) acquire_micros: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Result<Self, ExperimentError> {
        let acquire_micros = Histogram::new_with_bounds(1, LONGEST, 3);
        let acquire_micros = acquire_micros.map_err(|error| ExperimentError::Internal(error.to_string()))?;
        Ok(Self { acquisitions: 0, retries: 0, conflicts: 0, fenced_rejections: 0, acquire_micros })
    }

    pub(super) fn acquired(&mut self, took: Duration) {
        self.acquisitions += 1;
        self.acquire_micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST));
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<(), ExperimentError> {
        self.acquisitions += other.acquisitions;
        self.retries += other.retries;
        self.conflicts += other.conflicts;
        self.fenced_rejections += other.fenced_rejections;
        let added = self.acquire_micros.add(&other.acquire_micros);
        added.map_err(|error| ExperimentError::Internal(error.to_string()))
    }

    pub(super) fn report(
        &self,
        expected: u64,
        last: u64,
        wall: Duration,
        faults_injected: BTreeMap<&'static str, u64>,
    ) -> RunReport {
        let lost = i128::from(expected) - i128::from(last);
        RunReport {
            last,
            lost: i64::try_from(lost).unwrap_or(if lost < 0 { i64::MIN } else { i64::MAX }),
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            acquisitions: self.acquisitions,
            retries: self.retries,
            conflicts: self.conflicts,
            fenced_rejections: self.fenced_rejections,
            faults_injected,
        }
    }
}
