//! The experiment: workers that each add 1 to a shared counter, many times, under a strategy that protects the counter or not.
//!
//! `workers` x `ops` is what the counter must show at the end. Every worker has its own lock and its own connections, so that
//! the workers meet at the nodes and nowhere else. Nothing is dropped: who has to wait waits, and who loses its lease
//! half-way begins the operation again. Nothing is made up: the counter is read at the end, and whatever it shows is reported.
//!
//! ```no_run
//! # async fn example() -> Result<(), redfence::simulate::ExperimentError> {
//! use redfence::simulate::{Experiment, Strategy, Watch};
//!
//! let nodes = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"];
//! let mut experiment = Experiment::new(Strategy::Fenced, nodes.map(String::from).to_vec());
//! experiment.runs = 5;
//! let summary = experiment.run(&Watch::default()).await?;
//! assert!(summary.is_exact());
//! # Ok(()) }
//! ```

mod cluster;
mod counter;
mod entropy;
mod error;
mod fault;
mod inject;
mod links;
mod report;
mod sweep;
mod worker;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lock::error::{AcquireError, ConfigError};
use crate::lock::{DistributedLock, LockBuilder};
use crate::memory;
use crate::proto::session::Mode;

pub use cluster::EmbeddedCluster;
pub use error::ExperimentError;
pub use fault::Fault;
pub use report::{AcquireMicros, RunReport, SCHEMA, Summary};
pub use sweep::{Cell, Sweep, SweepReport};

use counter::Counter;
use entropy::Seeded;
use inject::{Field, Injector};
use links::Links;
use report::Tally;
use worker::Worker;

/// What all simulations on the same nodes compete for. One name for all, because a number at a node is kept for ever.
const RESOURCE: &str = "simulation/counter";

/// How the counter is protected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Strategy {
    /// Not at all: the baseline.
    None,
    /// By Redlock as the Redis page has it.
    Classic,
    /// By Redlock with fencing tokens, which the counter checks on every read and every write.
    Fenced,
    /// By the version that each write was computed from, without a lock.
    Optimistic,
    /// By version until conflicts persist, then by Redlock until they fade.
    Adaptive,
    /// By a lock on etcd, with its tokens.
    Etcd,
    /// By a lock on ZooKeeper, with its tokens.
    ZooKeeper,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Classic,
        Self::Fenced,
        Self::Optimistic,
        Self::Adaptive,
        Self::Etcd,
        Self::ZooKeeper,
    ];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Classic => "classic",
            Self::Fenced => "fenced",
            Self::Optimistic => "optimistic",
            Self::Adaptive => "adaptive",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Whether it promises that no update is lost.
    pub const fn is_protected(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether its lock is kept by Redis nodes.
    pub const fn is_on_nodes(self) -> bool {
        matches!(self, Self::Classic | Self::Fenced | Self::Adaptive)
    }

    /// Whether every update takes the lock: what faults strike at.
    const fn always_locks(self) -> bool {
        matches!(self, Self::Classic | Self::Fenced | Self::Etcd | Self::ZooKeeper)
    }

    /// Whether the counter is shown the tokens of the lock.
    const fn is_fenced(self) -> bool {
        self.always_locks() && !matches!(self, Self::Classic)
    }

    /// How an update is made that does without the lock or takes it as needed.
    const fn by_version(self) -> Option<memory::Strategy> {
        match self {
            Self::Optimistic => Some(memory::Strategy::Optimistic),
            Self::Adaptive => Some(memory::Strategy::Adaptive),
            _ => None,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the counter is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Memory {
    /// In this process.
    #[default]
    InProcess,
    /// In a Redis server, which may be one of the nodes.
    Redis(String),
    /// In an SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    /// In a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

impl FromStr for Memory {
    type Err = ExperimentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "in-process" => Ok(Self::InProcess),
            Some(("redis", url)) if url.starts_with("redis://") || url.starts_with("rediss://") => {
                Ok(Self::Redis(url.to_owned()))
            }
            Some(("redis" | "rediss", rest)) if rest.starts_with("//") => Ok(Self::Redis(text.to_owned())),
            #[cfg(feature = "sqlite")]
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            #[cfg(feature = "postgres")]
            Some(("postgres", url)) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Postgres(url.to_owned()))
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            _ => Err(ExperimentError::UnknownMemory),
        }
    }
}

/// The experiment. Make one with [`Experiment::new`], change what is to be otherwise, and [`run`](Self::run) it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Experiment {
    /// How the counter is protected.
    pub strategy: Strategy,
    /// The lock's nodes, as URLs; the members of etcd, as URLs; the servers of ZooKeeper, as `host:port` with a chroot after the last.
    /// Not needed without a lock.
    pub nodes: Vec<String>,
    /// How many add to the counter at the same time, 1 to 256.
    pub workers: u32,
    /// How often each adds 1.
    pub ops: u64,
    /// How often the whole is done, each time with a fresh counter.
    pub runs: u32,
    /// Where the counter is.
    pub memory: Memory,
    /// What goes wrong on purpose.
    pub faults: Vec<Fault>,
    /// Life of the lock's keys.
    pub ttl: Duration,
    /// Comes before the lock's resource name.
    pub prefix: String,
    /// Allow one node, or an even number.
    pub allow_weak_quorum: bool,
    /// Feeds every random choice made here: how long a worker thinks, jitter. Owner values stay random, and threads and
    /// networks keep their own mind: the same seed does not give the same history.
    pub seed: u64,
}

