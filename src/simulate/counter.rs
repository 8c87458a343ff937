//! The shared counter: a number in a store.
//!
//! Without a token it is a plain number: who writes, writes. With a token, or with the version it was computed from, the store
//! refuses what is late; and it knows operations, so that a write that is sent again, because its answer was lost, is not a
//! second increment.

use std::sync::Arc;
use std::time::Duration;

use super::{ExperimentError, Memory};
use crate::memory::{
    BackendId, Change, Fence, InProcessStore, Operation, Read, RedisStore, Store, StoreError, Written,
};
use crate::proto::FencingToken;

/// How often a counter's store is asked that does not answer, and the pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// All keys of all experiments in a Redis server.
const PREFIX: &str = "redfence-simulation:";

/// What the counter says to a read or a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Value(u64),
    /// It has seen a larger token.
    Fenced,
}

/// The counter of one run.
pub(super) struct Counter {
    memory: Memory,
    seat: Seat,
}

/// One worker's own way to the counter.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    store: Arc<dyn Store>,
    key: Arc<str>,
    /// Whose tokens the store compares; whoever they are, those of this run meet no others at this key.
    backend: BackendId,
}

impl Counter {
    /// A fresh counter at 0.
    pub(super) async fn create(memory: &Memory) -> Result<Self, ExperimentError> {
        let store = open(memory).await?;
        let stored = patiently(|| store.backend()).await?;
        let backend = stored.unwrap_or_else(|| BackendId::new("redfence-simulation"));
        Self::begin(memory.clone(), store, backend).await
    }

    /// Another one in the same store.
    pub(super) async fn another(&self) -> Result<Self, ExperimentError> {
        let Seat { store, backend, .. } = self.seat.clone();
        Self::begin(self.memory.clone(), store, backend).await
    }

    async fn begin(
        memory: Memory,
        store: Arc<dyn Store>,
        backend: BackendId,
    ) -> Result<Self, ExperimentError> {
        let name = format!("counter-{:032x}", Operation::draw().0);
        let seat = Seat { store, key: Arc::from(name), backend };
        seat.write(0, None, Operation::draw()).await?;
        Ok(Self { memory, seat })
    }

    /// A worker's own way to it.
    pub(super) async fn open(&self) -> Result<Seat, ExperimentError> {
        let store = match self.memory {
            Memory::InProcess => Arc::clone(&self.seat.store),
            _ => open(&self.memory).await?,
        };
        Ok(Seat { store, ..self.seat.clone() })
    }

    /// Its key.
    pub(super) fn key(&self) -> &str {
        &self.seat.key
    }

    /// Whose tokens it compares.
    pub(super) fn backend(&self) -> &BackendId {
        &self.seat.backend
    }

    /// What it shows at the end. Removes it.
    pub(super) async fn finish(self) -> Result<u64, ExperimentError> {
        let last = self.seat.read(None).await?;
        patiently(|| self.seat.store.forget(&self.seat.key)).await?;
        match last {
            Access::Value(value) => Ok(value),
            Access::Fenced => Err(ExperimentError::Internal("refused without a token".to_owned())),
        }
    }
}

async fn open(memory: &Memory) -> Result<Arc<dyn Store>, ExperimentError> {
    Ok(match memory {
        Memory::InProcess => Arc::new(InProcessStore::default()),
        Memory::Redis(url) => Arc::new(RedisStore::open(url, PREFIX).await?),
        #[cfg(feature = "sqlite")]
        Memory::Sqlite(path) => Arc::new(crate::memory::SqliteStore::open(path).await?),
        #[cfg(feature = "postgres")]
        Memory::Postgres(url) => Arc::new(crate::memory::PostgresStore::open(url).await?),
    })
}

impl Seat {
    /// The store, for those who update by themselves.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The key of the counter.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Reads. A token raises what the counter remembers.
    pub(super) async fn read(&self, token: Option<FencingToken>) -> Result<Access, ExperimentError> {
        let fence = self.fence(token);
        match patiently(|| self.store.read(&self.key, fence.as_ref())).await? {
            Read::Value { value, .. } => number(&value).map(Access::Value),
            Read::Missing { .. } => Ok(Access::Value(0)),
            Read::Fenced { .. } => Ok(Access::Fenced),
        }
    }

    /// Writes; an operation that is already done stays done.
    pub(super) async fn write(
        &self,
        value: u64,
        token: Option<FencingToken>,
        operation: Operation,
    ) -> Result<Access, ExperimentError> {
        let (fence, text) = (self.fence(token), value.to_string());
        let change =
            Change { value: Some(text.as_bytes()), fence: fence.as_ref(), expected: None, operation };
        match patiently(|| self.store.write(&self.key, change)).await? {
            Written::Fenced { .. } => Ok(Access::Fenced),
            _ => Ok(Access::Value(value)),
        }
    }

    fn fence(&self, token: Option<FencingToken>) -> Option<Fence> {
        token.map(|token| Fence::new(self.backend.clone(), token))
    }
}

/// The number that a counter shows.
pub(super) fn number(value: &[u8]) -> Result<u64, ExperimentError> {
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|_| ExperimentError::NotANumber { found: text.chars().take(40).collect() })
}

/// Asks, and asks again while the store is away: whatever is asked here may be sent twice.
async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ExperimentError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tried = 1;
    loop {
        match ask().await {
            Err(error) if error.is_retryable() && tried < TRIES => tried += 1,
            ended => return Ok(ended?),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> Option<FencingToken> {
        Some(FencingToken(number))
    }

    #[tokio::test]
    async fn a_read_raises_the_mark_and_a_write_sent_again_is_no_second_increment() {
        let counter = Counter::create(&Memory::InProcess).await.unwrap();
        let seat = counter.open().await.unwrap();
        assert_eq!(seat.read(token(1)).await.unwrap(), Access::Value(0));
        assert_eq!(seat.read(token(2)).await.unwrap(), Access::Value(0));
        assert_eq!(seat.write(1, token(1), Operation(1)).await.unwrap(), Access::Fenced);
        for _ in 0..2 {
            assert_eq!(seat.write(1, token(2), Operation(1)).await.unwrap(), Access::Value(1));
        }
        seat.write(2, token(3), Operation(2)).await.unwrap();
        // Under a later token, with a value computed afresh, and also after the token has been fenced off.
        seat.write(3, token(3), Operation(1)).await.unwrap();
        seat.write(1, token(2), Operation(1)).await.unwrap();
        assert_eq!(counter.finish().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn without_a_token_who_writes_writes() {
        let counter = Counter::create(&Memory::InProcess).await.unwrap();
        let (one, two) = (counter.open().await.unwrap(), counter.open().await.unwrap());
        assert_eq!(
            (one.read(None).await.unwrap(), two.read(None).await.unwrap()),
            (Access::Value(0), Access::Value(0))
        );
        one.write(1, None, Operation(1)).await.unwrap();
        two.write(1, None, Operation(2)).await.unwrap();
        assert_eq!(counter.finish().await.unwrap(), 1);
    }
}
