//! Never two holders, and tokens that grow with every holder.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::service::{Kind, NAME, SOON, Service, acquire, measured, ms, on_both, release, token};
use crate::support::{Live, Stopwatch};

pub(crate) fn tests() -> Vec<Live> {
    on_both![
        eight_tasks_lose_no_increment_and_tokens_rise,
        tokens_rise_over_a_leader_that_is_killed,
        b92_names_that_look_alike_are_independent,
    ]
}

async fn eight_tasks_lose_no_increment_and_tokens_rise(kind: Kind) {
    const TASKS: u64 = 8;
    const EACH: u64 = 25;
    let service = Service::start(kind, 3);
    let (counter, tokens) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let watch = Stopwatch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let (locks, counter, tokens) = (service.locks(), Arc::clone(&counter), Arc::clone(&tokens));
        tasks.spawn(async move {
            for _ in 0..EACH {
                let guard = locks.on(NAME).wait(SOON * 4).acquire().await.expect("its turn comes");
                // As a read and a write of something shared that nothing else protects.
                let read = counter.load(Ordering::Relaxed);
                tokio::time::sleep(ms(fastrand::u64(0..3))).await;
                counter.store(read + 1, Ordering::Relaxed);
                tokens.lock().expect("no panic").push(token(&guard));
                assert!(guard.is_held());
                guard.release().await;
            }
            assert!(locks.drain(SOON).await);
        });
    }
    tasks.join_all().await;
    measured("exclusion", kind, "200 holds by 8 tasks in", watch.elapsed());
    assert_eq!(counter.load(Ordering::Relaxed), TASKS * EACH, "updates were lost");
    let tokens = std::mem::take(&mut *tokens.lock().expect("no panic"));
    assert!(tokens.is_sorted_by(|a, b| a < b), "not in the order of the holders: {tokens:?}");
    service.until_places(NAME, 0).await;
}

async fn tokens_rise_over_a_leader_that_is_killed(kind: Kind) {
    let service = Service::start(kind, 3);
    let locks = service.locks();
    let mut last = 0;
    for _ in 0..2 {
        let guard = acquire(&locks).await;
        assert!(token(&guard) > last, "{} after {last}", token(&guard));
        last = token(&guard);
        release(guard).await;
        let leader = service.leader();
        service.kill(leader);
        let watch = Stopwatch::start();
        let guard = locks.acquire(NAME, SOON * 2).await.expect("two of three are enough");
        measured("leader killed", kind, "next acquisition after", watch.elapsed());
        assert!(token(&guard) > last, "{} after {last}", token(&guard));
        last = token(&guard);
        release(guard).await;
        service.restart(leader);
    }
}

async fn b92_names_that_look_alike_are_independent(kind: Kind) {
    let service = Service::start(kind, 1);
    let locks = service.locks();
    let mut guards = Vec::new();
    for name in ["a", "a/b", "a-b", "a__lock__", "a%2Fb", "a.", "..", "ä", "a b"] {
        let guard = locks.try_acquire(name).await;
        guards.push(guard.unwrap_or_else(|error| panic!("{name:?} stands in another's way: {error}")));
    }
    for guard in &guards {
        assert!(locks.try_acquire(guard.resource()).await.is_err(), "{:?} is held", guard.resource());
    }
    for guard in guards {
        release(guard).await;
    }
}
