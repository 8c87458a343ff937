//! Nodes and connections that come and go (field reports, section G).
//! Rules R10 of `docs/safety.md`.

use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::error::{AcquireError, ExtendError};
use redfence::lock::report::NodeAnswer;
use redfence::lock::{LockGuard, ReleaseOutcome};

use crate::setup::{LONG, NAME, Proxied, SOON, locks, measured, ms, warm};
use crate::support::{Cluster, Live, RedisServer, Restart, Stopwatch, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            b74_flushed_scripts_and_a_restarted_node_go_unnoticed,
            b75_a_node_that_comes_back_empty_costs_the_holder_nothing,
            b75_a_node_that_comes_back_empty_helps_nobody_to_a_second_majority,
            a_node_that_comes_back_empty_does_not_vote_until_it_is_re_admitted,
            a_first_start_that_died_half_way_is_completed_by_the_next_client,
            a_handle_that_found_no_node_starts_the_fresh_nodes_that_come_later,
            a_handle_serves_on_after_all_nodes_were_restarted,
            killed_connections_come_back_by_themselves,
            a_connection_cut_under_a_request_costs_at_most_a_retry
    ]
}

/// An extension may meet a connection that has just ended; what was promised still holds, and the next one succeeds.
async fn extend(guard: &LockGuard, ttl: Duration) {
    let watch = Stopwatch::start();
    while let Err(error) = guard.extend(ttl).await {
        assert!(matches!(error, ExtendError::NoQuorum { .. }), "{error}");
        assert!(watch.elapsed() < SOON, "{error}");
        tokio::time::sleep(ms(20)).await;
    }
}

async fn b74_flushed_scripts_and_a_restarted_node_go_unnoticed() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let flush = || nodes.each(|node| node.ask::<()>(&["SCRIPT", "FLUSH"]));
    flush();
    let guard = locks.try_acquire(NAME).await.expect("free");
    flush();
    guard.extend(LONG).await.expect("held");
    nodes[1].restart(Restart::KeepData);
    flush();
    // From now on the restarted node is needed.
    nodes[0].kill();
    extend(&guard, LONG * 2).await;
    assert!(nodes[1].pttl(NAME) > 60_000);
    flush();
    let released = guard.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
    assert!(!released.report.to_string().contains("NOSCRIPT"), "{}", released.report);
}

async fn b75_a_node_that_comes_back_empty_costs_the_holder_nothing() {
    let nodes = Cluster::start(3);
    let (holder, other) = (locks(&nodes), locks(&nodes));
    warm(&holder).await;
    let guard = holder.acquire(NAME, SOON).await.expect("free");
    eventually(SOON, || nodes.count_with(NAME, &guard.owner().to_string()) == 3).await;
    nodes[0].restart(Restart::Empty);
    assert!(guard.is_held());
    extend(&guard, LONG).await;
    let error = other.try_acquire(NAME).await.expect_err("two of three are taken");
    assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
}

async fn b75_a_node_that_comes_back_empty_helps_nobody_to_a_second_majority() {
    let nodes = Cluster::start(3);
    let (holder, other) = (locks(&nodes), locks(&nodes));
    warm(&holder).await;
    warm(&other).await;
    // Held on nodes 0 and 1 only; then 0 loses its data.
    nodes[2].kill();
    let guard = holder.on(NAME).ttl(Duration::from_secs(3)).acquire().await.expect("two of three are up");
    nodes[2].restart(Restart::KeepData);
    nodes[0].restart(Restart::Empty);
    let mut tries = 0;
    while guard.is_held() {
        let second = other.try_acquire(NAME).await;
        assert!(second.is_err() || !guard.is_held(), "two holders: {guard:?} and {second:?}");
        tries += 1;
        tokio::time::sleep(ms(100)).await;
    }
    assert!(tries > 3, "the machine is too busy: {tries} tries");
    // The next one gets it from the nodes that kept their data, with a larger token.
    let next = other.acquire(NAME, SOON).await.expect("free after the TTL");
    assert!(next.token() > guard.token());
}

async fn a_node_that_comes_back_empty_does_not_vote_until_it_is_re_admitted() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    nodes[0].restart(Restart::Empty);
    // On a connection that has ended the grant would be unknown, and its release be repeated for half a minute.
    while locks.inspect(NAME).await.expect("a name").iter().any(|(_, seen)| seen.is_err()) {}
    let guard = locks.acquire(NAME, SOON).await.expect("two of three have their data");
    guard.release().await;
    assert!(locks.drain(SOON).await);
    assert_eq!(nodes[0].keys("*"), Vec::<String>::new(), "an empty node is left alone");

    nodes[1].kill();
    let error = locks.try_acquire(NAME).await.expect_err("one node with data is no quorum");
    let AcquireError::NoQuorum { report, .. } = &error else { panic!("{error}") };
    assert_eq!(report.0[0].answer, NodeAnswer::Empty, "{error}");
    assert!(error.to_string().contains("redfence init"), "{error}");

    // By hand, as docs/safety.md has it: no client is at work, and the lock is free.
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
    let high: u64 = nodes[2].ask(&["HGET", "redfence:node", "high"]);
    let number = high.to_string();
    nodes[0].ask::<u64>(&["HSET", "redfence:node", "epoch", "1", "floor", &number, "high", &number]);
    let guard = locks.acquire(NAME, SOON).await.expect("two of three vote again");
    assert!(guard.token().is_some_and(|token| token.0 > high), "{guard:?} after {high}");
}

