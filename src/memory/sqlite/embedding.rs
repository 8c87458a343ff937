//! Embeddings beside values, in a `vec0` table of sqlite-vec whose rows bear the numbers of their entries.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::fault::Fault;
use crate::memory::{MAX_DIMENSION, StoreError};

/// Most neighbours that one question answers: sqlite-vec's own limit.
pub const MOST_NEIGHBOURS: usize = 4096;

/// A document that is near.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Neighbour {
    /// Its key.
    pub key: String,
    /// How far it is: the Euclidean distance.
    pub distance: f64,
    /// Its value.
    pub value: Vec<u8>,
    /// The version of the value: what a change of it would expect.
    pub version: u64,
}

/// Says no to what cannot be an embedding.
pub(super) fn checked(embedding: &[f32]) -> Result<&[f32], StoreError> {
    let numbers = embedding.len();
    let fits = (1..=MAX_DIMENSION).contains(&numbers) && embedding.iter().all(|number| number.is_finite());
    if fits { Ok(embedding) } else { Err(StoreError::Embedding { numbers }) }
}

/// Puts an embedding in place of the one that is there, or nothing.
pub(super) fn put(transaction: &Transaction<'_>, entry: i64, embedding: Option<&[f32]>) -> Result<(), Fault> {
    match (dimension(transaction)?, embedding) {
        (None, None) => return Ok(()),
        (None, Some(first)) => make(transaction, first.len())?,
        (Some(stored), Some(given)) => check_length(stored, given)?,
        (Some(_), None) => {}
    }
    transaction.prepare_cached("DELETE FROM embedding WHERE rowid = ?1")?.execute([entry])?;
    if let Some(embedding) = embedding {
        transaction
            .prepare_cached("INSERT INTO embedding (rowid, embedding) VALUES (?1, ?2)")?
            .execute(params![entry, bytes(embedding)])?;
    }
    Ok(())
}

/// The nearest first; of equals, the one whose key is smaller.
pub(super) fn nearest(connection: &Connection, to: &[f32], most: usize) -> Result<Vec<Neighbour>, Fault> {
    let Some(stored) = dimension(connection)? else { return Ok(Vec::new()) };
    check_length(stored, to)?;
    let mut statement = connection.prepare_cached(
        "WITH near AS (SELECT rowid, distance FROM embedding WHERE embedding MATCH ?1 AND k = ?2)
         SELECT key, distance, value, version FROM near JOIN entry ON entry.id = near.rowid
         ORDER BY distance, key",
    )?;
    let most = most.min(MOST_NEIGHBOURS) as i64;
    let rows = statement.query_map(params![bytes(to), most], |row| {
        let version = row.get::<_, i64>(3)?.cast_unsigned();
        Ok(Neighbour { key: row.get(0)?, distance: row.get(1)?, value: row.get(2)?, version })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The length of the first embedding is that of all.
fn make(transaction: &Transaction<'_>, dimension: usize) -> Result<(), Fault> {
    let table = format!("CREATE VIRTUAL TABLE embedding USING vec0 (embedding float[{dimension}])");
    transaction.execute_batch(&table)?;
    transaction.execute("UPDATE store SET dimension = ?1", [dimension as i64])?;
    Ok(())
}

fn dimension(connection: &Connection) -> Result<Option<usize>, Fault> {
    let dimension = connection
        .prepare_cached("SELECT dimension FROM store")?
        .query_row([], |row| row.get::<_, Option<i64>>(0))
        .optional()?;
    Ok(dimension.flatten().and_then(|dimension| usize::try_from(dimension).ok()))
}

fn check_length(stored: usize, embedding: &[f32]) -> Result<(), StoreError> {
    let given = embedding.len();
    if given == stored { Ok(()) } else { Err(StoreError::Dimension { stored, given }) }
}

/// As sqlite-vec takes them: the numbers one after the other, as this machine keeps them.
fn bytes(embedding: &[f32]) -> Vec<u8> {
    embedding.iter().flat_map(|number| number.to_ne_bytes()).collect()
}
