//! Extension that nobody asks for: it survives every error, and ends with the hold (field reports, section C).
//! Rules R7, R11 of `docs/safety.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redfence::lock::{LostReason, ReleaseOutcome, RunError};
use redfence::{DistributedLock, Lease, LockGuard};

use crate::judge::{extends, library_panics, signed, soak};
use crate::setup::{LONG, NAME, Proxied, SOON, locks, measured, ms, warm};
use crate::support::{Cluster, Live, Proxy, Restart, Stopwatch, eventually, live_tests, wait_until};

pub(crate) fn tests() -> Vec<Live> {
    let tests = live_tests![
        sync:
            b41_a_runtime_that_ends_stops_the_extensions;
        current_thread:
            b41_a_dropped_guard_stops_the_extensions,
            b42_a_task_that_panics_releases_its_lock;
        multi_thread:
            b32_extension_survives_killed_connections_a_restart_and_a_pause,
            b32_an_outage_that_swallows_a_round_costs_no_lease,
            b33_cancelled_acquires_leave_no_key_and_no_extension,
            b36_loss_is_told_before_a_second_holder_can_come,
            b39_a_deleted_lock_ends_the_work_and_is_not_made_again,
            b39_the_longest_hold_is_respected,
            b40_a_busy_machine_makes_no_silent_gap,
            b45_loss_of_all_nodes_is_told_once_and_crashes_nothing,
            b45c_ten_renewals_a_hold_and_none_after_its_end;
    ];
    let limit = soak(ms(180_000), ms(900_000));
    tests.into_iter().map(|test| test.within(limit)).collect()
}

/// A lock that extends itself.
async fn held(locks: &DistributedLock, ttl: Duration) -> LockGuard {
    locks.on(NAME).ttl(ttl).wait(SOON).auto_extend(true).acquire().await.expect("the lock is free")
}

async fn b32_extension_survives_killed_connections_a_restart_and_a_pause() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let ttl = ms(4_000);
    for hold in [soak(ms(9_000), ms(20_000)), ms(6_000)] {
        let guard = held(&ours, ttl).await;
        let (watch, first) = (Stopwatch::start(), guard.valid_until());
        for _ in 0..5 {
            // Those of the lock, and of nobody else: SKIPME spares the one that asks.
            nodes.each(|node| node.ask::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]));
            nodes.each(|node| node.ask::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]));
            tokio::time::sleep(ms(200)).await;
        }
        tokio::task::block_in_place(|| nodes[1].restart(Restart::KeepData));
        nodes.each(|node| node.ask::<()>(&["CLIENT", "PAUSE", "800", "ALL"]));
        while watch.elapsed() < hold {
            assert!(guard.is_held(), "{guard:?} after {:?}", watch.elapsed());
            tokio::time::sleep(ms(50)).await;
        }
        assert!(signed(&nodes, &guard) >= 2);
        assert!(guard.valid_until() > first + ttl / 2, "it was never extended");
        assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    }
}

/// What `LockBuilder::extend_every` says in numbers: the connections are given up after max(2 x patience, 1 s), and the next
/// extension counts.
async fn b32_an_outage_that_swallows_a_round_costs_no_lease() {
    let site = Proxied::start(3);
    let (ttl, patience, every) = (ms(8_000), ms(500), ms(1_000));
    let ours = site.builder().patience(patience).extend_every(every).build().expect("a lock");
    warm(&ours).await;
    let guard = held(&ours, ttl).await;
    let first = guard.valid_until();
    eventually(SOON, || guard.valid_until() > first).await;
    site.all(Proxy::forget);
    site.all(Proxy::drop_replies);
    eventually(SOON, || site.proxies.iter().filter(|proxy| extends(proxy) > 0).count() >= 2).await;
    let watch = Stopwatch::start();
    tokio::time::sleep(ms(1_200)).await;
    let swallowed = guard.valid_until();
    site.all(Proxy::pass);
    eventually(ttl, || guard.valid_until() > swallowed).await;
    measured("B32", "from a swallowed extension to the next that counts", watch.elapsed());
    assert!(guard.is_held(), "{guard:?}");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
}

