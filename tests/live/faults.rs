//! The basics, and nodes that are dead, hung or empty.
//! Rules R1, R10 of `docs/safety.md`.

use redfence::DistributedLock;
use redfence::lock::error::AcquireError;
use redfence::lock::report::NodeAnswer;
use redfence::lock::{LostReason, ReleaseOutcome};
use redfence::proto::Owner;

use crate::judge::{Life, places, signed};
use crate::setup::{LONG, NAME, SOON, builder, locks, ms, warm};
use crate::support::{Cluster, Live, Restart, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            a_lock_is_acquired_and_released,
            expiry_lets_the_next_one_in,
            a_foreign_release_is_refused;
        multi_thread:
            an_extension_lengthens_the_life_of_the_keys,
            one_and_two_of_five_nodes_dead_do_not_stop_the_lock,
            one_and_two_of_five_nodes_hung_do_not_stop_the_lock,
            one_and_two_of_five_nodes_empty_do_not_vote_and_do_not_stop_the_lock,
            three_of_five_nodes_empty_are_an_error_that_names_them;
    ]
}

async fn a_lock_is_acquired_and_released() {
    let nodes = Cluster::start(5);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    let guard = ours.try_acquire(NAME).await.expect("the lock is free");
    assert!(guard.is_held() && guard.remaining() < LONG);
    // The win needs three; the others are asked as well.
    eventually(SOON, || signed(&nodes, &guard) == 5).await;

    let error = theirs.try_acquire(NAME).await.expect_err("the lock is held");
    assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    let taken = places(&error, |said| matches!(said, NodeAnswer::Taken { remaining: Some(_) }));
    assert!(taken.len() >= 3, "{error}");
    assert_eq!(signed(&nodes, &guard), 5, "a refused attempt has touched the keys");

    let (first, lease) = (guard.token(), guard.lease().clone());
    let released = guard.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
    assert_eq!(lease.lost_reason(), Some(LostReason::Released));
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    let guard = theirs.try_acquire(NAME).await.expect("the lock is free again");
    assert!(guard.token() > first, "{:?} after {first:?}", guard.token());
}

async fn expiry_lets_the_next_one_in() {
    let nodes = Cluster::start(3);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    warm(&ours).await;
    let ttl = ms(1_500);
    let life = Life::of(ttl);
    let guard = ours.on(NAME).ttl(ttl).acquire().await.expect("the lock is free");
    let next = theirs.acquire(NAME, SOON).await.expect("the keys end with their TTL");
    assert_eq!(guard.lost_reason(), Some(LostReason::Expired), "both believe to hold the lock");
    assert!(life.is_over(), "a key ended before its TTL");
    assert!(next.token() > guard.token());
    // The one who is late does no harm.
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
    assert!(next.is_held() && signed(&nodes, &next) >= 2);
}

async fn a_foreign_release_is_refused() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    let report = locks(&nodes).release_owner(NAME, Owner(7)).await.expect("a name");
    assert_eq!(report.count(|said| *said == NodeAnswer::NotMine), 3, "{report}");
    assert_eq!(signed(&nodes, &guard), 3);
    let report = locks(&nodes).release_owner(NAME, guard.owner()).await.expect("a name");
    assert_eq!(report.count(|said| *said == NodeAnswer::Released), 3, "{report}");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
}

async fn an_extension_lengthens_the_life_of_the_keys() {
    let nodes = Cluster::start(5);
    let ours = locks(&nodes);
    let guard = ours.on(NAME).ttl(ms(20_000)).acquire().await.expect("the lock is free");
    let (token, before) = (guard.token(), guard.valid_until());
    eventually(SOON, || signed(&nodes, &guard) == 5).await;
    let life = Life::of(LONG);
    let left = guard.extend(LONG).await.expect("all nodes are up");
    assert!(ms(20_000) < left && left < LONG, "{left:?}");
    assert!(guard.valid_until() > before && guard.token() == token);
    eventually(SOON, || nodes.pttl(NAME).iter().all(|left| *left > Some(20_000))).await;
    assert_eq!(life.check(&nodes, NAME), 5);
    // Shorter than what is left: nothing changes.
    guard.extend(ms(1_000)).await.expect("all nodes are up");
    assert_eq!(life.check(&nodes, NAME), 5);
    guard.release().await;
    assert!(ours.drain(SOON).await && !nodes.exists_anywhere(NAME));
}

