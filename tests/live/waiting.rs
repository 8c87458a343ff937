//! Waiting for a lock (field reports, section F): woken by releases, fair enough, idle meanwhile, and over when told.
//! Rules R13 of `docs/safety.md`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::clock::{Entropy, SystemEntropy};
use redfence::lock::error::AcquireError;
use redfence::proto::Owner;

use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, timed, warm};
use crate::support::{Cluster, Live, Options, Stopwatch, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            a_release_wakes_a_waiter_that_does_not_poll,
            a_waiter_finds_the_release_where_notifications_are_forbidden,
            b69_fifty_waiters_are_idle,
            b72_a_wait_ends_in_time_when_all_nodes_are_silent;
        multi_thread:
            a_waiter_has_the_lock_a_few_milliseconds_after_the_release,
            b67b_a_waiter_that_vanished_leaves_nothing_for_the_next_to_trip_over,
            b68_who_is_woken_and_loses_the_race_waits_on,
            b70_a_wait_cancelled_at_the_moment_of_the_release_hangs_nobody,
            b71_two_clients_on_crossing_sets_both_get_on
    ]
}

/// Chance that is no chance: pauses are at their shortest, nobody waits to let others go first.
#[derive(Debug, Default)]
struct NoJitter(SystemEntropy);

impl Entropy for NoJitter {
    fn owner(&self) -> Owner {
        self.0.owner()
    }

    fn chance(&self) -> f64 {
        0.0
    }
}

async fn a_release_wakes_a_waiter_that_does_not_poll() {
    let nodes = Cluster::start(5);
    let holder = locks(&nodes);
    warm(&holder).await;
    let never = Duration::from_secs(3600);
    let waiter = builder(nodes.urls()).backoff(never, never).entropy(Arc::new(NoJitter::default()));
    let waiter = waiter.build().expect("a lock");
    for _ in 0..3 {
        let guard = holder.acquire(NAME, SOON).await.expect("free");
        let waits = waiter.clone();
        let waiting = tokio::spawn(async move { waits.acquire(NAME, LONG).await });
        eventually(SOON, || subscribers(&nodes) >= 5).await;
        tokio::time::sleep(ms(50)).await;
        assert!(!waiting.is_finished());
        guard.release().await;
        let woken = tokio::time::timeout(SOON, waiting).await.expect("the release was not heard");
        woken.expect("no panic").expect("free now").release().await;
    }
}

fn subscribers(nodes: &Cluster) -> u64 {
    let channel = format!("redfence:released:{NAME}");
    let count = |(_, number): (String, u64)| number;
    nodes.each(|node| count(node.ask(&["PUBSUB", "NUMSUB", &channel]))).into_iter().flatten().sum()
}

async fn a_waiter_has_the_lock_a_few_milliseconds_after_the_release() {
    let nodes = Cluster::start(5);
    let (holder, waiter) = (locks(&nodes), locks(&nodes));
    warm(&holder).await;
    warm(&waiter).await;
    let rounds = 25;
    let mut waits = Vec::new();
    for _ in 0..rounds {
        let guard = holder.acquire(NAME, SOON).await.expect("free");
        let waits_for = waiter.clone();
        let waiting = tokio::spawn(async move {
            let guard = waits_for.acquire(NAME, LONG).await.expect("free in time");
            (guard, Stopwatch::start())
        });
        // Long enough for the pauses between polls to grow beyond what is measured.
        tokio::time::sleep(ms(120)).await;
        assert!(!waiting.is_finished());
        let released = Stopwatch::start();
        let release = tokio::spawn(guard.release());
        let (guard, acquired) = waiting.await.expect("no panic");
        waits.push(released.elapsed().saturating_sub(acquired.elapsed()));
        release.await.expect("no panic");
        guard.release().await;
    }
    waits.sort_unstable();
    let (median, worst) = (waits[rounds / 2], waits[rounds - 1]);
    measured("wake-up", "from the release to the next acquisition, median and worst", (median, worst));
    assert!(median < ms(60), "{waits:?}");
}

