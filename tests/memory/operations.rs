//! A change that is sent again is done once: at once, later, and after a crash.

use redfence::memory::{Change, Operation, REMEMBERED, Read, Store};

use crate::case::{Case, applied, at, cases, conflict, fence, fenced, read, set, write};
use crate::child::{Child, step};
use crate::subject::{Kind, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        Kind::ALL =>
            a_change_sent_again_is_done_once,
            exactly_1024_operations_are_remembered,
            a_key_that_is_forgotten_begins_anew;
        Kind::LASTING =>
            a_crash_of_the_server_takes_nothing_back,
            a_writer_killed_at_any_moment_leaves_whole_changes;
    ]
}

async fn a_change_sent_again_is_done_once(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (one, two) = (subject.open().await, subject.open().await);
    let change = set(b"mine", 1);
    for store in [&one, &one, &two] {
        assert_eq!(write(&**store, "k", change).await, applied(1));
    }
    assert_eq!(write(&*two, "k", set(b"theirs", 2).under(&fence(4))).await, applied(2));
    assert_eq!(write(&*one, "k", Change::remove().by(Operation(3))).await, applied(3));
    // Whatever it is sent with, and whatever has happened since.
    let old = fence(1);
    for again in [change, change.under(&old), change.expecting(9), Change::remove().by(Operation(1))] {
        assert_eq!(write(&*two, "k", again).await, applied(1));
    }
    assert_eq!(read(&*one, "k").await, Read::Missing { version: 3 });
}

async fn exactly_1024_operations_are_remembered(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let remembered = REMEMBERED as u128;
    for operation in 0..remembered {
        write(&*store, "k", set(b"x", operation)).await;
    }
    assert_eq!(write(&*store, "k", set(b"x", 0)).await, applied(1), "1023 have come since");
    assert_eq!(write(&*store, "k", set(b"x", remembered)).await, applied(1025));
    assert_eq!(write(&*store, "k", set(b"y", 1).expecting(1)).await, applied(2), "1023 have come since");
    // The first one is forgotten: one that says what it was computed from is still not done twice ..
    assert_eq!(write(&*store, "k", set(b"y", 0).expecting(0)).await, conflict(b"x", 1025));
    // .. and one that says nothing is done again, and remembered again in the place of the next.
    assert_eq!(write(&*store, "k", set(b"y", 0)).await, applied(1026));
    assert_eq!(write(&*store, "k", set(b"y", 0)).await, applied(1026));
    assert_eq!(write(&*store, "k", set(b"z", 1).expecting(1)).await, conflict(b"y", 1026));
    assert_eq!(write(&*store, "k", set(b"z", 2).expecting(1)).await, applied(3));
}

async fn a_key_that_is_forgotten_begins_anew(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    write(&*store, "k", set(b"x", 1).under(&fence(6))).await;
    write(&*store, "other", set(b"x", 1)).await;
    for _ in 0..2 {
        store.forget("k").await.expect("forgotten, also twice");
        assert_eq!(read(&*store, "k").await, Read::Missing { version: 0 });
        assert_eq!(store.keys("", None, 9).await.expect("an answer"), ["other"]);
    }
    assert_eq!(write(&*store, "k", set(b"y", 1).under(&fence(5)).expecting(0)).await, applied(1));
    assert!(store.forget("").await.is_err());
}

async fn a_crash_of_the_server_takes_nothing_back(kind: Kind) {
    let mut subject = Subject::start_alone(kind).await;
    let store = subject.open().await;
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(6))).await, applied(1));
    // A mark that was raised by a read alone.
    assert_eq!(store.read("k", Some(&fence(7))).await.expect("an answer"), at(b"x", 1));
    drop(store);
    subject.crash_and_restart().await;
    let store = subject.open().await;
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(6))).await, applied(1));
    assert_eq!(write(&*store, "k", set(b"y", 2).under(&fence(6))).await, fenced(7));
    assert_eq!(store.backend().await.expect("an answer"), Some(fence(0).backend));
    assert_eq!(store.keys("", None, 9).await.expect("an answer"), ["k"]);
}

/// SIGKILL in the middle of its loop, ten times: the next one finds whole changes, and may send the last one again.
async fn a_writer_killed_at_any_moment_leaves_whole_changes(kind: Kind) {
    let subject = Subject::start(kind).await;
    let mut done = 0;
    for round in 0..10_u64 {
        let mut child = Child::start(&format!("go-on {}", done + 1), kind, &subject);
        for _ in 0..=(round * 3) {
            done = child.next_number();
        }
        done = child.kill().unwrap_or(done);
        let store = subject.open().await;
        let (value, version) = settled(&*store, done).await;
        assert_eq!(value, version, "the change is there with its version, or not at all");
        // It did not hear of its last change, or did not come to send it: the same one again, in either case.
        let (next, text) = (done + 1, (done + 1).to_string());
        assert_eq!(write(&*store, "k", step(next, &text)).await, applied(next));
        assert_eq!(read(&*store, "k").await, at(text.as_bytes(), next));
        done = next;
    }
}

/// A server may still be working on what a dead client has sent: at most one change.
async fn settled(store: &dyn Store, heard: u64) -> (u64, u64) {
    match read(store, "k").await {
        Read::Value { value, version } => {
            assert!(version == heard || version == heard + 1, "{version} after {heard}");
            (crate::race::number(&value), version)
        }
        other => panic!("{other:?} after {heard}"),
    }
}
