//! Values with embeddings: changed together, found by what is near.

use redfence::memory::{Change, MAX_DIMENSION, Operation, SqliteStore, Store, StoreError, Written};

use crate::case::{Case, applied, at, cases, fence, fenced, read, set, write};
use crate::child::Child;
use crate::subject::{Kind, Subject};

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::SQLITE =>
        an_exact_hit_comes_first,
        the_nearest_are_those_that_a_count_finds,
        value_and_embedding_change_together_or_not_at_all,
        a_change_without_embedding_takes_it_away,
        an_embedding_of_another_length_is_refused,
        what_is_no_embedding_is_refused,
        embeddings_are_there_for_other_connections_and_later,
    ]
}

async fn put(store: &SqliteStore, key: &str, embedding: &[f32]) -> Written<Vec<u8>> {
    store.write_document(key, Change::set(key.as_bytes()), Some(embedding)).await.expect("an answer")
}

async fn near(store: &SqliteStore, to: &[f32], most: usize) -> Vec<String> {
    store.nearest(to, most).await.expect("an answer").into_iter().map(|found| found.key).collect()
}

fn draw(dice: &mut fastrand::Rng, numbers: usize) -> Vec<f32> {
    (0..numbers).map(|_| dice.f32() * 2.0 - 1.0).collect()
}

async fn an_exact_hit_comes_first(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    assert_eq!(store.nearest(&[1.0], 3).await.expect("an answer"), []);
    let mut dice = fastrand::Rng::with_seed(1);
    let embeddings: Vec<_> = (0..50).map(|_| draw(&mut dice, 384)).collect();
    for (number, embedding) in embeddings.iter().enumerate() {
        assert_eq!(put(&store, &format!("document {number}"), embedding).await, applied(1));
    }
    for (number, embedding) in embeddings.iter().enumerate() {
        let found = store.nearest(embedding, 3).await.expect("an answer");
        assert_eq!((found.len(), found[0].distance, found[0].version), (3, 0.0, 1));
        assert_eq!(found[0].key, format!("document {number}"));
        assert_eq!(found[0].value, found[0].key.as_bytes());
        assert!(found.is_sorted_by(|a, b| a.distance <= b.distance), "{found:?}");
    }
}

async fn the_nearest_are_those_that_a_count_finds(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    let mut dice = fastrand::Rng::with_seed(2);
    let mut all: Vec<(String, Vec<f32>)> = Vec::new();
    for number in 0..60 {
        let (key, embedding) = (format!("{number:02}"), draw(&mut dice, 8));
        put(&store, &key, &embedding).await;
        all.push((key, embedding));
    }
    for _ in 0..10 {
        let to = draw(&mut dice, 8);
        let distance = |embedding: &[f32]| {
            embedding
                .iter()
                .zip(&to)
                .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                .sum::<f64>()
                .sqrt()
        };
        all.sort_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
        let expected: Vec<_> = all.iter().take(7).map(|(key, _)| key.clone()).collect();
        assert_eq!(near(&store, &to, 7).await, expected);
        let first = &store.nearest(&to, 1).await.expect("an answer")[0];
        assert!((first.distance - distance(&all[0].1)).abs() < 1e-5, "{first:?}");
    }
    assert_eq!(near(&store, &all[0].1, 0).await, Vec::<String>::new());
    assert_eq!(near(&store, &all[0].1, usize::MAX).await.len(), 60);
}

async fn value_and_embedding_change_together_or_not_at_all(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    let (new, old) = (fence(2), fence(1));
    let document = |change, embedding| store.write_document("k", change, Some(embedding));
    assert_eq!(document(set(b"one", 1).under(&new), &[1.0, 0.0]).await.expect("an answer"), applied(1));
    put(&store, "other", &[0.0, 0.0]).await;
    // Refused: neither of both has changed.
    assert_eq!(document(set(b"late", 2).under(&old), &[0.0, 9.0]).await.expect("an answer"), fenced(2));
    let passed = document(set(b"late", 2).expecting(0), &[0.0, 9.0]).await.expect("an answer");
    assert!(matches!(passed, Written::Conflict { .. }), "{passed:?}");
    // Done before: it is not done again, with whatever embedding.
    assert_eq!(document(set(b"one", 1), &[0.0, 9.0]).await.expect("an answer"), applied(1));
    assert_eq!(near(&store, &[1.0, 0.0], 1).await, ["k"]);
    assert_eq!(near(&store, &[0.0, 9.0], 1).await, ["other"]);
    assert_eq!(
        document(set(b"two", 3).under(&new).expecting(1), &[0.0, 9.0]).await.expect("an answer"),
        applied(2)
    );
    let found = &store.nearest(&[0.0, 9.0], 1).await.expect("an answer")[0];
    assert_eq!((found.key.as_str(), found.value.as_slice(), found.version), ("k", &b"two"[..], 2));
    assert_eq!(near(&store, &[1.0, 0.0], 9).await, ["other", "k"]);
}

