//! What went wrong, and what that means for whoever asked.

use std::error::Error as StdError;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::memory::StoreError;

/// What a request does if it arrives, so what it means that no answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    None,
    Change,
}

/// The server's answer, or the end of the connection.
pub(super) fn told(store: &str, effect: Effect, error: Error) -> StoreError {
    match error.code().map(SqlState::code) {
        None => no_answer(store, effect, error),
        // "Statement completion unknown", "transaction resolution unknown": it says so itself.
        Some("40003" | "08007") => no_answer(store, effect, error),
        Some(code) if may_pass(code) => unavailable(store, error),
        Some(_) => StoreError::Refused { store: store.to_owned(), source: error.into() },
    }
}

/// Each request is one transaction, so after an error answer it was undone.
fn may_pass(code: &str) -> bool {
    // The connection; serialisation failures and deadlocks; no resources; locks; an operator, as with a shutdown or a timeout.
    ["08", "40", "53", "55", "57"].iter().any(|class| code.starts_with(class))
}

/// The request may have been done, in whole: all of it is one transaction.
pub(super) fn no_answer(
    store: &str,
    effect: Effect,
    source: impl Into<Box<dyn StdError + Send + Sync>>,
) -> StoreError {
    match effect {
        Effect::None => unavailable(store, source),
        Effect::Change => StoreError::Unknown { store: store.to_owned(), source: source.into() },
    }
}

pub(super) fn unavailable(store: &str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> StoreError {
    StoreError::Unavailable { store: store.to_owned(), source: source.into() }
}
