//! Acquiring: quorum, verdict, and what the error says (field reports, section A).
//! Rules R1, R3, R8 of `docs/safety.md`.

use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::error::AcquireError;
use redfence::lock::report::{NodeAnswer, NodeError};
use redfence::lock::{LockBuilder, Mode, ReleaseOutcome};

use crate::judge::{acquires, places, signed};
use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, timed, warm};
use crate::support::{Cluster, Live, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            b8_held_by_another_and_redis_down_are_different_errors,
            b11_no_wait_takes_a_free_lock_every_time;
        multi_thread:
            b5_one_dead_node_of_three_stops_nothing_and_status_names_it,
            b6_one_black_holed_node_does_not_set_the_pace,
            b6_two_black_holed_nodes_are_no_quorum_within_the_deadline,
            b7_too_slow_for_the_ttl_says_so_with_the_figures,
            b9_one_refusing_node_fails_nothing_and_two_leave_no_keys,
            b10_application_data_under_the_name_of_the_lock_stays_untouched,
            b10_application_data_at_one_node_does_not_stop_the_lock,
            b12_three_attempts_are_three_and_no_pause_follows_the_last,
            b13_one_attempt_is_one_and_returns_at_once,
            b15_overlapping_node_lists_do_not_both_lock,
            b16_b17_shards_of_a_redis_cluster_are_refused_with_the_reason,
            b17b_of_one_to_five_nodes_exactly_0_0_1_1_2_may_be_dead;
    ]
}

async fn b5_one_dead_node_of_three_stops_nothing_and_status_names_it() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    nodes[1].kill();
    // With the connections of before, and with new ones.
    for ours in [ours, locks(&nodes)] {
        let guard = ours.try_acquire(NAME).await.expect("two of three are up");
        guard.extend(LONG * 2).await.expect("two of three are up");
        let status = ours.inspect(NAME).await.expect("a name");
        let dead: Vec<_> = status.iter().filter(|(_, known)| known.is_err()).map(|(at, _)| at).collect();
        assert_eq!(dead, [&nodes[1].addr().to_string()], "{status:?}");
        assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    }
}

async fn b6_one_black_holed_node_does_not_set_the_pace() {
    let patience = Duration::from_secs(5);
    let site = Proxied::start(3);
    let ours = site.builder().patience(patience).build().expect("a lock");
    warm(&ours).await;
    site.proxies[2].black_hole();
    let mut took = Vec::new();
    for i in 0..20 {
        let name = format!("{NAME}/{i}");
        let (guard, time) = timed(ours.try_acquire(&name)).await;
        let guard = guard.expect("two of three answer");
        took.push(time);
        let (released, time) = timed(guard.release()).await;
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        took.push(time);
    }
    took.sort_unstable();
    measured("B6", "median and slowest of 20 acquires and 20 releases", (took[20], took[39]));
    // The median tells what one call costs; a single one may have met a busy machine.
    assert!(took[20] < patience / 20 && took[39] < patience / 2, "{took:?}");
}

