//! What is special about PostgreSQL: its URL, its schema, its transactions.

use redfence::memory::{PostgresStore, Read, StoreError};

use crate::case::{Case, applied, cases, fence_of, read, set, write};
use crate::subject::{Kind, LONG, Subject};
use crate::support::Stopwatch;

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::POSTGRES =>
        many_who_open_a_new_database_at_once_all_succeed,
        a_newer_schema_is_refused,
        tls_that_cannot_be_had_is_refused,
        what_is_no_postgres_url_is_refused,
        a_row_that_others_hold_is_unavailable_and_nothing_is_done,
        a_move_waits_for_the_writers_that_were_admitted_before,
        the_second_of_two_first_back_ends_waits_and_is_refused,
        stores_fit_into_one_database_by_their_search_path,
        a_server_that_says_no_is_believed,
    ]
}

/// A connection of the test's own.
async fn raw(subject: &Subject) -> tokio_postgres::Client {
    let url = url(subject);
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

fn url(subject: &Subject) -> String {
    let place = subject.place(Kind::Postgres);
    place.split_once(' ').expect("a kind and a URL").1.to_owned()
}

async fn many_who_open_a_new_database_at_once_all_succeed(kind: Kind) {
    let subject = Subject::start(kind).await;
    let opening = (0..8).map(|_| {
        let url = url(&subject);
        tokio::spawn(async move { PostgresStore::open_patiently(&url, LONG).await })
    });
    let mut stores = Vec::new();
    for opened in opening.collect::<Vec<_>>() {
        stores.push(opened.await.expect("it ends").expect("the store opens"));
    }
    for (store, version) in stores.iter().zip(1..) {
        assert_eq!(write(store, "k", set(b"x", version.into())).await, applied(version));
    }
}

async fn a_newer_schema_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    drop(subject.open().await);
    raw(&subject).await.batch_execute("UPDATE redfence_store SET schema_version = 2").await.expect("done");
    let refused = PostgresStore::open_patiently(&url(&subject), LONG).await;
    assert!(matches!(refused, Err(StoreError::Schema { found: 2, known: 1, .. })), "{refused:?}");
}

async fn tls_that_cannot_be_had_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let url = url(&subject);
    for mode in ["require", "verify-full"] {
        let refused = PostgresStore::open(&format!("{url}?sslmode={mode}")).await;
        let told = matches!(&refused, Err(StoreError::Address { problem }) if problem.contains("sslmode"));
        assert!(told, "{refused:?}");
    }
    for mode in ["disable", "prefer"] {
        let opened = PostgresStore::open_patiently(&format!("{url}?sslmode={mode}"), LONG).await;
        assert!(opened.is_ok(), "{opened:?}");
    }
}

async fn what_is_no_postgres_url_is_refused(kind: Kind) {
    drop(Subject::start(kind).await);
    for url in ["nonsense", "postgres://tester:secret@localhost/x?nonsense=1", "redis://localhost"] {
        let refused = PostgresStore::open(url).await;
        assert!(matches!(refused, Err(StoreError::Address { .. })), "{url}: {refused:?}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}

/// A person in a transaction, for longer than a store waits.
async fn a_row_that_others_hold_is_unavailable_and_nothing_is_done(kind: Kind) {
    let subject = Subject::start(kind).await;
    let patient = subject.open().await;
    assert_eq!(write(&*patient, "k", set(b"x", 1)).await, applied(1));
    let store = subject.open_at(subject.addr(), std::time::Duration::from_secs(4)).await.expect("it opens");
    let person = raw(&subject).await;
    person.batch_execute("BEGIN; SELECT FROM redfence_value FOR UPDATE").await.expect("done");
    let refused = store.write("k", set(b"y", 2)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    person.batch_execute("COMMIT").await.expect("done");
    assert_eq!(read(&*store, "k").await, crate::case::at(b"x", 1));
    assert_eq!(write(&*store, "k", set(b"y", 2).expecting(1)).await, applied(2));
}

/// How many of this database's sessions wait for a lock.
async fn waiting(person: &tokio_postgres::Client) -> i64 {
    let sessions = "SELECT count(*) FROM pg_stat_activity
                    WHERE wait_event_type = 'Lock' AND datname = current_database()";
    person.query_one(sessions, &[]).await.expect("a count").get(0)
}

async fn until_waiting(person: &tokio_postgres::Client, sessions: i64) {
    let watch = Stopwatch::start();
    while waiting(person).await != sessions {
        assert!(watch.elapsed() < LONG, "{} wait, not {sessions}", waiting(person).await);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A writer that was admitted under the old back end, and waits for its row: it must not write after the move.
async fn a_move_waits_for_the_writers_that_were_admitted_before(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (writer, mover) = (subject.open().await, subject.open().await);
    let (person, other) = (raw(&subject).await, raw(&subject).await);
    let (old, new) = (fence_of("old", 5), fence_of("new", 1));
    assert_eq!(write(&*writer, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(write(&*writer, "other", set(b"x", 1).under(&old)).await, applied(1));
    person.batch_execute("BEGIN; SELECT FROM redfence_value WHERE key = 'k' FOR UPDATE").await.expect("done");
    let writes = tokio::spawn(async move { write(&*writer, "k", set(b"y", 2).under(&old)).await });
    until_waiting(&other, 1).await;
    let from = fence_of("old", 0).backend;
    let moves = tokio::spawn(async move { mover.change_backend(&from, &new.backend).await });
    until_waiting(&other, 2).await;
    person.batch_execute("COMMIT").await.expect("done");
    assert_eq!(writes.await.expect("it ends"), applied(2));
    moves.await.expect("it ends").expect("it is moved");
}

async fn the_second_of_two_first_back_ends_waits_and_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let (person, other) = (raw(&subject).await, raw(&subject).await);
    person.batch_execute("BEGIN; UPDATE redfence_store SET backend = 'a'").await.expect("done");
    let reads = tokio::spawn(async move { store.read("k", Some(&fence_of("b", 1))).await });
    until_waiting(&other, 1).await;
    person.batch_execute("COMMIT").await.expect("done");
    let refused = reads.await.expect("it ends");
    assert!(
        matches!(&refused, Err(StoreError::OtherBackend { stored, .. }) if stored.as_str() == "a"),
        "{refused:?}"
    );
}

async fn stores_fit_into_one_database_by_their_search_path(kind: Kind) {
    let subject = Subject::start(kind).await;
    raw(&subject).await.batch_execute("CREATE SCHEMA one; CREATE SCHEMA two").await.expect("done");
    let url = |name| format!("{}?options=-csearch_path%3D{name}", url(&subject));
    let one = PostgresStore::open_patiently(&url("one"), LONG).await.expect("the store opens");
    let two = PostgresStore::open_patiently(&url("two"), LONG).await.expect("the store opens");
    assert_eq!(write(&one, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(read(&two, "k").await, Read::Missing { version: 0 });
}

async fn a_server_that_says_no_is_believed(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    raw(&subject).await.batch_execute("ALTER TABLE redfence_value RENAME TO away").await.expect("done");
    let refused = store.write("k", set(b"x", 1)).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    raw(&subject).await.batch_execute("ALTER TABLE away RENAME TO redfence_value").await.expect("done");
    assert_eq!(write(&*store, "k", set(b"x", 1)).await, applied(1));
    let nowhere = format!("{}_", url(&subject));
    let refused = PostgresStore::open_patiently(&nowhere, LONG).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}
