//! What most live tests begin with.

use std::time::Duration;

use redfence::{DistributedLock, LockBuilder};

use crate::support::{Cluster, Proxy, Stopwatch};

/// The resource of a test: every test has nodes of its own.
pub(crate) const NAME: &str = "invoices/42";

/// Longer than any test: what is gone before was released, and did not expire.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The bound on everything that should happen at once. Generous: the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Patient, and with a long TTL: a busy machine must not decide what a test says.
pub(crate) fn builder<I>(urls: I) -> LockBuilder
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    DistributedLock::builder().nodes(urls).ttl(LONG).patience(Duration::from_secs(5))
}

pub(crate) fn locks(nodes: &Cluster) -> DistributedLock {
    builder(nodes.urls()).build().expect("a lock")
}

/// Nodes with a proxy before each.
pub(crate) struct Proxied {
    pub(crate) nodes: Cluster,
    pub(crate) proxies: Vec<Proxy>,
}

impl Proxied {
    pub(crate) fn start(nodes: usize) -> Self {
        let nodes = Cluster::start(nodes);
        let proxies = nodes.iter().map(Proxy::before).collect();
        Self { nodes, proxies }
    }

    pub(crate) fn builder(&self) -> LockBuilder {
        builder(self.proxies.iter().map(Proxy::url))
    }

    pub(crate) fn locks(&self) -> DistributedLock {
        self.builder().build().expect("a lock")
    }

    pub(crate) fn all(&self, order: impl FnMut(&Proxy)) {
        self.proxies.iter().for_each(order);
    }
}

/// Acquires and releases once: nodes have their epoch, connections are open.
pub(crate) async fn warm(locks: &DistributedLock) {
    let guard = locks.acquire("warm-up", SOON).await.expect("all nodes are up");
    guard.release().await;
    assert!(locks.drain(SOON).await, "the warm-up left something to do");
}

/// A figure worth seeing beside the verdict of a test.
pub(crate) fn measured(row: &str, what: &str, figure: impl std::fmt::Debug) {
    eprintln!("measured {row}: {what} {figure:?}");
}

/// How long something takes.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let watch = Stopwatch::start();
    let done = work.await;
    (done, watch.elapsed())
}
