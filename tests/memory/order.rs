//! What is checked, and in which order.

use redfence::memory::{Change, Operation, Read, StoreError, Written};

use crate::case::{Case, applied, at, cases, conflict, fence, fence_of, fenced, read, set, shut_out, write};
use crate::subject::{Kind, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::ALL =>
        checks_come_in_their_order,
        reads_raise_the_mark,
        a_stale_token_neither_reads_nor_writes,
        a_refused_change_raises_the_mark_too,
        removal_keeps_version_and_mark,
        without_a_token_nothing_is_compared,
        numbers_of_64_bits_are_told_apart,
        keys_do_not_know_each_other,
    ]
}

async fn checks_come_in_their_order(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let (new, old, foreign) = (fence(5), fence(4), fence_of("etcd", 9));
    assert_eq!(write(&*store, "k", set(b"one", 1).under(&new)).await, applied(1));
    assert_eq!(write(&*store, "k", set(b"two", 2).under(&new)).await, applied(2));
    // The back end comes first: even what is done is not told to whoever shows a foreign token.
    let other = store.write("k", set(b"one", 1).under(&foreign).expecting(9)).await;
    assert!(matches!(other, Err(StoreError::OtherBackend { .. })), "{other:?}");
    // Then the operation, then the token, then the version.
    assert_eq!(write(&*store, "k", set(b"one", 1).under(&old).expecting(9)).await, applied(1));
    assert_eq!(write(&*store, "k", set(b"three", 3).under(&old).expecting(9)).await, fenced(5));
    assert_eq!(write(&*store, "k", set(b"three", 3).under(&new).expecting(9)).await, conflict(b"two", 2));
    assert_eq!(write(&*store, "k", set(b"three", 3).under(&new).expecting(2)).await, applied(3));
    // The token of an operation that is done raises no mark.
    let newer = fence(8);
    assert_eq!(write(&*store, "k", set(b"one", 1).under(&newer)).await, applied(1));
    assert_eq!(store.read("k", Some(&new)).await.expect("an answer"), at(b"three", 3));
}

async fn reads_raise_the_mark(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    for (token, expected) in [(1, Read::Missing { version: 0 }), (2, Read::Missing { version: 0 })] {
        assert_eq!(store.read("k", Some(&fence(token))).await.expect("an answer"), expected);
    }
    assert_eq!(write(&*store, "k", set(b"late", 1).under(&fence(1))).await, fenced(2));
    assert_eq!(read(&*store, "k").await, Read::Missing { version: 0 });
    assert_eq!(store.keys("", None, 9).await.expect("an answer"), Vec::<String>::new());
}

async fn a_stale_token_neither_reads_nor_writes(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (one, other) = (subject.open().await, subject.open().await);
    assert_eq!(write(&*one, "k", set(b"new", 1).under(&fence(7))).await, applied(1));
    assert_eq!(other.read("k", Some(&fence(6))).await.expect("an answer"), shut_out(7));
    assert_eq!(write(&*other, "k", set(b"old", 2).under(&fence(6))).await, fenced(7));
    assert_eq!(write(&*other, "k", set(b"same", 3).under(&fence(7))).await, applied(2));
    assert_eq!(read(&*one, "k").await, at(b"same", 2));
}

async fn a_refused_change_raises_the_mark_too(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let missing = write(&*store, "k", set(b"x", 1).under(&fence(3)).expecting(4)).await;
    assert_eq!(missing, Written::Missing { version: 0 });
    assert_eq!(write(&*store, "k", set(b"x", 2).under(&fence(2))).await, fenced(3));
    // The refused operation is not one that was done.
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(3)).expecting(0)).await, applied(1));
}

async fn removal_keeps_version_and_mark(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(3))).await, applied(1));
    let remove = Change::remove().by(Operation(2)).expecting(1);
    assert_eq!(write(&*store, "k", remove).await, applied(2));
    assert_eq!(write(&*store, "k", remove).await, applied(2));
    assert_eq!(read(&*store, "k").await, Read::Missing { version: 2 });
    assert_eq!(store.keys("", None, 9).await.expect("an answer"), Vec::<String>::new());
    assert_eq!(write(&*store, "k", set(b"y", 3).under(&fence(2))).await, fenced(3));
    assert_eq!(write(&*store, "k", set(b"y", 3).expecting(0)).await, Written::Missing { version: 2 });
    assert_eq!(write(&*store, "k", set(b"y", 3).expecting(2)).await, applied(3));
    assert_eq!(store.keys("", None, 9).await.expect("an answer"), ["k"]);
    // To remove what is not there is a change as well.
    assert_eq!(write(&*store, "never", Change::remove()).await, applied(1));
}

async fn without_a_token_nothing_is_compared(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(3))).await, applied(1));
    assert_eq!(read(&*store, "k").await, at(b"x", 1));
    assert_eq!(write(&*store, "k", set(b"y", 2)).await, applied(2));
    assert_eq!(write(&*store, "k", set(b"z", 3).under(&fence(2))).await, fenced(3));
}

async fn numbers_of_64_bits_are_told_apart(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let large = 1 << 53;
    for (below, above) in [(9, 10), (large, large + 1), (i64::MAX as u64, 1 << 63), (u64::MAX - 1, u64::MAX)]
    {
        let key = above.to_string();
        assert_eq!(
            store.read(&key, Some(&fence(above))).await.expect("an answer"),
            Read::Missing { version: 0 }
        );
        assert_eq!(store.read(&key, Some(&fence(below))).await.expect("an answer"), shut_out(above));
        let far = set(b"x", 1).expecting(above);
        assert_eq!(write(&*store, &key, far).await, Written::Missing { version: 0 });
    }
    let (smallest, largest) = (Operation(0), Operation(u128::MAX));
    assert_eq!(write(&*store, "k", Change::set(b"a").by(smallest)).await, applied(1));
    assert_eq!(write(&*store, "k", Change::set(b"b").by(largest)).await, applied(2));
    assert_eq!(write(&*store, "k", Change::set(b"b").by(smallest)).await, applied(1));
}

async fn keys_do_not_know_each_other(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    assert_eq!(write(&*store, "a", set(b"x", 1).under(&fence(9))).await, applied(1));
    // A smaller token and the same operation, at another key.
    assert_eq!(write(&*store, "b", set(b"y", 1).under(&fence(2)).expecting(0)).await, applied(1));
    assert_eq!((read(&*store, "a").await, read(&*store, "b").await), (at(b"x", 1), at(b"y", 1)));
}
