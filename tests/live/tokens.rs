//! Fencing tokens on real nodes: every new holder's is larger, whatever happens to single nodes.
//! Rules R8 of `docs/safety.md`.

use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::error::AcquireError;
use redfence::lock::report::{NodeAnswer, NodeError};
use redfence::lock::{LostReason, ReleaseOutcome};
use redfence::proto::FencingToken;

use crate::judge::soak;
use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, warm};
use crate::support::{
    Cluster, Condition, Live, Options, RedisServer, Restart, Stopwatch, eventually, live_tests,
};

const COUNTER: &str = "redfence:counter:invoices/42";

/// The largest number that a node keeps.
const LARGEST: u64 = (1 << 53) - 1;

pub(crate) fn tests() -> Vec<Live> {
    let mut tests = live_tests![
        current_thread:
            p2_one_counter_far_ahead_is_not_forgotten_when_its_node_is_gone,
            p7_failed_confirm_rounds_lower_and_reuse_nothing,
            p8_numbers_end_with_a_refusal_and_are_written_as_integers,
            p9_the_token_stays_the_same_through_extensions,
            b78_a_used_name_leaves_one_counter_and_nothing_else,
            b79_a_stale_holder_keeps_its_own_token,
            b80_another_handle_sees_who_holds_the_lock_and_for_how_long,
            b81_a_node_that_is_away_does_not_make_a_held_lock_look_free;
        multi_thread:
            b77_a_hundred_parallel_acquisitions_use_every_node_once
    ];
    let long = live_tests![
        current_thread:
            p1_tokens_rise_while_a_random_node_of_three_is_frozen,
            tokens_rise_while_random_nodes_are_frozen_killed_and_restarted
    ];
    let limit = Duration::from_secs(soak(180, 3600));
    tests.extend(long.into_iter().map(|test| test.within(limit)));
    tests
}

/// Acquires, compares, releases.
async fn next_token(locks: &DistributedLock, last: &mut u64) {
    let guard = locks.acquire(NAME, LONG).await.expect("a quorum is up");
    let FencingToken(token) = guard.token().expect("fenced");
    assert!(token > *last, "{token} after {last}");
    *last = token;
    let released = guard.release().await;
    // With a node frozen and patience short, the outcome may be unknown.
    assert_ne!(released.outcome, ReleaseOutcome::NotHeld, "{}", released.report);
}

async fn p1_tokens_rise_while_a_random_node_of_three_is_frozen() {
    let nodes = Cluster::start(3);
    // The node that was frozen just now still has yesterday's key when the next one freezes: short patience, try again.
    let build = || builder(nodes.urls()).patience(ms(100)).build().expect("a lock");
    let clients = [build(), build()];
    locks(&nodes).acquire(NAME, SOON).await.expect("all nodes are up").release().await;
    let (mut last, rounds) = (0, soak(500, 5_000));
    for round in 0..rounds {
        let frozen = &nodes[fastrand::usize(0..3)];
        frozen.stop();
        next_token(&clients[round % 2], &mut last).await;
        frozen.cont();
    }
    measured("P1", "rounds, all tokens rising", rounds);
}

async fn tokens_rise_while_random_nodes_are_frozen_killed_and_restarted() {
    let nodes = Cluster::start(5);
    let build =
        || builder(nodes.urls()).ttl(Duration::from_secs(10)).patience(ms(500)).build().expect("a lock");
    let clients = [build(), build()];
    warm(&clients[0]).await;
    let rounds = soak(500, 10_000);
    let (watch, mut last, mut faults) = (Stopwatch::start(), 0, [0, 0]);
    let mut ill: Option<&RedisServer> = None;
    for round in 0..rounds {
        if round % 10 == 0 {
            match ill.take() {
                Some(node) if node.condition() == Condition::Stopped => node.cont(),
                Some(node) => node.restart(Restart::KeepData),
                None => {}
            }
            let node = &nodes[fastrand::usize(0..5)];
            let kind = usize::from(fastrand::bool());
            if kind == 0 {
                node.stop()
            } else {
                node.kill()
            }
            faults[kind] += 1;
            ill = Some(node);
        }
        next_token(&clients[fastrand::usize(0..2)], &mut last).await;
    }
    let [frozen, killed] = faults;
    measured(
        "tokens",
        "acquisitions, frozen, killed and restarted, in",
        (rounds, frozen, killed, watch.elapsed()),
    );
}

