//! Values as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lock::clock::{Clock, SystemClock};

/// A value that is not what this recipe keeps there: the key belongs to something else.
#[derive(Debug, thiserror::Error)]
#[error("the value at this key is not of this recipe's form")]
pub struct FormError(#[from] serde_json::Error);

pub(super) fn parsed<T: DeserializeOwned>(value: &[u8]) -> Result<T, FormError> {
    Ok(serde_json::from_slice(value)?)
}

pub(super) fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, FormError> {
    Ok(serde_json::to_vec(value)?)
}

/// Milliseconds since 1970, by this machine's wall clock.
pub(super) fn unix_millis() -> u64 {
    SystemClock::default().unix_micros() / 1000
}
