//! How to make a lock: everything that can be wrong is found here, before any node is asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates,
};

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use super::Capabilities;
use super::DistributedLock;
use super::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use super::error::ConfigError;
use super::record::Recorder;
use crate::backend::Backend;
#[cfg(feature = "etcd")]
use crate::backend::Etcd;
#[cfg(feature = "zookeeper")]
use crate::backend::ZooKeeper;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use crate::backend::queue::{self, Queue};
use crate::backend::redlock::node::{Connector, Limits, Node};
use crate::backend::redlock::scripts::RESERVED;
use crate::backend::redlock::{Redlock, Settings};
use crate::memory::BackendId;
use crate::proto::retry::Backoff;
use crate::proto::session::{AutoExtend, Mode};
use crate::proto::tally::MAX_NODES;
use crate::proto::{Drift, NodeId, Quorum, Ttl};

/// The longest resource name, in bytes.
pub const MAX_RESOURCE_BYTES: usize = 1024;

/// Builds a [`DistributedLock`]; see [`DistributedLock::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LockBuilder {
    nodes: Vec<Masked>,
    etcd: Vec<Masked>,
    zookeeper: Option<Masked>,
    mode: Mode,
    ttl: Duration,
    drift: Drift,
    patience: Duration,
    prefix: String,
    backoff: Backoff,
    max_hold: Duration,
    extend_every: Option<Duration>,
    auto_init: bool,
    allow_weak_quorum: bool,
    clock: Option<Arc<dyn Clock>>,
    entropy: Option<Arc<dyn Entropy>>,
    connector: Option<Arc<dyn Connector>>,
    recorder: Option<Arc<dyn Recorder>>,
    backend_id: Option<BackendId>,
    tls: TlsCertificates,
}

impl Default for LockBuilder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            etcd: Vec::new(),
            zookeeper: None,
            mode: Mode::Fenced,
            ttl: Duration::from_secs(10),
            drift: Drift::default(),
            patience: Duration::from_millis(500),
            prefix: String::new(),
            backoff: Backoff { first: Duration::from_millis(4), most: Duration::from_millis(250) },
            max_hold: Duration::from_secs(3600),
            extend_every: None,
            auto_init: true,
            allow_weak_quorum: false,
            clock: None,
            entropy: None,
            connector: None,
            recorder: None,
            backend_id: None,
            tls: TlsCertificates { client_tls: None, root_cert: None },
        }
    }
}

