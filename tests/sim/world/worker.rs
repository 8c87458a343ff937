//! A worker's process: the real lock on simulated streams, and what it does with it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redfence::lock::clock::{Clock, Entropy};
use redfence::lock::{ByteStream, Connecting, Connector, Mode};
use redfence::proto::{Drift, Owner};
use redfence::{DistributedLock, LockGuard};
use turmoil::net::TcpStream;

use super::Host;
use super::clock::WorkerClock;
use super::gate::{Gate, Gated, Point};
use super::log::{Ear, Log, What};
use super::memory::{Ask, Line, Said};

/// Opens streams of this host, which stand still when its process does.
pub(super) struct Roads(pub(super) Gate);

impl fmt::Debug for Roads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roads")
    }
}

impl Connector for Roads {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            self.0.pass().await;
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(Gated::new(stream, &self.0)) as Box<dyn ByteStream>)
        })
    }
}

/// Owner values and jitter from the seed. No two are equal: the first half counts.
#[derive(Debug)]
pub(super) struct Dice {
    drawn: Arc<AtomicU64>,
    rng: Mutex<fastrand::Rng>,
}

impl Dice {
    pub(super) fn new(drawn: &Arc<AtomicU64>, seed: u64) -> Self {
        Self { drawn: Arc::clone(drawn), rng: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    fn rng(&self) -> std::sync::MutexGuard<'_, fastrand::Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entropy for Dice {
    fn owner(&self) -> Owner {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        // The first eight digits name it in a printed history; from the low half an operator draws epochs.
        Owner(u128::from(number) << 96 | u128::from(self.rng().u64(..)))
    }

    fn chance(&self) -> f64 {
        self.rng().f64()
    }
}

/// How the lock of a worker is set up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LockSettings {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) patience: Duration,
    pub(crate) drift: Drift,
}

/// What a worker's software is given, fresh at each start of its process.
pub(crate) struct Worker {
    pub(crate) host: Host,
    pub(crate) locks: DistributedLock,
    pub(crate) memory: Line,
    pub(crate) clock: Arc<WorkerClock>,
    pub(crate) log: Log,
    pub(crate) dice: fastrand::Rng,
}

/// A worker's software.
pub(crate) type Job = Arc<dyn Fn(Worker) -> Pin<Box<dyn Future<Output = ()>>>>;

impl Worker {
    pub(super) fn new(
        host: Host,
        nodes: usize,
        settings: LockSettings,
        clock: &Arc<WorkerClock>,
        log: &Log,
        dice: Dice,
    ) -> Self {
        let seed = dice.rng().u64(..);
        let locks = DistributedLock::builder()
            .nodes((0..nodes).map(|node| format!("redis://{}:{}", Host::Node(node as u8), super::PORT)))
            .mode(settings.mode)
            .ttl(settings.ttl)
            .patience(settings.patience)
            .drift(settings.drift)
            .clock(Arc::clone(clock) as Arc<dyn Clock>)
            .entropy(Arc::new(dice))
            .connector(Arc::new(Roads(clock.gate.clone())))
            .recorder(Arc::new(Ear { host, log: log.clone() }))
            .build()
            .expect("drawn settings are sound");
        let (memory, log) = (Line::new(clock), log.clone());
        Self { host, locks, memory, clock: Arc::clone(clock), log, dice: fastrand::Rng::with_seed(seed) }
    }

    /// Passes time as this process sees it.
    pub(crate) async fn think(&mut self, longest: Duration) {
        let span = longest.mul_f64(self.dice.f64());
        self.clock.sleep(span).await;
    }

    /// Adds one, in the critical section; false if the update has to be begun again.
    pub(crate) async fn add_one(
        &mut self,
        resource: &str,
        guard: Option<&LockGuard>,
        thinking: Duration,
        operation: u128,
    ) -> bool {
        let token = guard.and_then(|guard| guard.token());
        let gate = self.clock.gate.clone();
        gate.point(Point::BeforeRead).await;
        let Said::Value { value, version } = self.memory.ask(resource, token, &Ask::Read).await else {
            return false;
        };
        self.think(thinking).await;
        if guard.is_some_and(|guard| !guard.is_held()) {
            return false;
        }
        gate.point(Point::BeforeWrite).await;
        let write = Ask::Write { value: value + 1, base: version, operation };
        let done = self.memory.ask(resource, token, &write).await == Said::Applied;
        gate.point(Point::BeforeRelease).await;
        done
    }

    pub(crate) fn done(&self, number: u64) {
        self.log.add(self.host, What::Done(number));
    }
}
