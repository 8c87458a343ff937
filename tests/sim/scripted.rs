//! Runs that are written, not drawn: one world, one story.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redfence::lock::Mode;
use redfence::proto::Drift;

use crate::mutants;
use crate::world::gate::Point;
use crate::world::worker::{Job, LockSettings};
use crate::world::{Host, Shape, World};

pub(crate) fn shape(workers: usize, ttl: u64, patience: u64) -> Shape {
    let (ttl, patience) = (Duration::from_millis(ttl), Duration::from_millis(patience));
    let lock = LockSettings { mode: Mode::Fenced, ttl, patience, drift: Drift::default() };
    let (tick, latency) = (Duration::from_millis(1), Duration::from_millis(4));
    Shape { seed: 7, nodes: 3, workers, lock, tick, latency, latency_curve: 5.0 }
}

/// Found by the swarm (`no progress`): attempts with a short TTL end before a connection counts as dead, and took the only request
/// that could tell with them. The dead connection was kept for ever.
#[test]
fn a_dead_connection_is_found_also_by_attempts_that_end_sooner() {
    let _alone = mutants::nobody();
    let won = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&won);
    let job: Job = Arc::new(move |worker| {
        let won = Arc::clone(&counter);
        Box::pin(async move {
            loop {
                if let Ok(guard) = worker.locks.try_acquire("r").await {
                    won.fetch_add(1, Ordering::Relaxed);
                    guard.release().await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    });
    let mut world = World::new(shape(1, 150, 60), &job);
    let (worker, nodes) = (Host::Worker(0), [Host::Node(0), Host::Node(1)]);
    assert!(world.run_until(Duration::from_secs(5), |_| won.load(Ordering::Relaxed) > 3));
    nodes.iter().for_each(|node| world.cut(worker, *node));
    world.run_until(Duration::from_millis(300), |_| false);
    nodes.iter().for_each(|node| world.mend(worker, *node));
    let before = won.load(Ordering::Relaxed);
    assert!(world.run_until(Duration::from_secs(5), |_| won.load(Ordering::Relaxed) > before), "{before}");
}

/// Scenario S10: a holder is stopped between its look at the lease and its write, for longer than the lease. The fence refuses the
/// write; without one it is accepted, and the other's update is gone.
#[test]
fn a_holder_stopped_before_its_write_is_fenced_off() {
    let _alone = mutants::nobody();
    for (fenced, expected) in [(true, 2), (false, 1)] {
        let done = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&done);
        let job: Job = Arc::new(move |mut worker| {
            let done = Arc::clone(&log);
            Box::pin(async move {
                let Host::Worker(index) = worker.host else { return };
                // The second one comes when the first one holds the lock.
                tokio::time::sleep(Duration::from_millis(100 * u64::from(index))).await;
                for try_ in 0.. {
                    let wait = Duration::from_secs(5);
                    let Ok(guard) = worker.locks.acquire("r", wait).await else { continue };
                    if index == 0 && try_ == 0 {
                        let gate = worker.clock.gate.clone();
                        let pause = gate.clone();
                        gate.on_point(Point::BeforeWrite, move || pause.pause(1_000_000));
                    }
                    let shown = fenced.then_some(&guard);
                    if worker.add_one("r", shown, Duration::from_millis(1), index.into()).await {
                        done.lock().expect("no panic").push(index);
                        return;
                    }
                }
            })
        });
        let mut world = World::new(shape(2, 300, 60), &job);
        let both = |_: &mut World| done.lock().expect("no panic").len() == 2;
        assert!(world.run_until(Duration::from_secs(10), both));
        assert_eq!(world.store.total(), expected, "fenced: {fenced}");
    }
}

/// Two nodes say that they are empty, then everything is started and used by another client, and only then the third one answers: it
/// is in use. That is no reason to fail, all nodes are well.
#[test]
fn a_look_that_began_before_the_first_start_is_taken_again() {
    let _alone = mutants::nobody();
    let done = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&done);
    let job: Job = Arc::new(move |worker| {
        let done = Arc::clone(&log);
        Box::pin(async move {
            let Host::Worker(index) = worker.host else { return };
            tokio::time::sleep(Duration::from_millis(if index == 0 { 100 } else { 0 })).await;
            let acquired = worker.locks.try_acquire(&format!("resource {index}")).await;
            let acquired = acquired.map(drop).map_err(|error| error.to_string());
            done.lock().expect("no panic").push((index, acquired));
        })
    });
    let mut world = World::new(shape(2, 5000, 2000), &job);
    world.hold(Host::Worker(1), Host::Node(2));
    let told = || done.lock().expect("no panic").clone();
    assert!(world.run_until(Duration::from_secs(1), |_| told().len() == 1));
    assert_eq!(told(), [(0, Ok(()))]);
    world.mend(Host::Worker(1), Host::Node(2));
    assert!(world.run_until(Duration::from_secs(5), |_| told().len() == 2));
    assert_eq!(told()[1], (1, Ok(())));
}
