//! Acquire and release side by side: Redlock on five Redis nodes, etcd and ZooKeeper with three members each.
//!
//! `cargo bench --features etcd,zookeeper --bench backends`. All servers run at once and the contestants take turns, so that what
//! disturbs one disturbs all, and all have every write on disk before they answer. Ratios from one run on one machine; nothing
//! is asserted.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use redfence::DistributedLock;

const ROUNDS: usize = 30;
const PAIRS: usize = 20;

fn main() {
    for possible in [support::require_redis(), support::require_etcd(), support::require_zookeeper()] {
        if let Err(reason) = possible {
            println!("no benchmark: {reason}");
            return;
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(contest());
}

async fn contest() {
    let redis = support::Cluster::start(5);
    let etcd = support::EtcdCluster::durable(3);
    let zookeeper = support::ZooKeeperEnsemble::durable(3);
    let builder = || DistributedLock::builder().patience(Duration::from_secs(5)).ttl(Duration::from_secs(4));
    let contestants = [
        ("Redlock, fenced, 5 x Redis", builder().nodes(redis.urls()).build()),
        ("etcd, 3 members", builder().etcd(etcd.urls()).build()),
        ("ZooKeeper, 3 servers", builder().zookeeper(zookeeper.connect_string()).build()),
    ];
    let contestants = contestants.map(|(name, locks)| (name, locks.expect("a lock")));
    let mut times = contestants.each_ref().map(|_| Vec::new());
    for round in 0..=ROUNDS {
        for ((_, locks), all) in contestants.iter().zip(&mut times) {
            let one = timed(locks).await;
            // The first round connects, opens sessions, makes folders.
            if round > 0 {
                all.extend(one);
            }
        }
    }
    println!("acquire + release on loopback, {} pairs each, interleaved", ROUNDS * PAIRS);
    println!("{:<28}{:>12}{:>12}{:>10}", "", "median", "p99", "ratio");
    let figures = times.map(|mut all| {
        all.sort_unstable();
        (all[all.len() / 2], all[all.len() * 99 / 100])
    });
    let base = figures[0].0.as_secs_f64();
    for ((name, _), (median, p99)) in contestants.iter().zip(figures) {
        let ratio = median.as_secs_f64() / base;
        println!("{name:<28}{:>10}us{:>10}us{ratio:>10.2}", median.as_micros(), p99.as_micros());
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn timed(locks: &DistributedLock) -> Vec<Duration> {
    let mut times = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let start = Instant::now();
        let guard = locks.try_acquire("bench").await.expect("nobody else is here");
        let _ = guard.release().await;
        times.push(start.elapsed());
    }
    times
}
