//! Giving a lock back (field reports, section D): whose key it is, what the holder is told, what is left behind.
//! Rules R6, R12, R14 of `docs/safety.md`.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::report::NodeAnswer;
use redfence::lock::{LostReason, ReleaseOutcome};
use redfence::proto::Owner;

use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, timed, warm};
use crate::support::{Cluster, Live, Proxy, RedisServer, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            b46_a_late_release_leaves_the_successors_lock_alone,
            b47_tasks_of_one_thread_do_not_free_each_others_lock,
            b49_releasing_an_expired_lock_answers_at_once,
            b53_a_release_whose_answers_were_lost_is_not_called_stolen,
            b54_releasing_what_is_not_held_is_said_and_changes_nothing,
            b55_the_error_of_the_work_comes_soon_and_unchanged_though_no_node_answers,
            b56_the_same_handle_locks_again_after_an_expiry,
            b57_a_release_cancelled_half_way_leaves_no_local_belief,
            b58_nothing_is_touched_but_the_lock_its_counter_and_the_node_record,
            b58b_an_error_in_the_work_releases_at_once;
        multi_thread:
            b48_every_acquisition_signs_with_an_owner_of_its_own,
            b50_a_release_around_the_expiry_is_released_or_not_held,
            b52_a_node_that_hung_during_the_release_is_cleared_when_it_wakes,
            b58b_a_panic_in_the_work_releases_at_once
    ]
}

async fn b46_a_late_release_leaves_the_successors_lock_alone() {
    let nodes = Cluster::start(5);
    let (a, b) = (locks(&nodes), locks(&nodes));
    late_release_is_harmless(&nodes, &a, &b).await;
}

async fn b47_tasks_of_one_thread_do_not_free_each_others_lock() {
    let nodes = Cluster::start(3);
    let shared = locks(&nodes);
    let (nodes, shared) = (std::sync::Arc::new(nodes), shared);
    let task = tokio::spawn(async move { late_release_is_harmless(&nodes, &shared, &shared).await });
    task.await.expect("no panic");
}

/// A's lock expires, B takes over, A releases: "not held", and B's keys stay.
async fn late_release_is_harmless(nodes: &Cluster, a: &DistributedLock, b: &DistributedLock) {
    warm(a).await;
    let first = a.on(NAME).ttl(ms(500)).try_acquire().await.expect("free");
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    let second = b.try_acquire(NAME).await.expect("free again");
    let owner = second.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == nodes.len()).await;

    assert_eq!(first.lost_reason(), Some(LostReason::Expired));
    let released = first.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "{}", released.report);
    assert_eq!(nodes.count_with(NAME, &owner), nodes.len());
    second.extend(LONG).await.expect("still held");
    assert_eq!(nodes.count_with(NAME, &owner), nodes.len());
    assert_eq!(second.release().await.outcome, ReleaseOutcome::Released);
}

async fn b48_every_acquisition_signs_with_an_owner_of_its_own() {
    let nodes = Cluster::start(3);
    let (a, b) = (locks(&nodes), locks(&nodes));
    warm(&a).await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..60 {
        let locks = if i % 2 == 0 { a.clone() } else { b.clone() };
        tasks.spawn(async move {
            // Every third name is contended: those are acquired one after the other.
            let guard = locks.acquire(&format!("{NAME}/{}", i / 3), SOON).await.expect("free in time");
            let owner = guard.owner();
            guard.release().await;
            owner
        });
    }
    let owners: HashSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(owners.len(), 60);
}

async fn b49_releasing_an_expired_lock_answers_at_once() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let guard = locks.on(NAME).ttl(ms(200)).acquire().await.expect("free");
    guard.lost().await;
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    let (released, took) = timed(guard.release()).await;
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "{}", released.report);
    measured("b49", "release of an expired lock", took);
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (drained, took) = timed(locks.drain(SOON)).await;
    assert!(drained, "it went on releasing what is not held for {took:?}");
}

async fn b50_a_release_around_the_expiry_is_released_or_not_held() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let ttl = ms(400);
    let mut seen = BTreeMap::<_, u32>::new();
    for batch in 0..5 {
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..40_u64 {
            let locks = locks.clone();
            tasks.spawn(async move {
                let name = format!("{NAME}/{batch}/{i}");
                let begun = tokio::time::Instant::now();
                let guard = locks.on(&name).ttl(ttl).try_acquire().await.ok()?;
                // From 5 ms before the end of the keys to 5 ms after it.
                tokio::time::sleep_until(begun + ttl - ms(5) + ttl / 1600 * u32::try_from(i).ok()?).await;
                Some(guard.release().await)
            });
        }
        for released in tasks.join_all().await.into_iter().flatten() {
            let decided = matches!(released.outcome, ReleaseOutcome::Released | ReleaseOutcome::NotHeld);
            assert!(decided, "{:?} [{}]", released.outcome, released.report);
            *seen.entry(released.outcome).or_default() += 1;
        }
    }
    measured("b50", "outcomes", &seen);
    assert!(seen.values().sum::<u32>() >= 100, "too few locks could be had on this machine: {seen:?}");
}