/// Everything a holder does, on the nodes that are left.
async fn works(ours: &DistributedLock, nodes: &Cluster, without: &str) {
    let guard = ours.try_acquire(NAME).await.unwrap_or_else(|error| panic!("{without}: {error}"));
    guard.extend(LONG * 2).await.unwrap_or_else(|error| panic!("{without}: {error}"));
    assert!(guard.remaining() > LONG && signed(nodes, &guard) >= 3, "{without}: {guard:?}");
    let error = locks(nodes).try_acquire(NAME).await.expect_err("it is held");
    assert!(matches!(error, AcquireError::Contended { .. }), "{without}: {error}");
    let released = guard.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{without}: {}", released.report);
}

async fn one_and_two_of_five_nodes_dead_do_not_stop_the_lock() {
    let nodes = Cluster::start(5);
    let ours = locks(&nodes);
    warm(&ours).await;
    nodes[0].kill();
    works(&ours, &nodes, "one dead").await;
    nodes[3].kill();
    works(&ours, &nodes, "two dead").await;
    nodes[1].kill();
    let error = ours.try_acquire(NAME).await.expect_err("two nodes are no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { needed: 3, nodes: 5, .. }), "{error}");
    assert_eq!(places(&error, |said| matches!(said, NodeAnswer::Failed(_))), [0, 1, 3]);
    nodes[0].restart(Restart::KeepData);
    let guard = ours.acquire(NAME, SOON).await.expect("three nodes are up");
    guard.release().await;
}

async fn one_and_two_of_five_nodes_hung_do_not_stop_the_lock() {
    let nodes = Cluster::start(5);
    let ours = builder(nodes.urls()).patience(ms(2_000)).build().expect("a lock");
    warm(&ours).await;
    nodes[0].stop();
    works(&ours, &nodes, "one hung").await;
    nodes[3].stop();
    works(&ours, &nodes, "two hung").await;
    nodes[1].stop();
    let error = ours.try_acquire(NAME).await.expect_err("two nodes are no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    assert_eq!(places(&error, |said| !matches!(said, NodeAnswer::Granted { .. })), [0, 1, 3], "{error}");
    for place in [0, 1, 3] {
        nodes[place].cont();
    }
    let guard = ours.acquire(NAME, SOON).await.expect("all nodes answer again");
    guard.release().await;
    assert!(ours.drain(SOON).await && !nodes.exists_anywhere(NAME), "{:?}", nodes.keys("*"));
}

async fn one_and_two_of_five_nodes_empty_do_not_vote_and_do_not_stop_the_lock() {
    let nodes = Cluster::start(5);
    let ours = locks(&nodes);
    warm(&ours).await;
    for (place, without) in [(0, "one empty"), (3, "two empty")] {
        nodes[place].restart(Restart::Empty);
        works(&ours, &nodes, without).await;
        works(&locks(&nodes), &nodes, without).await;
        assert!(nodes[place].snapshot().is_empty(), "{without}: the empty node was written to");
    }
    // A quorum is three of five, and not three of those that vote: one more makes it impossible.
    nodes[4].kill();
    let error = ours.try_acquire(NAME).await.expect_err("two votes are no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    assert_eq!(places(&error, |said| *said == NodeAnswer::Empty), [0, 3]);
}

async fn three_of_five_nodes_empty_are_an_error_that_names_them() {
    let nodes = Cluster::start(5);
    warm(&locks(&nodes)).await;
    for place in [1, 2, 4] {
        nodes[place].restart(Restart::Empty);
    }
    for ours in [locks(&nodes), locks(&nodes)] {
        let error = ours.try_acquire(NAME).await.expect_err("two votes are no quorum");
        assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
        assert_eq!(places(&error, |said| *said == NodeAnswer::Empty), [1, 2, 4]);
        for place in [1, 2, 4] {
            let line = format!("{}: empty", nodes[place].addr());
            assert!(error.to_string().contains(&line), "{error}");
            assert!(nodes[place].snapshot().is_empty(), "the empty node was written to");
        }
        assert!(ours.drain(SOON).await && !nodes.exists_anywhere(NAME));
    }
}