async fn b33_cancelled_acquires_leave_no_key_and_no_extension() {
    let site = Proxied::start(3);
    let ours = site.builder().extend_every(ms(20)).build().expect("a lock");
    warm(&ours).await;
    let (mut cancelled, mut won) = (0, 0);
    for _ in 0..soak(100, 300) {
        let acquiring = ours.on(NAME).auto_extend(true).wait(SOON).acquire();
        match tokio::time::timeout(ms(fastrand::u64(0..20)), acquiring).await {
            Err(_) => cancelled += 1,
            Ok(guard) => {
                won += 1;
                drop(guard.expect("nobody else wants it"));
            }
        }
    }
    measured("B33", "cancelled and won", (cancelled, won));
    assert!(cancelled > 0);
    assert!(ours.drain(LONG).await, "something was left to do");
    assert!(!site.nodes.exists_anywhere(NAME), "{:?}", site.nodes.pttl(NAME));
    no_more_extensions(&site.proxies, ms(500)).await;
    assert!(!site.nodes.exists_anywhere(NAME));
}

async fn no_more_extensions(proxies: &[Proxy], watched: Duration) {
    proxies.iter().for_each(Proxy::forget);
    tokio::time::sleep(watched).await;
    assert_eq!(proxies.iter().map(extends).sum::<usize>(), 0, "an extension went out after the end");
}

async fn b36_loss_is_told_before_a_second_holder_can_come() {
    let nodes = Cluster::start(3);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    warm(&ours).await;
    warm(&theirs).await;
    let ttl = ms(2_000);
    let guard = held(&ours, ttl).await;
    let first = guard.valid_until();
    eventually(SOON, || guard.valid_until() > first).await;
    let watch = Stopwatch::start();
    nodes[0].stop();
    nodes[2].stop();
    let stopped = watch.elapsed();

    // The last moment at which the first holder believed.
    let lease = guard.lease().clone();
    let watched = tokio::spawn(async move {
        let mut believed = Duration::ZERO;
        loop {
            let now = watch.elapsed();
            if !lease.is_held() {
                return believed;
            }
            believed = now;
            tokio::time::sleep(ms(1)).await;
        }
    });
    let second = tokio::spawn(async move {
        let guard = theirs.acquire(NAME, LONG).await;
        (guard, watch.elapsed())
    });
    let reason = guard.lost().await;
    let told = watch.elapsed();
    assert_eq!(reason, LostReason::Expired);
    nodes[0].cont();
    nodes[2].cont();
    let believed = watched.await.expect("no panic");
    let (next, from) = second.await.expect("no panic");
    let next = next.expect("the nodes answer again");
    measured("B36", "last belief, told lost, next holder", (believed, told, from));
    assert!(believed < stopped + ttl, "believed for longer than the TTL: {believed:?}");
    assert!(believed < from, "two holders: {believed:?} and {from:?}");
    assert!(next.is_held() && next.token() > guard.token());
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    assert!(signed(&nodes, &next) >= 2);
}