async fn b6_two_black_holed_nodes_are_no_quorum_within_the_deadline() {
    let site = Proxied::start(3);
    let ours = site.builder().patience(ms(1_000)).build().expect("a lock");
    warm_patiently(&ours).await;
    site.proxies[0].black_hole();
    site.proxies[2].black_hole();
    let (error, took) = timed(ours.try_acquire(NAME)).await;
    let error = error.expect_err("one node is no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { needed: 2, nodes: 3, .. }), "{error}");
    measured("B6", "no quorum, patience 1s", took);
    assert!(ms(950) < took && took < SOON, "{took:?}");
    assert_eq!(places(&error, |said| !matches!(said, NodeAnswer::Granted { .. })), [0, 2], "{error}");

    let wait = ms(1_500);
    let (error, took) = timed(ours.acquire(NAME, wait)).await;
    assert!(matches!(error, Err(AcquireError::NoQuorum { attempts: 2.., .. })), "{error:?}");
    measured("B6", "no quorum, wait 1500ms", took);
    assert!(wait <= took + ms(1) && took < SOON, "{took:?}");
}

async fn b7_too_slow_for_the_ttl_says_so_with_the_figures() {
    let site = Proxied::start(3);
    let ours = site.locks();
    warm(&ours).await;
    site.all(|proxy| proxy.delay(Duration::ZERO, ms(700)));
    let error =
        ours.on(NAME).ttl(ms(300)).try_acquire().await.expect_err("the TTL is over before the answers");
    let AcquireError::ValidityExhausted { ttl, elapsed, drift, .. } = &error else { panic!("{error}") };
    assert_eq!((*ttl, *drift), (ms(300), ms(5)));
    assert!(*elapsed >= ms(295), "{elapsed:?}");
    let text = error.to_string();
    assert!(text.contains("too slow") && text.contains("300ms") && text.contains(&format!("{elapsed:.1?}")));
    assert!(error.is_retryable());

    site.all(|proxy| proxy.delay(Duration::ZERO, ms(50)));
    let guard = ours.acquire(NAME, SOON).await.expect("a longer TTL is enough");
    guard.release().await;
}

async fn b8_held_by_another_and_redis_down_are_different_errors() {
    let nodes = Cluster::start(3);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    let guard = theirs.acquire(NAME, SOON).await.expect("the lock is free");
    let taken = ours.try_acquire(NAME).await.expect_err("it is held");
    nodes.iter().for_each(|node| node.kill());
    let down = ours.try_acquire(NAME).await.expect_err("all are down");
    assert!(matches!(taken, AcquireError::Contended { .. }), "{taken}");
    assert!(matches!(down, AcquireError::NoQuorum { .. }), "{down}");
    assert!(taken.to_string().contains("held by another") && !down.to_string().contains("held by another"));
    drop(guard);
}

async fn b9_one_refusing_node_fails_nothing_and_two_leave_no_keys() {
    let site = Proxied::start(3);
    let ours = site.locks();
    warm(&ours).await;
    // One that refuses connections, and one that refuses commands.
    site.proxies[0].cut();
    let guard = ours.try_acquire(NAME).await.expect("two of three grant");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    site.proxies[0].pass();
    site.nodes[1].ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    // The node that was away is asked again after a while.
    let guard = ours.acquire(NAME, SOON).await.expect("two of three grant");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);

    site.proxies[0].cut();
    let error = ours.try_acquire(NAME).await.expect_err("one node is no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("NOREPLICAS"), "the node's own word is missing: {said}");
    eventually(SOON, || !site.nodes.exists_anywhere(NAME)).await;
}

/// Data of an application: a command that writes it, and what the error says.
const DATA: [(&[&str], &str); 3] = [
    (&["RPUSH", NAME, "one", "two"], "is not a lock"),
    (&["HSET", NAME, "field", "value"], "is not a lock"),
    (&["SET", NAME, "a session"], "is not a lock"),
];

async fn b10_application_data_under_the_name_of_the_lock_stays_untouched() {
    let nodes = Cluster::start(3);
    warm(&locks(&nodes)).await;
    for (write, says) in DATA {
        nodes.each(|node| node.ask::<()>(write));
        let before = nodes.each(|node| node.snapshot()[NAME].clone());
        for mode in [Mode::Fenced, Mode::Classic] {
            let ours = of_mode(&nodes, mode);
            // Waiting cannot help, so there is none.
            let error = ours.acquire(NAME, LONG).await.expect_err("the key is the application's");
            assert!(matches!(error, AcquireError::NotALock { .. }), "{mode:?} {write:?}: {error}");
            assert!(error.to_string().contains(says) && !error.is_retryable(), "{error}");
            assert!(ours.drain(SOON).await);

            let ours = mode_builder(&nodes, mode).prefix("locks/").build().expect("a lock");
            let guard = ours.try_acquire(NAME).await.expect("the prefix keeps them apart");
            assert!(nodes.exists_anywhere(&format!("locks/{NAME}")));
            assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
            assert!(ours.drain(SOON).await);
        }
        assert_eq!(nodes.each(|node| node.snapshot()[NAME].clone()), before, "{write:?}");
        nodes.each(|node| node.ask::<()>(&["DEL", NAME]));
    }
    // A value with a TTL could be another client's lock: it is respected as one.
    nodes.each(|node| node.ask::<()>(&["SET", NAME, "a foreign value", "PX", "60000"]));
    for mode in [Mode::Fenced, Mode::Classic] {
        let error = of_mode(&nodes, mode).try_acquire(NAME).await.expect_err("another's");
        assert!(matches!(error, AcquireError::Contended { .. }), "{mode:?}: {error}");
        assert_eq!(nodes.count_with(NAME, "a foreign value"), 3);
    }
}

async fn b10_application_data_at_one_node_does_not_stop_the_lock() {
    let nodes = Cluster::start(3);
    warm(&locks(&nodes)).await;
    for (write, _) in DATA {
        nodes[1].ask::<()>(write);
        let before = nodes[1].snapshot()[NAME].clone();
        for mode in [Mode::Fenced, Mode::Classic] {
            let ours = of_mode(&nodes, mode);
            let guard = ours.acquire(NAME, SOON).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
            guard.extend(LONG * 2).await.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
            assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
            assert!(ours.drain(SOON).await);
        }
        assert_eq!(nodes[1].snapshot()[NAME], before, "{write:?}");
        nodes[1].ask::<()>(&["DEL", NAME]);
    }
}

async fn b11_no_wait_takes_a_free_lock_every_time() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    for i in 0..200 {
        let guard = match i % 2 {
            0 => ours.acquire(NAME, Duration::ZERO).await,
            _ => ours.try_acquire(NAME).await,
        };
        let guard = guard.unwrap_or_else(|error| panic!("try {i}: {error}"));
        assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released, "try {i}");
    }
}

