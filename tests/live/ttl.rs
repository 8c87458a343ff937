//! The life of the keys: units, extremes, clocks (field reports, section B).
//! Rules R2, R4 of `docs/safety.md`.

use std::sync::Arc;
use std::time::Duration;

use redfence::lock::clock::{Clock, SystemClock};
use redfence::lock::error::{AcquireError, ConfigError, ExtendError};
use redfence::lock::report::NodeAnswer;
use redfence::lock::{LostReason, ReleaseOutcome, RunError};
use redfence::proto::Timestamp;

use crate::judge::{Life, library_panics, signed, soak};
use crate::setup::{LONG, NAME, SOON, builder, locks, measured, ms, warm};
use crate::support::{
    Cluster, Live, Options, RedisServer, Stopwatch, eventually, live_tests, require_own_clock,
};
use crate::victim;

pub(crate) fn tests() -> Vec<Live> {
    let mut tests = live_tests![
        sync:
            b23_a_client_killed_at_any_moment_leaves_no_key_without_ttl;
        current_thread:
            b21_a_ttl_is_kept_to_the_millisecond_or_refused,
            b26b_acquire_and_extend_read_the_ttl_in_the_same_unit;
        multi_thread:
            b18_tiny_ttls_are_refused_or_leave_less_validity_than_ttl,
            b19_auto_extension_works_with_a_small_ttl_and_refuses_a_tiny_one,
            b20_a_ttl_below_or_beside_a_whole_second_is_kept,
            b25_a_client_with_a_wrong_wall_clock_sets_the_right_ttl,
            b26_a_quarter_of_a_second_is_honoured;
    ];
    let stepping = live_tests![
        multi_thread:
            b24_a_node_whose_clock_is_or_steps_an_hour_ahead_decides_nothing;
    ];
    tests.extend(stepping.into_iter().map(|test| test.needing(require_own_clock)));
    tests
}

async fn b18_tiny_ttls_are_refused_or_leave_less_validity_than_ttl() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let panics = library_panics();
    for millis in [0, 1, 2] {
        let error = ours.on(NAME).ttl(ms(millis)).try_acquire().await.expect_err("no validity can be left");
        let typed =
            matches!(error, AcquireError::Config(ConfigError::Ttl(_) | ConfigError::NoValidity { .. }));
        assert!(typed && error.to_string().contains(&format!("{:?}", ms(millis))), "{error}");
    }
    let mut held = 0;
    for (i, millis) in [3, 10, 50].into_iter().flat_map(|millis| [millis; 20]).enumerate() {
        let (name, ttl) = (format!("{NAME}/{i}"), ms(millis));
        match ours.on(&name).ttl(ttl).try_acquire().await {
            Ok(guard) => {
                held += 1;
                assert!(guard.remaining() < ttl, "{guard:?}");
                let extended = guard.extend(ms(1)).await;
                assert!(matches!(extended, Ok(_) | Err(ExtendError::Lost(_))), "{extended:?}");
            }
            Err(error) => assert!(matches!(error, AcquireError::ValidityExhausted { .. }), "{error}"),
        }
    }
    measured("B18", "locks held of 60 with TTLs of 3, 10 and 50 ms", held);
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    for wrong in [Duration::ZERO, Duration::from_micros(1_500), Duration::MAX] {
        let refused = guard.extend(wrong).await;
        assert_eq!(refused, Err(ExtendError::Config(ConfigError::Ttl(wrong))));
    }
    assert!(guard.is_held());
    assert_eq!(library_panics(), panics);
}

