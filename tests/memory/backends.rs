//! Whose tokens are compared, and how a store is moved from one lock back end to another.

use std::sync::Arc;

use redfence::memory::{BackendId, StoreError, Written};

use crate::case::{Case, applied, at, cases, conflict, fence_of, fenced, read, set, shut_out, write};
use crate::subject::{Kind, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::ALL =>
        the_first_token_says_whose_are_compared,
        two_first_back_ends_are_not_both_the_first,
        a_store_is_moved_to_another_back_end,
        a_store_is_moved_by_who_knows_where_it_is,
        a_move_is_one_moment_for_everybody,
    ]
}

fn refused(answer: &Result<impl std::fmt::Debug, StoreError>, is: &str, was_shown: &str) {
    let fits = matches!(answer, Err(StoreError::OtherBackend { stored, shown })
        if stored.as_str() == is && shown.as_str() == was_shown);
    assert!(fits, "{answer:?}");
}

async fn the_first_token_says_whose_are_compared(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (one, two) = (subject.open().await, subject.open().await);
    assert_eq!(write(&*one, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(one.backend().await.expect("an answer"), None);
    assert_eq!(one.read("k", Some(&fence_of("a", 1))).await.expect("an answer"), at(b"x", 1));
    assert_eq!(two.backend().await.expect("an answer"), Some(BackendId::new("a")));
    // Not at this key alone.
    refused(&two.read("other", Some(&fence_of("b", 9))).await, "a", "b");
    refused(&two.write("k", set(b"y", 2).under(&fence_of("b", 9))).await, "a", "b");
    refused(&two.write("k", set(b"y", 2).under(&fence_of("", 9))).await, "a", "");
    assert_eq!(read(&*one, "k").await, at(b"x", 1));
}

async fn two_first_back_ends_are_not_both_the_first(kind: Kind) {
    for round in 0..5_u32 {
        let subject = Subject::start(kind).await;
        let sent = ["a", "b"].map(|name| (name, format!("key {round} {name}")));
        let mut answers = Vec::new();
        for (name, key) in sent {
            let store = subject.open().await;
            answers.push(tokio::spawn(async move {
                store.write(&key, set(b"x", 1).under(&fence_of(name, 1))).await
            }));
        }
        let mut admitted = 0;
        for answer in answers {
            admitted +=
                u32::from(matches!(answer.await.expect("it ends"), Ok(Written::Applied { version: 1 })));
        }
        assert_eq!(admitted, 1, "round {round}");
    }
}

async fn a_store_is_moved_to_another_back_end(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (store, other) = (subject.open().await, subject.open().await);
    let (old, new) = (fence_of("old", 1000), fence_of("new", 3));
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&old)).await, applied(1));
    assert_eq!(write(&*store, "gone", set(b"x", 1).under(&old)).await, applied(1));
    assert_eq!(write(&*store, "gone", redfence::memory::Change::remove()).await, applied(2));
    for _ in 0..2 {
        store.change_backend(&old.backend, &new.backend).await.expect("it is moved");
    }
    assert_eq!(other.backend().await.expect("an answer"), Some(new.backend.clone()));
    // Old holders are refused, new ones admitted although their tokens are smaller; the mark begins anew, and rises.
    refused(&other.write("k", set(b"late", 2).under(&old)).await, "new", "old");
    refused(&other.read("k", Some(&old)).await, "new", "old");
    assert_eq!(other.read("k", Some(&new)).await.expect("an answer"), at(b"x", 1));
    assert_eq!(other.read("k", Some(&fence_of("new", 2))).await.expect("an answer"), shut_out(3));
    assert_eq!(write(&*other, "gone", set(b"y", 2).under(&fence_of("new", 1))).await, applied(3));
    assert_eq!(write(&*other, "gone", set(b"z", 3).under(&fence_of("new", 0))).await, fenced(1));
    // Values, versions and operations stay.
    assert_eq!(write(&*other, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(write(&*other, "k", set(b"y", 4).expecting(0)).await, conflict(b"x", 1));
    assert_eq!(write(&*other, "k", set(b"y", 4).expecting(1)).await, applied(2));
    // And back again: the marks of before do not return.
    store.change_backend(&new.backend, &old.backend).await.expect("it is moved");
    assert_eq!(store.read("k", Some(&fence_of("old", 1))).await.expect("an answer"), at(b"y", 2));
}

async fn a_store_is_moved_by_who_knows_where_it_is(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let [a, b, c] = ["a", "b", "c"].map(BackendId::new);
    // One that has seen no token yet may go anywhere.
    store.change_backend(&a, &b).await.expect("it is moved");
    refused(&store.change_backend(&a, &c).await, "b", "a");
    refused(&store.read("k", Some(&fence_of("a", 1))).await, "b", "a");
    store.change_backend(&c, &b).await.expect("it is there already");
    assert_eq!(store.backend().await.expect("an answer"), Some(b));
}

/// Writers under both back ends while the store is moved: once one under the new has written, none under the old does.
async fn a_move_is_one_moment_for_everybody(kind: Kind) {
    let subject = Subject::start(kind).await;
    let stores = [subject.open().await, subject.open().await, subject.open().await];
    let (old, new) = (BackendId::new("old"), BackendId::new("new"));
    stores[2].read("k", Some(&fence_of("old", 1))).await.expect("an answer");
    let writers = [("old", 0), ("new", 1), ("old", 1), ("new", 0)].map(|(name, store)| {
        let store = Arc::clone(&stores[store]);
        tokio::spawn(async move {
            let (mut versions, fence) = (Vec::new(), fence_of(name, 5));
            // Until it is clear that the move is over: for the old ones by their refusal, for the new ones by their number.
            while versions.len() < 40 {
                let change = redfence::memory::Change::set(name.as_bytes()).under(&fence);
                match store.write("k", change).await {
                    Ok(Written::Applied { version }) => versions.push(version),
                    Err(StoreError::OtherBackend { .. }) if name == "old" => break,
                    Err(StoreError::OtherBackend { .. }) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
            (name, versions)
        })
    });
    let mover = tokio::spawn({
        let store = Arc::clone(&stores[2]);
        async move { store.change_backend(&old, &new).await }
    });
    mover.await.expect("it ends").expect("it is moved");
    let (mut last_old, mut first_new) = (0, u64::MAX);
    for writer in writers {
        match writer.await.expect("it ends") {
            ("old", versions) => last_old = last_old.max(versions.last().copied().unwrap_or(0)),
            (_, versions) => first_new = first_new.min(versions[0]),
        }
    }
    assert!(last_old < first_new, "{last_old} by an old holder, {first_new} by a new one");
}
