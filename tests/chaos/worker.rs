//! This binary as a worker process: takes the lock, reads the counter, adds 1, writes it back; again and again.
//!
//! It tells what it does on stdout, one line each, and takes orders on stdin. Whoever takes its place after a crash asks the counter
//! for its last operation and goes on behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redfence::lock::Mode;
use redfence::lock::clock::{Clock, SystemClock};
use redfence::{DistributedLock, LockGuard};
use rustix::process::{Signal, getpid, kill_process};

use crate::store::{Operation, Store};

/// The environment of a worker process: what it is to do.
pub(crate) const WORKER: &str = "REDFENCE_CHAOS_WORKER";

pub(crate) const RESOURCE: &str = "chaos/counter";

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) worker: usize,
    pub(crate) operations: u64,
    /// `None`: no lock.
    pub(crate) mode: Option<Mode>,
    pub(crate) ttl: Duration,
    pub(crate) patience: Duration,
    pub(crate) store: String,
    pub(crate) nodes: Vec<String>,
}

impl Job {
    /// As one word for the environment.
    pub(crate) fn to_text(&self) -> String {
        let mode = match self.mode {
            None => "none",
            Some(Mode::Classic) => "classic",
            Some(Mode::Fenced) => "fenced",
        };
        let (ttl, patience) = (self.ttl.as_millis(), self.patience.as_millis());
        let (worker, operations, store) = (self.worker, self.operations, &self.store);
        format!("{worker} {operations} {mode} {ttl} {patience} {store} {}", self.nodes.join(","))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        Some(Self {
            worker: word()?.parse().ok()?,
            operations: word()?.parse().ok()?,
            mode: match word()? {
                "none" => None,
                "classic" => Some(Mode::Classic),
                "fenced" => Some(Mode::Fenced),
                _ => return None,
            },
            ttl: Duration::from_millis(word()?.parse().ok()?),
            patience: Duration::from_millis(word()?.parse().ok()?),
            store: word()?.to_owned(),
            nodes: word()?.split(',').map(str::to_owned).collect(),
        })
    }
}

/// Orders from stdin, each for the next critical section.
#[derive(Debug, Default)]
struct Orders {
    /// Orders that were given before this one are known when the work begins.
    start: AtomicBool,
    /// Stop this process between the last look at the lease and the write.
    pause: AtomicBool,
    /// Take long between the read and the last look at the lease, until told to go on.
    linger: AtomicBool,
    go: AtomicBool,
}

/// Works, if the environment says so, and does not return then.
pub(crate) fn play() {
    let Ok(job) = std::env::var(WORKER) else { return };
    let job = Job::parse(&job).expect("a job");
    let orders = Arc::new(Orders::default());
    let heard = Arc::clone(&orders);
    std::thread::spawn(move || hear(&heard));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut worker = Worker::new(job, orders);
        worker.work().await;
        if let Some(locks) = &worker.locks {
            locks.drain(Duration::from_secs(3)).await;
        }
    });
    println!("finished");
    std::process::exit(0);
}

/// Takes orders. Ends the process when nobody gives orders any more: it must not outlive the test.
fn hear(orders: &Orders) {
    for line in std::io::stdin().lines() {
        match line.as_deref() {
            Ok("start") => orders.start.store(true, Ordering::Release),
            Ok("pause") => orders.pause.store(true, Ordering::Release),
            Ok("linger") => orders.linger.store(true, Ordering::Release),
            Ok("go") => orders.go.store(true, Ordering::Release),
            _ => break,
        }
    }
    std::process::exit(1);
}

struct Worker {
    job: Job,
    locks: Option<DistributedLock>,
    clock: SystemClock,
    store: Store,
    orders: Arc<Orders>,
}

impl Worker {
    fn new(job: Job, orders: Arc<Orders>) -> Self {
        let locks = job.mode.map(|mode| {
            let builder = DistributedLock::builder().nodes(&job.nodes).mode(mode);
            builder.ttl(job.ttl).patience(job.patience).build().expect("a lock")
        });
        let store = Store::new(&job.store);
        Self { job, locks, clock: SystemClock::default(), store, orders }
    }

    async fn work(&mut self) {
        while !self.orders.start.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let first = self.store.last_operation(self.job.worker).await + 1;
        println!("from {first}");
        for number in first..=self.job.operations {
            let operation = Operation { worker: self.job.worker, number };
            while !self.attempt(operation).await {}
            println!("did {number}");
        }
    }

    /// One try of an operation; whether it is done.
    async fn attempt(&mut self, operation: Operation) -> bool {
        let Some(locks) = &self.locks else { return self.add_one(operation, None).await };
        let begun = self.clock.now();
        let guard = match locks.acquire(RESOURCE, Duration::from_secs(5)).await {
            Ok(guard) => guard,
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                println!("refused");
                return false;
            }
        };
        let (won, until) = (self.clock.now().as_micros(), guard.valid_until().as_micros());
        let token = guard.token().map_or(0, |token| token.0);
        println!("won {} {token} {} {won} {until}", guard.owner().0, begun.as_micros());
        let done = self.add_one(operation, Some(&guard)).await;
        println!("end {}", self.clock.now().as_micros());
        guard.release().await;
        done
    }

    /// The critical section.
    async fn add_one(&mut self, operation: Operation, guard: Option<&LockGuard>) -> bool {
        let token = guard.and_then(|guard| guard.token());
        let Ok(seen) = self.store.read(token).await else {
            println!("fenced");
            return false;
        };
        if self.orders.linger.swap(false, Ordering::AcqRel) {
            println!("lingers");
            while !self.orders.go.swap(false, Ordering::AcqRel) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        if guard.is_some_and(|guard| !guard.is_held()) {
            println!("lost");
            return false;
        }
        if self.orders.pause.swap(false, Ordering::AcqRel) {
            println!("pauses");
            kill_process(getpid(), Signal::STOP).expect("a process may stop itself");
            println!("resumes");
        }
        if self.store.write(token, operation, seen).await.is_err() {
            println!("fenced");
            return false;
        }
        true
    }
}
