//! What each node said, for errors, logs and the command line.

use std::fmt;
use std::time::Duration;

use crate::proto::NodeId;

/// Why one node did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The request never left: no connection.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The connection broke, or the answer did not come: the node may have done it.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The user may not run a command that the lock needs.
    #[error("a command is denied: {0}; grant it to the user in the node's ACL")]
    Denied(String),
    /// The user name or the password is wrong, or missing.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The node is a shard of a Redis Cluster, and not an independent node.
    #[error("a cluster shard, not an independent node: {0}; give standalone servers")]
    ClusterShard(String),
    /// The node is a replica.
    #[error("a read-only replica: {0}; give masters without failover")]
    Replica(String),
    /// The key holds data that is not a lock. It was not touched.
    #[error("the key is not a lock: {0}; choose another resource name or a prefix")]
    NotALock(String),
    /// The node's own bookkeeping holds something else. It was not touched.
    #[error("damaged bookkeeping: {0}")]
    Damaged(String),
    /// The numbers are used up.
    #[error("fencing tokens exhausted: {0}")]
    Exhausted(String),
    /// The node answered with another error.
    #[error("error: {0}")]
    Other(String),
}

impl NodeError {
    /// Whether trying again later cannot help: somebody must change something.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Unreachable(_) | Self::NoAnswer(_) | Self::Other(_))
    }
}

/// What one node said last.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeAnswer {
    /// It has not answered.
    Silent,
    /// The key is ours there.
    Granted {
        /// The node's number for the resource; 0 in classic mode.
        number: u64,
    },
    /// The key is another's.
    Taken {
        /// How long it lives still, if the node told.
        remaining: Option<Duration>,
    },
    /// The key is not ours (any more).
    NotMine,
    /// The node has its epoch.
    Ready,
    /// The node is empty: fresh, or it lost its data. It does not vote.
    Empty,
    /// The key lives on.
    Extended,
    /// The key is gone.
    Released,
    /// It could not.
    Failed(NodeError),
}

impl fmt::Display for NodeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("no answer yet"),
            Self::Granted { number: 0 } => f.write_str("granted"),
            Self::Granted { number } => write!(f, "granted {number}"),
            Self::Taken { remaining: None } => f.write_str("held by another"),
            Self::Taken { remaining: Some(left) } => write!(f, "held by another for {}ms", left.as_millis()),
            Self::NotMine => f.write_str("not ours"),
            Self::Ready => f.write_str("ready"),
            Self::Empty => f.write_str("empty: fresh, or it lost its data; see `redfence init`"),
            Self::Extended => f.write_str("extended"),
            Self::Released => f.write_str("released"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// One node, and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    /// Its place in the configured list.
    pub node: NodeId,
    /// Its address, without credentials.
    pub address: String,
    /// What it said last.
    pub answer: NodeAnswer,
}

/// What every node said, in the configured order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report(pub Vec<NodeReport>);

impl Report {
    /// How many nodes match.
    pub fn count(&self, test: impl Fn(&NodeAnswer) -> bool) -> usize {
        self.0.iter().filter(|report| test(&report.answer)).count()
    }

    /// The shortest time after which so few nodes are taken that `needed` of them could grant.
    pub(crate) fn free_after(&self, needed: usize) -> Option<Duration> {
        let mut left: Vec<_> = self
            .0
            .iter()
            .filter_map(|report| match report.answer {
                NodeAnswer::Taken { remaining } => remaining,
                _ => None,
            })
            .collect();
        left.sort_unstable();
        let spare = self.0.len().saturating_sub(needed);
        let blocking = left.len().checked_sub(spare + 1)?;
        left.get(blocking).copied()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, report) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "; " };
            write!(f, "{comma}{}: {}", report.address, report.answer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_possible_once_enough_of_the_other_keys_have_expired() {
        let taken = |millis: Option<u64>| NodeAnswer::Taken { remaining: millis.map(Duration::from_millis) };
        let report = |answers: Vec<NodeAnswer>| {
            let line = |(i, answer)| NodeReport { node: NodeId::new(i), address: String::new(), answer };
            Report(answers.into_iter().enumerate().map(line).collect())
        };
        let three = report(vec![
            taken(Some(30)),
            taken(Some(10)),
            taken(Some(20)),
            NodeAnswer::Empty,
            NodeAnswer::Silent,
        ]);
        assert_eq!(
            three.free_after(3),
            Some(Duration::from_millis(10)),
            "one must end: two spare remain taken"
        );
        let all = report(vec![taken(Some(30)), taken(Some(10)), taken(Some(20))]);
        assert_eq!(all.free_after(2), Some(Duration::from_millis(20)));
        assert_eq!(report(vec![taken(None); 3]).free_after(2), None);
    }
}