async fn a_waiter_finds_the_release_where_notifications_are_forbidden() {
    let rules = "quiet on >secret ~* resetchannels +@all -publish -subscribe";
    let nodes = Cluster::with(3, &Options::new().user(rules));
    let locks = builder(nodes.iter().map(|node| node.url_as("quiet", "secret"))).build().expect("a lock");
    warm(&locks).await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let guard = locks.acquire(NAME, SOON).await.expect("free");
        let waiter = locks.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME, LONG).await });
        tokio::time::sleep(ms(300)).await;
        assert!(!waiting.is_finished());
        assert_eq!(subscribers(&nodes), 0, "the test blocks nothing");
        let released = Stopwatch::start();
        guard.release().await;
        let guard = waiting.await.expect("no panic").expect("found by polling");
        waits.push(released.elapsed());
        guard.release().await;
    }
    measured("wake-up", "found by polling after", &waits);
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(5)), "{waits:?}");
}

async fn b67b_a_waiter_that_vanished_leaves_nothing_for_the_next_to_trip_over() {
    let nodes = Cluster::start(3);
    let (a, b) = (locks(&nodes), locks(&nodes));
    warm(&a).await;
    let guard = a.acquire(NAME, SOON).await.expect("free");
    for end in ["cancelled", "connections killed"] {
        let crashing = locks(&nodes);
        let waiting = tokio::spawn(async move { crashing.acquire(NAME, LONG).await });
        eventually(SOON, || subscribers(&nodes) >= 3).await;
        if end != "cancelled" {
            nodes.each(|node| node.ask::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]));
        }
        waiting.abort();
        let _ = waiting.await;
    }
    guard.release().await;
    a.drain(SOON).await;

    let asked = |nodes: &Cluster| nodes[0].calls("evalsha") + nodes[0].calls("eval");
    let before = asked(&nodes);
    let mut tasks = tokio::task::JoinSet::new();
    for locks in [a.clone(), b.clone()] {
        tasks.spawn(async move {
            for round in 0..50 {
                let guard = locks.acquire(NAME, LONG).await;
                let guard = guard.unwrap_or_else(|error| panic!("gave up early in round {round}: {error}"));
                tokio::time::sleep(ms(5)).await;
                guard.release().await;
            }
        });
    }
    tasks.join_all().await;
    let per_round = (asked(&nodes) - before) as f64 / 100.0;
    measured("b67b", "requests per node and round of contention", per_round);
    assert!(per_round < 40.0, "busy: {per_round} requests per node and round");
}

async fn b68_who_is_woken_and_loses_the_race_waits_on() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let guard = locks.acquire(NAME, SOON).await.expect("free");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let (acquired, took) = timed(locks.acquire(NAME, SOON)).await;
            let guard = acquired.unwrap_or_else(|error| panic!("gave up after {took:?}: {error}"));
            tokio::time::sleep(ms(100)).await;
            guard.release().await;
            took
        });
    }
    tokio::time::sleep(ms(100)).await;
    guard.release().await;
    let longest = tasks.join_all().await.into_iter().max();
    measured("b68", "the last of ten waiters, each holding 100ms, after", longest);
}

async fn b69_fifty_waiters_are_idle() {
    const WAITERS: u32 = 50;
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let _guard = locks.acquire(NAME, SOON).await.expect("free");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let locks = locks.clone();
        tasks.spawn(async move { locks.acquire(NAME, LONG).await.map(drop) });
    }
    tokio::time::sleep(ms(1_000)).await;
    let asked =
        |nodes: &Cluster| nodes.each(|node| node.calls("evalsha")).into_iter().flatten().max().unwrap_or(0);
    let (watch, before, busy) = (Stopwatch::start(), asked(&nodes), thread_time());
    tokio::time::sleep(Duration::from_secs(4)).await;
    // All of the client runs on this thread; the looks at the nodes are in the figure as well.
    let (busy, took) = (thread_time() - busy, watch.elapsed());
    let rate = (asked(&nodes) - before) as f64 / took.as_secs_f64() / f64::from(WAITERS);
    let share = busy.as_secs_f64() / took.as_secs_f64();
    measured("b69", "requests per second, waiter and node; share of a core", (rate, share));
    assert!(rate < 20.0, "{rate} requests per second, waiter and node");
    assert!(share < 0.2, "{:.0} % of a core", share * 100.0);
    assert!(tasks.try_join_next().is_none(), "nobody can have acquired");
}

