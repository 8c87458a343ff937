//! etcd or ZooKeeper, started for one test, and looks at its queues that do not go by way of the lock.

use std::net::SocketAddr;
use std::time::Duration;

use redfence::lock::Released;
use redfence::{DistributedLock, LockBuilder, LockGuard};

use crate::support::{EtcdCluster, Proxy, Stopwatch, ZooKeeperEnsemble, require_etcd, require_zookeeper};

/// The resource of a test: every test has a service of its own. Nothing in it needs encoding.
pub(crate) const NAME: &str = "invoices";

/// The bound on everything that should happen at once. Generous: the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A figure worth seeing beside the verdict of a test.
pub(crate) fn measured(row: &str, kind: Kind, what: &str, figure: impl std::fmt::Debug) {
    eprintln!("measured {row}, {}: {what} {figure:?}", kind.name());
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Etcd,
    ZooKeeper,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// What a test on this service needs.
    pub(crate) fn requirement(self) -> fn() -> Result<(), String> {
        match self {
            Self::Etcd => || {
                built(cfg!(feature = "etcd"), "etcd")?;
                require_etcd()
            },
            Self::ZooKeeper => || {
                built(cfg!(feature = "zookeeper"), "zookeeper")?;
                require_zookeeper()
            },
        }
    }

    /// A lock at these addresses; `host:port` each.
    pub(crate) fn builder(self, addresses: &[String]) -> LockBuilder {
        // Patient: a busy machine must not decide what a test says.
        let builder = DistributedLock::builder().ttl(ms(3_000)).patience(Duration::from_secs(2));
        match self {
            Self::Etcd => builder.etcd(addresses.iter().map(|address| format!("http://{address}"))),
            Self::ZooKeeper => builder.zookeeper(addresses.join(",")),
        }
    }
}

fn built(is_in: bool, feature: &str) -> Result<(), String> {
    is_in.then_some(()).ok_or_else(|| format!("this build is without the cargo feature {feature}"))
}

/// A place in a queue, as the service tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) owner: String,
    /// The lease, or the path: what to remove it by.
    handle: String,
}

#[derive(Debug)]
pub(crate) enum Service {
    Etcd(EtcdCluster),
    ZooKeeper(ZooKeeperEnsemble),
}

impl Service {
    pub(crate) fn start(kind: Kind, members: usize) -> Self {
        match kind {
            Kind::Etcd => Self::Etcd(EtcdCluster::start(members)),
            Kind::ZooKeeper => Self::ZooKeeper(ZooKeeperEnsemble::start(members)),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Etcd(_) => Kind::Etcd,
            Self::ZooKeeper(_) => Kind::ZooKeeper,
        }
    }

    /// `host:port` of each member.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match self {
            Self::Etcd(etcd) => etcd.urls().iter().map(|url| url.replace("http://", "")).collect(),
            Self::ZooKeeper(zookeeper) => zookeeper.connect_string().split(',').map(str::to_owned).collect(),
        }
    }

    pub(crate) fn builder(&self) -> LockBuilder {
        self.kind().builder(&self.addresses())
    }

    pub(crate) fn locks(&self) -> DistributedLock {
        self.builder().build().expect("a lock")
    }

    pub(crate) fn freeze_all(&self) {
        (0..self.len()).for_each(|member| match self {
            Self::Etcd(etcd) => etcd.stop(member),
            Self::ZooKeeper(zookeeper) => zookeeper.stop(member),
        });
    }

    pub(crate) fn thaw_all(&self) {
        (0..self.len()).for_each(|member| match self {
            Self::Etcd(etcd) => etcd.cont(member),
            Self::ZooKeeper(zookeeper) => zookeeper.cont(member),
        });
    }

    pub(crate) fn freeze(&self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.stop(member),
            Self::ZooKeeper(zookeeper) => zookeeper.stop(member),
        }
    }

    pub(crate) fn kill(&self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.kill(member),
            Self::ZooKeeper(zookeeper) => zookeeper.kill(member),
        }
    }

    pub(crate) fn restart(&self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.restart(member),
            Self::ZooKeeper(zookeeper) => zookeeper.restart(member),
        }
    }

    pub(crate) fn leader(&self) -> usize {
        let leader = match self {
            Self::Etcd(etcd) => etcd.leader(),
            Self::ZooKeeper(zookeeper) => zookeeper.leader(),
        };
        leader.expect("a leader")
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Etcd(etcd) => etcd.len(),
            Self::ZooKeeper(zookeeper) => zookeeper.len(),
        }
    }

    /// The places in a queue, the first first. `name` is a resource whose name needs no encoding.
    pub(crate) async fn places(&self, name: &str) -> Vec<Seen> {
        match self.kind() {
            Kind::Etcd => etcd_places(&self.addresses(), name).await,
            Kind::ZooKeeper => zookeeper_places(&self.addresses(), name).await,
        }
    }

    /// Removes a place, as an operator would: revokes its lease, deletes its znode.
    pub(crate) async fn remove(&self, place: &Seen) {
        match self.kind() {
            Kind::Etcd => revoke(&self.addresses(), &place.handle).await,
            Kind::ZooKeeper => delete(&self.addresses(), &place.handle).await,
        }
    }

    /// Waits until so many are in a queue.
    pub(crate) async fn until_places(&self, name: &str, count: usize) {
        let watch = Stopwatch::start();
        loop {
            let places = self.places(name).await;
            if places.len() == count {
                return;
            }
            assert!(watch.elapsed() < SOON, "{count} places expected, seen after {SOON:?}: {places:?}");
            tokio::time::sleep(ms(20)).await;
        }
    }
}

