//! The connection to the server, opened anew after it broke.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisError, ServerErrorKind,
};
use tokio::sync::Mutex;

use crate::memory::StoreError;

/// What a request does if it arrives, so what it means that no answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    None,
    Change,
}

pub(super) struct Link {
    client: Client,
    /// Without credentials.
    store: String,
    patience: Duration,
    /// The newest connection known to have ended: found without losing a request on it.
    ended: Arc<AtomicU64>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    connection: Option<MultiplexedConnection>,
    /// Counts connections, so that an old failure cannot close a newer one.
    generation: u64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.store)
    }
}

impl Link {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        // The client's words on a bad URL do not repeat it.
        let client = client(url).map_err(|error| StoreError::Address { problem: error.to_string() })?;
        let store = format!("redis at {}", client.get_connection_info().addr());
        Ok(Self { client, store, patience, ended: Arc::default(), open: Mutex::default() })
    }

    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// Sends what `work` sends, on a connection that is open.
    pub(super) async fn ask<T, F>(
        &self,
        effect: Effect,
        work: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let (connection, generation) = self.connection().await?;
        match tokio::time::timeout(self.patience, work(connection)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => match verdict(&error) {
                Some(verdict) => Err(self.told(verdict, error)),
                None => {
                    self.close(generation).await;
                    Err(self.no_answer(effect, error))
                }
            },
            Err(_) => {
                self.close(generation).await;
                Err(self.no_answer(effect, format!("no answer within {:?}", self.patience)))
            }
        }
    }

    /// Whoever answers like this is not the server that we take it for.
    pub(super) fn strange(&self, effect: Effect, answer: &impl fmt::Debug) -> StoreError {
        let begin: String = format!("{answer:?}").chars().take(80).collect();
        self.no_answer(effect, format!("an answer that is none: {begin}"))
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), StoreError> {
        let mut open = self.open.lock().await;
        if self.ended.load(Ordering::Acquire) == open.generation {
            open.connection = None;
        }
        if let Some(connection) = &open.connection {
            return Ok((connection.clone(), open.generation));
        }
        let connection = self.connect(open.generation + 1).await?;
        open.generation += 1;
        open.connection = Some(connection.clone());
        Ok((connection, open.generation))
    }

    async fn connect(&self, generation: u64) -> Result<MultiplexedConnection, StoreError> {
        let ended = Arc::clone(&self.ended);
        let hear = move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                ended.store(generation, Ordering::Release);
            }
            Ok::<(), std::convert::Infallible>(())
        };
        // Our own limit bounds every wait.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(hear);
        let opening = self.client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(self.patience, opening).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.told(verdict(&error).unwrap_or(Verdict::Later), error)),
            Err(_) => Err(self.told(Verdict::Later, format!("no connection within {:?}", self.patience))),
        }
    }

    async fn close(&self, generation: u64) {
        let mut open = self.open.lock().await;
        if open.generation == generation {
            open.connection = None;
        }
    }

    fn no_answer(&self, effect: Effect, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        match effect {
            Effect::None => self.told(Verdict::Later, source),
            Effect::Change => StoreError::Unknown { store: self.store.clone(), source: source.into() },
        }
    }

    fn told(&self, verdict: Verdict, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        let (store, source) = (self.store.clone(), source.into());
        match verdict {
            Verdict::Later => StoreError::Unavailable { store, source },
            Verdict::Never => StoreError::Refused { store, source },
        }
    }
}

fn client(url: &str) -> Result<Client, RedisError> {
    let info = url.into_connection_info()?;
    // RESP3: the end of a connection is told.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        // Without a default, a program that links two providers would panic at its first such connection.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Client::open(info.set_redis_settings(settings))
}

/// What the server said, when it said no. Either way nothing was done: our scripts fail before they write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Later,
    Never,
}

/// `None` if the error is not the server's.
fn verdict(error: &RedisError) -> Option<Verdict> {
    use ServerErrorKind as Said;
    match error.kind() {
        ErrorKind::Server(Said::BusyLoading | Said::TryAgain | Said::ClusterDown | Said::MasterDown) => {
            Some(Verdict::Later)
        }
        // Another script runs; no room; the disk fails; too few replicas.
        ErrorKind::Server(_) | ErrorKind::Extension
            if matches!(error.code(), Some("BUSY" | "OOM" | "MISCONF" | "NOREPLICAS")) =>
        {
            Some(Verdict::Later)
        }
        ErrorKind::Server(_)
        | ErrorKind::Extension
        | ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported => Some(Verdict::Never),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_said_is_told_from_what_nobody_said() {
        let server = |kind, said: &'static str| RedisError::from((kind, said));
        let extension = |code: &str| redis::make_extension_error(code.to_owned(), None);
        let loading = ErrorKind::Server(ServerErrorKind::BusyLoading);
        assert_eq!(verdict(&server(loading, "loading")), Some(Verdict::Later));
        for code in ["BUSY", "OOM", "MISCONF", "NOREPLICAS"] {
            assert_eq!(verdict(&extension(code)), Some(Verdict::Later), "{code}");
        }
        for code in ["WRONGTYPE", "NOAUTH"] {
            assert_eq!(verdict(&extension(code)), Some(Verdict::Never), "{code}");
        }
        let said = ErrorKind::Server(ServerErrorKind::NoPerm);
        assert_eq!(verdict(&server(said, "no")), Some(Verdict::Never));
        let torn = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!((verdict(&torn), verdict(&server(ErrorKind::Parse, "?"))), (None, None));
    }
}
