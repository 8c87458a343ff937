//! Acquire and release on five real nodes, beside a hand-written minimal loop: the price of everything around the commands.
//!
//! `cargo bench` starts five `redis-server` processes and interleaves the contestants, so that what disturbs one disturbs
//! all. What it prints are ratios from one run on one machine; nothing is asserted.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redfence::DistributedLock;
use redfence::lock::Mode;
use redfence::lock::clock::{Entropy, SystemEntropy};
use redis::aio::MultiplexedConnection;

const NODES: usize = 5;
const QUORUM: usize = 3;
const ROUNDS: usize = 40;
const PAIRS: usize = 100;

fn main() {
    if let Err(reason) = support::require_redis() {
        println!("no benchmark: {reason}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(contest());
}

async fn contest() {
    let nodes = support::Cluster::start(NODES);
    let minimal = Minimal::connect(&nodes.urls()).await;
    let lock = |mode| DistributedLock::builder().nodes(nodes.urls()).mode(mode).build().expect("a lock");
    let (classic, fenced) = (lock(Mode::Classic), lock(Mode::Fenced));
    let mut times = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let round_times = [
            timed(async || minimal.pair("bench/minimal").await).await,
            timed(async || pair(&classic, "bench/classic").await).await,
            timed(async || pair(&fenced, "bench/fenced").await).await,
        ];
        // The first round connects and loads scripts.
        if round > 0 {
            times.iter_mut().zip(round_times).for_each(|(all, one)| all.extend(one));
        }
    }
    let medians = times.map(|mut all| {
        all.sort_unstable();
        (all[all.len() / 2], all[all.len() * 99 / 100])
    });
    let base = medians[0].0.as_secs_f64();
    println!("acquire + release, {NODES} nodes on loopback, {} pairs each, interleaved", ROUNDS * PAIRS);
    println!("{:<28}{:>12}{:>12}{:>10}", "", "median", "p99", "ratio");
    for (name, (median, p99)) in
        ["minimal loop (SET NX PX)", "redfence, classic", "redfence, fenced"].iter().zip(medians)
    {
        let ratio = median.as_secs_f64() / base;
        println!("{name:<28}{:>10}us{:>10}us{ratio:>10.2}", median.as_micros(), p99.as_micros());
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn timed(mut once: impl AsyncFnMut()) -> Vec<Duration> {
    let mut times = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let start = Instant::now();
        once().await;
        times.push(start.elapsed());
    }
    times
}

async fn pair(locks: &DistributedLock, resource: &str) {
    let guard = locks.try_acquire(resource).await.expect("nobody else is here");
    let _ = guard.release().await;
}

/// What one would write without a library: no drift, no confirm, no clean-up, no errors.
struct Minimal {
    connections: Vec<MultiplexedConnection>,
    release: redis::Script,
}

impl Minimal {
    async fn connect(urls: &[String]) -> Self {
        let mut connections = Vec::new();
        for url in urls {
            let client = redis::Client::open(url.as_str()).expect("a URL");
            connections.push(client.get_multiplexed_async_connection().await.expect("a connection"));
        }
        let release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
        let release = redis::Script::new(release);
        for connection in &mut connections {
            release.load_async(connection).await.expect("the script is loaded");
        }
        Self { connections, release }
    }

    async fn pair(&self, key: &str) {
        let owner = SystemEntropy::default().owner().to_string();
        let set = self.connections.iter().cloned().map(|mut connection| {
            let mut command = redis::cmd("SET");
            command.arg(key).arg(&owner).arg("NX").arg("PX").arg(10_000);
            async move {
                command.query_async::<Option<String>>(&mut connection).await.is_ok_and(|set| set.is_some())
            }
        });
        assert!(quorum(set.collect()).await, "nobody else is here");
        let release = self.connections.iter().cloned().map(|mut connection| {
            let mut call = self.release.prepare_invoke();
            call.key(key).arg(&owner);
            async move { call.invoke_async::<i64>(&mut connection).await == Ok(1) }
        });
        assert!(quorum(release.collect()).await, "it was ours");
    }
}

/// Whether a quorum says yes; returns as soon as it does.
async fn quorum(mut open: FuturesUnordered<impl Future<Output = bool>>) -> bool {
    let mut yes = 0;
    while let Some(answer) = open.next().await {
        yes += usize::from(answer);
        if yes == QUORUM {
            return true;
        }
    }
    false
}