/// An attempt raises the numbers of the nodes that have an epoch: then they would look like nodes in use for ever.
async fn a_first_start_that_died_half_way_is_completed_by_the_next_client() {
    let nodes = Cluster::start(5);
    let epochs = || nodes.each(|node| node.ask::<u64>(&["HGET", "redfence:node", "epoch"]));
    for node in nodes.iter().take(2) {
        let record = ["HSET", "redfence:node", "epoch", "1", "floor", "70", "high", "70"];
        assert_eq!(node.ask::<u64>(&record), 3);
    }
    nodes[4].kill();
    for _ in 0..3 {
        // All must answer before anybody can tell that the empty ones are new; until then nothing is touched.
        let error = locks(&nodes).try_acquire(NAME).await.expect_err("two with an epoch are no quorum");
        let AcquireError::NoQuorum { report, .. } = &error else { panic!("{error}") };
        assert_eq!((&report.0[0].answer, &report.0[2].answer), (&NodeAnswer::Ready, &NodeAnswer::Empty));
        assert_eq!(nodes[0].ask::<u64>(&["HGET", "redfence:node", "high"]), 70, "{error}");
    }
    nodes[4].restart(Restart::KeepData);
    let ours = locks(&nodes);
    let guard = ours.acquire(NAME, LONG).await.expect("all nodes answer now");
    assert_eq!(epochs(), [Some(1); 5]);
    assert!(guard.token().is_some_and(|token| token.0 > 70), "{guard:?}");
    guard.release().await;
}

/// Finding nobody says nothing about a first start, and must not put one off.
async fn a_handle_that_found_no_node_starts_the_fresh_nodes_that_come_later() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    nodes.iter().for_each(RedisServer::kill);
    let error = locks.try_acquire(NAME).await.expect_err("nobody is there");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    nodes.iter().for_each(|node| node.restart(Restart::KeepData));
    let watch = Stopwatch::start();
    let guard = locks.acquire(NAME, SOON).await.expect("fresh nodes");
    measured("first start", "after all nodes came", watch.elapsed());
    // A start that is put off is put off for five seconds.
    assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
    guard.release().await;
}

async fn a_handle_serves_on_after_all_nodes_were_restarted() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let mut last = None;
    for _ in 0..3 {
        let guard = locks.acquire(NAME, SOON).await.expect("all nodes are up");
        assert!(guard.token() > last);
        last = guard.token();
        nodes.each(|node| node.restart(Restart::KeepData));
        extend(&guard, LONG).await;
        let released = guard.release().await;
        assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
    }
}

async fn killed_connections_come_back_by_themselves() {
    let nodes = Cluster::start(3);
    let (locks, waiter) = (locks(&nodes), locks(&nodes));
    warm(&locks).await;
    for _ in 0..10 {
        kill_connections(&nodes);
        let guard = locks.acquire(NAME, SOON).await.expect("the nodes are up");
        kill_connections(&nodes);
        extend(&guard, LONG).await;
        hears_the_release(&nodes, &waiter, guard).await;
    }
}

fn kill_connections(nodes: &Cluster) {
    for kind in ["normal", "pubsub"] {
        nodes.each(|node| node.ask::<u64>(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]));
    }
}

/// A waiter whose connections are killed while it waits has the lock after the release all the same.
async fn hears_the_release(nodes: &Cluster, waiter: &DistributedLock, guard: LockGuard) {
    let waiter = waiter.clone();
    let waiting = tokio::spawn(async move { waiter.acquire(NAME, LONG).await });
    tokio::time::sleep(ms(20)).await;
    kill_connections(nodes);
    let released = guard.release().await;
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{}", released.report);
    let next = tokio::time::timeout(SOON, waiting).await.expect("the waiter hangs");
    next.expect("no panic").expect("free now").release().await;
}

async fn a_connection_cut_under_a_request_costs_at_most_a_retry() {
    let proxied = Proxied::start(3);
    let locks = proxied.locks();
    warm(&locks).await;
    for _ in 0..10 {
        proxied.all(|proxy| proxy.hold_replies());
        let acquire = locks.clone();
        let acquire = tokio::spawn(async move { acquire.acquire(NAME, LONG).await });
        eventually(SOON, || proxied.nodes.exists_anywhere(NAME)).await;
        // The grants are done, the answers are lost: unknown, not refused.
        proxied.all(|proxy| proxy.reset());
        proxied.all(|proxy| proxy.pass());
        let guard = tokio::time::timeout(SOON, acquire).await.expect("in time").expect("no panic");
        guard.expect("the nodes are up").release().await;
        assert!(locks.drain(SOON).await);
        assert!(!proxied.nodes.exists_anywhere(NAME), "a key of the attempt whose answers were lost");
    }
}
