//! What every store does, whatever it keeps its values in.

use std::error::Error;
use std::fmt;

use async_trait::async_trait;

use super::fence::{BackendId, Fence};
use super::guarded::{Read, Written};
use super::operation::Operation;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// Largest value, in bytes: 16 MiB.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// Most numbers of one embedding.
pub const MAX_DIMENSION: usize = 8192;

/// Memory that several processes share: values by key, each guarded as a [`Guarded`](super::Guarded) value is.
///
/// All stores answer alike; one suite of tests runs against all of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redfence::memory::StoreError> {
/// use redfence::memory::{Change, InProcessStore, Operation, Read, Store, Written};
///
/// let store = InProcessStore::default();
/// let first = Change::set(b"draft").expecting(0).by(Operation::draw());
/// assert_eq!(store.write("report/7", first).await?, Written::Applied { version: 1 });
/// let read = store.read("report/7", None).await?;
/// assert_eq!(read, Read::Value { value: b"draft".to_vec(), version: 1 });
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Reads. A fence raises what the store remembers: whoever shows a smaller token from then on is refused.
    ///
    /// # Errors
    /// [`StoreError`]. A read that failed may have raised the mark, which only keeps out who was to be kept out.
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError>;

    /// Writes or removes, if nothing speaks against it.
    ///
    /// # Errors
    /// After [`StoreError::Unknown`] the change may have been made: send the very same change again, and it is made once.
    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError>;

    /// Keys that hold a value, in the order of their bytes: those that begin with `prefix`, are larger than `after`, at most `most`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError>;

    /// Forgets all about a key: value, version, mark and operations. For keys that nobody will use any more, since whoever was to be
    /// refused there is refused no longer.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn forget(&self, key: &str) -> Result<(), StoreError>;

    /// Whose tokens this store compares; `None` until the first one was shown.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn backend(&self) -> Result<Option<BackendId>, StoreError>;

    /// Moves the store from one lock back end to another: from now on `to`'s tokens count, and every mark begins anew.
    ///
    /// Holders under the old back end are refused from this moment, those under the new one admitted. Values, versions and
    /// operations stay, so optimistic writers notice nothing. Doing it twice is harmless.
    ///
    /// # Errors
    /// [`StoreError::OtherBackend`] if the store compares the tokens of neither.
    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError>;
}

/// One change of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a change does nothing before it is written"]
pub struct Change<'a> {
    /// The new value; `None` removes it.
    pub value: Option<&'a [u8]>,
    /// The writer's token. Without one no token is compared.
    pub fence: Option<&'a Fence>,
    /// The version that the new value was computed from; 0 for one that was never there. Without it no version is compared.
    pub expected: Option<u64>,
    /// Which change this is. The same change sent again is done once.
    pub operation: Operation,
}

impl<'a> Change<'a> {
    /// A new value, as an operation of its own.
    pub fn set(value: &'a [u8]) -> Self {
        Self { value: Some(value), fence: None, expected: None, operation: Operation::draw() }
    }

