//! Writers that go, servers that are away, answers that do not come.

use std::sync::Arc;
use std::time::Duration;

use redfence::memory::{Change, Read, Store, StoreError, Written};

use crate::case::{Case, Told, applied, at, cases, fence, read, set, write};
use crate::subject::{Kind, LONG, Subject};
use crate::support::{Proxy, Stopwatch};

/// The bound on what should happen at once. Generous: the machine may be busy.
const SOON: Duration = Duration::from_secs(15);

pub(crate) fn cases() -> Vec<Case> {
    cases![
        Kind::ALL => a_writer_that_goes_leaves_nothing_locked;
        Kind::REMOTE =>
            an_answer_that_is_lost_leaves_it_unknown,
            a_request_that_is_lost_is_unknown_and_may_be_sent_again,
            a_server_that_is_away_is_unavailable_and_comes_back,
            a_look_whose_answer_is_lost_has_done_nothing,
    ]
}

async fn a_writer_that_goes_leaves_nothing_locked(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (store, other) = (subject.open().await, subject.open().await);
    for number in 0..40_u64 {
        // Dropped before it begins, on its way, or when it is done.
        let fence = fence(1);
        let gone = store.write("k", Change::set(b"gone").under(&fence));
        let _ = tokio::time::timeout(Duration::from_micros(number * 50), gone).await;
        let done = tokio::time::timeout(SOON, write(&*other, "k", Change::set(b"x"))).await;
        assert!(matches!(done, Ok(Written::Applied { .. })), "round {number}: {done:?}");
    }
    let last = write(&*store, "k", Change::set(b"x").under(&fence(1))).await;
    let Written::Applied { version } = last else { panic!("{last:?}") };
    assert!((41..=81).contains(&version), "{version} changes of 41 to 81");
}

/// A store behind a proxy, and the same data directly.
struct Apart {
    subject: Subject,
    proxy: Proxy,
    through: Arc<dyn Store>,
    direct: Arc<dyn Store>,
}

impl Apart {
    async fn start(kind: Kind, patience: Duration) -> Self {
        let subject = Subject::start(kind).await;
        let proxy = Proxy::to(subject.addr());
        let through = subject.open_at(proxy.addr(), patience).await.expect("the store opens");
        let direct = subject.open().await;
        Self { subject, proxy, through, direct }
    }

    /// Waits until a change that nobody heard of is there.
    async fn arrives(&self, version: u64) {
        let watch = Stopwatch::start();
        loop {
            match read(&*self.direct, "k").await {
                Read::Value { version: is, .. } if is == version => return,
                other => assert!(watch.elapsed() < SOON, "{other:?}, not version {version}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn an_answer_that_is_lost_leaves_it_unknown(kind: Kind) {
    let apart = Apart::start(kind, LONG).await;
    assert_eq!(write(&*apart.through, "k", set(b"x", 1)).await, applied(1));
    apart.proxy.hold_replies();
    let store = Arc::clone(&apart.through);
    let sent =
        tokio::spawn(async move { store.write("k", set(b"y", 2).under(&fence(1)).expecting(1)).await });
    apart.arrives(2).await;
    apart.proxy.reset();
    let lost = sent.await.expect("it ends");
    assert!(matches!(lost, Err(StoreError::Unknown { .. })), "{lost:?}");
    apart.proxy.pass();
    assert_eq!(write(&*apart.through, "k", set(b"y", 2).under(&fence(1)).expecting(1)).await, applied(2));
    assert_eq!(read(&*apart.direct, "k").await, at(b"y", 2));
}

async fn a_request_that_is_lost_is_unknown_and_may_be_sent_again(kind: Kind) {
    let apart = Apart::start(kind, Duration::from_secs(3)).await;
    apart.proxy.drop_requests();
    let lost = apart.through.write("k", set(b"x", 1)).await;
    assert!(matches!(lost, Err(StoreError::Unknown { .. })), "{lost:?}");
    assert_eq!(read(&*apart.direct, "k").await, Read::Missing { version: 0 });
    apart.proxy.pass();
    assert_eq!(write(&*apart.through, "k", set(b"x", 1)).await, applied(1));
    assert_eq!(write(&*apart.direct, "k", set(b"x", 1)).await, applied(1));
}

async fn a_server_that_is_away_is_unavailable_and_comes_back(kind: Kind) {
    let apart = Apart::start(kind, LONG).await;
    assert_eq!(write(&*apart.through, "k", set(b"x", 1)).await, applied(1));
    apart.proxy.cut();
    // Only what was sent on a connection whose end was not noticed yet is unknown; from then on it is clear.
    let mut answers = Vec::new();
    while answers.len() < 3 {
        answers.push(apart.through.write("k", set(b"y", 2)).await);
    }
    let first: &Told<_> = &answers[0];
    assert!(first.as_ref().is_err_and(StoreError::is_retryable), "{first:?}");
    for answer in &answers[1..] {
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
    }
    let opened = apart.subject.open_at(apart.proxy.addr(), LONG).await;
    assert!(matches!(opened, Err(StoreError::Unavailable { .. })), "{opened:?}");
    apart.proxy.pass();
    assert_eq!(write(&*apart.through, "k", set(b"y", 2)).await, applied(2));
}

async fn a_look_whose_answer_is_lost_has_done_nothing(kind: Kind) {
    let apart = Apart::start(kind, LONG).await;
    let held = apart.proxy.carried();
    apart.proxy.hold_replies();
    let store = Arc::clone(&apart.through);
    let looks = tokio::spawn(async move { store.read("k", None).await });
    let watch = Stopwatch::start();
    while apart.proxy.carried() == held {
        assert!(watch.elapsed() < SOON, "it is not sent");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    apart.proxy.reset();
    let lost = looks.await.expect("it ends");
    assert!(matches!(lost, Err(StoreError::Unavailable { .. })), "{lost:?}");
    apart.proxy.pass();
    assert_eq!(read(&*apart.through, "k").await, Read::Missing { version: 0 });
}
