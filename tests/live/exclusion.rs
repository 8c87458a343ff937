//! Several contenders on one resource: never two holders at once, judged by when each believed to hold the lock.
//! Rules R3 of `docs/safety.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redfence::DistributedLock;
use redfence::lock::error::AcquireError;

use crate::judge::{Holds, soak};
use crate::setup::{LONG, NAME, SOON, locks, measured, ms, warm};
use crate::support::{Cluster, Live, Stopwatch, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    let limit = soak(ms(120_000), ms(600_000));
    let tests = live_tests![
        multi_thread:
            five_contenders_never_hold_the_lock_at_the_same_time,
            b14_no_mix_of_wait_and_ttl_lets_two_holders_in;
    ];
    tests.into_iter().map(|test| test.within(limit)).collect()
}

async fn five_contenders_never_hold_the_lock_at_the_same_time() {
    const EACH: u64 = 12;
    let nodes = Cluster::start(5);
    warm(&locks(&nodes)).await;
    let holds = Arc::new(Holds::new());
    let counter = Arc::new(AtomicU64::new(0));
    let contend = |who: usize| {
        let (locks, holds, counter) = (locks(&nodes), Arc::clone(&holds), Arc::clone(&counter));
        async move {
            for _ in 0..EACH {
                let guard = locks.acquire(NAME, LONG).await.expect("its turn comes");
                let begun = holds.begin(who, &guard);
                // As a read and a write of something shared that nothing else protects.
                let read = counter.load(Ordering::Relaxed);
                tokio::time::sleep(ms(fastrand::u64(0..6))).await;
                counter.store(read + 1, Ordering::Relaxed);
                holds.end(begun);
                guard.release().await;
            }
        }
    };
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..5).map(|who| tokio::spawn(contend(who))).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    measured("five contenders", "time for 60 holds of 3 ms on average", watch.elapsed());
    assert_eq!(counter.load(Ordering::Relaxed), 5 * EACH, "updates were lost");
    assert_eq!(Arc::into_inner(holds).expect("all tasks have ended").judge() as u64, 5 * EACH);
}

async fn b14_no_mix_of_wait_and_ttl_lets_two_holders_in() {
    let nodes = Cluster::start(3);
    warm(&locks(&nodes)).await;
    let span = soak(ms(2_500), ms(60_000));
    let mixes = [200, 1_000].into_iter().flat_map(|ttl| [0, ttl / 2, ttl * 2].map(|wait| (ttl, wait)));
    let all = mixes.map(|(ttl, wait)| {
        let name = format!("{NAME}/{ttl}/{wait}");
        let holds = Arc::new(Holds::new());
        let contend =
            |who| mixed(who, locks(&nodes), name.clone(), (ms(ttl), ms(wait)), span, Arc::clone(&holds));
        let both: Vec<_> = (0..2).map(|who| tokio::spawn(contend(who))).collect();
        async move {
            for task in both {
                task.await.expect("no panic");
            }
            let holds = Arc::into_inner(holds).expect("both tasks have ended").judge();
            measured("B14", &format!("ttl {ttl}ms wait {wait}ms: holds"), holds);
            holds
        }
    });
    let holds = join_all(all.collect::<Vec<_>>()).await;
    assert!(holds.iter().all(|&holds| holds >= 2), "some mix hardly ever acquired: {holds:?}");
}

/// Holds the lock again and again, sometimes for longer than it lives.
async fn mixed(
    who: usize,
    locks: DistributedLock,
    name: String,
    (ttl, wait): (Duration, Duration),
    span: Duration,
    holds: Arc<Holds>,
) {
    let watch = Stopwatch::start();
    while watch.elapsed() < span {
        match locks.on(&name).ttl(ttl).wait(wait).acquire().await {
            Ok(guard) => {
                let begun = holds.begin(who, &guard);
                tokio::time::sleep(ttl.mul_f64(fastrand::f64() * 1.2)).await;
                holds.end(begun);
                guard.release().await;
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                assert!(!matches!(error, AcquireError::NoQuorum { .. }), "all nodes are up: {error}");
            }
        }
        tokio::time::sleep(ms(fastrand::u64(1..20))).await;
    }
    assert!(locks.drain(SOON).await);
}