impl LockBuilder {
    /// The Redis nodes, as URLs: `redis://[user:password@]host:port[/db]`, `rediss://..` for TLS, `unix:///path`.
    ///
    /// Independent servers, without replication among them or failover (Redis page, "the Redlock algorithm"). The same
    /// list, in any order, at every client: two majorities of different lists may miss each other.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = urls.into_iter().map(|url| Masked(url.into())).collect();
        self
    }

    /// Locks on etcd instead of Redis nodes: the members, as `http://[user:password@]host:port` or `https://..`. Needs the cargo
    /// feature `etcd`.
    ///
    /// Waiters are served in order, and the token is etcd's own create revision. A TTL is whole seconds, rounded up, and etcd
    /// grants no less than about one and a half election timeouts. See `docs/backends.md`.
    pub fn etcd<I>(mut self, members: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.etcd = members.into_iter().map(|url| Masked(url.into())).collect();
        self
    }

    /// Locks on ZooKeeper instead of Redis nodes: a connect string, `host:port[,host:port..][/chroot]`. Needs the cargo feature
    /// `zookeeper`.
    ///
    /// Waiters are served in order, and the token is the `czxid` of the lock's znode. The TTL is the timeout of a session, which
    /// the servers move into 2 to 20 of their ticks; a third of it is not counted as validity. The session outlives a lock,
    /// so a lock that is not extended is ended by its guard: see `docs/backends.md`.
    pub fn zookeeper(mut self, connect: impl Into<String>) -> Self {
        self.zookeeper = Some(Masked(connect.into()));
        self
    }

    /// Names the service that numbers the holders, for stores that compare its tokens: see [`BackendId`]. Without it, the kind
    /// alone: `redlock`, `etcd`, `zookeeper`. Where a store may meet two clusters of one kind, name them.
    pub fn backend_id(mut self, id: BackendId) -> Self {
        self.backend_id = Some(id);
        self
    }

    /// Whom to trust at `rediss://` nodes and at etcd's `https://` members, in PEM: one or more authorities, instead of those that the system trusts.
    pub fn tls_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.root_cert = Some(pem.into());
        self
    }

    /// What to show to nodes or members that ask for a certificate (`tls-auth-clients`), in PEM: chain and key.
    pub fn tls_identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.client_tls =
            Some(ClientTlsConfig { client_cert: certificate.into(), client_key: key.into() });
        self
    }

    /// Fenced (the default), or classic Redlock without tokens.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Life of the lock keys, a whole number of milliseconds. Default 10 s.
    ///
    /// After a crash of the holder nobody gets the lock for this long. Work that takes longer extends.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Clock error allowed for. Default: 1 % of the TTL plus 2 ms, as on the Redis page.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// How long one attempt, one extension or one release waits for nodes at most. Default 500 ms.
    ///
    /// The slowest node is never waited for; this bounds the wait when too few answer at all. A node that has answered
    /// nothing for twice as long, and for at least a second, gets a new connection; what that means for automatic
    /// extension is said in numbers at [`extend_every`](Self::extend_every).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Comes before every resource name to make its key. Default: nothing, so that the key is the resource name, and
    /// other Redlock clients on the same nodes and this one exclude each other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Pauses between attempts while waiting: doubling from `first` to `most`, each drawn from its upper half. Default 4 ms
    /// to 250 ms. A published release or the end of the holder's TTL cuts a pause short.
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.backoff = Backoff { first, most };
        self
    }

    /// Where extension is automatic: the longest time to hold a lock in all. Default 1 h.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// Where extension is automatic: the time from one extension to the next. Default: a third of the validity.
    ///
    /// An extension that every node answers with silence costs time: a node that has swallowed one gets the next after
    /// max(2 x patience, 1 s), when its connection is taken for dead, and the next is sent patience + a quarter of
    /// `every` later. The lease outlives one such round if `every` + the larger of both is less than the validity: with
    /// a patience of 500 ms and the default, for TTLs above 1.6 s; with a patience of 5 s, above 16 s.
    pub fn extend_every(mut self, every: Duration) -> Self {
        self.extend_every = Some(every);
        self
    }

    /// Whether fresh nodes are given their first epoch without being asked. Default true.
    ///
    /// Only if *all* nodes answer and none has ever granted anything. Nodes that lost their data beside nodes in use never
    /// slip in by this door; they do not vote until an operator re-admits them.
    pub fn auto_init(mut self, on: bool) -> Self {
        self.auto_init = on;
        self
    }

    /// Allows one node, or an even number of nodes. Default false.
    ///
    /// One node tolerates no failure; an even number tolerates no more failures than one node fewer.
    pub fn allow_weak_quorum(mut self, allow: bool) -> Self {
        self.allow_weak_quorum = allow;
        self
    }

    /// Another clock: for simulations.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Another source of owner values and jitter: for simulations.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Another way to open byte streams to nodes: for simulations, tunnels, in-process nodes.
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Hears what goes into and what comes out of the state machine of every attempt, so that it can be run again: for finding
    /// out afterwards what happened, and for tests. By default nobody does.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The lock. Connects to nothing: connections are opened when they are needed.
    ///
    /// # Errors
    /// A [`ConfigError`] that shows the numbers and the next step.
    pub fn build(mut self) -> Result<DistributedLock, ConfigError> {
        if self.patience < Duration::from_millis(1) {
            return Err(ConfigError::Patience(self.patience));
        }
        let defaults = Defaults {
            ttl: self.ttl,
            backoff: self.backoff,
            max_hold: self.max_hold,
            extend_every: self.extend_every,
        };
        checked_ttl(self.ttl, self.drift)?;
        let clock = self.clock.take().unwrap_or_else(|| Arc::new(SystemClock::default()));
        let entropy = self.entropy.take().unwrap_or_else(|| Arc::new(SystemEntropy::default()));
        let id = self.backend_id.take();
        let backend = match self.kind()? {
            Kind::Redis => Backend::Redlock(self.redlock(clock, entropy)?),
            Kind::Etcd => self.on_etcd(clock, entropy)?,
            Kind::ZooKeeper => self.on_zookeeper(clock, entropy)?,
        };
        let id = id.unwrap_or_else(|| BackendId::new(backend.name()));
        Ok(DistributedLock::new(backend, defaults, id))
    }

    /// Exactly one kind of back end.
    fn kind(&self) -> Result<Kind, ConfigError> {
        let given = [
            (!self.nodes.is_empty(), Kind::Redis),
            (!self.etcd.is_empty(), Kind::Etcd),
            (self.zookeeper.is_some(), Kind::ZooKeeper),
        ];
        let mut given = given.into_iter().filter_map(|(given, kind)| given.then_some(kind));
        match (given.next(), given.next()) {
            (None, _) => Err(ConfigError::NoNodes),
            (Some(kind), None) => Ok(kind),
            (Some(first), Some(second)) => {
                Err(ConfigError::SeveralBackends { first: first.name(), second: second.name() })
            }
        }
    }

    #[cfg(feature = "etcd")]
    fn on_etcd(self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Backend, ConfigError> {
        let members: Vec<_> = self.etcd.iter().map(|Masked(url)| url.as_str()).collect();
        let etcd = Etcd::new(&members, &self.tls, self.patience, Arc::clone(&entropy))?;
        let capabilities = Etcd::capabilities(self.drift);
        let settings = self.queue_settings("etcd", capabilities, clock, entropy)?;
        Ok(Backend::Etcd(Queue::new(etcd, settings)))
    }

    #[cfg(not(feature = "etcd"))]
    fn on_etcd(self, _: Arc<dyn Clock>, _: Arc<dyn Entropy>) -> Result<Backend, ConfigError> {
        let needs =
            " (and protoc with the well-known .proto files; Debian: protobuf-compiler libprotobuf-dev)";
        Err(ConfigError::NotCompiled { backend: "etcd", needs })
    }

    #[cfg(feature = "zookeeper")]
    fn on_zookeeper(self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Backend, ConfigError> {
        let connect = self.zookeeper.as_ref().map_or("", |Masked(connect)| connect.as_str());
        let zookeeper = ZooKeeper::new(connect, self.patience, Arc::clone(&clock))?;
        let capabilities = ZooKeeper::capabilities(self.drift);
        let settings = self.queue_settings("zookeeper", capabilities, clock, entropy)?;
        Ok(Backend::ZooKeeper(Queue::new(zookeeper, settings)))
    }

    #[cfg(not(feature = "zookeeper"))]
    fn on_zookeeper(self, _: Arc<dyn Clock>, _: Arc<dyn Entropy>) -> Result<Backend, ConfigError> {
        Err(ConfigError::NotCompiled { backend: "zookeeper", needs: "" })
    }

    /// What is set for Redis nodes alone must not be dropped silently.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    fn queue_settings(
        self,
        backend: &'static str,
        capabilities: Capabilities,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<queue::Settings, ConfigError> {
        let tls = self.tls.client_tls.is_some() || self.tls.root_cert.is_some();
        let foreign = [
            (self.mode == Mode::Classic, "classic mode"),
            (self.connector.is_some(), "a connector"),
            (self.recorder.is_some(), "a recorder"),
            (tls && backend == "zookeeper", "a TLS certificate"),
        ];
        if let Some((_, what)) = foreign.into_iter().find(|(given, _)| *given) {
            return Err(ConfigError::NotForBackend { what, backend });
        }
        let (drift, prefix) = (self.drift, self.prefix);
        Ok(queue::Settings { drift, prefix, clock, entropy, capabilities })
    }

    fn redlock(self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Redlock, ConfigError> {
        let infos = self.parse_nodes()?;
        self.check_tls(&infos)?;
        let quorum = self.quorum(infos.len())?;
        let limits = Limits {
            connect: self.patience.max(Duration::from_millis(200)),
            stall: (self.patience * 2).max(Duration::from_secs(1)),
        };
        let bells = Arc::default();
        let mut nodes = Vec::with_capacity(infos.len());
        for (index, info) in infos.into_iter().enumerate() {
            let address = info.addr().to_string();
            let node = client(info, &self.tls)
                .map(|client| Node::new(NodeId::new(index), client, self.connector.clone(), limits, &bells))
                .map_err(|error| ConfigError::BadNode { address, reason: error.to_string() })?;
            nodes.push(Arc::new(node));
        }
        let settings = Settings {
            quorum,
            mode: self.mode,
            drift: self.drift,
            patience: self.patience,
            prefix: self.prefix,
            auto_init: self.auto_init,
            recorder: self.recorder,
        };
        Ok(Redlock::new(settings, nodes, bells, clock, entropy))
    }

    fn parse_nodes(&self) -> Result<Vec<ConnectionInfo>, ConfigError> {
        if self.nodes.len() > MAX_NODES {
            return Err(ConfigError::TooManyNodes { given: self.nodes.len(), most: MAX_NODES });
        }
        let mut seen = HashMap::new();
        let mut infos = Vec::with_capacity(self.nodes.len());
        for (index, Masked(url)) in self.nodes.iter().enumerate() {
            let parsed = url.trim().into_connection_info();
            let info = parsed
                .map_err(|error| ConfigError::BadNode { address: masked(url), reason: error.to_string() })?;
            let address = info.addr().to_string();
            if let Some(first) = seen.insert(address.clone(), index + 1) {
                return Err(ConfigError::DuplicateNode { address, first, second: index + 1 });
            }
            infos.push(info);
        }
        Ok(infos)
    }

    /// Who gives certificates believes in encryption: nodes that would be spoken to without it are a mistake.
    fn check_tls(&self, infos: &[ConnectionInfo]) -> Result<(), ConfigError> {
        let given = self.tls.root_cert.is_some() || self.tls.client_tls.is_some();
        match infos.iter().find(|info| matches!(info.addr(), ConnectionAddr::Tcp(..))) {
            Some(plain) if given => Err(ConfigError::PlainNode { address: plain.addr().to_string() }),
            _ => Ok(()),
        }
    }

    fn quorum(&self, nodes: usize) -> Result<Quorum, ConfigError> {
        let quorum = Quorum::of(nodes);
        if !self.allow_weak_quorum && (nodes == 1 || nodes.is_multiple_of(2)) {
            return Err(ConfigError::WeakQuorum { nodes, spare: quorum.spare() });
        }
        Ok(quorum)
    }
}

/// Which kind of back end was given.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Redis,
    Etcd,
    ZooKeeper,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis nodes",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
        }
    }
}