/// The service behind a proxy before its only member.
pub(crate) struct Proxied {
    pub(crate) service: Service,
    pub(crate) proxy: Proxy,
}

impl Proxied {
    pub(crate) fn start(kind: Kind) -> Self {
        let service = Service::start(kind, 1);
        let target: SocketAddr = service.addresses()[0].parse().expect("an address");
        Self { service, proxy: Proxy::to(target) }
    }

    pub(crate) fn locks(&self) -> DistributedLock {
        let builder = self.service.kind().builder(&[self.proxy.addr().to_string()]);
        builder.patience(ms(500)).build().expect("a lock")
    }
}

/// Acquires what should be free or become so.
pub(crate) async fn acquire(locks: &DistributedLock) -> LockGuard {
    locks.acquire(NAME, SOON).await.expect("the lock")
}

pub(crate) async fn release(guard: LockGuard) {
    let Released { outcome, .. } = guard.release().await;
    assert_eq!(outcome, redfence::lock::ReleaseOutcome::Released);
}

pub(crate) fn token(guard: &LockGuard) -> u64 {
    guard.token().expect("a token").0
}

#[cfg(feature = "etcd")]
async fn etcd(addresses: &[String]) -> etcd_client::Client {
    etcd_client::Client::connect(addresses, None).await.expect("a client")
}

#[cfg(feature = "etcd")]
async fn etcd_places(addresses: &[String], name: &str) -> Vec<Seen> {
    use etcd_client::{GetOptions, SortOrder, SortTarget};
    let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    let listed = etcd(addresses).await.get(format!("redfence/{name}/"), Some(options)).await.expect("a list");
    let seen = |key: &etcd_client::KeyValue| Seen {
        owner: key.value_str().expect("text").to_owned(),
        handle: key.lease().to_string(),
    };
    listed.kvs().iter().map(seen).collect()
}

#[cfg(feature = "etcd")]
async fn revoke(addresses: &[String], handle: &str) {
    let lease = handle.parse().expect("a lease");
    etcd(addresses).await.lease_revoke(lease).await.expect("revoked");
}

#[cfg(not(feature = "etcd"))]
async fn etcd_places(_: &[String], _: &str) -> Vec<Seen> {
    unreachable!("such tests are ignored")
}

#[cfg(not(feature = "etcd"))]
async fn revoke(_: &[String], _: &str) {
    unreachable!("such tests are ignored")
}

#[cfg(feature = "zookeeper")]
async fn zookeeper(addresses: &[String]) -> zookeeper_client::Client {
    zookeeper_client::Client::connect(&addresses.join(",")).await.expect("a client")
}

#[cfg(feature = "zookeeper")]
async fn zookeeper_places(addresses: &[String], name: &str) -> Vec<Seen> {
    let client = zookeeper(addresses).await;
    let folder = format!("/redfence/{name}");
    // What another server has confirmed may not have arrived at this one.
    let _ = client.sync(&folder).await;
    let mut names = match client.list_children(&folder).await {
        Err(zookeeper_client::Error::NoNode) => Vec::new(),
        names => names.expect("a list"),
    };
    let number = |name: &String| name.split_once('-').expect("a sequence number").1.to_owned();
    names.sort_by_key(number);
    let seen = |name: String| Seen {
        owner: name.split_once('-').expect("an owner").0.to_owned(),
        handle: format!("{folder}/{name}"),
    };
    names.into_iter().map(seen).collect()
}

#[cfg(feature = "zookeeper")]
async fn delete(addresses: &[String], handle: &str) {
    zookeeper(addresses).await.delete(handle, None).await.expect("deleted");
}

#[cfg(not(feature = "zookeeper"))]
async fn zookeeper_places(_: &[String], _: &str) -> Vec<Seen> {
    unreachable!("such tests are ignored")
}

#[cfg(not(feature = "zookeeper"))]
async fn delete(_: &[String], _: &str) {
    unreachable!("such tests are ignored")
}

/// Lists cases, each a function of the kind, once for each service: `on_both![one, two]`.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {{
        use $crate::service::Kind;
        use $crate::support::{Live, test_name};
        [Kind::Etcd, Kind::ZooKeeper]
            .into_iter()
            .flat_map(|kind| {
                [$({
                    let name = format!("{}::{}", kind.name(), test_name(module_path!(), stringify!($case)));
                    Live::multi_thread(&name, move || $case(kind)).needing(kind.requirement())
                }),+]
            })
            .collect::<Vec<Live>>()
    }};
}
pub(crate) use on_both;
