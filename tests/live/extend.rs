//! Extending by hand, and what loss is (field reports, section C).
//! Rules R7, R11 of `docs/safety.md`.

use std::time::Duration;

use redfence::lock::clock::{Clock, SystemClock};
use redfence::lock::error::ExtendError;
use redfence::lock::report::NodeAnswer;
use redfence::lock::{LostReason, ReleaseOutcome};

use crate::judge::{Life, extends, releases, signed};
use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, timed, warm};
use crate::support::{Cluster, Live, Stopwatch, eventually, live_tests};
use crate::victim;

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        sync:
            b37_a_holder_that_was_frozen_says_lost_at_its_first_look;
        current_thread:
            b43_the_ttl_of_an_earlier_hold_does_not_come_back,
            b44_an_extension_beyond_the_first_ttl_is_kept;
        multi_thread:
            b28_an_extension_slower_than_the_ttl_is_no_success,
            b29_extend_and_release_after_a_deletion_say_not_held,
            b31_a_failed_extension_leaves_the_lock_ours,
            b35_a_release_waits_for_the_extension_on_the_wire,
            b35_extensions_that_could_not_leave_do_not_pile_up_before_the_release,
            b38_extending_an_expired_lock_is_an_answer_and_not_a_crash,
            b45b_a_stale_holder_does_not_prolong_its_successors_lock;
    ]
}

async fn b28_an_extension_slower_than_the_ttl_is_no_success() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let ttl = ms(1_500);
    let watch = Stopwatch::start();
    let guard = ours.on(NAME).ttl(ttl).acquire().await.expect("the lock is free");
    let until = guard.valid_until();
    nodes[0].stop();
    nodes[1].stop();
    let outcome = guard.extend(LONG).await;
    measured("B28", "an extension that two of three nodes do not answer ends after", watch.elapsed());
    assert_eq!(outcome, Err(ExtendError::Lost(LostReason::Expired)));
    assert!(watch.elapsed() >= ttl - ms(20), "lost although the lease had not ended");
    eventually(SOON, || watch.elapsed() >= ttl + ms(200)).await;
    nodes[0].cont();
    nodes[1].cont();
    // The late answers are read, and change nothing.
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    assert!(ours.drain(SOON).await && !nodes.exists_anywhere(NAME), "{:?}", nodes.pttl(NAME));
    let again = ours.acquire(NAME, SOON).await.expect("the lock is free");
    assert!(again.valid_until() > until);
}

async fn b29_extend_and_release_after_a_deletion_say_not_held() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    nodes.each(|node| node.ask::<()>(&["DEL", NAME]));
    assert_eq!(guard.extend(LONG).await, Err(ExtendError::Lost(LostReason::QuorumGone)));
    assert!(!guard.is_held() && guard.remaining() == Duration::ZERO);
    assert!(guard.cancellation_token().is_cancelled());
    assert!(!nodes.exists_anywhere(NAME), "an extension has made a key");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);

    // A release without the extension before it.
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    nodes.each(|node| node.ask::<()>(&["SET", NAME, "another", "PX", "60000"]));
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    assert_eq!(nodes.count_with(NAME, "another"), 3, "another's keys were deleted");
}

async fn b31_a_failed_extension_leaves_the_lock_ours() {
    let nodes = Cluster::start(3);
    let ours = builder(nodes.urls()).patience(ms(300)).build().expect("a lock");
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    nodes[0].stop();
    nodes[2].stop();
    let (outcome, took) = timed(guard.extend(LONG * 2)).await;
    let Err(ExtendError::NoQuorum { remaining, report }) = outcome else { panic!("{outcome:?}") };
    measured("B31", "an extension with a patience of 300ms gives up after", took);
    assert!(ms(1_000) < remaining && remaining < LONG, "{remaining:?}");
    assert!(report.count(|said| *said == NodeAnswer::Extended) <= 1, "{report}");
    nodes[0].cont();
    nodes[2].cont();
    assert!(guard.is_held() && guard.lost_reason().is_none());
    assert_eq!(signed(&nodes, &guard), 3, "a failed extension has released the lock");

    let watch = Stopwatch::start();
    while let Err(error) = guard.extend(LONG * 3).await {
        assert!(watch.elapsed() < SOON && guard.is_held(), "{error}");
    }
    assert!(guard.remaining() > LONG * 2 && signed(&nodes, &guard) == 3);
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
}

async fn b35_a_release_waits_for_the_extension_on_the_wire() {
    let site = Proxied::start(3);
    let ours = site.locks();
    warm(&ours).await;
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    assert!(ours.inspect(NAME).await.is_ok(), "all nodes have answered");
    eventually(SOON, || signed(&site.nodes, &guard) == 3).await;
    site.all(|proxy| proxy.forget());
    site.all(|proxy| proxy.delay(ms(100), ms(200)));
    // The caller leaves; the extension is on its way.
    let left = tokio::time::timeout(ms(20), guard.extend(LONG * 2)).await;
    assert!(left.is_err(), "{left:?}");
    eventually(SOON, || site.proxies.iter().all(|proxy| extends(proxy) == 1)).await;
    let (released, took) = timed(guard.release()).await;
    measured("B35", "a release behind an extension, 300 ms a round trip", took);
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
    assert!(ours.drain(SOON).await);

    let watch = Stopwatch::start();
    while watch.elapsed() < ms(1_000) {
        assert!(!site.nodes.exists_anywhere(NAME), "a late extension has made a key");
        tokio::time::sleep(ms(50)).await;
    }
    for proxy in &site.proxies {
        assert_eq!((extends(proxy), releases(proxy)), (1, 1));
        let last = proxy.seen().pop().expect("requests");
        assert_eq!(last.arguments[1..3], ["1", NAME], "{last:?}");
        assert!(
            last.arguments[4].starts_with("redfence:released:"),
            "the release did not come last: {last:?}"
        );
    }
}

