//! Memory in one Redis server, done by scripts that run there: a script is a transaction that no client can leave half done.
//!
//! The server must not evict (`maxmemory-policy noeviction`) and must not forget what it answered (`appendonly yes`,
//! `appendfsync always`): a mark that is lost lets an old holder in again, an operation that is lost is done twice. For the same
//! reason there is no failing over to a replica. It need not be one of the lock's nodes.
//!
//! A store has, behind its prefix: `store`, a hash that says whose tokens count; `keys`, a hash whose fields are the keys that hold
//! a value; and for each key a hash `value:KEY` with value, version, mark, and the latest operations (`o:OPERATION` is the version
//! that it made, `s:N` the operation of the version that leaves N when divided by 1024): up to about 200 KB for a key that is often written.

mod answer;
mod link;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Script, Value};

use super::fence::{BackendId, Fence};
use super::guarded::{Read, Written};
use super::store::{Change, Store, StoreError, checked_key, checked_value};
use answer::Answer;
use link::{Effect, Link};

/// The form of what is kept. Another one gets another number.
const SCHEMA: i64 = 1;

/// For a connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);

static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("read.lua")));
static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("write.lua")));
static CHANGE_BACKEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("change_backend.lua")));

/// Values in one Redis server. Clones share one connection.
///
/// [`keys`](Store::keys) fetches the names of all keys that hold a value and sorts them here: it is meant for thousands of keys,
/// not for millions.
#[derive(Clone, Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    prefix: Arc<str>,
}

impl RedisStore {
    /// Connects to the server of this URL (`redis://`, `rediss://`, `redis+unix://`). All keys begin with `prefix`, as in `memory:`;
    /// no store's prefix may begin with another's.
    ///
    /// # Errors
    /// [`StoreError::Address`] for what is no such URL, [`StoreError::Unavailable`] if there is no connection,
    /// [`StoreError::Schema`] if what is there is in the form of a newer version.
    pub async fn open(url: &str, prefix: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        Self::open_patiently(url, prefix, PATIENCE).await
    }

    /// The same, with another bound on each wait than five seconds. An answer that takes longer is
    /// [`Unknown`](StoreError::Unknown).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_patiently(
        url: &str,
        prefix: impl Into<Arc<str>>,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let store = Self { link: Arc::new(Link::new(url, patience)?), prefix: prefix.into() };
        store.recognise().await?;
        Ok(store)
    }

    async fn recognise(&self) -> Result<(), StoreError> {
        let mut look = redis::pipe();
        let record = self.record();
        look.hset_nx(&record, "schema", SCHEMA).ignore().hget(&record, "schema");
        let ask = |mut connection| async move { look.query_async::<(i64,)>(&mut connection).await };
        let (found,) = self.link.ask(Effect::None, ask).await?;
        if found > SCHEMA {
            return Err(StoreError::Schema { store: self.link.store().to_owned(), found, known: SCHEMA });
        }
        Ok(())
    }

    fn record(&self) -> String {
        format!("{}store", self.prefix)
    }

    fn index(&self) -> String {
        format!("{}keys", self.prefix)
    }

    fn value(&self, key: &str) -> String {
        format!("{}value:{key}", self.prefix)
    }

    /// Runs a script, and takes the refusal of another back end out of its answer.
    async fn run(
        &self,
        script: redis::ScriptInvocation<'_>,
        shown: Option<&BackendId>,
    ) -> Result<Answer, StoreError> {
        let ask = |mut connection| async move { script.invoke_async::<Value>(&mut connection).await };
        let value = self.link.ask(Effect::Change, ask).await?;
        match (Answer::parse(&value), shown) {
            (Some(Answer::Other { stored }), Some(shown)) => {
                Err(StoreError::OtherBackend { stored, shown: shown.clone() })
            }
            (Some(answer), _) => Ok(answer),
            (None, _) => Err(self.link.strange(Effect::Change, &value)),
        }
    }

    fn strange(&self, answer: &Answer) -> StoreError {
        self.link.strange(Effect::Change, answer)
    }
}

fn found(value: Option<Vec<u8>>, version: u64) -> Read<Vec<u8>> {
    match value {
        Some(value) => Read::Value { value, version },
        None => Read::Missing { version },
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        let value = self.value(checked_key(key)?);
        let Some(fence) = fence else {
            let mut look = redis::cmd("HMGET");
            look.arg(value).arg("version").arg("value");
            let ask = |mut connection| async move {
                look.query_async::<(Option<u64>, Option<Vec<u8>>)>(&mut connection).await
            };
            let (version, value) = self.link.ask(Effect::None, ask).await?;
            return Ok(found(value, version.unwrap_or(0)));
        };
        let mut script = READ.key(value);
        script.key(self.record()).arg(answer::token(fence.token)).arg(fence.backend.as_str());
        match self.run(script, Some(&fence.backend)).await? {
            Answer::At { version, value } => Ok(found(value, version)),
            Answer::Fenced { seen } => Ok(Read::Fenced { seen }),
            other => Err(self.strange(&other)),
        }
    }

    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
        let key = checked_key(key)?;
        let value = checked_value(change.value)?;
        let backend = change.fence.map(|fence| &fence.backend);
        let mut script = WRITE.key(self.value(key));
        script
            .key(self.record())
            .key(self.index())
            .arg(key)
            .arg(format!("{:032x}", change.operation.0))
            .arg(change.expected.map(|version| version.to_string()).unwrap_or_default())
            .arg(change.fence.map(|fence| answer::token(fence.token)).unwrap_or_default())
            .arg(backend.map(BackendId::as_str).unwrap_or_default())
            .arg(if value.is_some() { "set" } else { "remove" })
            .arg(value.unwrap_or_default());
        match self.run(script, backend).await? {
            Answer::Applied { version } => Ok(Written::Applied { version }),
            Answer::At { version, value: Some(value) } => Ok(Written::Conflict { value, version }),
            Answer::At { version, value: None } => Ok(Written::Missing { version }),
            Answer::Fenced { seen } => Ok(Written::Fenced { seen }),
            other => Err(self.strange(&other)),
        }
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let list = redis::Cmd::hkeys(self.index());
        let ask = |mut connection| async move { list.query_async::<Vec<String>>(&mut connection).await };
        let mut keys = self.link.ask(Effect::None, ask).await?;
        keys.retain(|key| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after));
        keys.sort_unstable();
        keys.truncate(most);
        Ok(keys)
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        let mut gone = redis::pipe();
        gone.atomic().del(self.value(checked_key(key)?)).ignore().hdel(self.index(), key).ignore();
        let ask = |mut connection| async move { gone.query_async::<()>(&mut connection).await };
        self.link.ask(Effect::Change, ask).await
    }

    async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
        let look = redis::Cmd::hget(self.record(), "backend");
        let ask = |mut connection| async move { look.query_async::<Option<String>>(&mut connection).await };
        Ok(self.link.ask(Effect::None, ask).await?.map(BackendId::new))
    }

    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError> {
        let mut script = CHANGE_BACKEND.key(self.record());
        script.arg(from.as_str()).arg(to.as_str());
        match self.run(script, Some(from)).await? {
            Answer::Done => Ok(()),
            other => Err(self.strange(&other)),
        }
    }
}
