//! The connection to the server, opened anew after it broke.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use super::fault::{Effect, no_answer, told, unavailable};
use crate::memory::StoreError;

/// Values for a statement, and their types: so that no round trip is needed to ask for them.
pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

pub(super) struct Link {
    config: Config,
    /// Without credentials.
    store: String,
    patience: Duration,
    session: Mutex<Option<Arc<Session>>>,
}

/// One connection. Ends with its last handle.
struct Session {
    client: Client,
    io: AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.io.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.store)
    }
}

impl Link {
    pub(super) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut config: Config =
            url.parse().map_err(|error| StoreError::Address { problem: in_full(&error) })?;
        if config.get_ssl_mode() == SslMode::Require {
            let problem = "sslmode=require: this build has no TLS for PostgreSQL";
            return Err(StoreError::Address { problem: problem.into() });
        }
        if config.get_application_name().is_none() {
            config.application_name("redfence");
        }
        let store = name(&config);
        Ok(Self { config, store, patience, session: Mutex::default() })
    }

    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// Runs one statement, as a transaction of its own.
    pub(super) async fn rows(
        &self,
        effect: Effect,
        statement: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let session = self.session().await?;
        match tokio::time::timeout(self.patience, session.client.query_typed(statement, params)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(told(&self.store, effect, error)),
            Err(_) => {
                self.close(&session).await;
                Err(no_answer(&self.store, effect, format!("no answer within {:?}", self.patience)))
            }
        }
    }

    /// Runs statements that come to one transaction.
    pub(super) async fn batch(&self, effect: Effect, statements: &str) -> Result<(), StoreError> {
        let session = self.session().await?;
        match tokio::time::timeout(self.patience, session.client.batch_execute(statements)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                // It may be in the middle of a transaction.
                self.close(&session).await;
                Err(told(&self.store, effect, error))
            }
            Err(_) => {
                self.close(&session).await;
                Err(no_answer(&self.store, effect, format!("no answer within {:?}", self.patience)))
            }
        }
    }

    pub(super) fn strange(&self, effect: Effect, what: &str) -> StoreError {
        no_answer(&self.store, effect, format!("an answer that is none: {what}"))
    }

    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        *session = None;
        let opened = Arc::new(self.connect().await?);
        *session = Some(Arc::clone(&opened));
        Ok(opened)
    }

    async fn connect(&self) -> Result<Session, StoreError> {
        let opening = async {
            let (client, connection) = self.config.connect(NoTls).await?;
            let io = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection to PostgreSQL closed");
                }
            });
            let session = Session { client, io: io.abort_handle() };
            session.client.batch_execute(&self.settings()).await?;
            Ok(session)
        };
        match tokio::time::timeout(self.patience, opening).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => Err(told(&self.store, Effect::None, error)),
            Err(_) => Err(unavailable(&self.store, format!("no connection within {:?}", self.patience))),
        }
    }

    /// What a session must be like. The server gives up a statement before we do: then it is known that nothing was done. And what
    /// is answered is on its disk, unless the database asks for more than that.
    fn settings(&self) -> String {
        let limit = (self.patience * 3 / 4).as_millis().max(1);
        format!(
            "SET statement_timeout = {limit};
             SET default_transaction_isolation = 'read committed';
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    }

    async fn close(&self, ended: &Arc<Session>) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|session| Arc::ptr_eq(session, ended)) {
            *session = None;
        }
    }
}

/// The client's errors say what, their sources say which.
fn in_full(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

fn name(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres at {host}:{port}/{database}")
}