async fn b35_extensions_that_could_not_leave_do_not_pile_up_before_the_release() {
    let site = Proxied::start(3);
    let ours = site.builder().patience(LONG).build().expect("a lock");
    warm(&ours).await;
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&site.nodes, &guard) == 3).await;
    // Its answer to the grant has come before it says what it knows.
    ours.inspect(NAME).await.expect("a name");
    site.all(|proxy| proxy.forget());
    site.proxies[2].hold_requests();
    for i in 1..=5 {
        guard.extend(LONG * (i + 1)).await.expect("two of three extend");
    }
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    site.proxies[2].pass();
    assert!(ours.drain(SOON).await && !site.nodes.exists_anywhere(NAME));
    let asked: Vec<_> = site.proxies.iter().map(|proxy| (extends(proxy), releases(proxy))).collect();
    // The node that was cut off: the extension that was under way, then the release.
    assert_eq!(asked, [(5, 1), (5, 1), (1, 1)]);
}

fn b37_a_holder_that_was_frozen_says_lost_at_its_first_look() {
    let nodes = Cluster::start(3);
    let mut victim = victim::holder(&nodes.urls());
    // Its lock of a second extends itself for as long as it runs.
    let watch = Stopwatch::start();
    while watch.elapsed() < ms(1_500) {
        std::thread::sleep(ms(100));
        if victim.believes() == "lost" {
            // A machine so busy that a lock of a second cannot be kept: begin again.
            victim = victim::holder(&nodes.urls());
        }
    }
    victim.freeze();
    std::thread::sleep(ms(2_000));
    nodes.iter().for_each(|node| node.stop());
    victim.ask_while_frozen();
    victim.thaw();
    let first = victim.next_line();
    assert_eq!(first, "lost", "the first look after two TTLs, with no node to ask");
    assert_eq!(victim.believes(), "lost");
}

async fn b38_extending_an_expired_lock_is_an_answer_and_not_a_crash() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let guard = ours.on(NAME).ttl(ms(1_000)).acquire().await.expect("the lock is free");
    assert_eq!(guard.lost().await, LostReason::Expired);
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    for _ in 0..3 {
        assert_eq!(guard.extend(LONG).await, Err(ExtendError::Lost(LostReason::Expired)));
    }
    assert!(!nodes.exists_anywhere(NAME), "an extension has made a key");
    let next = ours.try_acquire(NAME).await.expect("the lock is free");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    assert!(next.is_held() && signed(&nodes, &next) >= 2);
}

async fn b43_the_ttl_of_an_earlier_hold_does_not_come_back() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let again = ours.on(NAME);
    for ttl in [ms(300_000), ms(30_000), ms(200_000), ms(20_000)] {
        let life = Life::of(ttl);
        let guard = again.clone().ttl(ttl).acquire().await.expect("the lock is free");
        eventually(SOON, || signed(&nodes, &guard) == 3).await;
        assert_eq!(life.check(&nodes, NAME), 3);
        assert!(guard.remaining() < ttl);
        guard.release().await;
        assert!(ours.drain(SOON).await);
    }
}

async fn b44_an_extension_beyond_the_first_ttl_is_kept() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let guard = ours.on(NAME).ttl(ms(10_000)).acquire().await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    let token = guard.token();
    for _ in 0..3 {
        let life = Life::of(ms(30_000));
        guard.extend(ms(30_000)).await.expect("all nodes are up");
        assert!(ms(10_000) < guard.remaining() && guard.remaining() < ms(30_000));
        eventually(SOON, || nodes.pttl(NAME).iter().all(|left| *left > Some(10_000))).await;
        assert!(nodes.pttl(NAME).iter().all(|left| *left <= Some(30_000)));
        assert!(life.check(&nodes, NAME) >= 2);
        assert_eq!(guard.token(), token, "an extension keeps the token");
    }
}

async fn b45b_a_stale_holder_does_not_prolong_its_successors_lock() {
    let nodes = Cluster::start(3);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    warm(&ours).await;
    let stale = ours.on(NAME).ttl(ms(500)).wait(SOON).acquire().await.expect("the lock is free");
    let life = Life::of(ms(20_000));
    let next = theirs.on(NAME).ttl(ms(20_000)).wait(SOON).acquire().await.expect("it expires");
    eventually(SOON, || signed(&nodes, &next) == 3).await;
    // Told at once, and also if the stale holder's own clock had stood still.
    assert_eq!(stale.extend(LONG).await, Err(ExtendError::Lost(LostReason::Expired)));
    let report = ours.extend_owner(NAME, stale.owner(), LONG).await.expect("a name and a TTL");
    assert_eq!(report.count(|said| *said == NodeAnswer::NotMine), 3, "{report}");
    assert_eq!(life.check(&nodes, NAME), 3);
    assert!(next.is_held() && next.token() > stale.token());
    assert!(SystemClock::default().now() > stale.valid_until());
}