/// An address, which may hold a password: shown without it.
#[derive(Clone)]
struct Masked(String);

impl fmt::Debug for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        masked(&self.0).fmt(f)
    }
}

/// How to reach one node.
fn client(info: ConnectionInfo, tls: &TlsCertificates) -> Result<redis::Client, redis::RedisError> {
    // RESP3: releases are heard on the same connection.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info.set_redis_settings(settings);
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return redis::Client::open(info);
    }
    // Without a default, a program that links two providers would panic at its first such connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    redis::Client::build_with_tls(info, tls.clone())
}

/// What an acquisition takes if it says nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) max_hold: Duration,
    pub(crate) extend_every: Option<Duration>,
}

/// A TTL that leaves validity.
pub(crate) fn checked_ttl(ttl: Duration, drift: Drift) -> Result<Ttl, ConfigError> {
    let valid = Ttl::from_duration(ttl).ok_or(ConfigError::Ttl(ttl))?;
    let margin = drift.margin(valid);
    if margin >= ttl {
        return Err(ConfigError::NoValidity { ttl, drift: margin, least: least_ttl(drift) });
    }
    Ok(valid)
}

/// The shortest TTL that leaves validity.
pub(crate) fn least_ttl(drift: Drift) -> Duration {
    let rate = 1.0 - f64::from(drift.rate_ppm).min(999_999.0) / 1e6;
    Duration::from_millis((drift.fixed.as_secs_f64() * 1e3 / rate).ceil() as u64 + 1)
}

