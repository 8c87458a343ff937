//! The embedded node: one Redis node inside this process.
//!
//! It answers the Redis protocol (RESP2 and RESP3) on any byte stream, well enough for Redis clients, `redis-cli` and
//! other languages' Redlock clients. Our own scripts are not run as Lua: they are done by
//! [`proto::node::execute`](crate::proto::node::execute), the code that the model checks, on the keys of this node; all
//! other scripts run in a Lua of Redis' dialect (see the module `lua` for how far that goes). `tests/conformance`
//! holds its answers to those of a real Redis.
//!
//! For tests, for simulations and for trying things out. It keeps one database in memory, has no replicas, no cluster
//! and no blocking commands, and evicts nothing. It starts empty, unless it is given a log
//! ([`NodeOptions::aof`]) that holds data.
//!
//! ```
//! use redfence::node::EmbeddedNode;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let node = EmbeddedNode::default().listen("127.0.0.1:0").await?;
//! // Any Redis client will do: its URL is `node.url()`.
//! let mut stream = tokio::net::TcpStream::connect(node.address()).await?;
//! stream.write_all(b"SET greeting hello\r\nGET greeting\r\n").await?;
//! let mut answer = [0; 16];
//! stream.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"+OK\r\n$5\r\nhello\r\n");
//! node.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod aof;
mod bus;
mod clock;
mod commands;
mod glob;
mod keyspace;
mod listen;
mod lock_scripts;
mod lua;
mod reply;
mod request;
mod serve;
mod session;
mod state;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::ToSocketAddrs;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use listen::NodeHandle;

use aof::Log;
use bus::Message;
use clock::Clock;
use keyspace::Effect;
use reply::{Reply, Resp};
use session::Session;
use state::{Client, Identity, State};

/// How an embedded node is to be.
#[derive(Clone, Default)]
pub struct NodeOptions {
    clock: Option<Arc<Clock>>,
    password: Option<String>,
    aof: Option<PathBuf>,
}

impl NodeOptions {
    /// No password, no log, a clock of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// The clock that keys live by: milliseconds since the Unix epoch. It may run fast or slow and may jump; a
    /// simulation gives each node its own. By default the wall clock at the start, moved on by the monotonic clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Answer only those who give this password, as the user `default`.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Keep the data in this file as well, in the format of Redis' append-only file. Every change is on the disk before
    /// it is answered (`appendfsync always`). What the file holds already is there again at the start; an end that a
    /// crash has torn is cut off, with a warning. The file only grows.
    #[must_use]
    pub fn aof(mut self, path: impl Into<PathBuf>) -> Self {
        self.aof = Some(path.into());
        self
    }
}

impl fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOptions")
            .field("own_clock", &self.clock.is_some())
            .field("password", &self.password.is_some())
            .field("aof", &self.aof)
            .finish()
    }
}

/// One Redis node inside this process. Clones are the same node.
#[derive(Clone)]
pub struct EmbeddedNode {
    state: Arc<Mutex<State>>,
    clock: Arc<Clock>,
    log: Option<Arc<Log>>,
    next_client: Arc<AtomicU64>,
    /// Cancelled when the log has failed: a node that cannot keep a promise makes none.
    stop: CancellationToken,
}

impl fmt::Debug for EmbeddedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedNode").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Default for EmbeddedNode {
    /// An empty node in memory.
    fn default() -> Self {
        Self::in_memory(&NodeOptions::default())
    }
}

impl EmbeddedNode {
    /// A node as the options say. Fails only on the log: it cannot be opened, is damaged before its end, or is in use.
    pub fn new(options: &NodeOptions) -> io::Result<Self> {
        let mut node = Self::in_memory(options);
        if let Some(path) = &options.aof {
            let log = Log::open(path, |words| node.redo(words))?;
            node.state().space.note_effects();
            node.state().identity.durable = true;
            node.log = Some(Arc::new(log));
        }
        Ok(node)
    }

    fn in_memory(options: &NodeOptions) -> Self {
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(clock::steady()));
        let identity = Identity {
            run_id: run_id(),
            password: options.password.clone(),
            durable: false,
            started: clock(),
        };
        Self {
            state: Arc::new(Mutex::new(State::new(identity))),
            clock,
            log: None,
            next_client: Arc::new(AtomicU64::new(1)),
            stop: CancellationToken::new(),
        }
    }

    /// Answers the requests of one connection until it ends. The future may be dropped at any time.
    pub async fn serve<S>(&self, stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        serve::serve(self, stream, "embedded:0".to_owned(), &self.stop).await
    }

    /// Listens on a TCP address; port 0 chooses a free one. Must be called in a tokio runtime, which then runs the node.
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<NodeHandle> {
        NodeHandle::new(self.clone(), address).await
    }

    /// Makes it a node that has lost its data and was started again: no key, no script, another run id, no connection.
    pub fn wipe(&self) -> io::Result<()> {
        let mut state = self.state();
        state.space.begin(self.now());
        state.space.clear();
        state.scripts.clear();
        (state.identity.run_id, state.identity.started) = (run_id(), self.now());
        for client in state.clients.values() {
            client.kill.cancel();
        }
        self.log(state.space.take_effects())?;
        self.log.as_ref().map_or(Ok(()), |log| log.sync())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Receives a connection.
    fn welcome(&self, address: String, messages: mpsc::Sender<Message>, kill: CancellationToken) -> Session {
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let client = Client {
            name: String::new(),
            address,
            since: self.now(),
            resp: Resp::V2,
            channels: 0,
            patterns: 0,
            kill: kill.clone(),
        };
        state.clients.insert(id, client);
        state.connections_seen += 1;
        Session::new(id, state.identity.password.is_none(), messages, kill)
    }

    /// Writes changes to the log, if there is one.
    fn log(&self, effects: Vec<Effect>) -> io::Result<()> {
        match &self.log {
            Some(log) if !effects.is_empty() => log.append(effects).inspect_err(|error| self.give_up(error)),
            _ => Ok(()),
        }
    }

    /// Returns when everything done so far is on the disk, if there is a log.
    async fn settle(&self) -> io::Result<()> {
        let Some(log) = self.log.as_ref().filter(|log| !log.is_synced()) else {
            return Ok(());
        };
        let log = Arc::clone(log);
        let synced = tokio::task::spawn_blocking(move || log.sync()).await;
        synced.map_err(io::Error::other).flatten().inspect_err(|error| self.give_up(error))
    }

    fn give_up(&self, error: &io::Error) {
        tracing::error!(%error, "node: the log has failed, the node stops");
        self.stop.cancel();
    }

    /// Does a command from the log. Time stands at its beginning, so that nothing expires before all is read.
    fn redo(&self, words: &[bytes::Bytes]) -> Result<(), String> {
        let (sender, _) = mpsc::channel(1);
        let mut session = Session::new(0, true, sender, CancellationToken::new());
        let mut state = self.state();
        state.space.begin(0);
        match commands::dispatch(&mut state, &mut session, words) {
            Reply::Error(fault) => Err(fault.0.into_owned()),
            _ => Ok(()),
        }
    }
}

/// 40 hexadecimal digits that no other node has.
fn run_id() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(STARTED.fetch_add(1, Ordering::Relaxed));
    sha1_smol::Sha1::from(hasher.finish().to_be_bytes()).digest().to_string()
}
