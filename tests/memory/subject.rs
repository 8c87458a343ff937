//! The stores under test, each with a place of its own for its data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redfence::memory::{InProcessStore, RedisStore, Store, StoreError};
use redfence::node::{EmbeddedNode, NodeHandle, NodeOptions};
use tempfile::TempDir;

use crate::support::{
    Options, PostgresServer, RedisServer, Restart, memory_folder, require_postgres, require_redis,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    InProcess,
    Sqlite,
    Redis,
    /// The Redis store on the embedded node.
    Embedded,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: &[Self] =
        &[Self::InProcess, Self::Sqlite, Self::Redis, Self::Embedded, Self::Postgres];
    /// Those whose data outlive the process that wrote them.
    pub(crate) const LASTING: &[Self] = &[Self::Sqlite, Self::Redis, Self::Embedded, Self::Postgres];
    /// Those at the other end of a connection.
    pub(crate) const REMOTE: &[Self] = &[Self::Redis, Self::Embedded, Self::Postgres];
    pub(crate) const SQLITE: &[Self] = &[Self::Sqlite];
    pub(crate) const REDIS: &[Self] = &[Self::Redis, Self::Embedded];
    pub(crate) const POSTGRES: &[Self] = &[Self::Postgres];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Embedded => "redis-embedded",
            Self::Postgres => "postgres",
        }
    }

    /// What must be there for this store to be tested.
    pub(crate) fn needs(self) -> fn() -> Result<(), String> {
        match self {
            Self::InProcess | Self::Embedded => || Ok(()),
            Self::Sqlite => || built_with("sqlite", cfg!(feature = "sqlite")),
            Self::Redis => require_redis,
            Self::Postgres => {
                || built_with("postgres", cfg!(feature = "postgres")).and_then(|()| require_postgres())
            }
        }
    }
}

fn built_with(feature: &str, has: bool) -> Result<(), String> {
    if has { Ok(()) } else { Err(format!("this build lacks the feature {feature}")) }
}

/// A store's data, and what serves them. Ends with the test.
pub(crate) struct Subject {
    home: Home,
}

enum Home {
    Process(InProcessStore),
    File(TempDir),
    Redis(RedisServer),
    Embedded { log: PathBuf, node: Option<NodeHandle>, _folder: TempDir },
    Postgres { server: Arc<PostgresServer>, database: String },
}

impl Subject {
    pub(crate) async fn start(kind: Kind) -> Self {
        let home = match kind {
            Kind::InProcess => Home::Process(InProcessStore::default()),
            Kind::Sqlite => Home::File(folder()),
            Kind::Redis => Home::Redis(Options::new().in_memory().start()),
            Kind::Embedded => {
                let folder = folder();
                let log = folder.path().join("log.aof");
                let node = Some(embedded(&log, "127.0.0.1:0").await);
                Home::Embedded { log, node, _folder: folder }
            }
            Kind::Postgres => Home::in_postgres(shared_postgres()).await,
        };
        Self { home }
    }

    /// One whose server nobody else uses, so that it can be ended.
    pub(crate) async fn start_alone(kind: Kind) -> Self {
        match kind {
            Kind::Postgres => Self { home: Home::in_postgres(Arc::new(PostgresServer::start())).await },
            _ => Self::start(kind).await,
        }
    }