/// Extension that comes in time even if one round is lost.
pub(crate) fn checked_extend(defaults: &Defaults, ttl: Ttl, drift: Drift) -> Result<AutoExtend, ConfigError> {
    let validity = ttl.as_duration().saturating_sub(drift.margin(ttl));
    let every = defaults.extend_every.unwrap_or(validity / 3);
    let most = validity * 2 / 3;
    if every > most || every.is_zero() {
        return Err(ConfigError::ExtendTooRare { every, validity, most });
    }
    Ok(AutoExtend { every, max_hold: defaults.max_hold })
}

pub(crate) fn checked_resource(prefix: &str, resource: &str) -> Result<String, ConfigError> {
    if resource.is_empty() {
        return Err(ConfigError::EmptyResource);
    }
    if resource.len() > MAX_RESOURCE_BYTES {
        return Err(ConfigError::LongResource { bytes: resource.len(), most: MAX_RESOURCE_BYTES });
    }
    let key = format!("{prefix}{resource}");
    if key.starts_with(RESERVED) {
        return Err(ConfigError::ReservedResource { key, reserved: RESERVED });
    }
    Ok(resource.to_owned())
}

/// A node's URL without what must not be shown.
pub(crate) fn masked(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        (None, Some((_, host))) => format!("***@{host}"),
        _ => url.to_owned(),
    }
}
