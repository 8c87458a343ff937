//! What is special about a file: other processes, other programs, other versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redfence::memory::{Read, SqliteStore, Store, StoreError};
use rusqlite::Connection;

use crate::case::{Case, applied, at, cases, read, set, write};
use crate::child::Child;
use crate::subject::{Kind, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::SQLITE =>
        three_processes_add_six_hundred_times,
        many_who_open_a_new_file_at_once_all_succeed,
        a_newer_schema_is_refused,
        opening_writes_nothing,
        the_file_of_another_program_is_refused,
        a_writer_elsewhere_blocks_neither_readers_nor_the_runtime,
        a_file_that_cannot_be_is_an_error,
    ]
}

async fn three_processes_add_six_hundred_times(kind: Kind) {
    let subject = Subject::start(kind).await;
    let children = [(); 3].map(|()| Child::start("count 200", kind, &subject));
    children.into_iter().for_each(Child::succeeds);
    assert_eq!(read(&subject.sqlite().await, "sum").await, at(b"600", 600));
}

async fn many_who_open_a_new_file_at_once_all_succeed(kind: Kind) {
    // Each file is one chance to look while somebody else makes the schema.
    for _ in 0..20 {
        let subject = Subject::start(kind).await;
        let opening = (0..8).map(|_| tokio::spawn(SqliteStore::open(subject.file())));
        let mut stores = Vec::new();
        for opened in opening.collect::<Vec<_>>() {
            stores.push(opened.await.expect("it ends").expect("the store opens"));
        }
        for (store, version) in stores.iter().zip(1..) {
            assert_eq!(write(store, "k", set(b"x", version.into())).await, applied(version));
        }
    }
}

async fn a_newer_schema_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    drop(subject.sqlite().await);
    let person = Connection::open(subject.file()).expect("a connection");
    person.pragma_update(None, "user_version", 2).expect("done");
    let refused = SqliteStore::open(subject.file()).await;
    assert!(matches!(refused, Err(StoreError::Schema { found: 2, known: 1, .. })), "{refused:?}");
}

/// While somebody else has the right to write, at once, and the file stays as it is.
async fn opening_writes_nothing(kind: Kind) {
    let subject = Subject::start(kind).await;
    assert_eq!(write(&subject.sqlite().await, "k", set(b"x", 1)).await, applied(1));
    let person = Connection::open(subject.file()).expect("a connection");
    let changes = |person: &Connection| {
        person.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).expect("a number")
    };
    let before = changes(&person);
    person.execute_batch("BEGIN IMMEDIATE").expect("done");
    let opened = tokio::time::timeout(Duration::from_secs(5), SqliteStore::open(subject.file())).await;
    let store = opened.expect("at once").expect("the store opens");
    assert_eq!(read(&store, "k").await, at(b"x", 1));
    person.execute_batch("ROLLBACK").expect("done");
    assert_eq!(changes(&person), before, "nobody else has written");
}

async fn the_file_of_another_program_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let theirs = Connection::open(subject.file()).expect("a connection");
    theirs.execute_batch("CREATE TABLE theirs (x)").expect("done");
    let refused = SqliteStore::open(subject.file()).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = theirs.query_row(tables, [], |row| row.get(0)).expect("a number");
    assert_eq!(tables, 1, "it is left alone");
    drop(theirs);
    std::fs::write(subject.file(), "no database at all, but a text that is long enough").expect("written");
    let refused = SqliteStore::open(subject.file()).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

async fn a_writer_elsewhere_blocks_neither_readers_nor_the_runtime(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (store, reader) = (subject.sqlite().await, subject.sqlite().await);
    assert_eq!(write(&store, "k", set(b"x", 1)).await, applied(1));
    let person = Connection::open(subject.file()).expect("a connection");
    person.execute_batch("BEGIN IMMEDIATE").expect("done");
    let is_done = Arc::new(AtomicBool::new(false));
    let (waiting, told) = (store.clone(), Arc::clone(&is_done));
    // On one thread with this test: it runs on while the writer waits.
    let waits = tokio::task::LocalSet::new();
    let writer = waits.spawn_local(async move {
        let answer = write(&waiting, "k", set(b"y", 2)).await;
        told.store(true, Ordering::Relaxed);
        answer
    });
    waits
        .run_until(async {
            for _ in 0..20 {
                assert_eq!(read(&reader, "k").await, at(b"x", 1));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(!is_done.load(Ordering::Relaxed), "somebody else is writing");
            person.execute_batch("COMMIT").expect("done");
            assert_eq!(writer.await.expect("it ends"), applied(2));
        })
        .await;
}

async fn a_file_that_cannot_be_is_an_error(kind: Kind) {
    let subject = Subject::start(kind).await;
    let nowhere = subject.file().join("deeper").join("memory.sqlite");
    let refused = SqliteStore::open(nowhere).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    // Two stores in memory are two.
    let (one, two) = (SqliteStore::open_in_memory().await, SqliteStore::open_in_memory().await);
    let (one, two) = (one.expect("a store"), two.expect("a store"));
    assert_eq!(write(&one, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(read(&one.clone(), "k").await, at(b"x", 1));
    assert_eq!(two.read("k", None).await.expect("an answer"), Read::Missing { version: 0 });
}
