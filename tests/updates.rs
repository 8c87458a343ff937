//! Updates of shared memory under the lock of embedded nodes: no strategy loses one, alone or mixed with others.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redfence::DistributedLock;
use redfence::memory::recipes::{Budget, get_or_fill};
use redfence::memory::{
    AdaptiveRule, BackendId, Change, Edit, Fence, InProcessStore, Read, SharedMemory, Store, StoreError,
    Strategy, UpdateError, Written,
};
use redfence::simulate::EmbeddedCluster;
use tokio::task::JoinSet;

const KEY: &str = "documents/7";

async fn cluster() -> EmbeddedCluster {
    EmbeddedCluster::start(3).await.expect("three nodes on loopback")
}

/// A handle of its own, with connections of its own: as another process would have.
fn locks(cluster: &EmbeddedCluster) -> DistributedLock {
    let builder = DistributedLock::builder().nodes(cluster.urls()).patience(Duration::from_secs(2));
    builder.build().expect("a lock")
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |text| String::from_utf8(text).expect("digits").parse().expect("a number"))
}

async fn plus_one(value: Option<Vec<u8>>) -> Result<Vec<u8>, Infallible> {
    for _ in 0..fastrand::u8(1..8) {
        tokio::task::yield_now().await;
    }
    Ok((number(value) + 1).to_string().into_bytes())
}