async fn b19_auto_extension_works_with_a_small_ttl_and_refuses_a_tiny_one() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let panics = library_panics();
    let refused = ours.on(NAME).ttl(ms(2)).run(|_| async {}).await;
    assert!(matches!(refused, Err(RunError::Acquire(AcquireError::Config(_)))), "{refused:?}");
    // As soon as it can work at all, it does: held, lost or too slow, never a panic.
    for millis in [3, 4, 10] {
        let tiny = ours.on(&format!("{NAME}/{millis}")).ttl(ms(millis)).attempts(1).run(|_| async {}).await;
        let too_slow = matches!(tiny, Err(RunError::Acquire(AcquireError::ValidityExhausted { .. })));
        assert!(tiny.is_ok() || too_slow || matches!(tiny, Err(RunError::Lost { .. })), "{tiny:?}");
    }
    // A busy machine may miss all extensions of 400 ms once, but not every time.
    let work = soak(ms(1_500), ms(3_000));
    let mut losses = 0;
    while let Err(error) = ours.on(NAME).ttl(ms(400)).run(|_| tokio::time::sleep(work)).await {
        let announced = matches!(error, RunError::Lost { reason: LostReason::Expired, .. });
        assert!(announced || error.report().is_some(), "{error}");
        losses += 1;
        assert!(losses < 8, "the lock is never kept");
    }
    measured("B19", "losses before a lock of 400ms was kept", losses);
    assert_eq!(library_panics(), panics);
}

async fn b20_a_ttl_below_or_beside_a_whole_second_is_kept() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    for millis in [500, 1_500, 999, 2_001] {
        // Once in a while a busy machine looks so late that the keys are gone.
        let mut seen = 0;
        for _ in 0..20 {
            let life = Life::of(ms(millis));
            let Ok(guard) = ours.on(NAME).ttl(ms(millis)).wait(SOON).acquire().await else { continue };
            seen = life.check(&nodes, NAME);
            guard.release().await;
            if seen >= 2 {
                break;
            }
        }
        assert!(seen >= 2, "a key of {millis} ms was never seen at two nodes");
    }
}

async fn b21_a_ttl_is_kept_to_the_millisecond_or_refused() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    for ttl in [ms(20_001), Duration::from_secs(1_000), ms(1_000_000_007), Duration::from_secs_f64(15.5)] {
        let life = Life::of(ttl);
        let guard = ours.on(NAME).ttl(ttl).acquire().await.expect("the lock is free");
        eventually(SOON, || signed(&nodes, &guard) == 3).await;
        assert_eq!(life.check(&nodes, NAME), 3);
        assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
        assert!(ours.drain(SOON).await);
    }
    for ttl in
        [Duration::from_micros(1_500), Duration::from_nanos(1_500_000_001), Duration::from_secs(30 * 86_400)]
    {
        let error = ours.on(NAME).ttl(ttl).try_acquire().await.expect_err("it cannot be kept exactly");
        assert_eq!(error, AcquireError::Config(ConfigError::Ttl(ttl)));
        assert!(builder(nodes.urls()).ttl(ttl).build().is_err());
    }
    assert!(!nodes.exists_anywhere(NAME));
}

fn b23_a_client_killed_at_any_moment_leaves_no_key_without_ttl() {
    let nodes = Cluster::start(3);
    let mut seen = 0;
    for _ in 0..soak(12, 500) {
        let victim = victim::locker(&nodes.urls());
        // From before its first connection to the middle of its work.
        std::thread::sleep(ms(fastrand::u64(0..300)));
        drop(victim);
        for (key, left) in lock_keys(&nodes) {
            seen += 1;
            assert!(left != -1, "{key} has no TTL");
        }
    }
    measured("B23", "keys left by killed clients, all with a TTL", seen);
    assert!(seen > 0, "no client was ever killed while it held a lock");
}

/// Lock keys at all nodes, and how long they live.
fn lock_keys(nodes: &Cluster) -> Vec<(String, i64)> {
    let at = |node: &RedisServer| {
        let keys = node.keys("*").into_iter().filter(|key| !key.starts_with("redfence:"));
        keys.map(|key| (key.clone(), node.pttl(&key))).collect::<Vec<_>>()
    };
    nodes.each(at).into_iter().flatten().flatten().collect()
}

