//! Waiting: in order, for as long as was said, and without a trace when it is over.

use redfence::lock::ReleaseOutcome;
use redfence::lock::error::{AcquireError, ConfigError};
use redfence::lock::report::NodeAnswer;

use crate::service::{Kind, NAME, SOON, Service, acquire, measured, ms, on_both, release, token};
use crate::support::{Live, Stopwatch};

pub(crate) fn tests() -> Vec<Live> {
    on_both![
        waiters_are_served_in_order,
        a_wait_ends_in_time_and_leaves_the_queue,
        a_cancelled_waiter_leaves_the_queue,
        who_will_not_wait_is_told_at_once_and_never_was_in_the_queue,
        b84_a_waiter_whose_place_is_removed_fails_at_once,
        a_waiter_outlives_its_ttl_in_the_queue,
        a_dropped_guard_lets_the_next_in,
        b90_a_release_that_is_repeated_never_removes_a_newer_lock,
        an_owner_value_tells_who_holds_and_releases,
    ]
}

async fn waiters_are_served_in_order(kind: Kind) {
    const WAITERS: usize = 6;
    let service = Service::start(kind, 1);
    let guard = acquire(&service.locks()).await;
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for who in 0..WAITERS {
        let (locks, served) = (service.locks(), served.clone());
        tasks.spawn(async move {
            let guard = acquire(&locks).await;
            served.send(who).expect("heard");
            release(guard).await;
        });
        service.until_places(NAME, who + 2).await;
    }
    release(guard).await;
    tasks.join_all().await;
    let mut seen = Vec::new();
    while let Ok(who) = order.try_recv() {
        seen.push(who);
    }
    assert_eq!(seen, (0..WAITERS).collect::<Vec<_>>());
}

async fn a_wait_ends_in_time_and_leaves_the_queue(kind: Kind) {
    let service = Service::start(kind, 1);
    let (holder, waiter) = (service.locks(), service.locks());
    let guard = acquire(&holder).await;
    let (watch, wait) = (Stopwatch::start(), ms(700));
    let error = waiter.acquire(NAME, wait).await.expect_err("it is held");
    let took = watch.elapsed();
    assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    assert!(wait <= took && took < wait + ms(2_000), "{took:?}");
    assert!(waiter.drain(SOON).await);
    assert_eq!(service.places(NAME).await.len(), 1);
    release(guard).await;
}

async fn a_cancelled_waiter_leaves_the_queue(kind: Kind) {
    let service = Service::start(kind, 1);
    let (holder, waiter) = (service.locks(), service.locks());
    let guard = acquire(&holder).await;
    for round in 0..20 {
        let waits = waiter.clone();
        let waiting = tokio::spawn(async move { waits.acquire(NAME, SOON).await });
        match round {
            // While it waits, and at any moment before.
            0 => service.until_places(NAME, 2).await,
            _ => tokio::time::sleep(ms(fastrand::u64(0..8))).await,
        }
        waiting.abort();
        assert!(waiting.await.is_err());
    }
    assert!(waiter.drain(SOON).await);
    assert_eq!(service.places(NAME).await.len(), 1, "only the holder is left");
    release(guard).await;
    release(acquire(&waiter).await).await;
}

async fn who_will_not_wait_is_told_at_once_and_never_was_in_the_queue(kind: Kind) {
    let service = Service::start(kind, 1);
    let (holder, other) = (service.locks(), service.locks());
    let guard = acquire(&holder).await;
    for _ in 0..3 {
        let error = other.try_acquire(NAME).await.expect_err("it is held");
        assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
        let once = other.on(NAME).wait(SOON).attempts(1).acquire().await.expect_err("it is held");
        assert!(matches!(once, AcquireError::Contended { .. }), "{once}");
    }
    assert_eq!(service.places(NAME).await.len(), 1);
    release(guard).await;
    release(other.try_acquire(NAME).await.expect("free")).await;
}

async fn b84_a_waiter_whose_place_is_removed_fails_at_once(kind: Kind) {
    let service = Service::start(kind, 1);
    let (holder, waiter) = (service.locks(), service.locks());
    // Held for longer than the test: the waiter can only end by what happens to itself.
    let guard = holder.on(NAME).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let waits = waiter.clone();
    let waiting = tokio::spawn(async move { waits.on(NAME).acquire().await });
    service.until_places(NAME, 2).await;
    let places = service.places(NAME).await;
    tokio::time::sleep(ms(300)).await;
    let watch = Stopwatch::start();
    service.remove(&places[1]).await;
    let error = tokio::time::timeout(SOON, waiting).await.expect("it waits on").expect("no panic");
    let (error, took) = (error.expect_err("it was never first"), watch.elapsed());
    measured("b84", kind, "told after", took);
    assert!(matches!(error, AcquireError::PlaceLost { .. }), "{error}");
    assert!(error.is_retryable());
    assert!(took < ms(2_000), "{took:?}");
    assert!(guard.is_held());
    assert!(waiter.drain(SOON).await);
    assert_eq!(service.places(NAME).await.len(), 1);
    release(guard).await;
}

