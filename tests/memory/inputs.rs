//! Values and keys of every kind, and lists of keys.

use redfence::memory::{Change, MAX_KEY_BYTES, MAX_VALUE_BYTES, Read, Store, StoreError};

use crate::case::{Case, applied, at, cases, read, set, write};
use crate::subject::{Kind, Subject};

/// In the order of their bytes.
const STRANGE: [&str; 18] = [
    " ",
    " a b ",
    "\"double\"",
    "$1",
    "%",
    "'; DROP TABLE entry; --",
    "*",
    "A",
    "\\",
    "_",
    "a",
    "a\nb\r\n",
    "a*",
    "b%",
    "b_",
    "{a}[b]",
    "ä/ö",
    "鍵🔑",
];

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::ALL =>
        values_of_all_sizes_and_bytes,
        values_above_the_limit_are_refused,
        keys_of_all_characters,
        keys_that_cannot_be,
        keys_are_listed_in_order_and_in_pages,
        a_prefix_is_no_pattern,
    ]
}

async fn values_of_all_sizes_and_bytes(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (store, other) = (subject.open().await, subject.open().await);
    let mut dice = fastrand::Rng::with_seed(7);
    let random = |dice: &mut fastrand::Rng, bytes| (0..bytes).map(|_| dice.u8(..)).collect::<Vec<u8>>();
    let values = [
        Vec::new(),
        vec![0],
        (0..=255).collect(),
        b"\r\n$-1\r\n".to_vec(),
        random(&mut dice, 10_000),
        random(&mut dice, 1 << 20),
    ];
    for (value, version) in values.iter().zip(1..) {
        assert_eq!(write(&*store, "k", Change::set(value)).await, applied(version));
        assert!(read(&*other, "k").await == at(value, version), "{} bytes", value.len());
    }
    // The largest one comes back with a conflict, too.
    let refused = write(&*other, "k", set(b"x", 1).expecting(0)).await;
    assert!(refused == crate::case::conflict(&values[5], 6), "another value");
}

async fn values_above_the_limit_are_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let mut value = vec![b'x'; MAX_VALUE_BYTES + 1];
    let refused = store.write("k", Change::set(&value)).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { bytes }) if bytes == value.len()), "{refused:?}");
    assert_eq!(read(&*store, "k").await, Read::Missing { version: 0 });
    value.pop();
    assert_eq!(write(&*store, "k", Change::set(&value)).await, applied(1));
    assert!(read(&*store, "k").await == at(&value, 1), "another value");
}

async fn keys_of_all_characters(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (store, other) = (subject.open().await, subject.open().await);
    for key in STRANGE {
        assert_eq!(
            write(&*store, key, Change::set(key.as_bytes()).expecting(0)).await,
            applied(1),
            "{key:?}"
        );
    }
    for key in STRANGE {
        assert_eq!(read(&*other, key).await, at(key.as_bytes(), 1));
    }
    assert_eq!(all(&*other, "").await, STRANGE);
}

async fn keys_that_cannot_be(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    for key in ["", "a\0b", &"x".repeat(MAX_KEY_BYTES + 1), &"ä".repeat(MAX_KEY_BYTES / 2 + 1)] {
        let refused = store.read(key, None).await;
        assert!(matches!(refused, Err(StoreError::Key { .. })), "{refused:?}");
        let refused = store.write(key, Change::set(b"x")).await;
        assert!(matches!(refused, Err(StoreError::Key { .. })), "{refused:?}");
    }
    for key in ["x".repeat(MAX_KEY_BYTES), "ä".repeat(MAX_KEY_BYTES / 2)] {
        assert_eq!(write(&*store, &key, Change::set(b"x")).await, applied(1));
    }
    assert_eq!(all(&*store, "").await, ["x".repeat(MAX_KEY_BYTES), "ä".repeat(MAX_KEY_BYTES / 2)]);
}

async fn keys_are_listed_in_order_and_in_pages(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    let mut numbers: Vec<u32> = (0..40).collect();
    fastrand::Rng::with_seed(3).shuffle(&mut numbers);
    for number in numbers {
        let key = format!("page/{number:02}");
        assert_eq!(write(&*store, &key, Change::set(b"x")).await, applied(1));
    }
    for outside in ["pag", "page", "page.", "page0", "q"] {
        assert_eq!(write(&*store, outside, Change::set(b"x")).await, applied(1));
    }
    assert_eq!(write(&*store, "page/20", Change::remove()).await, applied(2));
    let mut pages = Vec::new();
    while let page = store.keys("page/", pages.last().map(String::as_str), 7).await.expect("keys")
        && !page.is_empty()
    {
        assert!(page.len() <= 7, "{page:?}");
        pages.extend(page);
    }
    let expected = (0..40).filter(|number| *number != 20).map(|number| format!("page/{number:02}"));
    assert_eq!(pages, expected.collect::<Vec<_>>());
    for (after, expected) in
        [("a", 39), ("page/", 39), ("page/05", 33), ("page/055", 33), ("page/39", 0), ("z", 0)]
    {
        assert_eq!(
            store.keys("page/", Some(after), 99).await.expect("keys").len(),
            expected,
            "after {after}"
        );
    }
    assert_eq!(store.keys("", None, 0).await.expect("keys"), Vec::<String>::new());
    assert_eq!(store.keys("", None, usize::MAX).await.expect("keys").len(), 44);
}

async fn a_prefix_is_no_pattern(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.open().await;
    for key in STRANGE.iter().chain(&["aXb", "bb", "*a", "\u{10ffff}", "\u{10ffff}a"]) {
        write(&*store, key, Change::set(b"x")).await;
    }
    assert_eq!(all(&*store, "%").await, ["%"]);
    assert_eq!(all(&*store, "_").await, ["_"]);
    assert_eq!(all(&*store, "*").await, ["*", "*a"]);
    assert_eq!(all(&*store, "b_").await, ["b_"]);
    assert_eq!(all(&*store, "a*").await, ["a*"]);
    assert_eq!(all(&*store, "\\").await, ["\\"]);
    assert_eq!(all(&*store, "'").await, ["'; DROP TABLE entry; --"]);
    assert_eq!(all(&*store, "ä").await, ["ä/ö"]);
    assert_eq!(all(&*store, "\u{10ffff}").await, ["\u{10ffff}", "\u{10ffff}a"]);
    assert_eq!(all(&*store, "no such").await, Vec::<String>::new());
}

async fn all(store: &dyn Store, prefix: &str) -> Vec<String> {
    store.keys(prefix, None, 1000).await.expect("keys")
}
