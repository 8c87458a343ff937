//! Memory in PostgreSQL, done by functions that are created there.
//!
//! Every access is one statement that calls one function, so it is one transaction and one round trip: it takes the row of its
//! key (`SELECT .. FOR UPDATE`), decides, writes, and commits. A client that freezes or dies cannot do so with a lock in its hands.
//!
//! Tables and functions (`redfence_..`) are created in the first schema of the search path at the first opening; so several
//! stores fit into one database: `?options=-csearch_path%3Dnotes`. There is no TLS to the server yet: `sslmode=require` is refused, so use a
//! local socket, a tunnel or a network that you trust. Not through a proxy that shares sessions between transactions.

mod fault;
mod link;
mod schema;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fence::{BackendId, Fence};
use super::guarded::{Read, Written};
use super::store::{Change, Store, StoreError, behind_prefix, checked_key, checked_value};
use crate::proto::FencingToken;
use fault::Effect;
use link::{Link, Params};

/// For a connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Values in one PostgreSQL database. Clones share one connection, on which statements run one after the other: for writers
/// that shall not wait for each other, open it more than once.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    link: Arc<Link>,
}

/// The answer of a function.
enum Answer {
    At { version: u64, value: Option<Vec<u8>> },
    Applied { version: u64 },
    Fenced { seen: FencingToken },
    Other { stored: BackendId },
}

impl PostgresStore {
    /// Connects to the database of this URL (`postgres://user@host/database`), and creates what is needed there.
    ///
    /// # Errors
    /// [`StoreError::Address`] for what is no such URL or asks for TLS, [`StoreError::Unavailable`] if there is no connection,
    /// [`StoreError::Schema`] if a newer version has been here, [`StoreError::Refused`] if the server says no.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_patiently(url, PATIENCE).await
    }

    /// The same, with another bound on each wait than ten seconds. An answer that takes longer is
    /// [`Unknown`](StoreError::Unknown).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_patiently(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let store = Self { link: Arc::new(Link::new(url, patience)?) };
        schema::prepare(&store.link).await?;
        Ok(store)
    }

    /// Calls a function, and takes the refusal of another back end out of its answer.
    async fn call(
        &self,
        statement: &str,
        params: Params<'_>,
        shown: Option<&BackendId>,
    ) -> Result<Answer, StoreError> {
        let rows = self.link.rows(Effect::Change, statement, params).await?;
        let answer = rows.first().and_then(answer);
        match (answer, shown) {
            (Some(Answer::Other { stored }), Some(shown)) => {
                Err(StoreError::OtherBackend { stored, shown: shown.clone() })
            }
            (Some(answer), _) => Ok(answer),
            (None, _) => Err(self.strange()),
        }
    }

    fn strange(&self) -> StoreError {
        self.link.strange(Effect::Change, "are the functions redfence_.. those that were created?")
    }
}

fn answer(row: &Row) -> Option<Answer> {
    let said = || row.try_get::<_, Option<String>>("said").ok().flatten();
    let version = || row.try_get::<_, i64>("version").ok().map(i64::cast_unsigned);
    match row.try_get("answer").ok()? {
        "at" => Some(Answer::At { version: version()?, value: row.try_get("value").ok()? }),
        "applied" => Some(Answer::Applied { version: version()? }),
        "fenced" => Some(Answer::Fenced { seen: FencingToken(said()?.parse().ok()?) }),
        "other" => Some(Answer::Other { stored: BackendId::new(said()?) }),
        _ => None,
    }
}

fn found(value: Option<Vec<u8>>, version: u64) -> Read<Vec<u8>> {
    match value {
        Some(value) => Read::Value { value, version },
        None => Read::Missing { version },
    }
}

/// Tokens go as texts: they have 64 bits, PostgreSQL's integers 63 and a sign.
fn text(token: FencingToken) -> String {
    token.0.to_string()
}

