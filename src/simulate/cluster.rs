//! Embedded nodes on loopback, for experiments without servers.

use crate::lock::error::ConfigError;
use crate::node::{EmbeddedNode, NodeHandle};
use crate::proto::tally::MAX_NODES;

use super::ExperimentError;

/// Nodes inside this process, each on a free port. They end, with all they know, when this is dropped.
#[derive(Debug)]
pub struct EmbeddedCluster {
    nodes: Vec<NodeHandle>,
}

impl EmbeddedCluster {
    /// Starts `number` fresh nodes.
    ///
    /// # Errors
    /// If there are none or too many, or if nobody may listen on loopback.
    pub async fn start(number: usize) -> Result<Self, ExperimentError> {
        match number {
            0 => return Err(ConfigError::NoNodes.into()),
            1..=MAX_NODES => {}
            _ => return Err(ConfigError::TooManyNodes { given: number, most: MAX_NODES }.into()),
        }
        let mut nodes = Vec::with_capacity(number);
        for _ in 0..number {
            nodes.push(EmbeddedNode::default().listen("127.0.0.1:0").await?);
        }
        Ok(Self { nodes })
    }

    /// Their URLs.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(NodeHandle::url).collect()
    }
}