async fn a_waiter_outlives_its_ttl_in_the_queue(kind: Kind) {
    let service = Service::start(kind, 1);
    let ttl = ms(2_000);
    let (holder, waiter) = (service.locks(), service.locks());
    let guard = holder.on(NAME).ttl(ttl).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let waits = waiter.clone();
    let waiting = tokio::spawn(async move { waits.on(NAME).ttl(ttl).wait(SOON * 2).acquire().await });
    service.until_places(NAME, 2).await;
    let place = service.places(NAME).await[1].clone();
    tokio::time::sleep(ttl * 3).await;
    assert_eq!(service.places(NAME).await[1], place, "still the same place");
    let first = token(&guard);
    release(guard).await;
    let guard = waiting.await.expect("no panic").expect("its turn");
    // The time in the queue was not at the expense of the holder.
    assert!(guard.remaining() > ttl / 3, "{:?}", guard.remaining());
    assert!(token(&guard) > first);
    release(guard).await;
}

async fn a_dropped_guard_lets_the_next_in(kind: Kind) {
    let service = Service::start(kind, 1);
    let (holder, waiter) = (service.locks(), service.locks());
    let guard = holder.on(NAME).ttl(ms(4_000)).wait(SOON).acquire().await.expect("free");
    let (lease, watch) = (guard.lease().clone(), Stopwatch::start());
    drop(guard);
    assert!(!lease.is_held());
    release(acquire(&waiter).await).await;
    assert!(watch.elapsed() < ms(2_500), "not released but expired: {:?}", watch.elapsed());
    assert!(holder.drain(SOON).await && waiter.drain(SOON).await);
    assert_eq!(service.places(NAME).await, []);
}

async fn b90_a_release_that_is_repeated_never_removes_a_newer_lock(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let guard = acquire(&locks).await;
    let (owner, first) = (guard.owner(), token(&guard));
    release(guard).await;
    let newer = acquire(&locks).await;
    assert!(token(&newer) > first);
    for _ in 0..3 {
        let report = locks.release_owner(NAME, owner).await.expect("a name");
        assert_eq!(report.count(|said| *said == NodeAnswer::NotMine), 1, "{report}");
    }
    // A guard whose place was removed by hand releases nothing that is another's.
    service.remove(&service.places(NAME).await[0]).await;
    let other = acquire(&service.locks()).await;
    assert_eq!(newer.release().await.outcome, ReleaseOutcome::NotHeld);
    assert!(other.is_held());
    let places = service.places(NAME).await;
    assert_eq!(places.len(), 1);
    assert_eq!(places[0].owner, other.owner().to_string());
    release(other).await;
}

async fn an_owner_value_tells_who_holds_and_releases(kind: Kind) {
    let service = Service::start(kind, 1);
    let (locks, other) = (service.locks(), service.locks());
    let guard = acquire(&locks).await;
    let seen = other.inspect(NAME).await.expect("a name").remove(0).1.expect("an answer");
    assert_eq!(seen.holder, Some(guard.owner().to_string()));
    assert_eq!(seen.counter, Some(token(&guard)));
    let extended = other.extend_owner(NAME, guard.owner(), ms(1_000)).await;
    match kind {
        Kind::Etcd => {
            assert_eq!(extended.expect("possible").count(|said| *said == NodeAnswer::Extended), 1);
            let longer = other.extend_owner(NAME, guard.owner(), ms(60_000)).await;
            assert!(matches!(longer, Err(ConfigError::TtlFixed { .. })), "{longer:?}");
        }
        Kind::ZooKeeper => assert!(extended.is_err(), "{extended:?}"),
    }
    assert_eq!(other.capabilities().extend_by_owner, kind == Kind::Etcd);
    let released = other.release_owner(NAME, guard.owner()).await.expect("a name");
    assert_eq!(released.count(|said| *said == NodeAnswer::Released), 1, "{released}");
    tokio::time::timeout(SOON, guard.lost()).await.expect("the holder hears of it");
    let seen = other.inspect(NAME).await.expect("a name").remove(0).1.expect("an answer");
    assert_eq!(seen.holder, None);
}
