//! Updates by version: answers that are lost, bounds, work that fails.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::super::{BackendId, InProcessStore};
use super::*;

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

async fn plus_one(value: Option<Vec<u8>>) -> Result<Vec<u8>, Infallible> {
    tokio::task::yield_now().await;
    Ok((number(value) + 1).to_string().into_bytes())
}

/// A store whose answers are lost: the write is done, or not even sent, as drawn.
#[derive(Debug, Default)]
struct Lossy {
    store: InProcessStore,
    writes: AtomicU32,
    dice: Mutex<fastrand::Rng>,
}

#[async_trait]
impl Store for Lossy {
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        self.store.read(key, fence).await
    }

    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let lost = self.dice.lock().unwrap().u8(..3);
        let answer = if lost == 1 { None } else { Some(self.store.write(key, change).await?) };
        match (lost, answer) {
            (0, Some(answer)) => Ok(answer),
            _ => Err(StoreError::Unknown { store: "lossy".to_owned(), source: "lost".into() }),
        }
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        self.store.keys(prefix, after, most).await
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        self.store.forget(key).await
    }

    async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
        self.store.backend().await
    }

    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError> {
        self.store.change_backend(from, to).await
    }
}

#[tokio::test]
async fn lost_answers_lose_and_double_nothing() {
    let memory =
        SharedMemory::new(Lossy { dice: Mutex::new(fastrand::Rng::with_seed(7)), ..Lossy::default() });
    let memory = SharedMemory { limits: Limits { resends: 100, ..memory.limits }, ..memory };
    let memory = memory.backoff(Duration::from_micros(10), Duration::from_micros(10));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let memory = memory.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                memory.update("n", Strategy::Optimistic, plus_one).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(number(memory.get("n").await.unwrap()), 200);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_unknown_and_not_failed() {
    #[derive(Debug)]
    struct Silent(InProcessStore);
    #[async_trait]
    impl Store for Silent {
        async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
            self.0.read(key, fence).await
        }
        async fn write(&self, _: &str, _: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
            Err(StoreError::Unknown { store: "silent".to_owned(), source: "nothing".into() })
        }
        async fn keys(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<String>, StoreError> {
            Ok(Vec::new())
        }
        async fn forget(&self, _: &str) -> Result<(), StoreError> {
            Ok(())
        }
        async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
            Ok(None)
        }
        async fn change_backend(&self, _: &BackendId, _: &BackendId) -> Result<(), StoreError> {
            Ok(())
        }
    }
    let memory = SharedMemory::new(Silent(InProcessStore::default()));
    let memory = memory.backoff(Duration::from_micros(10), Duration::from_micros(10));
    let error = memory.update("n", Strategy::Optimistic, plus_one).await.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown { .. }), "{error:?}");
}

#[tokio::test]
async fn conflicts_end_at_the_bound_and_write_nothing() {
    let memory = SharedMemory::new(InProcessStore::default()).tries(3);
    let store = Arc::clone(memory.store());
    let tried = AtomicU32::new(0);
    let error = memory
        .update("n", Strategy::Optimistic, |_| {
            tried.fetch_add(1, Ordering::Relaxed);
            let store = Arc::clone(&store);
            async move {
                store.write("n", Change::set(b"7")).await.unwrap();
                Ok::<_, Infallible>(b"mine".to_vec())
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(error, UpdateError::Conflicts { tries: 3 }), "{error:?}");
    assert_eq!((number(memory.get("n").await.unwrap()), tried.into_inner()), (7, 3));
}

#[tokio::test]
async fn work_that_fails_or_changes_nothing_writes_nothing() {
    let memory = SharedMemory::new(InProcessStore::default());
    let failed = memory.update("n", Strategy::Optimistic, |_| async { Err::<Edit, _>("no") }).await;
    assert!(matches!(failed, Err(UpdateError::Work("no"))));
    memory.update("n", Strategy::Optimistic, plus_one).await.unwrap();
    let kept = memory.update("n", Strategy::Optimistic, |_| async { Ok::<_, Infallible>(Edit::Keep) }).await;
    assert_eq!(kept.unwrap().version, 1);
    let removed =
        memory.update("n", Strategy::Optimistic, |_| async { Ok::<_, Infallible>(Edit::Remove) }).await;
    assert_eq!((removed.unwrap().version, memory.get("n").await.unwrap()), (2, None));
}

#[tokio::test]
async fn locks_are_needed_where_they_are_taken() {
    let memory = SharedMemory::new(InProcessStore::default());
    let error = memory.update("n", Strategy::Locked, plus_one).await.unwrap_err();
    assert!(matches!(error, UpdateError::NoLocks), "{error:?}");
    // Adaptive needs one only when it comes to that.
    memory.update("n", Strategy::Adaptive, plus_one).await.unwrap();
}