impl Experiment {
    /// Three workers, 1000 operations each, one run, in this process.
    pub fn new(strategy: Strategy, nodes: Vec<String>) -> Self {
        Self {
            strategy,
            nodes,
            workers: 3,
            ops: 1000,
            runs: 1,
            memory: Memory::InProcess,
            faults: Vec::new(),
            ttl: Duration::from_secs(10),
            prefix: String::new(),
            allow_weak_quorum: false,
            seed: 0,
        }
    }

    /// What the counter must show after one run.
    pub fn expected(&self) -> u64 {
        u64::from(self.workers).saturating_mul(self.ops)
    }

    /// Does all runs, one after the other.
    ///
    /// # Errors
    /// An [`ExperimentError`] if the experiment could not be done. A wrong counter is not an error but a result.
    pub async fn run(&self, watch: &Watch) -> Result<Summary, ExperimentError> {
        self.run_with(None, watch).await
    }

    /// The same with these nodes as the lock's: also for faults that are done to nodes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_on(&self, cluster: &EmbeddedCluster, watch: &Watch) -> Result<Summary, ExperimentError> {
        let own = Self { nodes: cluster.urls(), ..self.clone() };
        own.run_with(Some(cluster), watch).await
    }

    async fn run_with(
        &self,
        cluster: Option<&EmbeddedCluster>,
        watch: &Watch,
    ) -> Result<Summary, ExperimentError> {
        self.check(cluster.is_some())?;
        self.probe().await?;
        let mut runs = Vec::new();
        let mut latencies = Tally::new()?.acquire_micros;
        for number in 0..self.runs {
            let run = self.run_once(number, cluster, watch).await?;
            latencies.add(&run.1).map_err(|error| ExperimentError::Internal(error.to_string()))?;
            runs.push(run.0);
        }
        Ok(Summary::new(self, runs, &latencies))
    }

    fn check(&self, ours: bool) -> Result<(), ExperimentError> {
        let limits = [
            ("workers", u64::from(self.workers), 256),
            ("ops", self.ops, 1_000_000_000),
            ("runs", u64::from(self.runs), 100_000),
        ];
        for (what, given, most) in limits {
            if given == 0 || given > most {
                return Err(ExperimentError::OutOfRange { what, given, most });
            }
        }
        self.faults.iter().try_for_each(|&fault| self.check_fault(fault, ours))
    }

    fn check_fault(&self, fault: Fault, ours: bool) -> Result<(), ExperimentError> {
        let (given, least) = (self.nodes.len(), fault.least_nodes());
        // Servers of others are not ours to strike; a worker is, whatever its lock.
        if !self.strategy.always_locks() || !(self.strategy.is_on_nodes() || fault == Fault::Pause) {
            return Err(ExperimentError::NothingToBreak { fault, strategy: self.strategy.name() });
        }
        if fault.needs_embedded_nodes() && !ours {
            return Err(ExperimentError::NodesNotOurs(fault));
        }
        let otherwise = self.nodes.iter().position(|url| !url.trim().starts_with("redis://"));
        if let Some(place) = otherwise.filter(|_| fault.needs_tcp()) {
            return Err(ExperimentError::NotTcp { fault, node: place + 1 });
        }
        if given < least {
            return Err(ExperimentError::TooFewNodes { fault, given, least });
        }
        Ok(())
    }

    /// Acquires once before anything is measured: wakes fresh nodes, and tells at once what waiting cannot cure.
    async fn probe(&self) -> Result<(), ExperimentError> {
        let Some(locks) = self.lock(0)? else { return Ok(()) };
        match locks.try_acquire(RESOURCE).await {
            Ok(guard) => drop(guard.release().await),
            Err(AcquireError::Contended { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// One worker's own lock, with its own connections.
    fn lock(&self, seed: u64) -> Result<Option<DistributedLock>, ConfigError> {
        self.lock_by(seed, |builder| builder)
    }

    /// Where the lock is.
    fn service(&self) -> Option<LockBuilder> {
        let (builder, nodes) = (DistributedLock::builder(), self.nodes.clone());
        match self.strategy {
            Strategy::None | Strategy::Optimistic => None,
            Strategy::Classic => Some(builder.nodes(nodes).mode(Mode::Classic)),
            Strategy::Fenced | Strategy::Adaptive => Some(builder.nodes(nodes)),
            Strategy::Etcd => Some(builder.etcd(nodes)),
            Strategy::ZooKeeper => Some(builder.zookeeper(nodes.join(","))),
        }
    }

    fn lock_by(
        &self,
        seed: u64,
        settings: impl FnOnce(LockBuilder) -> LockBuilder,
    ) -> Result<Option<DistributedLock>, ConfigError> {
        let Some(builder) = self.service() else { return Ok(None) };
        let builder = builder
            .ttl(self.ttl)
            .prefix(self.prefix.clone())
            .allow_weak_quorum(self.allow_weak_quorum)
            .entropy(Arc::new(Seeded::new(seed)));
        settings(builder).build().map(Some)
    }

    /// What does the faults of one run; nothing if there are none.
    fn injector(
        &self,
        cluster: Option<&EmbeddedCluster>,
        seed: u64,
    ) -> Result<Option<Arc<Injector>>, ConfigError> {
        if self.faults.is_empty() {
            return Ok(None);
        }
        let operator = self.lock(seed)?;
        let addresses = operator.as_ref().map(DistributedLock::addresses).unwrap_or_default();
        let field = Field {
            cluster: cluster.cloned(),
            links: Arc::new(Links::to(&addresses)),
            addresses,
            operator,
            fenced: self.strategy.is_fenced(),
            dice: std::sync::Mutex::new(fastrand::Rng::with_seed(seed)),
        };
        Ok(Some(Arc::new(Injector::new(&self.faults, self.expected(), self.ttl, field))))
    }

    /// A worker's lock: by way of the links, if they are to fail.
    fn worker_lock(
        &self,
        seed: u64,
        counter: &Counter,
        injector: Option<&Arc<Injector>>,
    ) -> Result<Option<DistributedLock>, ConfigError> {
        let linked = self.faults.iter().any(|fault| fault.needs_tcp());
        self.lock_by(seed, |builder| {
            let builder = builder.backend_id(counter.backend().clone());
            match injector.filter(|_| linked) {
                Some(injector) => builder.connector(injector.field.links.clone()),
                None => builder,
            }
        })
    }

    async fn run_once(
        &self,
        number: u32,
        cluster: Option<&EmbeddedCluster>,
        watch: &Watch,
    ) -> Result<(RunReport, hdrhistogram::Histogram<u64>), ExperimentError> {
        let mut dice = fastrand::Rng::with_seed(self.seed.wrapping_add(u64::from(number)));
        let counter = Counter::create(&self.memory).await?;
        let injector = self.injector(cluster, dice.u64(..))?;
        let start = Arc::new(Barrier::new(self.workers as usize + 1));
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let worker = Worker {
                ops: self.ops,
                locks: self.worker_lock(dice.u64(..), &counter, injector.as_ref())?,
                fenced: self.strategy.is_fenced(),
                by_version: self.strategy.by_version(),
                counter: counter.open().await?,
                injector: injector.clone(),
                dice: fastrand::Rng::with_seed(dice.u64(..)),
                watch: watch.clone(),
                tally: Tally::new()?,
            };
            let start = Arc::clone(&start);
            workers.spawn(async move {
                start.wait().await;
                worker.run().await
            });
        }
        start.wait().await;
        let begun = Instant::now();
        let worked = match &injector {
            None => gather(&mut workers, watch).await,
            Some(injector) => injector.beside(gather(&mut workers, watch), watch).await,
        };
        let wall = begun.elapsed();
        let last = counter.finish().await;
        let (total, last) = (worked?, last?);
        let injected = injector.map(|injector| injector.counts()).unwrap_or_default();
        Ok((total.report(self.expected(), last, wall, injected), total.acquire_micros))
    }
}

/// What all workers have counted together.
async fn gather(
    workers: &mut JoinSet<Result<Tally, ExperimentError>>,
    watch: &Watch,
) -> Result<Tally, ExperimentError> {
    let mut total = Tally::new()?;
    let mut failed = None;
    while let Some(ended) = workers.join_next().await {
        match ended.map_err(|error| ExperimentError::Internal(error.to_string())).flatten() {
            Ok(tally) => total.add(&tally)?,
            Err(error) => {
                // The others could wait for what does not come.
                watch.stop();
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(total), Err)
}

/// Watches an experiment, and stops it.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    done: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Watch {
    /// Operations done so far, over all runs.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the experiment: every worker releases what it holds, and `run` returns [`ExperimentError::Stopped`].
    pub fn stop(&self) {
        self.stop.cancel();
    }

    fn tick(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}