async fn b12_three_attempts_are_three_and_no_pause_follows_the_last() {
    let site = Proxied::start(3);
    let (ours, theirs) = (site.locks(), locks(&site.nodes));
    warm(&ours).await;
    let holder = theirs.acquire(NAME, SOON).await.expect("the lock is free");
    site.all(|proxy| proxy.forget());
    let pause = Duration::from_secs(1);
    let acquiring = ours.on(NAME).attempts(3).backoff(pause, pause).acquire();
    let (error, took) = timed(acquiring).await;
    assert!(matches!(error, Err(AcquireError::Contended { attempts: 3, .. })), "{error:?}");
    measured("B12", "three attempts, two pauses of 500ms to 1s", took);
    // Two pauses, each from the upper half of a second. A third one would make it 1.5 s at least; 3 s with the largest.
    assert!(pause <= took && took < pause * 3, "{took:?}");
    assert!(ours.drain(SOON).await);
    assert_eq!(site.proxies.iter().map(acquires).collect::<Vec<_>>(), [3, 3, 3]);
    drop(holder);
}

async fn b13_one_attempt_is_one_and_returns_at_once() {
    let site = Proxied::start(3);
    let (ours, theirs) = (site.locks(), locks(&site.nodes));
    warm(&ours).await;
    let holder = theirs.acquire(NAME, SOON).await.expect("the lock is free");
    // Zero attempts would be no question at all: it means one.
    for attempts in [1, 0] {
        site.all(|proxy| proxy.forget());
        let (error, took) = timed(ours.on(NAME).attempts(attempts).backoff(LONG, LONG).acquire()).await;
        assert!(matches!(error, Err(AcquireError::Contended { attempts: 1, .. })), "{error:?}");
        assert!(took < SOON, "{took:?}");
        assert!(ours.drain(SOON).await);
        assert_eq!(site.proxies.iter().map(acquires).collect::<Vec<_>>(), [1, 1, 1]);
    }
    drop(holder);
}

async fn b15_overlapping_node_lists_do_not_both_lock() {
    let nodes = Cluster::start(5);
    let urls = nodes.urls();
    let first = builder(&urls[..3]).build().expect("a lock");
    let second = builder(&urls[2..]).build().expect("a lock");
    let guard = first.acquire(NAME, SOON).await.expect("the lock is free");
    second.try_acquire(NAME).await.expect_err("it is held");
    // Also what nobody holds: the nodes that the lists do not share have no epoch, and do not vote.
    let error = second.try_acquire("another").await.expect_err("one vote is no quorum");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    assert_eq!(places(&error, |said| *said == NodeAnswer::Empty), [1, 2], "{error}");
    assert!(guard.is_held() && signed(&nodes, &guard) >= 2);
}

async fn b16_b17_shards_of_a_redis_cluster_are_refused_with_the_reason() {
    let shards = Cluster::shards(3);
    for mode in [Mode::Fenced, Mode::Classic] {
        let ours = of_mode(&shards, mode);
        let error = ours.acquire(NAME, LONG).await.expect_err("these are not independent nodes");
        assert!(matches!(error, AcquireError::Unusable { .. }), "{mode:?}: {error}");
        let shard = |said: &NodeAnswer| matches!(said, NodeAnswer::Failed(NodeError::ClusterShard(_)));
        assert!(places(&error, shard).len() >= 2, "{mode:?}: {error}");
        assert!(error.to_string().contains("give standalone servers"), "{error}");
    }
    // One endpoint alone: the keys of one lock do not share a slot.
    let one = builder([shards[0].url()]).allow_weak_quorum(true).build().expect("a lock");
    let error = one.acquire(NAME, LONG).await.expect_err("not an independent node");
    assert!(matches!(error, AcquireError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("give standalone servers"), "{error}");
}

async fn b17b_of_one_to_five_nodes_exactly_0_0_1_1_2_may_be_dead() {
    let site = Proxied::start(5);
    warm(&site.locks()).await;
    for (n, spare) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        let urls = || site.proxies[..n].iter().map(|proxy| proxy.url());
        for dead in 0..=n {
            site.all(|proxy| proxy.pass());
            site.proxies[..dead].iter().for_each(|proxy| proxy.cut());
            let ours = builder(urls()).allow_weak_quorum(true).build().expect("a lock");
            let outcome = ours.try_acquire(NAME).await;
            assert_eq!(outcome.is_ok(), dead <= spare, "{dead} of {n} dead: {outcome:?}");
            match outcome {
                Ok(guard) => assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released),
                Err(error) => assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}"),
            }
            assert!(ours.drain(SOON).await);
        }
    }
}

fn mode_builder(nodes: &Cluster, mode: Mode) -> LockBuilder {
    builder(nodes.urls()).mode(mode)
}

fn of_mode(nodes: &Cluster, mode: Mode) -> DistributedLock {
    mode_builder(nodes, mode).build().expect("a lock")
}

/// As [`warm`], where the patience of one attempt may be too short for a busy machine.
async fn warm_patiently(locks: &DistributedLock) {
    locks.acquire("warm-up", SOON).await.expect("all nodes are up").release().await;
}