async fn p2_one_counter_far_ahead_is_not_forgotten_when_its_node_is_gone() {
    let nodes = Cluster::start(3);
    let (a, b) = (locks(&nodes), locks(&nodes));
    warm(&b).await;
    let mut last = 0;
    next_token(&a, &mut last).await;
    assert!(a.drain(SOON).await);
    let ahead: u64 = nodes[0].ask(&["INCRBY", COUNTER, "1000"]);
    nodes[2].kill();
    next_token(&a, &mut last).await;
    assert!(last > ahead, "{last} is below a number that was answered");
    nodes[2].restart(Restart::KeepData);
    nodes[0].kill();
    // Another client: it has no hint, and none of its nodes but one has heard of the large number.
    next_token(&b, &mut last).await;
}

async fn p7_failed_confirm_rounds_lower_and_reuse_nothing() {
    let proxied = Proxied::start(3);
    let (nodes, locks) = (&proxied.nodes, proxied.builder().patience(ms(80)).build().expect("a lock"));
    let plain = self::locks(nodes);
    let mut last = 0;
    next_token(&plain, &mut last).await;
    assert!(plain.drain(SOON).await);
    locks.try_acquire("warm-up").await.expect("free").release().await;
    for round in 0..50 {
        // Counters apart: no two grants agree, a confirm round must follow.
        for (i, node) in nodes.iter().enumerate() {
            let raise = (i + round) % 3 * 1_000 + round;
            node.ask::<u64>(&["INCRBY", COUNTER, &raise.to_string()]);
        }
        proxied.all(|proxy| proxy.hold_replies());
        let attempt = locks.clone();
        let attempt = tokio::spawn(async move { attempt.try_acquire(NAME).await });
        eventually(SOON, || nodes.each(|node| node.exists(NAME)) == [Some(true); 3]).await;
        // The grants are heard; the confirms come too late, or never.
        let late = round % 5 > 0;
        proxied.all(|proxy| if late { proxy.hold_requests() } else { proxy.drop_requests() });
        let error = attempt.await.expect("no panic").expect_err("no confirm was answered");
        assert!(matches!(error, AcquireError::NoQuorum { .. }), "round {round}: {error}");
        proxied.all(|proxy| proxy.pass());
        assert!(locks.drain(SOON).await);
        assert!(!nodes.exists_anywhere(NAME), "round {round}");
    }
    let written = nodes.get(COUNTER).into_iter().flatten().filter_map(|number| number.parse().ok()).max();
    let mut largest: u64 = written.expect("numbers");
    assert!(largest > last);
    next_token(&locks, &mut largest).await;
    next_token(&plain, &mut largest).await;
}

async fn p8_numbers_end_with_a_refusal_and_are_written_as_integers() {
    let nodes = Cluster::start(3);
    let (a, b) = (locks(&nodes), locks(&nodes));
    warm(&a).await;
    let preset = |number: u64| nodes.each(|node| node.ask::<()>(&["SET", COUNTER, &number.to_string()]));

    preset(1_000_000_000_000_000);
    let mut last = 0;
    next_token(&a, &mut last).await;
    assert_eq!(last, 1_000_000_000_000_001);
    assert!(a.drain(SOON).await);
    assert_eq!(nodes.get(COUNTER), vec![Some("1000000000000001".to_owned()); 3]);

    preset(LARGEST - 1);
    next_token(&b, &mut last).await;
    assert_eq!(last, LARGEST);
    assert!(b.drain(SOON).await);
    // With and without a hint from before, time and again.
    for locks in [&a, &b, &a, &b] {
        let error = locks.try_acquire(NAME).await.expect_err("the numbers are used up");
        let AcquireError::Unusable { report, .. } = &error else { panic!("{error}") };
        let exhausted = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Exhausted(_))));
        assert!(exhausted >= 2, "{error}");
        assert!(locks.drain(SOON).await);
        assert!(!nodes.exists_anywhere(NAME));
        assert_eq!(nodes.get(COUNTER), vec![Some(LARGEST.to_string()); 3]);
    }
    a.try_acquire("another resource").await.expect("it has numbers of its own").release().await;
}

async fn p9_the_token_stays_the_same_through_extensions() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let guard = locks.acquire(NAME, SOON).await.expect("free");
    let token = guard.token();
    let numbers = nodes.get(COUNTER);
    for _ in 0..20 {
        guard.extend(LONG).await.expect("held");
        assert_eq!(guard.token(), token);
    }
    assert_eq!(nodes.get(COUNTER), numbers, "an extension touches no number");
    guard.release().await;
}