async fn b39_a_deleted_lock_ends_the_work_and_is_not_made_again() {
    let nodes = Cluster::start(3);
    let every = ms(300);
    let ours = crate::setup::builder(nodes.urls()).extend_every(every).build().expect("a lock");
    warm(&ours).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let mark = SetWhenDropped(Arc::clone(&stopped));
    let running = {
        let ours = ours.clone();
        tokio::spawn(async move {
            let work = move |_| async move {
                let _mark = mark;
                std::future::pending::<()>().await;
            };
            ours.run(NAME, SOON, work).await
        })
    };
    eventually(SOON, || nodes.pttl(NAME).iter().all(|left| *left > Some(0))).await;
    let watch = Stopwatch::start();
    nodes.each(|node| node.ask::<()>(&["DEL", NAME]));
    let outcome = running.await.expect("no panic");
    measured("B39", "from the deletion to the end of the work, extending every 300ms", watch.elapsed());
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::QuorumGone, .. })), "{outcome:?}");
    assert!(stopped.load(Ordering::Acquire), "the work goes on");
    assert!(watch.elapsed() < SOON, "{:?}", watch.elapsed());
    while watch.elapsed() < ms(1_500) {
        assert!(!nodes.exists_anywhere(NAME), "the key was made again");
        tokio::time::sleep(ms(50)).await;
    }
}

struct SetWhenDropped(Arc<AtomicBool>);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

async fn b39_the_longest_hold_is_respected() {
    let site = Proxied::start(3);
    let ours = site.locks();
    warm(&ours).await;
    let max_hold = ms(3_000);
    let watch = Stopwatch::start();
    let held = ours.on(NAME).ttl(ms(2_000)).max_hold(max_hold).wait(SOON);
    let outcome = held.run(|_| std::future::pending::<()>()).await;
    let took = watch.elapsed();
    measured("B39", "a hold of at most 3s ended after", took);
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::MaxHold, .. })), "{outcome:?}");
    assert!(max_hold <= took + ms(2) && took < max_hold + SOON, "{took:?}");
    assert!(ours.drain(SOON).await && !site.nodes.exists_anywhere(NAME));
    no_more_extensions(&site.proxies, ms(300)).await;
}