#[async_trait]
impl Store for PostgresStore {
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        let key = checked_key(key)?;
        let Some(fence) = fence else {
            let look = "SELECT version, value FROM redfence_value WHERE key = $1";
            let rows = self.link.rows(Effect::None, look, &[(&key, Type::TEXT)]).await?;
            let Some(row) = rows.first() else { return Ok(Read::Missing { version: 0 }) };
            let version: i64 = row.try_get(0).map_err(|_| self.strange())?;
            let value = row.try_get(1).map_err(|_| self.strange())?;
            return Ok(found(value, version.cast_unsigned()));
        };
        let (token, backend) = (text(fence.token), fence.backend.as_str());
        let statement = "SELECT * FROM redfence_read($1, $2::text::numeric, $3)";
        let params: Params<'_> = &[(&key, Type::TEXT), (&token, Type::TEXT), (&backend, Type::TEXT)];
        match self.call(statement, params, Some(&fence.backend)).await? {
            Answer::At { version, value } => Ok(found(value, version)),
            Answer::Fenced { seen } => Ok(Read::Fenced { seen }),
            Answer::Applied { .. } | Answer::Other { .. } => Err(self.strange()),
        }
    }

    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
        let key = checked_key(key)?;
        let value = checked_value(change.value)?;
        let token = change.fence.map(|fence| text(fence.token));
        let backend = change.fence.map(|fence| &fence.backend);
        let shown = backend.map(BackendId::as_str);
        // A version that no counter reaches is like any other that is not there.
        let expected = change.expected.map(|version| i64::try_from(version).unwrap_or(-1));
        let operation = change.operation.0.to_be_bytes();
        let operation = operation.as_slice();
        let params: Params<'_> = &[
            (&key, Type::TEXT),
            (&token, Type::TEXT),
            (&shown, Type::TEXT),
            (&expected, Type::INT8),
            (&operation, Type::BYTEA),
            (&value, Type::BYTEA),
        ];
        let statement = "SELECT * FROM redfence_write($1, $2::text::numeric, $3, $4, $5, $6)";
        match self.call(statement, params, backend).await? {
            Answer::Applied { version } => Ok(Written::Applied { version }),
            Answer::At { version, value: Some(value) } => Ok(Written::Conflict { value, version }),
            Answer::At { version, value: None } => Ok(Written::Missing { version }),
            Answer::Fenced { seen } => Ok(Written::Fenced { seen }),
            Answer::Other { .. } => Err(self.strange()),
        }
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let end = behind_prefix(prefix);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let statement = "SELECT key FROM redfence_value WHERE key >= $1 AND ($2 IS NULL OR key > $2)
                         AND ($3 IS NULL OR key < $3) AND value IS NOT NULL ORDER BY key LIMIT $4";
        let params: Params<'_> =
            &[(&prefix, Type::TEXT), (&after, Type::TEXT), (&end, Type::TEXT), (&most, Type::INT8)];
        let rows = self.link.rows(Effect::None, statement, params).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|_| self.strange())).collect()
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        let statement = "WITH gone AS (DELETE FROM redfence_value WHERE key = $1 RETURNING id)
                         DELETE FROM redfence_operation WHERE value_id IN (SELECT id FROM gone)";
        self.link.rows(Effect::Change, statement, &[(&checked_key(key)?, Type::TEXT)]).await.map(drop)
    }

    async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
        let rows = self.link.rows(Effect::None, "SELECT backend FROM redfence_store", &[]).await?;
        let row = rows.first().ok_or_else(|| self.strange())?;
        let name: Option<String> = row.try_get(0).map_err(|_| self.strange())?;
        Ok(name.map(BackendId::new))
    }

    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError> {
        let (leaving, entering) = (from.as_str(), to.as_str());
        let params: Params<'_> = &[(&leaving, Type::TEXT), (&entering, Type::TEXT)];
        let statement = "SELECT redfence_change_backend($1, $2)";
        let rows = self.link.rows(Effect::Change, statement, params).await?;
        let stored: Option<String> =
            rows.first().ok_or_else(|| self.strange())?.try_get(0).map_err(|_| self.strange())?;
        match stored {
            None => Ok(()),
            Some(stored) => {
                Err(StoreError::OtherBackend { stored: BackendId::new(stored), shown: from.clone() })
            }
        }
    }
}
