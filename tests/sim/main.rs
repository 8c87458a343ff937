//! The deterministic simulation: the real driver and the real Redis client, on simulated hosts, links and clocks.
//!
//! `world` is what can be made to fail, and keeps a log of everything; it knows nothing of chance or of right and wrong.
//! `swarm` draws a whole run from one seed and does it. `judge` looks at the log afterwards: the same rules that judge the
//! model, and whether the machine and the nodes did what `proto` says. `docs/testing.md` tells how to run and to replay.

mod world;

use std::sync::Arc;
use std::time::Duration;
use world::*;

#[test]
fn smoke() {
    let shape = Shape {
        seed: 1, nodes: 3, workers: 3,
        lock: worker::LockSettings { mode: redfence::lock::Mode::Fenced, ttl: Duration::from_secs(1), patience: Duration::from_millis(300), drift: Default::default() },
        tick: Duration::from_millis(1), latency: Duration::from_millis(10), latency_curve: 5.0,
    };
    let job: worker::Job = Arc::new(|mut worker| Box::pin(async move {
        for n in 0..20u64 {
            let op = (format!("{}", worker.host).len() as u128, n);
            let _ = op;
            let operation = (match worker.host { Host::Worker(i) => i as u128, _ => 0 }) << 64 | n as u128;
            loop {
                let Ok(guard) = worker.locks.acquire("r", Duration::from_secs(5)).await else { continue };
                let done = worker.add_one("r", Some(&guard), Duration::from_millis(5), operation).await;
                guard.release().await;
                if done { break; }
            }
            worker.done(n);
        }
    }));
    let start = std::time::Instant::now();
    let mut world = World::new(shape, &job);
    let ok = world.run_until(Duration::from_secs(60), |world| world.store.total() == 60);
    eprintln!("{ok} {} at {} wall {:?} hash {:x}", world.store.total(), world.time.now(), start.elapsed(), world.log.hash());
    let entries = world.log.take();
    eprintln!("{} entries", entries.len());
    for e in entries.iter().take(60) { eprintln!("{e}"); }
}
