//! Memory in an SQLite file: for the processes of one machine.
//!
//! The file has a write-ahead log, every access that may write is one transaction that takes the right to write at its beginning
//! (`BEGIN IMMEDIATE`), and waits up to ten seconds for others to be done. What is answered is on the disk.
//! Not for network file systems: SQLite's locks do not hold there.

mod embedding;
mod extension;
mod fault;
mod guard;
mod schema;
mod thread;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::params;

use super::fence::{BackendId, Fence};
use super::guarded::{Read, Written};
use super::store::{Change, Store, StoreError, behind_prefix, checked_key, checked_value};
pub use embedding::{MOST_NEIGHBOURS, Neighbour};
use guard::Asked;
use thread::Thread;

/// Values in an SQLite file, and embeddings to find them by. Clones share one connection; any number of processes may have the
/// file open.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redfence::memory::StoreError> {
/// use redfence::memory::{Change, SqliteStore};
///
/// let notes = SqliteStore::open_in_memory().await?;
/// notes.write_document("north", Change::set(b"cold"), Some(&[0.0, 1.0])).await?;
/// notes.write_document("east", Change::set(b"early"), Some(&[1.0, 0.0])).await?;
/// let near = notes.nearest(&[0.1, 0.9], 1).await?;
/// assert_eq!((near[0].key.as_str(), near[0].value.as_slice()), ("north", &b"cold"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    thread: Thread,
}

impl SqliteStore {
    /// Opens a file, and creates it if it is not there. Opening one that is there writes nothing.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for the file of a newer version, [`StoreError::Refused`] for what is not a file of this library,
    /// [`StoreError::Unavailable`] if it cannot be opened or others keep it busy.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let name = Arc::<str>::from(format!("sqlite:{}", path.display()));
        let store = Arc::clone(&name);
        let thread = Thread::start(name, move || schema::open(&path, &store)).await?;
        Ok(Self { thread })
    }

    /// A store that ends with its last clone.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open_in_memory() -> Result<Self, StoreError> {
        let name = Arc::<str>::from("sqlite:memory");
        let store = Arc::clone(&name);
        let thread = Thread::start(name, move || schema::open_in_memory(&store)).await?;
        Ok(Self { thread })
    }

    /// Changes a value together with its embedding, or neither. An embedding belongs to one value: without one, as after
    /// [`write`](Store::write), there is none any more, and a removal removes it.
    ///
    /// The first embedding says how long all of this store are.
    ///
    /// # Errors
    /// As [`write`](Store::write); [`StoreError::Dimension`] and [`StoreError::Embedding`], and nothing was done.
    pub async fn write_document(
        &self,
        key: &str,
        change: Change<'_>,
        embedding: Option<&[f32]>,
    ) -> Result<Written<Vec<u8>>, StoreError> {
        let key = checked_key(key)?.to_owned();
        let value = checked_value(change.value)?.map(<[u8]>::to_vec);
        let embedding = embedding.map(embedding::checked).transpose()?;
        let asked = Asked {
            // What is not there is not found either.
            embedding: embedding.filter(|_| value.is_some()).map(<[f32]>::to_vec),
            value,
            fence: change.fence.cloned(),
            expected: change.expected,
            operation: change.operation,
        };
        self.thread.transaction(move |transaction| guard::write(transaction, &key, &asked)).await
    }

    /// The documents whose embeddings are nearest to this one, the nearest first: at most `most`, and at most
    /// [`MOST_NEIGHBOURS`]. All embeddings are compared.
    ///
    /// # Errors
    /// [`StoreError::Dimension`], [`StoreError::Embedding`], and what makes any read fail.
    pub async fn nearest(&self, to: &[f32], most: usize) -> Result<Vec<Neighbour>, StoreError> {
        let to = embedding::checked(to)?.to_vec();
        self.thread.run(move |connection| embedding::nearest(connection, &to, most)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        let key = checked_key(key)?.to_owned();
        match fence.cloned() {
            None => self.thread.run(move |connection| guard::look(connection, &key)).await,
            Some(fence) => {
                self.thread.transaction(move |transaction| guard::read(transaction, &key, &fence)).await
            }
        }
    }

    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
        self.write_document(key, change, None).await
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let (from, end) = (prefix.to_owned(), behind_prefix(prefix));
        let after = after.map(str::to_owned);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let list = move |connection: &mut rusqlite::Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT key FROM entry WHERE key >= ?1 AND (?2 IS NULL OR key > ?2) AND (?3 IS NULL OR key < ?3)
                 AND value IS NOT NULL ORDER BY key LIMIT ?4",
            )?;
            let keys = statement.query_map(params![from, after, end, most], |row| row.get(0))?;
            Ok(keys.collect::<Result<_, _>>()?)
        };
        self.thread.run(list).await
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        let key = checked_key(key)?.to_owned();
        self.thread.transaction(move |transaction| guard::forget(transaction, &key)).await
    }

    async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
        self.thread.run(|connection| guard::backend(connection)).await
    }

    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError> {
        let (from, to) = (from.clone(), to.clone());
        self.thread.transaction(move |transaction| guard::change_backend(transaction, &from, &to)).await
    }
}
