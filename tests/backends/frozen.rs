//! Processes that stand still: the servers, a waiter, a holder. Where a lease outlives what it stands for, it is here.

use redfence::lock::LostReason;

use crate::service::{Kind, NAME, SOON, Service, acquire, measured, ms, on_both, release, token};
use crate::support::{Live, Stopwatch};
use crate::victim::{self, TTL};

pub(crate) fn tests() -> Vec<Live> {
    on_both![
        a_loss_is_told_before_another_may_enter_when_all_servers_are_frozen,
        b82_a_waiter_frozen_for_longer_than_its_lease_is_not_given_the_lock,
        b83_a_holder_frozen_for_longer_than_its_lease_finds_it_lost,
        b85_the_lock_of_a_killed_process_ends_with_its_ttl,
        a_frozen_member_of_three_costs_little,
    ]
}

async fn a_loss_is_told_before_another_may_enter_when_all_servers_are_frozen(kind: Kind) {
    let service = Service::start(kind, 3);
    let (locks, other) = (service.locks(), service.locks());
    let ttl = ms(3_000);
    let guard = locks.on(NAME).ttl(ttl).wait(SOON).auto_extend(true).acquire().await.expect("free");
    // Some renewals on the way, and another who waits for the lock.
    let waits = tokio::spawn(async move {
        let guard = other.on(NAME).ttl(ttl).wait(SOON * 3).acquire().await.expect("its turn");
        (Stopwatch::start(), guard)
    });
    service.until_places(NAME, 2).await;
    tokio::time::sleep(ttl).await;
    assert!(guard.is_held());
    let watch = Stopwatch::start();
    service.freeze_all();
    let reason = tokio::time::timeout(ttl, guard.lost()).await.expect("told within the TTL by its own clock");
    let (told, lost) = (Stopwatch::start(), watch.elapsed());
    assert_eq!(reason, LostReason::Expired);
    service.thaw_all();
    let (entered, next) = tokio::time::timeout(SOON * 3, waits).await.expect("its turn").expect("no panic");
    measured("all frozen", kind, "loss told after", lost);
    assert!(told.elapsed() >= entered.elapsed(), "the other was in before the loss was told");
    assert!(token(&next) > token(&guard));
    release(next).await;
    drop(guard);
    service.until_places(NAME, 0).await;
}

async fn b82_a_waiter_frozen_for_longer_than_its_lease_is_not_given_the_lock(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let guard = locks.on(NAME).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let mut waiter = victim::waiter(&service);
    service.until_places(NAME, 2).await;
    let place = service.places(NAME).await[1].clone();
    // Its place is there a moment before it has heard so; then it waits.
    tokio::time::sleep(ms(500)).await;
    waiter.freeze();
    // The service drops its place.
    let watch = Stopwatch::start();
    service.until_places(NAME, 1).await;
    measured("b82", kind, "place of the frozen waiter gone after", watch.elapsed());
    release(guard).await;
    waiter.thaw();
    let said = tokio::task::spawn_blocking(move || (waiter.next_line(), waiter)).await.expect("no panic").0;
    // Had it been frozen before it had heard of its place, it would have been right to line up again: at another place.
    assert!(!said.contains(&place.owner), "the place that was gone was proof: {said}");
    assert!(said.starts_with("failed the place in the queue"), "it was told: {said}");
    release(acquire(&locks).await).await;
    service.until_places(NAME, 0).await;
}

async fn b83_a_holder_frozen_for_longer_than_its_lease_finds_it_lost(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    for extend in [false, true] {
        let (mut holder, first) = victim::holder(&service, extend);
        assert_eq!(holder.believes(), "holds");
        holder.freeze();
        let guard = acquire(&locks).await;
        assert!(token(&guard) > first, "{} after {first}", token(&guard));
        holder.ask_while_frozen();
        holder.thaw();
        assert_eq!(holder.next_line(), "lost", "it believes although another holds (extends: {extend})");
        assert!(guard.is_held());
        release(guard).await;
    }
}

async fn b85_the_lock_of_a_killed_process_ends_with_its_ttl(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let (holder, first) = victim::holder(&service, true);
    let watch = Stopwatch::start();
    drop(holder);
    let guard = acquire(&locks).await;
    let took = watch.elapsed();
    measured("b85", kind, "killed with a TTL of 2 s, free after", took);
    assert!(took < TTL + ms(3_000), "{took:?}");
    assert!(token(&guard) > first);
    release(guard).await;
}

async fn a_frozen_member_of_three_costs_little(kind: Kind) {
    let service = Service::start(kind, 3);
    let locks = service.locks();
    let guard = locks.on(NAME).ttl(ms(4_000)).wait(SOON).auto_extend(true).acquire().await.expect("free");
    let frozen = service.leader();
    service.freeze(frozen);
    let watch = Stopwatch::start();
    let other = locks.on("other").wait(SOON * 2).acquire().await.expect("two of three are enough");
    measured("leader frozen", kind, "another lock after", watch.elapsed());
    release(other).await;
    // ZooKeeper's client needs most of a session to find that its server is gone, and another leader; etcd's lease is renewed elsewhere.
    if kind == Kind::Etcd {
        tokio::time::sleep(ms(5_000)).await;
        assert!(guard.is_held(), "{:?}", guard.lost_reason());
    }
    drop(guard);
    assert!(locks.drain(SOON * 2).await);
}
