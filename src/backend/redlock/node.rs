//! One node as the driver sees it: a lazy connection that comes back by itself.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::bells::Bells;
use super::scripts::Keys;
use super::wire::{self, Answer, Inspection, Question};
use crate::lock::report::NodeError;
use crate::proto::NodeId;
use crate::proto::retry::Backoff;

/// A byte stream to a node.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Opens byte streams to nodes, in place of TCP: how a simulation runs the very same driver.
pub trait Connector: Send + Sync + fmt::Debug {
    /// Opens a stream to the node at this address (`host:port`).
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a>;
}

/// A byte stream on its way.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send + 'a>>;

/// Pauses between attempts to connect to a node that is away.
const RECONNECT: Backoff = Backoff { first: Duration::from_millis(20), most: Duration::from_secs(1) };

/// Bounds on waiting for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a connection and its handshake.
    pub(crate) connect: Duration,
    /// For one answer: after this the connection is taken for dead, and a new one is opened.
    pub(crate) stall: Duration,
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Without credentials.
    pub(crate) address: String,
    client: Client,
    connector: Option<Arc<dyn Connector>>,
    limits: Limits,
    bells: Arc<Bells>,
    /// The newest connection known to have ended: found without losing a request on it.
    ended: Arc<AtomicU64>,
    /// Held while connecting, so that requests of one session to one node keep their order.
    link: Mutex<Link>,
}

/// The connection, if there is one.
struct Link {
    open: Option<Open>,
    /// Counts connections, so that an old failure cannot close a newer one.
    generation: u64,
    failures: u32,
    not_before: Option<Instant>,
    /// Told to those who ask during a pause: why there is no connection, as it was.
    last_error: NodeError,
}

struct Open {
    connection: MultiplexedConnection,
    /// Reads and writes the stream of a custom connector; ends with the link.
    pump: Option<AbortHandle>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.abort();
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {})", self.id, self.address)
    }
}

impl Node {
    pub(crate) fn new(
        id: NodeId,
        client: Client,
        connector: Option<Arc<dyn Connector>>,
        limits: Limits,
        bells: &Arc<Bells>,
    ) -> Self {
        let address = client.get_connection_info().addr().to_string();
        let last_error = NodeError::Unreachable(String::new());
        let link = Link { open: None, generation: 0, failures: 0, not_before: None, last_error };
        let (bells, ended) = (Arc::clone(bells), Arc::default());
        Self { id, address, client, connector, limits, bells, ended, link: Mutex::new(link) }
    }

    /// Asks the node. Never fails: what went wrong is the answer.
    pub(crate) async fn ask(&self, question: &Question) -> Answer {
        let result =
            self.with_connection(|mut connection| async move { question.ask(&mut connection).await }).await;
        result.unwrap_or_else(Answer::failed)
    }

    /// Asks what the node knows of a lock.
    pub(crate) async fn inspect(&self, keys: &Arc<Keys>) -> Result<Inspection, NodeError> {
        self.with_connection(|mut connection| async move { wire::inspect(&mut connection, keys).await })
            .await?
    }

    /// Asks to hear of releases on this channel. Failing is harmless: waiters poll as well.
    pub(crate) async fn subscribe(&self, channel: &str) {
        let heard =
            self.with_connection(|mut connection| async move { connection.subscribe(channel).await }).await;
        if let Err(error) = heard {
            tracing::debug!(node = %self.address, channel, %error, "no release notifications from this node");
        }
    }

    /// Stops hearing of releases on this channel.
    pub(crate) async fn unsubscribe(&self, channel: &str) {
        let _ =
            self.with_connection(|mut connection| async move { connection.unsubscribe(channel).await }).await;
    }

    async fn with_connection<T, F>(
        &self,
        work: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        // No await between taking the connection and queueing on it: the order of requests is that of the lock.
        let (connection, generation) = self.connection().await?;
        match tokio::time::timeout(self.limits.stall, work(connection)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if error.is_unrecoverable_error() || error.is_connection_dropped() {
                    self.close(generation, &error.to_string()).await;
                }
                Err(wire::explain(&error, true))
            }
            Err(_) => {
                let text = format!("nothing for {:?}", self.limits.stall);
                self.close(generation, &text).await;
                Err(NodeError::NoAnswer(text))
            }
        }
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), NodeError> {
        let mut link = self.link.lock().await;
        if self.ended.load(Ordering::Acquire) == link.generation {
            link.open = None;
        }
        if let Some(open) = &link.open {
            return Ok((open.connection.clone(), link.generation));
        }
        if let Some(not_before) = link.not_before
            && Instant::now() < not_before
        {
            return Err(link.last_error.clone());
        }
        match self.connect(link.generation + 1).await {
            Ok(open) => {
                let connection = open.connection.clone();
                link.open = Some(open);
                link.generation += 1;
                link.failures = 0;
                link.not_before = None;
                self.hear_again(connection.clone());
                Ok((connection, link.generation))
            }
            Err(error) => {
                link.last_error = error.clone();
                link.not_before = Some(Instant::now() + RECONNECT.delay(link.failures, 1.0));
                link.failures = link.failures.saturating_add(1);
                tracing::debug!(node = %self.address, %error, "cannot connect");
                Err(error)
            }
        }
    }

    async fn connect(&self, generation: u64) -> Result<Open, NodeError> {
        let (bells, ended, id) = (Arc::clone(&self.bells), Arc::clone(&self.ended), self.id);
        let hear = move |push: PushInfo| {
            match push.kind {
                PushKind::Disconnection => ended.store(generation, Ordering::Release),
                _ => bells.ring(id, &push),
            }
            Ok::<(), std::convert::Infallible>(())
        };
        // Our own limits bound every wait; the client's would end requests behind the state machine's back.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(hear);
        let opening = async {
            match &self.connector {
                None => {
                    let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
                    connection
                        .map(|connection| Open { connection, pump: None })
                        .map_err(|e| wire::explain(&e, false))
                }
                Some(connector) => self.connect_by(connector.as_ref(), config).await,
            }
        };
        let timed = tokio::time::timeout(self.limits.connect, opening).await;
        timed.unwrap_or_else(|_| {
            Err(NodeError::Unreachable(format!("no connection within {:?}", self.limits.connect)))
        })
    }

    async fn connect_by(
        &self,
        connector: &dyn Connector,
        config: AsyncConnectionConfig,
    ) -> Result<Open, NodeError> {
        let opened = connector.connect(&self.address).await;
        let stream = opened.map_err(|error| NodeError::Unreachable(error.to_string()))?;
        let settings = self.client.get_connection_info().redis_settings();
        let connected = MultiplexedConnection::new_with_config(settings, stream, config).await;
        let (connection, pump) = connected.map_err(|error| wire::explain(&error, false))?;
        let pump = tokio::spawn(pump).abort_handle();
        Ok(Open { connection, pump: Some(pump) })
    }

    /// A new connection hears what the old one heard.
    fn hear_again(&self, mut connection: MultiplexedConnection) {
        let channels = self.bells.channels();
        if channels.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let _ = connection.subscribe(channels).await;
        });
    }

    async fn close(&self, generation: u64, reason: &str) {
        let mut link = self.link.lock().await;
        if link.generation == generation && link.open.is_some() {
            tracing::debug!(node = %self.address, reason, "connection closed");
            link.open = None;
        }
    }
}
