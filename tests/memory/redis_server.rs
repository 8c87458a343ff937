//! What is special about Redis: other people's keys, errors of the server, scripts that it has forgotten.

use redfence::memory::{Read, RedisStore, Store, StoreError};

use crate::case::{Case, applied, at, cases, fence, read, set, write};
use crate::subject::{Kind, LONG, PREFIX, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::REDIS =>
        a_prefix_keeps_stores_apart,
        a_key_of_another_type_is_refused_and_left_alone,
        forgotten_scripts_are_sent_again,
        a_newer_form_is_refused,
        what_is_no_redis_url_is_refused,
    ]
}

async fn raw(subject: &Subject, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(format!("redis://{}", subject.addr())).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.expect("an answer")
}

async fn a_prefix_keeps_stores_apart(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let url = format!("redis://{}", subject.addr());
    let other = RedisStore::open_patiently(&url, "other:", LONG).await.expect("the store opens");
    assert_eq!(write(&*store, "k", set(b"x", 1).under(&fence(9))).await, applied(1));
    assert_eq!(other.backend().await.expect("an answer"), None);
    assert_eq!(write(&other, "k", set(b"y", 1).under(&fence(1))).await, applied(1));
    assert_eq!((read(&*store, "k").await, read(&other, "k").await), (at(b"x", 1), at(b"y", 1)));
    assert_eq!(other.keys("", None, 9).await.expect("keys"), ["k"]);
}

async fn a_key_of_another_type_is_refused_and_left_alone(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let theirs = format!("{PREFIX}value:k");
    raw(&subject, &["SET", &theirs, "theirs"]).await;
    for answer in [
        store.write("k", set(b"x", 1).under(&fence(3))).await.map(|_| ()),
        store.read("k", Some(&fence(3))).await.map(|_| ()),
        store.read("k", None).await.map(|_| ()),
    ] {
        assert!(matches!(answer, Err(StoreError::Refused { .. })), "{answer:?}");
    }
    assert_eq!(raw(&subject, &["GET", &theirs]).await, redis::Value::BulkString(b"theirs".to_vec()));
    assert_eq!(store.backend().await.expect("an answer"), None, "nothing was done");
    // The same with the index: it is written last, but looked at first.
    let index = format!("{PREFIX}keys");
    raw(&subject, &["SET", &index, "theirs"]).await;
    let answer = store.write("other", set(b"x", 1).under(&fence(3))).await;
    assert!(matches!(answer, Err(StoreError::Refused { .. })), "{answer:?}");
    assert_eq!(read(&*store, "other").await, Read::Missing { version: 0 });
    assert_eq!(store.backend().await.expect("an answer"), None, "nothing was done");
    raw(&subject, &["DEL", &index]).await;
    assert_eq!(write(&*store, "other", set(b"x", 1).expecting(0)).await, applied(1));
}

async fn forgotten_scripts_are_sent_again(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    for version in 1..=3 {
        raw(&subject, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(write(&*store, "k", set(b"x", version.into())).await, applied(version));
    }
}

async fn a_newer_form_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    drop(subject.open().await);
    raw(&subject, &["HSET", &format!("{PREFIX}store"), "schema", "2"]).await;
    let refused = subject.open_at(subject.addr(), LONG).await;
    assert!(matches!(refused, Err(StoreError::Schema { found: 2, known: 1, .. })), "{refused:?}");
}

async fn what_is_no_redis_url_is_refused(kind: Kind) {
    drop(Subject::start(kind).await);
    for url in ["", "localhost:6379", "http://localhost", "redis://:secret@"] {
        let refused = RedisStore::open(url, PREFIX).await;
        assert!(matches!(refused, Err(StoreError::Address { .. })), "{url}: {refused:?}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}