async fn b24_a_node_whose_clock_is_or_steps_an_hour_ahead_decides_nothing() {
    const HOUR: i64 = 3_600_000;
    let nodes = Cluster::with(3, &Options::new().own_clock());
    nodes[2].shift_clock(HOUR);
    let ahead = server_seconds(&nodes[2]) - server_seconds(&nodes[0]);
    assert!((3_590..3_700).contains(&ahead), "the clock is ahead by {ahead} s");
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    warm(&ours).await;

    // Ahead, but running at the right rate: TTLs are spans, so nothing differs.
    let life = Life::of(LONG);
    let guard = ours.acquire(NAME, SOON).await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    assert_eq!(life.check(&nodes, NAME), 3);

    // A step: the node's keys all end at once. Two of three keep the lock, and an extension is won there.
    nodes[2].shift_clock(HOUR * 2);
    eventually(SOON, || !nodes[2].exists(NAME)).await;
    let error = theirs.try_acquire(NAME).await.expect_err("it is held at two nodes");
    assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    assert!(guard.is_held());
    guard.extend(LONG * 2).await.expect("two of three extend");
    assert!(guard.remaining() > LONG && signed(&nodes, &guard) == 2);
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
}

fn server_seconds(server: &RedisServer) -> i64 {
    server.ask::<(i64, i64)>(&["TIME"]).0
}

/// A wall clock that is wrong, and a monotonic one with another origin.
#[derive(Debug)]
struct Wrong {
    real: SystemClock,
    by_micros: i64,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        self.real.now() + Duration::from_micros(self.by_micros.unsigned_abs())
    }

    fn unix_micros(&self) -> u64 {
        self.real.unix_micros().saturating_add_signed(self.by_micros)
    }
}

async fn b25_a_client_with_a_wrong_wall_clock_sets_the_right_ttl() {
    let nodes = Cluster::start(3);
    for by_micros in [30_000_000, -30_000_000, i64::MIN / 4] {
        let clock = Arc::new(Wrong { real: SystemClock::default(), by_micros });
        let ours = builder(nodes.urls()).clock(clock).build().expect("a lock");
        let life = Life::of(ms(30_000));
        let guard = ours.on(NAME).ttl(ms(30_000)).wait(SOON).acquire().await.expect("the lock is free");
        eventually(SOON, || signed(&nodes, &guard) == 3).await;
        assert_eq!(life.check(&nodes, NAME), 3);
        let life = Life::of(LONG);
        guard.extend(LONG).await.expect("all nodes are up");
        eventually(SOON, || nodes.pttl(NAME).iter().all(|left| *left > Some(30_000))).await;
        assert_eq!(life.check(&nodes, NAME), 3);
        assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
        assert!(ours.drain(SOON).await);
    }
}

async fn b26_a_quarter_of_a_second_is_honoured() {
    let nodes = Cluster::start(3);
    let (ours, theirs) = (locks(&nodes), locks(&nodes));
    warm(&ours).await;
    warm(&theirs).await;
    let ttl = ms(250);
    let watch = Stopwatch::start();
    let (guard, life) = loop {
        let life = Life::of(ttl);
        match ours.on(NAME).ttl(ttl).try_acquire().await {
            Ok(guard) => break (guard, life),
            Err(error) => assert!(watch.elapsed() < SOON, "{error}"),
        }
    };
    assert!(guard.remaining() < ttl);
    let next = theirs.acquire(NAME, SOON).await.expect("the keys end with their TTL");
    let took = watch.elapsed();
    assert!(life.is_over() && guard.lost_reason() == Some(LostReason::Expired), "{took:?}");
    measured("B26", "the next holder of a lock of 250ms comes after", took);
    assert!(next.is_held());
}

async fn b26b_acquire_and_extend_read_the_ttl_in_the_same_unit() {
    let nodes = Cluster::start(3);
    let ours = locks(&nodes);
    warm(&ours).await;
    let guard = ours.on(NAME).ttl(ms(20_000)).acquire().await.expect("the lock is free");
    eventually(SOON, || signed(&nodes, &guard) == 3).await;
    let life = Life::of(ms(30_000));
    guard.extend(ms(30_000)).await.expect("all nodes are up");
    assert!(guard.remaining() < ms(30_000));
    eventually(SOON, || nodes.pttl(NAME).iter().all(|left| *left > Some(20_000))).await;
    assert_eq!(life.check(&nodes, NAME), 3);
    // The same by owner value, as scripts do it.
    let life = Life::of(ms(40_000));
    let report = ours.extend_owner(NAME, guard.owner(), ms(40_000)).await.expect("a name and a TTL");
    assert_eq!(report.count(|said| *said == NodeAnswer::Extended), 3, "{report}");
    assert_eq!(life.check(&nodes, NAME), 3);
}
