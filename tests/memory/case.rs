//! A case, and the stores that it is about.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use redfence::memory::{BackendId, Change, Fence, Operation, Read, Store, StoreError, Written};
use redfence::proto::FencingToken;

use crate::subject::Kind;
use crate::support::Live;

#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) body: fn(Kind) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Names functions as cases: `cases![Kind::ALL: one, two; Kind::REMOTE: three]`.
macro_rules! cases {
    ($($kinds:expr => $($name:ident),+ $(,)?);+ $(;)?) => {
        vec![$($($crate::case::Case {
            name: stringify!($name),
            kinds: $kinds,
            body: |kind| Box::pin($name(kind)),
        }),+),+]
    };
}
pub(crate) use cases;

/// Which have passed, for the table.
static PASSED: Mutex<BTreeSet<(&'static str, Kind)>> = Mutex::new(BTreeSet::new());

pub(crate) fn has_passed(case: &Case, kind: Kind) -> bool {
    PASSED.lock().unwrap_or_else(PoisonError::into_inner).contains(&(case.name, kind))
}

pub(crate) fn tests(cases: &[Case]) -> Vec<Live> {
    let of_all = cases.iter().flat_map(|case| case.kinds.iter().map(|kind| test(*case, *kind)));
    of_all.collect()
}

fn test(case: Case, kind: Kind) -> Live {
    let name = format!("{}::{}", kind.name(), case.name);
    let body = move || async move {
        (case.body)(kind).await;
        PASSED.lock().unwrap_or_else(PoisonError::into_inner).insert((case.name, kind));
    };
    Live::multi_thread(&name, body).needing(kind.needs())
}

pub(crate) type Told<T> = Result<T, StoreError>;

pub(crate) fn fence(token: u64) -> Fence {
    fence_of("redlock", token)
}

pub(crate) fn fence_of(backend: &str, token: u64) -> Fence {
    Fence::new(BackendId::new(backend), FencingToken(token))
}

pub(crate) const fn applied(version: u64) -> Written<Vec<u8>> {
    Written::Applied { version }
}

pub(crate) fn conflict(value: &[u8], version: u64) -> Written<Vec<u8>> {
    Written::Conflict { value: value.to_vec(), version }
}

pub(crate) const fn fenced(seen: u64) -> Written<Vec<u8>> {
    Written::Fenced { seen: FencingToken(seen) }
}

pub(crate) fn at(value: &[u8], version: u64) -> Read<Vec<u8>> {
    Read::Value { value: value.to_vec(), version }
}

pub(crate) const fn shut_out(seen: u64) -> Read<Vec<u8>> {
    Read::Fenced { seen: FencingToken(seen) }
}

/// A change as this operation.
pub(crate) fn set(value: &[u8], operation: u128) -> Change<'_> {
    Change::set(value).by(Operation(operation))
}

pub(crate) async fn read(store: &dyn Store, key: &str) -> Read<Vec<u8>> {
    store.read(key, None).await.expect("an answer")
}

pub(crate) async fn write(store: &dyn Store, key: &str, change: Change<'_>) -> Written<Vec<u8>> {
    store.write(key, change).await.expect("an answer")
}
