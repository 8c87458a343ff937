//! What [`Guarded`](crate::memory::Guarded) says, in rows. Each function is part of a transaction that may write.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::embedding;
use super::fault::Fault;
use crate::memory::store::admit_backend;
use crate::memory::{BackendId, Fence, Operation, REMEMBERED, Read, StoreError, Written};
use crate::proto::FencingToken;

/// A [`Change`](crate::memory::Change) that goes to another thread.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) value: Option<Vec<u8>>,
    pub(super) embedding: Option<Vec<f32>>,
    pub(super) fence: Option<Fence>,
    pub(super) expected: Option<u64>,
    pub(super) operation: Operation,
}

struct Entry {
    id: i64,
    version: u64,
}

/// What is there, whoever asks.
pub(super) fn look(connection: &Connection, key: &str) -> Result<Read<Vec<u8>>, Fault> {
    let row = connection
        .prepare_cached("SELECT version, value FROM entry WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))
        .optional()?;
    let (version, value) = row.unwrap_or_default();
    Ok(match value {
        Some(value) => Read::Value { value, version },
        None => Read::Missing { version },
    })
}

pub(super) fn read(transaction: &Transaction<'_>, key: &str, fence: &Fence) -> Result<Read<Vec<u8>>, Fault> {
    admit_backend_of(transaction, Some(fence))?;
    let entry = find_or_make(transaction, key)?;
    match admit(transaction, &entry, fence.token)? {
        Err(seen) => Ok(Read::Fenced { seen }),
        Ok(()) => look(transaction, key),
    }
}

pub(super) fn write(
    transaction: &Transaction<'_>,
    key: &str,
    asked: &Asked,
) -> Result<Written<Vec<u8>>, Fault> {
    admit_backend_of(transaction, asked.fence.as_ref())?;
    let entry = find_or_make(transaction, key)?;
    if let Some(version) = applied(transaction, &entry, asked.operation)? {
        return Ok(Written::Applied { version });
    }
    if let Some(fence) = &asked.fence
        && let Err(seen) = admit(transaction, &entry, fence.token)?
    {
        return Ok(Written::Fenced { seen });
    }
    if asked.expected.is_some_and(|expected| expected != entry.version) {
        return Ok(match look(transaction, key)? {
            Read::Value { value, version } => Written::Conflict { value, version },
            Read::Missing { version } => Written::Missing { version },
            Read::Fenced { seen } => Written::Fenced { seen },
        });
    }
    apply(transaction, &entry, asked)
}

fn apply(transaction: &Transaction<'_>, entry: &Entry, asked: &Asked) -> Result<Written<Vec<u8>>, Fault> {
    let version = entry.version + 1;
    transaction
        .prepare_cached("UPDATE entry SET value = ?2, version = ?3 WHERE id = ?1")?
        .execute(params![entry.id, asked.value, version.cast_signed()])?;
    transaction
        .prepare_cached("INSERT INTO operation (entry, version, operation) VALUES (?1, ?2, ?3)")?
        .execute(params![entry.id, version.cast_signed(), asked.operation.0.to_be_bytes()])?;
    let forgotten = version.cast_signed() - REMEMBERED as i64;
    transaction
        .prepare_cached("DELETE FROM operation WHERE entry = ?1 AND version <= ?2")?
        .execute(params![entry.id, forgotten])?;
    embedding::put(transaction, entry.id, asked.embedding.as_deref())?;
    Ok(Written::Applied { version })
}

pub(super) fn forget(transaction: &Transaction<'_>, key: &str) -> Result<(), Fault> {
    let id =
        transaction.query_row("SELECT id FROM entry WHERE key = ?1", [key], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(()) };
    embedding::put(transaction, id, None)?;
    transaction.execute("DELETE FROM mark WHERE entry = ?1", [id])?;
    transaction.execute("DELETE FROM operation WHERE entry = ?1", [id])?;
    transaction.execute("DELETE FROM entry WHERE id = ?1", [id])?;
    Ok(())
}

fn find_or_make(transaction: &Transaction<'_>, key: &str) -> Result<Entry, Fault> {
    let found = transaction
        .prepare_cached("SELECT id, version FROM entry WHERE key = ?1")?
        .query_row([key], |row| Ok(Entry { id: row.get(0)?, version: row.get::<_, i64>(1)?.cast_unsigned() }))
        .optional()?;
    if let Some(entry) = found {
        return Ok(entry);
    }
    transaction.prepare_cached("INSERT INTO entry (key, version) VALUES (?1, 0)")?.execute([key])?;
    Ok(Entry { id: transaction.last_insert_rowid(), version: 0 })
}

fn applied(transaction: &Transaction<'_>, entry: &Entry, operation: Operation) -> Result<Option<u64>, Fault> {
    let version = transaction
        .prepare_cached("SELECT version FROM operation WHERE entry = ?1 AND operation = ?2")?
        .query_row(params![entry.id, operation.0.to_be_bytes()], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(version.map(i64::cast_unsigned))
}

/// Raises the mark, or says which larger token has been seen.
fn admit(
    transaction: &Transaction<'_>,
    entry: &Entry,
    token: FencingToken,
) -> Result<Result<(), FencingToken>, Fault> {
    let seen = transaction
        .prepare_cached("SELECT token FROM mark WHERE entry = ?1")?
        .query_row([entry.id], |row| row.get::<_, i64>(0))
        .optional()?
        .map(|seen| FencingToken(seen.cast_unsigned()));
    match seen {
        Some(seen) if token < seen => return Ok(Err(seen)),
        Some(seen) if token == seen => return Ok(Ok(())),
        _ => {}
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO mark (entry, token) VALUES (?1, ?2)")?
        .execute(params![entry.id, token.0.cast_signed()])?;
    Ok(Ok(()))
}

fn admit_backend_of(transaction: &Transaction<'_>, fence: Option<&Fence>) -> Result<(), Fault> {
    let Some(fence) = fence else { return Ok(()) };
    if admit_backend(backend(transaction)?.as_ref(), Some(fence))? {
        set_backend(transaction, &fence.backend)?;
    }
    Ok(())
}

pub(super) fn backend(connection: &Connection) -> Result<Option<BackendId>, Fault> {
    let name = connection
        .prepare_cached("SELECT backend FROM store")?
        .query_row([], |row| row.get::<_, Option<String>>(0))?;
    Ok(name.map(BackendId::new))
}

fn set_backend(transaction: &Transaction<'_>, backend: &BackendId) -> Result<(), Fault> {
    transaction.prepare_cached("UPDATE store SET backend = ?1")?.execute([backend.as_str()])?;
    Ok(())
}

pub(super) fn change_backend(
    transaction: &Transaction<'_>,
    from: &BackendId,
    to: &BackendId,
) -> Result<(), Fault> {
    match backend(transaction)? {
        Some(stored) if stored == *to => return Ok(()),
        Some(stored) if stored != *from => {
            return Err(StoreError::OtherBackend { stored, shown: from.clone() }.into());
        }
        _ => {}
    }
    set_backend(transaction, to)?;
    transaction.execute("DELETE FROM mark", [])?;
    Ok(())
}