async fn b52_a_node_that_hung_during_the_release_is_cleared_when_it_wakes() {
    let nodes = Cluster::start(3);
    // Shorter and longer than the lock waits for an answer before it gives the connection up (1 s).
    for pause in [ms(500), ms(1_500)] {
        let locks = builder(nodes.urls()).patience(ms(500)).build().expect("a lock");
        warm(&locks).await;
        let guard = locks.try_acquire(NAME).await.expect("free");
        eventually(SOON, || nodes.count_with(NAME, &guard.owner().to_string()) == 3).await;
        nodes[1].stop();
        let (released, took) = timed(guard.release()).await;
        assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
        assert!(took < SOON, "the hung node was waited for: {took:?}");
        tokio::time::sleep(pause.saturating_sub(took)).await;
        nodes[1].cont();
        let ((), took) = timed(eventually(SOON, || !nodes.exists_anywhere(NAME))).await;
        measured("b52", "keys gone after the node woke", took);
    }
}

async fn b53_a_release_whose_answers_were_lost_is_not_called_stolen() {
    let proxied = Proxied::start(3);
    let locks = proxied.locks();
    warm(&locks).await;
    let guard = locks.try_acquire(NAME).await.expect("free");
    eventually(SOON, || proxied.nodes.count_with(NAME, &guard.owner().to_string()) == 3).await;
    proxied.all(|proxy| proxy.drop_replies());
    let release = tokio::spawn(guard.release());
    eventually(SOON, || !proxied.nodes.exists_anywhere(NAME)).await;
    assert!(!release.is_finished(), "nobody can have heard of it");
    proxied.all(|proxy| proxy.pass());
    let released = release.await.expect("no panic");
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
}

async fn b54_releasing_what_is_not_held_is_said_and_changes_nothing() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let stranger = Owner(7);
    let nobody = locks.release_owner(NAME, stranger).await.expect("a name");
    assert_eq!(nobody.count(|answer| *answer == NodeAnswer::NotMine), 3, "{nobody}");

    let guard = locks.try_acquire(NAME).await.expect("free");
    let owner = guard.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == 3).await;
    let foreign = locks.release_owner(NAME, stranger).await.expect("a name");
    assert_eq!(foreign.count(|answer| *answer == NodeAnswer::NotMine), 3, "{foreign}");
    assert_eq!(nodes.count_with(NAME, &owner), 3);

    let own = locks.release_owner(NAME, guard.owner()).await.expect("a name");
    assert_eq!(own.count(|answer| *answer == NodeAnswer::Released), 3, "{own}");
    let late = guard.release().await;
    assert_eq!(late.outcome, ReleaseOutcome::NotHeld, "{}", late.report);
}

async fn b55_the_error_of_the_work_comes_soon_and_unchanged_though_no_node_answers() {
    for silence in [Proxy::cut, Proxy::black_hole] {
        let site = Proxied::start(3);
        let ours = site.builder().patience(ms(500)).build().expect("a lock");
        warm(&ours).await;
        let work = async |_| {
            site.all(silence);
            Err::<(), _>("exit 7")
        };
        let (outcome, took) = timed(ours.run(NAME, SOON, work)).await;
        measured("B55", "from the failure to its report, without a node", took);
        assert_eq!(outcome, Ok(Err("exit 7")));
        assert!(took < SOON, "{took:?}");
    }
}

async fn b56_the_same_handle_locks_again_after_an_expiry() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    for _ in 0..2 {
        let expired = locks.on(NAME).ttl(ms(300)).acquire().await.expect("free");
        assert_eq!(expired.lost().await, LostReason::Expired);
        eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
        assert_eq!(expired.release().await.outcome, ReleaseOutcome::NotHeld);
        let again = locks.try_acquire(NAME).await.expect("free again");
        assert_eq!(again.release().await.outcome, ReleaseOutcome::Released);
    }
}