/// What this thread has computed so far: unlike the clock, not stretched by a busy machine.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.expect("a time"), nanos.expect("a time"))
}

async fn b70_a_wait_cancelled_at_the_moment_of_the_release_hangs_nobody() {
    // No disk: a thousand rounds, and the disk has no part in what is tested.
    let nodes = Cluster::with(3, &Options::new().append_only(false));
    let locks = locks(&nodes);
    warm(&locks).await;
    for round in 0..1_000_u64 {
        let guard = locks.acquire(NAME, SOON).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let waiter = locks.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME, LONG).await.map(drop) });
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..2_000))).await;
        let release = tokio::spawn(guard.release());
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..800))).await;
        waiting.abort();
        let _ = waiting.await;
        let released = tokio::time::timeout(SOON, release).await.expect("the release hangs");
        released.expect("no panic");
    }
    assert!(locks.drain(SOON).await);
    assert!(!nodes.exists_anywhere(NAME));
}

async fn b71_two_clients_on_crossing_sets_both_get_on() {
    let nodes = Cluster::with(3, &Options::new().append_only(false));
    let watch = Stopwatch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for names in [["a", "b", "c", "d"], ["d", "c", "b", "a"]] {
        let locks = locks(&nodes);
        tasks.spawn(async move {
            let (mut rounds, mut longest, mut since) = (0, Duration::ZERO, Stopwatch::start());
            while watch.elapsed() < Duration::from_secs(6) {
                if take_all(&locks, &names).await {
                    rounds += 1;
                    longest = longest.max(since.elapsed());
                    since = Stopwatch::start();
                } else {
                    // Who gives way lets the other one pass.
                    tokio::time::sleep(ms(fastrand::u64(0..50))).await;
                }
            }
            (names[0], (rounds, longest.max(since.elapsed())))
        });
    }
    let clients: BTreeMap<_, _> = tasks.join_all().await.into_iter().collect();
    measured("b71", "rounds and longest gap of each client", &clients);
    assert!(clients.values().all(|(rounds, _)| *rounds > 0), "{clients:?}");
}

/// Whoever cannot have all of them gives back what it has: with a wait limit, crossing sets do not deadlock.
async fn take_all(locks: &DistributedLock, names: &[&str]) -> bool {
    let mut guards = Vec::new();
    for name in names {
        match locks.acquire(name, ms(100)).await {
            Ok(guard) => guards.push(guard),
            Err(AcquireError::Contended { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
    }
    for guard in guards {
        guard.release().await;
    }
    true
}

async fn b72_a_wait_ends_in_time_when_all_nodes_are_silent() {
    let proxied = Proxied::start(3);
    let patience = ms(300);
    let (warmed, cold) = (proxied.builder(), proxied.builder());
    let [warmed, cold] = [warmed, cold].map(|builder| builder.patience(patience).build().expect("a lock"));
    warm(&warmed).await;
    proxied.all(|proxy| proxy.black_hole());
    let wait = Duration::from_secs(1);
    for (kind, locks) in [("open connections", warmed), ("no connection yet", cold)] {
        let (acquired, took) = timed(locks.acquire(NAME, wait)).await;
        let error = acquired.expect_err("nobody can have answered");
        assert!(matches!(error, AcquireError::NoQuorum { needed: 2, nodes: 3, .. }), "{error}");
        measured("b72", kind, took);
        assert!(wait <= took && took < wait + patience + ms(700), "{kind}: {took:?}");
    }
}