    /// Another connection to the same data.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match &self.home {
            Home::Process(store) => Arc::new(store.clone()),
            Home::File(_) => Arc::new(self.sqlite().await),
            _ => self.open_at(self.addr(), LONG).await.expect("the store opens"),
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) async fn sqlite(&self) -> redfence::memory::SqliteStore {
        redfence::memory::SqliteStore::open(self.file()).await.expect("the store opens")
    }

    #[cfg(not(feature = "sqlite"))]
    async fn sqlite(&self) -> InProcessStore {
        unreachable!("what it needs is not there")
    }

    pub(crate) fn file(&self) -> PathBuf {
        match &self.home {
            Home::File(folder) => folder.path().join("memory.sqlite"),
            _ => panic!("not in a file"),
        }
    }

    /// Where it is, for another process: see [`open_place`].
    pub(crate) fn place(&self, kind: Kind) -> String {
        match &self.home {
            Home::File(_) => format!("{} {}", kind.name(), self.file().display()),
            Home::Postgres { server, database } => {
                format!("{} {}", kind.name(), PostgresServer::url_at(server.addr(), database))
            }
            _ => format!("{} redis://{}", kind.name(), self.addr()),
        }
    }

    /// Where the server is.
    pub(crate) fn addr(&self) -> SocketAddr {
        match &self.home {
            Home::Redis(server) => server.addr(),
            Home::Embedded { node, .. } => node.as_ref().expect("it runs").address(),
            Home::Postgres { server, .. } => server.addr(),
            Home::Process(_) | Home::File(_) => panic!("no server"),
        }
    }

    /// A connection to the server through another address, with a bound on each wait.
    pub(crate) async fn open_at(
        &self,
        addr: SocketAddr,
        patience: Duration,
    ) -> Result<Arc<dyn Store>, StoreError> {
        match &self.home {
            Home::Postgres { database, .. } => {
                postgres(&PostgresServer::url_at(addr, database), patience).await
            }
            _ => {
                let url = format!("redis://{addr}");
                Ok(Arc::new(RedisStore::open_patiently(&url, PREFIX, patience).await?))
            }
        }
    }

    /// Ends what serves the data, as a crash does, and starts it again. Of a file that is who has it open: nobody, for the test
    /// has dropped its stores.
    pub(crate) async fn crash_and_restart(&mut self) {
        match &mut self.home {
            Home::Process(_) => panic!("what is in a process ends with it"),
            Home::File(_) => {}
            Home::Redis(server) => server.restart(Restart::KeepData),
            Home::Postgres { server, .. } => server.crash_and_restart(),
            Home::Embedded { log, node, .. } => {
                let ended = node.take().expect("it runs");
                let at = ended.address().to_string();
                ended.shutdown().await;
                *node = Some(embedded(log, &at).await);
            }
        }
    }
}

/// What [`Subject::place`] names.
pub(crate) async fn open_place(place: &str) -> Arc<dyn Store> {
    let (kind, place) = place.split_once(' ').expect("a kind and a place");
    match kind {
        "sqlite" => open_file(place).await,
        "postgres" => postgres(place, LONG).await.expect("the store opens"),
        _ => Arc::new(RedisStore::open_patiently(place, PREFIX, LONG).await.expect("the store opens")),
    }
}

#[cfg(feature = "sqlite")]
async fn open_file(path: &str) -> Arc<dyn Store> {
    Arc::new(redfence::memory::SqliteStore::open(path).await.expect("the store opens"))
}

#[cfg(not(feature = "sqlite"))]
async fn open_file(_: &str) -> Arc<dyn Store> {
    unreachable!("what it needs is not there")
}

/// Of the stores in Redis.
pub(crate) const PREFIX: &str = "memory:";

/// A bound on each wait that only a broken store meets.
pub(crate) const LONG: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("redfence-memory-").tempdir_in(memory_folder());
    let folder = folder.expect("a temporary folder");
    crate::support::remove_at_the_end(folder.path());
    folder
}

async fn embedded(log: &PathBuf, at: &str) -> NodeHandle {
    let node = EmbeddedNode::new(&NodeOptions::new().aof(log)).expect("a node");
    node.listen(at).await.expect("it listens")
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, patience: Duration) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(redfence::memory::PostgresStore::open_patiently(url, patience).await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: Duration) -> Result<Arc<dyn Store>, StoreError> {
    unreachable!("what it needs is not there")
}

impl Home {
    /// A database of its own.
    async fn in_postgres(server: Arc<PostgresServer>) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let database = format!("case_{number}");
        run_sql(&server, &format!("CREATE DATABASE {database}")).await;
        Self::Postgres { server, database }
    }
}

#[cfg(feature = "postgres")]
async fn run_sql(server: &PostgresServer, statement: &str) {
    let url = PostgresServer::url_at(server.addr(), "postgres");
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a connection");
    let connection = tokio::spawn(connection);
    client.batch_execute(statement).await.expect(statement);
    drop(client);
    let _ = connection.await;
}

#[cfg(not(feature = "postgres"))]
async fn run_sql(_: &PostgresServer, _: &str) {}

/// One server for all tests but those that end theirs: a database is made faster than a server.
static POSTGRES: Mutex<Option<Arc<PostgresServer>>> = Mutex::new(None);

fn shared_postgres() -> Arc<PostgresServer> {
    let mut server = POSTGRES.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(server.get_or_insert_with(|| Arc::new(PostgresServer::start())))
}

/// What is static is not dropped.
pub(crate) fn stop_shared_servers() {
    drop(POSTGRES.lock().unwrap_or_else(PoisonError::into_inner).take());
}
