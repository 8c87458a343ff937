//! Many writers at once.

use std::sync::Arc;

use redfence::memory::{Change, Operation, Read, Store, Written};

use crate::case::{Case, applied, cases, fence, read, set, write};
use crate::child::Child;
use crate::subject::{Kind, Subject};

const WRITERS: u64 = 16;
const EACH: u64 = 10;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        Kind::ALL =>
            racing_increments_are_all_there,
            racing_holders_write_in_the_order_of_their_tokens,
            one_operation_sent_many_times_at_once_is_done_once,
            two_first_writers_are_one_after_the_other,
            a_second_connection_sees_everything;
        Kind::LASTING => a_second_process_sees_everything;
    ]
}

/// Adds one to a number, by its version, until it is done.
pub(crate) async fn increment(store: &dyn Store, key: &str) {
    let operation = Operation::draw();
    loop {
        let (number, version) = match read(store, key).await {
            Read::Value { value, version } => (number(&value), version),
            other => (0, version_of_missing(&other)),
        };
        let sum = (number + 1).to_string();
        let change = Change::set(sum.as_bytes()).expecting(version).by(operation);
        if let Written::Applied { .. } = write(store, key, change).await {
            return;
        }
    }
}

fn version_of_missing(read: &Read<Vec<u8>>) -> u64 {
    match read {
        Read::Missing { version } => *version,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).expect("text").parse().expect("a number")
}

async fn racing_increments_are_all_there(kind: Kind) {
    let subject = Subject::start(kind).await;
    let stores = [subject.open().await, subject.open().await, subject.open().await, subject.open().await];
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&stores[writer as usize % stores.len()]);
        tokio::spawn(async move {
            for _ in 0..EACH {
                increment(&*store, "sum").await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer that succeeds");
    }
    let sum = (WRITERS * EACH).to_string();
    let expected = Read::Value { value: sum.into_bytes(), version: WRITERS * EACH };
    assert_eq!(read(&*stores[0], "sum").await, expected);
}

/// Holder 9 has every right to write until somebody has seen holder 10, whatever the clock says.
async fn racing_holders_write_in_the_order_of_their_tokens(kind: Kind) {
    let subject = Subject::start(kind).await;
    let stores = [subject.open().await, subject.open().await, subject.open().await];
    let holders = (1..=12_u64).map(|token| {
        let store = Arc::clone(&stores[token as usize % stores.len()]);
        tokio::spawn(hold(store, token))
    });
    let mut done = Vec::new();
    for holder in holders.collect::<Vec<_>>() {
        done.extend(holder.await.expect("a holder that ends"));
    }
    done.sort_unstable();
    let versions: Vec<u64> = done.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, (1..=done.len() as u64).collect::<Vec<_>>(), "each version was made once");
    assert!(done.is_sorted_by_key(|(_, token)| *token), "{done:?}");
    let last = done.last().map(|(version, token)| (token.to_string(), *version));
    let (value, version) = last.expect("the largest token is never refused");
    assert_eq!(read(&*stores[0], "k").await, Read::Value { value: value.into_bytes(), version });
}

/// Writes until it is shut out; which versions it made.
async fn hold(store: Arc<dyn Store>, token: u64) -> Vec<(u64, u64)> {
    let (fence, mut done) = (fence(token), Vec::new());
    for _ in 0..8 {
        if let Read::Fenced { .. } = store.read("k", Some(&fence)).await.expect("an answer") {
            break;
        }
        let value = token.to_string();
        match write(&*store, "k", Change::set(value.as_bytes()).under(&fence)).await {
            Written::Applied { version } => done.push((version, token)),
            Written::Fenced { seen } => {
                assert!(seen.0 > token);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    done
}

async fn one_operation_sent_many_times_at_once_is_done_once(kind: Kind) {
    let subject = Subject::start(kind).await;
    let stores = [subject.open().await, subject.open().await];
    for round in 1..=10_u64 {
        let sent = (0..8).map(|copy| {
            let store = Arc::clone(&stores[copy % stores.len()]);
            tokio::spawn(async move { write(&*store, "k", set(b"once", round.into())).await })
        });
        for answer in sent.collect::<Vec<_>>() {
            assert_eq!(answer.await.expect("an answer"), applied(round));
        }
    }
}

/// Where there is no row yet, there is none to lock.
async fn two_first_writers_are_one_after_the_other(kind: Kind) {
    let subject = Subject::start(kind).await;
    let stores = [subject.open().await, subject.open().await];
    for round in 0..20 {
        let key = format!("key {round}");
        let sent = stores.clone().map(|store| {
            let key = key.clone();
            tokio::spawn(async move { write(&*store, &key, Change::set(b"first").expecting(0)).await })
        });
        let [one, two] = sent;
        let mut answers = [one.await.expect("an answer"), two.await.expect("an answer")];
        answers.sort_by_key(|answer| !matches!(answer, Written::Applied { .. }));
        assert_eq!(answers[0], applied(1));
        assert_eq!(answers[1], crate::case::conflict(b"first", 1));
    }
}

async fn a_second_connection_sees_everything(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (one, two) = (subject.open().await, subject.open().await);
    for version in 1..=20_u64 {
        let (writer, reader) = if version % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let value = version.to_string();
        assert_eq!(write(&**writer, "k", Change::set(value.as_bytes())).await, applied(version));
        assert_eq!(read(&**reader, "k").await, crate::case::at(value.as_bytes(), version));
    }
}

async fn a_second_process_sees_everything(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let child = Child::start("count 20", kind, &subject);
    for _ in 0..20 {
        increment(&*store, "sum").await;
    }
    child.succeeds();
    assert_eq!(read(&*store, "sum").await, crate::case::at(b"40", 40));
}
