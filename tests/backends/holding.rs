//! Holding: for how long, longer, and what ends it.

use redfence::lock::error::{ConfigError, ExtendError};
use redfence::lock::{LostReason, ReleaseOutcome};

use crate::service::{Kind, NAME, SOON, Service, acquire, measured, ms, on_both, release, token};
use crate::support::{Live, Stopwatch, TICK};

pub(crate) fn tests() -> Vec<Live> {
    on_both![
        an_extension_keeps_the_token_and_never_shortens,
        automatic_extension_outlives_the_ttl_until_the_longest_hold,
        without_extension_the_lock_ends_with_its_ttl,
        a_kept_lock_stays_after_its_guard_and_ends_with_its_ttl,
        what_the_service_grants_counts_and_not_what_was_asked,
        a_place_removed_by_hand_is_a_loss_at_once,
    ]
}

async fn an_extension_keeps_the_token_and_never_shortens(kind: Kind) {
    let service = Service::start(kind, 3);
    let locks = service.locks();
    let ttl = ms(4_000);
    let guard = locks.on(NAME).ttl(ttl).wait(SOON).acquire().await.expect("free");
    let first = token(&guard);
    for _ in 0..6 {
        tokio::time::sleep(ms(900)).await;
        let before = guard.valid_until();
        let left = guard.extend(ttl).await.expect("held");
        assert!(guard.valid_until() > before);
        assert!(left > ttl / 3, "{left:?}");
        assert_eq!(token(&guard), first);
    }
    let longer = guard.extend(ttl * 3).await;
    assert!(matches!(longer, Err(ExtendError::Config(ConfigError::TtlFixed { .. }))), "{longer:?}");
    assert!(guard.is_held());
    assert_eq!(service.places(NAME).await.len(), 1);
    release(guard).await;
}

async fn automatic_extension_outlives_the_ttl_until_the_longest_hold(kind: Kind) {
    let service = Service::start(kind, 1);
    let (locks, other) = (service.locks(), service.locks());
    let (ttl, most) = (ms(2_000), ms(7_000));
    let wanted = locks.on(NAME).ttl(ttl).wait(SOON).auto_extend(true).max_hold(most);
    let guard = wanted.acquire().await.expect("free");
    let watch = Stopwatch::start();
    while watch.elapsed() < most - ms(1_000) {
        assert!(guard.is_held(), "lost after {:?}: {:?}", watch.elapsed(), guard.lost_reason());
        assert!(other.try_acquire(NAME).await.is_err());
        tokio::time::sleep(ms(200)).await;
    }
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("the longest hold ends");
    assert_eq!(reason, LostReason::MaxHold);
    let lost = watch.elapsed();
    assert!(lost <= most + ms(500), "{lost:?}");
    // Others get in although the guard is still there.
    release(acquire(&other).await).await;
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
}

async fn without_extension_the_lock_ends_with_its_ttl(kind: Kind) {
    let service = Service::start(kind, 1);
    let (locks, other) = (service.locks(), service.locks());
    let ttl = ms(2_000);
    let watch = Stopwatch::start();
    let guard = locks.on(NAME).ttl(ttl).wait(SOON).acquire().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = acquire(&other).await;
        (watch.elapsed(), guard)
    });
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("it ends");
    let lost = watch.elapsed();
    assert_eq!(reason, LostReason::Expired);
    let (entered, next) = waiting.await.expect("no panic");
    measured("ttl 2 s", kind, "told the loss, the next entered, after", (lost, entered));
    assert!(lost < entered, "{lost:?} {entered:?}");
    assert!(token(&next) > token(&guard));
    assert_eq!(guard.extend(ttl).await, Err(ExtendError::Lost(LostReason::Expired)));
    release(next).await;
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
}

async fn a_kept_lock_stays_after_its_guard_and_ends_with_its_ttl(kind: Kind) {
    let service = Service::start(kind, 1);
    let (locks, other) = (service.locks(), service.locks());
    let ttl = ms(3_000);
    let guard = locks.on(NAME).ttl(ttl).wait(SOON).acquire().await.expect("free");
    let (watch, lease) = (Stopwatch::start(), guard.keep());
    assert!(locks.drain(SOON).await, "nothing is left to do");
    assert!(lease.is_held());
    assert!(other.try_acquire(NAME).await.is_err());
    release(acquire(&other).await).await;
    let freed = watch.elapsed();
    assert!(!lease.is_held());
    assert!(freed > ttl / 2 && freed < ttl + ms(4_000), "{freed:?}");
}

async fn what_the_service_grants_counts_and_not_what_was_asked(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let guard = match kind {
        // An election takes a second; a lease lives at least half as long again, and counts whole seconds.
        Kind::Etcd => {
            let guard = locks.on(NAME).ttl(ms(1_000)).wait(SOON).acquire().await.expect("free");
            assert!(guard.remaining() > ms(1_000), "{:?}", guard.remaining());
            guard
        }
        // Two ticks at least, twenty at most.
        Kind::ZooKeeper => {
            let guard = locks.on(NAME).ttl(TICK / 2).wait(SOON).acquire().await.expect("free");
            assert!(guard.remaining() > TICK / 2, "{:?}", guard.remaining());
            release(guard).await;
            let guard = locks.on(NAME).ttl(TICK * 100).wait(SOON).acquire().await.expect("free");
            assert!(guard.remaining() < TICK * 20, "{:?}", guard.remaining());
            guard
        }
    };
    measured("granted ttl", kind, "validity", guard.remaining());
    release(guard).await;
}

async fn a_place_removed_by_hand_is_a_loss_at_once(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let guard = locks.on(NAME).ttl(ms(4_000)).wait(SOON).auto_extend(true).acquire().await.expect("free");
    // Nobody is told of holds that end at once.
    tokio::time::sleep(ms(500)).await;
    let watch = Stopwatch::start();
    service.remove(&service.places(NAME).await[0]).await;
    let reason = tokio::time::timeout(SOON, guard.lost()).await.expect("a loss");
    measured("removed by hand", kind, "told after", watch.elapsed());
    assert_eq!(reason, LostReason::QuorumGone);
    assert!(watch.elapsed() < ms(1_000), "only a renewal found out: {:?}", watch.elapsed());
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
}