async fn b40_a_busy_machine_makes_no_silent_gap() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let busy = Arc::new(AtomicBool::new(true));
    let loops: Vec<_> = (0..soak(3, 8))
        .map(|_| {
            let busy = Arc::clone(&busy);
            std::thread::spawn(move || {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let (watch, span) = (Stopwatch::start(), soak(ms(4_000), ms(60_000)));
    let (mut losses, mut looks) = (0, 0);
    let mut guard = held(&ours, ms(1_000)).await;
    while watch.elapsed() < span {
        let keys = signed(&nodes, &guard);
        // Believed after the look, so believed during the look.
        if guard.is_held() {
            assert!(keys >= 2, "believes to hold the lock with {keys} keys: {guard:?}");
            looks += 1;
        } else {
            assert!(guard.lost_reason().is_some(), "a loss without a reason");
            losses += 1;
            guard = held(&ours, ms(1_000)).await;
        }
        tokio::time::sleep(ms(20)).await;
    }
    busy.store(false, Ordering::Relaxed);
    loops.into_iter().for_each(|thread| thread.join().expect("a loop"));
    measured("B40", "looks without a gap, losses announced", (looks, losses));
    assert!(looks > 0, "the lock was never held");
}

async fn b41_a_dropped_guard_stops_the_extensions() {
    let site = Proxied::start(3);
    let ours = site.builder().extend_every(ms(100)).build().expect("a lock");
    warm(&ours).await;
    let guard = held(&ours, LONG).await;
    eventually(SOON, || site.proxies.iter().all(|proxy| extends(proxy) >= 2)).await;
    let lease = guard.lease().clone();
    drop(guard);
    assert_eq!(lease.lost_reason(), Some(LostReason::Released));
    eventually(SOON, || !site.nodes.exists_anywhere(NAME)).await;
    assert!(ours.drain(SOON).await);
    no_more_extensions(&site.proxies, ms(500)).await;
}

fn b41_a_runtime_that_ends_stops_the_extensions() {
    let site = Proxied::start(3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (guard, lease) = runtime.block_on(async {
        let ours = site.locks();
        warm(&ours).await;
        let guard = held(&ours, ms(2_000)).await;
        let lease = guard.lease().clone();
        let first = guard.valid_until();
        eventually(SOON, || guard.valid_until() > first).await;
        (guard, lease)
    });
    runtime.shutdown_timeout(SOON);
    // Nobody can release any more; nobody extends either.
    wait_until(SOON, || !lease.is_held());
    wait_until(SOON, || !site.nodes.exists_anywhere(NAME));
    drop(guard);
}

async fn b42_a_task_that_panics_releases_its_lock() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    let locks = ours.clone();
    let task = tokio::spawn(async move {
        let guard = held(&locks, LONG).await;
        assert!(!guard.is_held(), "on purpose: the holder panics");
    });
    assert!(task.await.expect_err("it panics").is_panic());
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;

    let locks = ours.clone();
    let task = tokio::spawn(async move {
        let work = |lease: Lease| async move { assert!(!lease.is_held(), "on purpose: the work panics") };
        locks.run(NAME, SOON, work).await
    });
    assert!(task.await.expect_err("it panics").is_panic());
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    assert!(ours.drain(SOON).await);
}

async fn b45_loss_of_all_nodes_is_told_once_and_crashes_nothing() {
    let site = Proxied::start(3);
    let ours = site.locks();
    warm(&ours).await;
    let panics = library_panics();
    let ttl = ms(2_000);
    let guard = held(&ours, ttl).await;
    site.nodes.iter().for_each(|node| node.stop());
    let watch = Stopwatch::start();
    // Everybody who waits is told the same.
    let stop = guard.cancellation_token();
    let (first, second, ()) = tokio::join!(guard.lost(), guard.lease().lost(), stop.cancelled());
    assert_eq!((first, second), (LostReason::Expired, LostReason::Expired));
    let until = guard.valid_until();
    eventually(SOON, || watch.elapsed() >= ttl * 2).await;
    site.nodes.iter().for_each(|node| node.cont());
    site.all(Proxy::forget);
    tokio::time::sleep(ms(1_000)).await;
    // What the nodes say now is late: it neither revives the lease nor ends it once more.
    assert_eq!((guard.lost_reason(), guard.valid_until()), (Some(LostReason::Expired), until));
    assert_eq!(site.proxies.iter().map(extends).sum::<usize>(), 0, "a lost lock is extended");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    let next = ours.acquire(NAME, SOON).await.expect("the lock is free");
    assert_eq!(next.release().await.outcome, ReleaseOutcome::Released);
    assert_eq!(library_panics(), panics);
}

async fn b45c_ten_renewals_a_hold_and_none_after_its_end() {
    let nodes = Cluster::start(3);
    let ours = crate::setup::builder(nodes.urls()).extend_every(ms(10)).build().expect("a lock");
    warm(&ours).await;
    let panics = library_panics();
    let mut leases = Vec::new();
    let wanted = soak(150, 2_000);
    for i in 0..wanted {
        let acquiring = ours.on(NAME).ttl(ms(60)).auto_extend(true).wait(SOON);
        let Ok(guard) = acquiring.acquire().await else { continue };
        tokio::time::sleep(ms(fastrand::u64(0..25))).await;
        let lease = guard.lease().clone();
        if i % 2 == 0 {
            drop(guard);
        } else {
            guard.release().await;
        }
        let reason = lease.lost_reason();
        assert!(matches!(reason, Some(LostReason::Released | LostReason::Expired)), "{reason:?}");
        leases.push((lease, reason));
    }
    assert!(ours.drain(SOON).await);
    let released = leases.iter().filter(|(_, reason)| *reason == Some(LostReason::Released)).count();
    measured("B45c", "holds, of these ended by their release", (leases.len(), released));
    assert!(released > 0, "no hold of 60 ms ever lasted until its release");
    // What was released stays released: no late renewal and no late loss.
    assert!(leases.iter().all(|(lease, reason)| lease.lost_reason() == *reason));
    assert_eq!(library_panics(), panics);
    assert!(!nodes.exists_anywhere(NAME));
}