/// Each writer, with a handle of its own, adds 1 this often.
async fn add(store: &InProcessStore, cluster: &EmbeddedCluster, writers: &[Strategy], times: u64) -> u64 {
    let mut tasks = JoinSet::new();
    for &strategy in writers {
        let memory = SharedMemory::new(store.clone()).with_locks(locks(cluster)).tries(10_000);
        let memory = memory.backoff(Duration::from_micros(100), Duration::from_millis(2));
        tasks.spawn(async move {
            for _ in 0..times {
                memory.update(KEY, strategy, plus_one).await.expect("an update");
            }
        });
    }
    tasks.join_all().await;
    number(SharedMemory::new(store.clone()).get(KEY).await.expect("in this process"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_strategy_loses_an_update_alone_or_mixed() {
    use Strategy::{Adaptive, Locked, Optimistic};
    let cluster = cluster().await;
    for writers in [[Locked; 4], [Optimistic; 4], [Adaptive; 4], [Locked, Optimistic, Adaptive, Optimistic]] {
        let shown = add(&InProcessStore::default(), &cluster, &writers, 50).await;
        assert_eq!(shown, 200, "{writers:?}");
    }
}

#[tokio::test]
async fn adaptive_takes_the_lock_when_conflicts_persist_and_leaves_it_when_they_fade() {
    let cluster = cluster().await;
    let rule = AdaptiveRule { persist: 2, calm: 3 };
    let memory = SharedMemory::new(InProcessStore::default()).with_locks(locks(&cluster)).adaptive(rule);
    let intrusions = AtomicU32::new(0);
    // Somebody else writes in the middle of the first two tries.
    let updated = memory
        .update(KEY, Strategy::Adaptive, |value| {
            let (store, intrudes) =
                (Arc::clone(memory.store()), intrusions.fetch_add(1, Ordering::Relaxed) < 2);
            async move {
                if intrudes {
                    store.write(KEY, Change::set(b"10")).await.expect("in this process");
                }
                plus_one(value).await
            }
        })
        .await
        .expect("the third try is under the lock");
    assert!(updated.locked && !updated.waited && updated.conflicts == 2, "{updated:?}");
    assert_eq!(number(memory.get(KEY).await.unwrap()), 11);
    for calm in 1..=rule.calm {
        // The update that took the lock was calm already.
        assert_eq!(memory.takes_lock(KEY), calm < rule.calm, "after {calm} calm updates");
        let updated = memory.update(KEY, Strategy::Adaptive, plus_one).await.expect("nobody else");
        assert_eq!(updated.locked, calm < rule.calm, "{updated:?}");
    }
}

#[tokio::test]
async fn work_that_outlasts_its_lease_is_dropped_and_begun_again() {
    let cluster = cluster().await;
    let (locks, memory) = (locks(&cluster), InProcessStore::default());
    let memory = SharedMemory::new(memory).with_locks(locks.clone());
    let begun = AtomicU32::new(0);
    let updated = memory
        .update(KEY, Strategy::Locked, |value| {
            let (first, cluster) = (begun.fetch_add(1, Ordering::Relaxed) == 0, cluster.clone());
            async move {
                if first {
                    // Every key of ours goes away: the next extension finds that out.
                    for url in cluster.urls() {
                        let client = redis::Client::open(url).expect("an address");
                        let mut node = client.get_multiplexed_async_connection().await.expect("a node");
                        redis::cmd("DEL").arg(KEY).query_async::<()>(&mut node).await.expect("deleted");
                    }
                    std::future::pending::<()>().await;
                }
                plus_one(value).await
            }
        })
        .await
        .expect("the second lease lasts");
    assert_eq!((updated.fenced, updated.version, begun.into_inner()), (1, 1, 2));
}

#[tokio::test]
async fn an_older_holder_is_refused_by_the_store() {
    let cluster = cluster().await;
    let (locks, store) = (locks(&cluster), InProcessStore::default());
    let fence = |token| Fence::new(locks.backend_id(), token);
    let old = locks.try_acquire(KEY).await.expect("free");
    let old_fence = fence(old.token().expect("a fenced lock"));
    old.release().await;
    let new = locks.acquire(KEY, Duration::from_secs(5)).await.expect("free again");
    let new_fence = fence(new.token().expect("a fenced lock"));
    store.read(KEY, Some(&new_fence)).await.expect("admitted");
    let late = store.write(KEY, Change::set(b"late").under(&old_fence)).await.expect("an answer");
    assert_eq!(late, Written::Fenced { seen: new_fence.token });
    new.release().await;
}

#[tokio::test]
async fn a_store_is_moved_to_another_lock_service_by_a_step_of_its_own() {
    let cluster = cluster().await;
    let store = InProcessStore::default();
    let named = |name: &str| {
        let builder = DistributedLock::builder().nodes(cluster.urls()).backend_id(BackendId::new(name));
        let locks = builder.patience(Duration::from_secs(2)).build().expect("a lock");
        SharedMemory::new(store.clone()).with_locks(locks)
    };
    let (old, new) = (named("old"), named("new"));
    old.update(KEY, Strategy::Locked, plus_one).await.expect("the first token says whose tokens count");
    let error = new.update(KEY, Strategy::Locked, plus_one).await.unwrap_err();
    assert!(matches!(error, UpdateError::Store(StoreError::OtherBackend { .. })), "{error:?}");
    let (from, to) = (BackendId::new("old"), BackendId::new("new"));
    assert!(
        store.change_backend(&to, &BackendId::new("third")).await.is_err(),
        "it has the tokens of neither"
    );
    store.change_backend(&from, &to).await.expect("moved");
    store.change_backend(&from, &to).await.expect("twice is harmless");
    let error = old.update(KEY, Strategy::Locked, plus_one).await.unwrap_err();
    assert!(matches!(error, UpdateError::Store(StoreError::OtherBackend { .. })), "{error:?}");
    new.update(KEY, Strategy::Locked, plus_one).await.expect("the new one's tokens count");
    // Optimistic writers notice nothing.
    old.update(KEY, Strategy::Optimistic, plus_one).await.expect("no token");
    assert_eq!(store.read(KEY, None).await.unwrap(), Read::Value { value: b"3".to_vec(), version: 3 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_who_miss_one_fills() {
    let cluster = cluster().await;
    let (store, fills) = (InProcessStore::default(), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let memory = SharedMemory::new(store.clone()).with_locks(locks(&cluster));
        let fills = Arc::clone(&fills);
        tasks.spawn(async move {
            get_or_fill(&memory, KEY, || async {
                let number = fills.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok::<_, Infallible>(format!("answer {number}").into_bytes())
            })
            .await
            .expect("filled")
        });
    }
    assert_eq!(tasks.join_all().await, vec![b"answer 0".to_vec(); 6]);
    assert_eq!(fills.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_fill_that_fails_leaves_nothing_and_the_next_one_fills() {
    let cluster = cluster().await;
    let memory = SharedMemory::new(InProcessStore::default()).with_locks(locks(&cluster));
    let failed = get_or_fill(&memory, KEY, || async { Err::<Vec<u8>, _>("no model") }).await;
    assert!(matches!(failed, Err(UpdateError::Work("no model"))));
    let filled = get_or_fill(&memory, KEY, || async { Ok::<_, Infallible>(b"answer".to_vec()) }).await;
    assert_eq!(filled.expect("filled"), b"answer");
}

/// A budget under the lock as well: the same account, whoever spends how.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_kept_under_every_strategy() {
    let cluster = cluster().await;
    let store = InProcessStore::default();
    let budget = |strategy| {
        let memory = SharedMemory::new(store.clone()).with_locks(locks(&cluster)).tries(10_000);
        Budget::new(memory, "budget").strategy(strategy)
    };
    budget(Strategy::Locked).open(100).await.expect("opened");
    let mut tasks = JoinSet::new();
    for strategy in [Strategy::Locked, Strategy::Optimistic, Strategy::Adaptive] {
        let budget = budget(strategy);
        tasks.spawn(async move {
            let mut spent = 0;
            while let Ok(reservation) = budget.reserve(7).await {
                budget.settle(&reservation, 3).await.expect("its own");
                spent += 3;
            }
            spent
        });
    }
    let spent: u64 = tasks.join_all().await.iter().sum();
    let account = budget(Strategy::Optimistic).account().await.expect("open");
    assert_eq!((account.spent, account.reserved()), (spent, 0));
    assert!((94..=100).contains(&spent), "{spent}");
}

/// `Keep` under the lock writes nothing, and gives the lock back.
#[tokio::test]
async fn looking_under_the_lock_changes_nothing() {
    let cluster = cluster().await;
    let (locks, memory) = (locks(&cluster), SharedMemory::new(InProcessStore::default()));
    let memory = memory.with_locks(locks.clone());
    let kept = memory.update(KEY, Strategy::Locked, |_| async { Ok::<_, Infallible>(Edit::Keep) }).await;
    assert_eq!(kept.expect("looked").version, 0);
    locks.acquire(KEY, Duration::from_secs(5)).await.expect("given back").release().await;
}
