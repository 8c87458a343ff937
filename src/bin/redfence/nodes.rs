//! From `--nodes` to a lock.

use redfence::DistributedLock;
use redfence::lock::LockBuilder;
use redfence::lock::error::ConfigError;
use redfence::simulate::{EmbeddedCluster, Strategy};

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;

/// How nodes inside this process are written.
const EMBEDDED: &str = "embedded:";

/// What `--nodes` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// Servers, by URL.
    Urls(Vec<String>),
    /// So many nodes inside this process.
    Embedded(usize),
}

impl Nodes {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        if let Some(number) = text.trim().strip_prefix(EMBEDDED) {
            let wrong = || {
                let what = format!("--nodes {EMBEDDED}{number}: not a number of nodes");
                Failure::new(Exit::Configuration, what).next("write embedded:3 or embedded:5")
            };
            return number.parse().map(Self::Embedded).map_err(|_| wrong());
        }
        let urls: Vec<_> = text.split(',').map(|url| url.trim().to_owned()).collect();
        match urls.iter().all(String::is_empty) {
            true => Err(ConfigError::NoNodes.into()),
            false => Ok(Self::Urls(urls)),
        }
    }

    /// What the user gave, or else `default`.
    pub(crate) fn given(global: &Global, default: Self) -> Result<Self, Failure> {
        global.nodes.as_deref().map_or(Ok(default), Self::parse)
    }
}

/// The URLs of the user's nodes, or of five embedded ones, which live for as long as the second value.
pub(crate) async fn servers(global: &Global) -> Result<(Vec<String>, Option<EmbeddedCluster>), Failure> {
    if global.backend.is_some() {
        let next = "it is for acquire, extend, release, status, agents and the strategies etcd and zookeeper; \
                    leave it out, and REDFENCE_BACKEND";
        return Err(Failure::new(Exit::Usage, "--backend means nothing here").next(next));
    }
    match Nodes::given(global, Nodes::Embedded(5))? {
        Nodes::Urls(urls) => Ok((urls, None)),
        Nodes::Embedded(number) => {
            let cluster = EmbeddedCluster::start(number).await?;
            Ok((cluster.urls(), Some(cluster)))
        }
    }
}

/// The lock on the user's own nodes.
pub(crate) fn lock(global: &Global) -> Result<DistributedLock, Failure> {
    lock_with(global, |builder| builder)
}

/// The same, with more settings.
pub(crate) fn lock_with(
    global: &Global,
    settings: impl FnOnce(LockBuilder) -> LockBuilder,
) -> Result<DistributedLock, Failure> {
    let builder = DistributedLock::builder()
        .mode(global.mode().into())
        .prefix(global.prefix.clone())
        .allow_weak_quorum(global.allow_weak_quorum);
    if let Some(backend) = &global.backend {
        // Both are refused by the builder: neither overrides the other silently.
        let nodes = global.nodes.iter().flat_map(|nodes| nodes.split(','));
        return Ok(settings(on_backend(builder.nodes(nodes), backend)?).build()?);
    }
    let urls = match Nodes::given(global, Nodes::Urls(Vec::new()))? {
        Nodes::Urls(urls) => urls,
        Nodes::Embedded(_) => {
            let what = "embedded nodes end with this command, and every lock in them";
            let next = "start nodes that stay: redfence node --port 7001, and give their URLs with --nodes";
            return Err(Failure::new(Exit::Configuration, what).next(next));
        }
    };
    Ok(settings(builder.nodes(urls)).build()?)
}

/// What `--backend` names.
enum Service {
    Etcd(Vec<String>),
    ZooKeeper(String),
}

impl Service {
    fn parse(backend: &str) -> Result<Self, Failure> {
        match backend.trim().split_once("://") {
            Some(("etcd", members)) => {
                Ok(Self::Etcd(members.split(',').map(|member| format!("http://{}", member.trim())).collect()))
            }
            Some(("zookeeper", connect)) => Ok(Self::ZooKeeper(connect.to_owned())),
            _ => {
                let what = "--backend is neither etcd://.. nor zookeeper://..";
                let next = "write etcd://HOST:PORT,HOST:PORT,.. or zookeeper://HOST:PORT,..[/chroot]";
                Err(Failure::new(Exit::Configuration, what).next(next))
            }
        }
    }
}

fn on_backend(builder: LockBuilder, backend: &str) -> Result<LockBuilder, Failure> {
    Ok(match Service::parse(backend)? {
        Service::Etcd(members) => builder.etcd(members),
        Service::ZooKeeper(connect) => builder.zookeeper(connect),
    })
}

/// The members of etcd or the servers of ZooKeeper, for the strategies that need them.
pub(crate) fn members(global: &Global, strategy: Strategy) -> Result<Option<Vec<String>>, Failure> {
    if !matches!(strategy, Strategy::Etcd | Strategy::ZooKeeper) {
        return Ok(None);
    }
    let given = global.backend.as_deref().map(Service::parse).transpose()?;
    match (strategy, given) {
        (Strategy::Etcd, Some(Service::Etcd(members))) => Ok(Some(members)),
        (Strategy::ZooKeeper, Some(Service::ZooKeeper(connect))) => Ok(Some(vec![connect])),
        _ => {
            let what = format!("strategy {strategy} needs to know where: --backend {strategy}://..");
            let next = format!("write --backend {strategy}://HOST:PORT,HOST:PORT,..");
            Err(Failure::new(Exit::Usage, what).next(next))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_end_is_etcd_or_zookeeper() {
        let builder = |backend| on_backend(DistributedLock::builder(), backend);
        for good in ["etcd://a:1,b:2", "zookeeper://a:1,b:2/chroot"] {
            assert!(builder(good).is_ok(), "{good:?}");
        }
        for wrong in ["", "etcd", "redis://a:1", "consul://a:1"] {
            assert_eq!(builder(wrong).unwrap_err().exit, Exit::Configuration, "{wrong:?}");
        }
    }

    #[test]
    fn nodes_are_urls_or_a_number_of_embedded_ones() {
        assert_eq!(Nodes::parse("embedded:5").unwrap(), Nodes::Embedded(5));
        assert_eq!(Nodes::parse("a, b").unwrap(), Nodes::Urls(vec!["a".to_owned(), "b".to_owned()]));
        for wrong in ["", " , ", "embedded:", "embedded:five", "embedded:-1"] {
            assert_eq!(Nodes::parse(wrong).unwrap_err().exit, Exit::Configuration, "{wrong:?}");
        }
    }
}