    /// A removal, as an operation of its own. The version goes on counting.
    pub fn remove() -> Change<'static> {
        Change { value: None, fence: None, expected: None, operation: Operation::draw() }
    }

    /// Only if no larger token has been seen.
    pub const fn under(mut self, fence: &'a Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Only if nobody has written since this version.
    pub const fn expecting(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// As this operation: for a change that is prepared again.
    pub const fn by(mut self, operation: Operation) -> Self {
        self.operation = operation;
        self
    }
}

/// What a store could not do. Whether it was done is part of each answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came: the change was made, or will be, or will not. Send the same operation again.
    #[error(
        "{store}: no answer, so it is not known whether it was done; the same operation may be sent again"
    )]
    Unknown {
        /// Which store, without credentials.
        store: String,
        /// What happened.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store was not reached, or was too busy: nothing was done. Trying again later makes sense.
    #[error("{store}: not reached or busy, nothing was done")]
    Unavailable {
        /// Which store, without credentials.
        store: String,
        /// What happened.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store said no, and nothing was done. Trying again makes no sense.
    #[error("{store}: refused, nothing was done")]
    Refused {
        /// Which store, without credentials.
        store: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A token of another back end than the one whose tokens this store compares.
    #[error("this store compares the tokens of {stored}, and was shown one of {shown}: move it first")]
    OtherBackend {
        /// Whose tokens it compares.
        stored: BackendId,
        /// Whose token it was shown.
        shown: BackendId,
    },
    /// A key that cannot be one.
    #[error("key {key:?}: it must have 1 to {MAX_KEY_BYTES} bytes, none of them zero")]
    Key {
        /// As given, cut short.
        key: String,
    },
    /// A value that is too large.
    #[error("a value of {bytes} bytes; the most is {MAX_VALUE_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The data is in a form that this version does not know.
    #[error("{store}: its schema has version {found}, this program knows up to {known}: use a newer one")]
    Schema {
        /// Which store, without credentials.
        store: String,
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// Not the address of such a store, or one that asks for what cannot be had.
    #[error("not an address of a store: {problem}")]
    Address {
        /// What is wrong with it; without credentials.
        problem: String,
    },
    /// An embedding of another length than those that the store holds.
    #[error("an embedding of {given} numbers, in a store whose embeddings have {stored}")]
    Dimension {
        /// The length of those that are there.
        stored: usize,
        /// The length of this one.
        given: usize,
    },
    /// An embedding that cannot be one.
    #[error("an embedding of {numbers} numbers: it must have 1 to {MAX_DIMENSION}, all of them finite")]
    Embedding {
        /// Its length.
        numbers: usize,
    },
}

impl StoreError {
    /// Whether sending the same again may work: it may after [`Unknown`](Self::Unknown) and [`Unavailable`](Self::Unavailable).
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Unavailable { .. })
    }
}

/// Says no to keys that some store could not keep: PostgreSQL has no zero byte in a text.
pub(super) fn checked_key(key: &str) -> Result<&str, StoreError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
        return Err(StoreError::Key { key: key.chars().take(40).collect() });
    }
    Ok(key)
}

/// Says no to values that some store could not keep.
pub(super) fn checked_value(value: Option<&[u8]>) -> Result<Option<&[u8]>, StoreError> {
    match value {
        Some(value) if value.len() > MAX_VALUE_BYTES => Err(StoreError::TooLarge { bytes: value.len() }),
        _ => Ok(value),
    }
}

/// The smallest text that is larger than all those that begin with `prefix`; `None` if there is none.
///
/// UTF-8 is ordered as its characters are, so it is the prefix with its last character raised.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn behind_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The range knows which numbers are no characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// A token is compared with tokens of its own back end only; the first one shown says whose a store compares.
///
/// Answers whether the store must note the back end now.
pub(super) fn admit_backend(stored: Option<&BackendId>, fence: Option<&Fence>) -> Result<bool, StoreError> {
    match (stored, fence) {
        (_, None) => Ok(false),
        (None, Some(_)) => Ok(true),
        (Some(stored), Some(fence)) if *stored == fence.backend => Ok(false),
        (Some(stored), Some(fence)) => {
            Err(StoreError::OtherBackend { stored: stored.clone(), shown: fence.backend.clone() })
        }
    }
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_prefix_is_behind_all_that_begin_with_it_and_no_further() {
        let end = |prefix| behind_prefix(prefix);
        assert_eq!(end("a"), Some("b".into()));
        assert_eq!(end("a%"), Some("a&".into()));
        assert_eq!(end("ä\u{d7ff}"), Some("ä\u{e000}".into()));
        assert_eq!(end("a\u{10ffff}"), Some("b".into()));
        assert_eq!((end(""), end("\u{10ffff}")), (None, None));
    }
}
