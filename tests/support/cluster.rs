//! Several independent nodes, as a quorum needs them, and looks at all of them at once.

use std::ops::Index;
use std::time::Duration;

use super::{Condition, Options, RedisServer, wait_until};

/// `n` independent Redis nodes. (Not a Redis Cluster: for that see [`Cluster::shards`].)
///
/// The looks answer one entry per node, in order. A node that the test has stopped or killed cannot be looked at and
/// answers `None`; a running one that does not answer is a failure of the test.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    pub(crate) fn start(nodes: usize) -> Self {
        Self::with(nodes, &Options::default())
    }

    /// All nodes start at once.
    pub(crate) fn with(nodes: usize, options: &Options) -> Self {
        let nodes = std::thread::scope(|scope| {
            let started: Vec<_> =
                (0..nodes).map(|_| scope.spawn(|| RedisServer::with(options.clone()))).collect();
            started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        Self { nodes }
    }

    /// The masters of one Redis Cluster, which share the slots between them: what must *not* be used as nodes.
    pub(crate) fn shards(nodes: usize) -> Self {
        let cluster = Self::with(nodes, &Options::default().cluster());
        let share = 16_384_usize.div_ceil(nodes);
        for (i, node) in cluster.nodes.iter().enumerate() {
            let (first, last) = (i * share, ((i + 1) * share).min(16_384) - 1);
            node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            let first_node = &cluster.nodes[0];
            let (port, bus) = (first_node.addr().port().to_string(), first_node.bus_port().to_string());
            node.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        wait_until(Duration::from_secs(30), || {
            cluster
                .nodes
                .iter()
                .all(|node| node.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        });
        cluster
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, RedisServer> {
        self.nodes.iter()
    }

    /// Asks every running node.
    pub(crate) fn each<T>(&self, mut look: impl FnMut(&RedisServer) -> T) -> Vec<Option<T>> {
        self.nodes.iter().map(|node| (node.condition() == Condition::Running).then(|| look(node))).collect()
    }

    /// The value of `key` at every node; an absent key is `None` as well.
    pub(crate) fn get(&self, key: &str) -> Vec<Option<String>> {
        self.each(|node| node.get(key)).into_iter().map(Option::flatten).collect()
    }

    /// As [`RedisServer::pttl`].
    pub(crate) fn pttl(&self, key: &str) -> Vec<Option<i64>> {
        self.each(|node| node.pttl(key))
    }

    /// Names of the keys that match `pattern`.
    pub(crate) fn keys(&self, pattern: &str) -> Vec<Option<Vec<String>>> {
        self.each(|node| node.keys(pattern))
    }

    /// Whether any running node has `key`.
    pub(crate) fn exists_anywhere(&self, key: &str) -> bool {
        self.count(|node| node.exists(key)) > 0
    }

    /// How many running nodes have `value` at `key`.
    pub(crate) fn count_with(&self, key: &str, value: &str) -> usize {
        self.count(|node| node.get(key).as_deref() == Some(value))
    }

    fn count(&self, look: impl FnMut(&RedisServer) -> bool) -> usize {
        self.each(look).into_iter().filter(|&seen| seen == Some(true)).count()
    }
}

impl Index<usize> for Cluster {
    type Output = RedisServer;

    fn index(&self, node: usize) -> &RedisServer {
        &self.nodes[node]
    }
}

impl<'a> IntoIterator for &'a Cluster {
    type Item = &'a RedisServer;
    type IntoIter = std::slice::Iter<'a, RedisServer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