async fn b77_a_hundred_parallel_acquisitions_use_every_node_once() {
    const NAMES: usize = 1_000;
    let nodes = Cluster::with(5, &Options::new().append_only(false));
    let locks = locks(&nodes);
    warm(&locks).await;
    let sets = || nodes.each(|node| node.calls("set")).into_iter().flatten().collect::<Vec<_>>();
    let before = sets();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..100 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for i in (worker..NAMES).step_by(100) {
                guards.push(locks.try_acquire(&format!("{NAME}/{i}")).await.expect("nobody else wants it"));
            }
            guards
        });
    }
    let guards = tasks.join_all().await;
    let held =
        || nodes.keys(&format!("{NAME}/*")).into_iter().flatten().map(|keys| keys.len()).collect::<Vec<_>>();
    eventually(SOON, || held() == [NAMES; 5]).await;
    // A grant sets the key and the counter. More would be a grant sent twice, or a needless confirm.
    let granted: Vec<_> = sets().iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(granted, [2 * NAMES as u64; 5]);
    drop(guards);
    eventually(SOON, || held() == [0; 5]).await;
}

async fn b78_a_used_name_leaves_one_counter_and_nothing_else() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    for i in 0..50 {
        locks.acquire(&format!("{NAME}/{i}"), SOON).await.expect("free").release().await;
    }
    assert!(locks.drain(SOON).await);
    // Counters must outlive their locks, or tokens would begin again. Their number is for the operator to watch.
    assert_eq!(nodes.each(|node| node.keys("*").len()), [Some(51); 3]);
    assert_eq!(nodes.each(|node| node.keys(&format!("redfence:counter:{NAME}/*")).len()), [Some(50); 3]);
}

async fn b79_a_stale_holder_keeps_its_own_token() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let stale = locks.on(NAME).ttl(ms(300)).acquire().await.expect("free");
    let token = stale.token();
    let next = locks.acquire(NAME, SOON).await.expect("free after the TTL");
    assert!(next.token() > token, "{:?} after {token:?}", next.token());
    assert_eq!(stale.token(), token);
    assert_eq!(stale.lost_reason(), Some(LostReason::Expired));
    assert_eq!(stale.remaining(), Duration::ZERO);
}

async fn b80_another_handle_sees_who_holds_the_lock_and_for_how_long() {
    let nodes = Cluster::start(3);
    let (holder, looker) = (locks(&nodes), locks(&nodes));
    warm(&holder).await;
    let guard = holder.acquire(NAME, SOON).await.expect("free");
    let owner = guard.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == 3).await;
    let seen = looker.inspect(NAME).await.expect("a name");
    for ((address, seen), node) in seen.iter().zip(&nodes) {
        assert_eq!(*address, node.addr().to_string());
        let seen = seen.as_ref().unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!(seen.holder.as_ref(), Some(&owner));
        assert!(seen.remaining.is_some_and(|left| Duration::ZERO < left && left <= LONG), "{seen:?}");
        assert_eq!(seen.counter, guard.token().map(|token| token.0));
    }
    guard.release().await;
    assert!(holder.drain(SOON).await);
    let free = looker.inspect(NAME).await.expect("a name");
    assert!(free.iter().all(|(_, seen)| seen.as_ref().is_ok_and(|seen| seen.holder.is_none())), "{free:?}");
}

async fn b81_a_node_that_is_away_does_not_make_a_held_lock_look_free() {
    let nodes = Cluster::start(3);
    let (holder, looker) = (locks(&nodes), builder(nodes.urls()).patience(ms(500)).build().expect("a lock"));
    warm(&holder).await;
    let guard = holder.acquire(NAME, SOON).await.expect("free");
    let owner = guard.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == 3).await;
    for away in [RedisServer::stop, RedisServer::kill] {
        away(&nodes[0]);
        let seen = looker.inspect(NAME).await.expect("a name");
        assert!(
            matches!(seen[0].1, Err(NodeError::NoAnswer(_) | NodeError::Unreachable(_))),
            "not heard is not free: {seen:?}"
        );
        for (address, seen) in &seen[1..] {
            let holder = seen.as_ref().map(|seen| seen.holder.as_ref());
            assert_eq!(holder, Ok(Some(&owner)), "{address}");
        }
    }
    guard.release().await;
}