async fn b57_a_release_cancelled_half_way_leaves_no_local_belief() {
    let proxied = Proxied::start(3);
    let (locks, other) =
        (proxied.builder().patience(ms(300)).build().expect("a lock"), locks(&proxied.nodes));
    warm(&locks).await;
    let guard = locks.try_acquire(NAME).await.expect("free");
    let (owner, lease) = (guard.owner().to_string(), guard.lease().clone());
    eventually(SOON, || proxied.nodes.count_with(NAME, &owner) == 3).await;

    proxied.all(|proxy| proxy.hold_requests());
    let cancelled = tokio::time::timeout(ms(20), guard.release()).await;
    assert!(cancelled.is_err(), "the release cannot have been answered");
    assert!(!lease.is_held(), "who has begun to release must not go on");
    assert_eq!(proxied.nodes.count_with(NAME, &owner), 3);
    locks.try_acquire(NAME).await.expect_err("the keys are still there: no local shortcut");
    other.try_acquire(NAME).await.expect_err("the keys are still there");

    proxied.all(|proxy| proxy.pass());
    let next = locks.acquire(NAME, SOON).await.expect("the cancelled release went on");
    assert_ne!(next.owner().to_string(), owner);
    next.release().await;
    eventually(SOON, || !proxied.nodes.exists_anywhere(NAME)).await;
}

async fn b58_nothing_is_touched_but_the_lock_its_counter_and_the_node_record() {
    let nodes = Cluster::start(3);
    nodes.each(strangers_data);
    let before = nodes.each(RedisServer::snapshot);
    let locks = locks(&nodes);
    for round in 0..100_u32 {
        let guard = locks.acquire(NAME, SOON).await.expect("free");
        if round % 10 == 0 {
            guard.extend(LONG).await.expect("held");
        }
        match round % 3 {
            0 => drop(guard),
            _ => assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released),
        }
    }
    assert!(locks.drain(SOON).await);
    let counter = format!("redfence:counter:{NAME}");
    for (before, mut after) in
        before.into_iter().flatten().zip(nodes.each(RedisServer::snapshot).into_iter().flatten())
    {
        assert!(after.remove(&counter).is_some() && after.remove("redfence:node").is_some());
        assert_eq!(after, before);
    }
    // The counter and the record have no end, the stranger's key has kept its own, the other database is as it was.
    for (key, has_end) in [(counter.as_str(), false), ("redfence:node", false), ("ends", true)] {
        assert!(nodes.pttl(key).into_iter().all(|left| left.is_some_and(|ms| (ms > 0) == has_end)), "{key}");
    }
    assert_eq!(nodes.each(other_database), [Some(1), Some(1), Some(1)]);
}

/// Data of all types, named so that a careless pattern or a careless prefix would catch it.
fn strangers_data(node: &RedisServer) {
    let counter = format!("counter:{NAME}");
    for words in [
        &["SET", "invoices/4", "string"][..],
        &["SET", "invoices/420", "string"],
        &["SET", "INVOICES/42", "string"],
        &["SET", &counter, "7"],
        &["SET", "redfence", "string"],
        &["SET", "ends", "string", "PX", "3600000"],
        &["RPUSH", "list", "a", "b"],
        &["SADD", "set", "a", "b"],
        &["ZADD", "sorted", "1", "a"],
        &["HSET", "hash", "epoch", "9", "high", "9"],
        &["XADD", "stream", "1-1", "field", "value"],
    ] {
        node.ask::<()>(words);
    }
    let url = format!("{}/1", node.url());
    let mut other =
        redis::Client::open(url).and_then(|client| client.get_connection()).expect("a connection");
    redis::cmd("SET").arg(NAME).arg("other database").exec(&mut other).expect("an answer");
}

fn other_database(node: &RedisServer) -> usize {
    let url = format!("{}/1", node.url());
    let mut other =
        redis::Client::open(url).and_then(|client| client.get_connection()).expect("a connection");
    redis::cmd("DBSIZE").query(&mut other).expect("an answer")
}

async fn b58b_an_error_in_the_work_releases_at_once() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let work = locks.run(NAME, SOON, |_| async { Err::<(), _>("broken") }).await;
    assert_eq!(work.expect("the lock was held"), Err("broken"));
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;

    let early_return = async || -> Result<(), std::num::ParseIntError> {
        let _guard = locks.acquire(NAME, SOON).await.expect("free");
        "no number".parse::<u8>()?;
        Ok(())
    };
    early_return().await.expect_err("no number");
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
}

async fn b58b_a_panic_in_the_work_releases_at_once() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let scoped = locks.clone();
    let work = tokio::spawn(async move {
        // Unwinds as a panic does, without the noise.
        scoped.run(NAME, SOON, |_| async { std::panic::resume_unwind(Box::new("broken")) }).await
    });
    assert!(work.await.expect_err("it panicked").is_panic());
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;

    let holder = locks.clone();
    let work = tokio::spawn(async move {
        let _guard = holder.acquire(NAME, SOON).await.expect("free");
        std::panic::resume_unwind(Box::new("broken"))
    });
    let result: Result<(), _> = work.await;
    assert!(result.expect_err("it panicked").is_panic());
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
}