async fn a_change_without_embedding_takes_it_away(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    for key in ["a", "b", "c"] {
        put(&store, key, &[1.0, 1.0]).await;
    }
    assert_eq!(near(&store, &[1.0, 1.0], 9).await, ["a", "b", "c"], "of equals, the smaller key first");
    assert_eq!(write(&store, "a", Change::remove()).await, applied(2));
    assert_eq!(near(&store, &[1.0, 1.0], 9).await, ["b", "c"]);
    // The embedding was of the value before.
    assert_eq!(write(&store, "b", Change::set(b"another")).await, applied(2));
    assert_eq!(near(&store, &[1.0, 1.0], 9).await, ["c"]);
    let removal = store.write_document("c", Change::remove(), Some(&[1.0, 1.0])).await.expect("an answer");
    assert_eq!((removal, near(&store, &[1.0, 1.0], 9).await), (applied(2), Vec::new()));
    assert_eq!(put(&store, "a", &[2.0, 2.0]).await, applied(3));
    assert_eq!(near(&store, &[1.0, 1.0], 9).await, ["a"]);
}

async fn an_embedding_of_another_length_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    put(&store, "k", &[1.0, 2.0, 3.0]).await;
    let other = store.write_document("k", set(b"x", 5).under(&fence(7)), Some(&[1.0, 2.0])).await;
    assert!(matches!(other, Err(StoreError::Dimension { stored: 3, given: 2 })), "{other:?}");
    let other = store.nearest(&[1.0; 4], 1).await;
    assert!(matches!(other, Err(StoreError::Dimension { stored: 3, given: 4 })), "{other:?}");
    // Nothing of it was done: not the value, not the mark, not the operation.
    assert_eq!(read(&store, "k").await, at(b"k", 1));
    assert_eq!(store.backend().await.expect("an answer"), None);
    assert_eq!(write(&store, "k", set(b"x", 5).under(&fence(6))).await, applied(2));
}

async fn what_is_no_embedding_is_refused(kind: Kind) {
    let subject = Subject::start(kind).await;
    let store = subject.sqlite().await;
    let long = vec![0.0; MAX_DIMENSION + 1];
    for embedding in [&[][..], &[f32::NAN], &[0.0, f32::INFINITY], &long] {
        let refused = store.write_document("k", Change::set(b"x"), Some(embedding)).await;
        assert!(matches!(refused, Err(StoreError::Embedding { numbers }) if numbers == embedding.len()));
        assert!(matches!(store.nearest(embedding, 1).await, Err(StoreError::Embedding { .. })));
    }
    assert_eq!(put(&store, "k", &long[1..]).await, applied(1));
    assert_eq!(near(&store, &long[1..], 1).await, ["k"]);
}

async fn embeddings_are_there_for_other_connections_and_later(kind: Kind) {
    let subject = Subject::start(kind).await;
    let (one, two) = (subject.sqlite().await, subject.sqlite().await);
    assert_eq!(near(&two, &[1.0, 0.0], 1).await, Vec::<String>::new());
    put(&one, "k", &[1.0, 0.0]).await;
    assert_eq!(near(&two, &[1.0, 0.0], 1).await, ["k"]);
    put(&two, "k", &[0.0, 1.0]).await;
    // Another process that writes to the same file meanwhile does not matter.
    Child::start("count 5", kind, &subject).succeeds();
    assert_eq!(one.nearest(&[0.0, 1.0], 1).await.expect("an answer")[0].distance, 0.0);
    drop((one, two));
    let later = subject.sqlite().await;
    assert_eq!(near(&later, &[0.0, 1.0], 1).await, ["k"]);
    let again = later.write_document("k", Change::remove().by(Operation(9)), None).await;
    assert_eq!(again.expect("an answer"), applied(3));
}
