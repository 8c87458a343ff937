//! Embedded nodes on loopback, for experiments without servers; and what an experiment may do to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::lock::clock::{Clock, SystemClock};
use crate::lock::error::ConfigError;
use crate::node::{EmbeddedNode, NodeHandle, NodeOptions};
use crate::proto::tally::MAX_NODES;

use super::ExperimentError;

/// Nodes inside this process, each on a free port. They end, with all they know, when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct EmbeddedCluster {
    nodes: Arc<[Ours]>,
}

#[derive(Debug)]
struct Ours {
    node: EmbeddedNode,
    url: String,
    address: String,
    /// How far its clock is off, in ms.
    offset: Arc<AtomicI64>,
    /// `None` while it is away.
    listening: Mutex<Option<NodeHandle>>,
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
            nodes.push(Ours::start().await?);
        }
        Ok(Self { nodes: nodes.into() })
    }

    /// Their URLs.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|ours| ours.url.clone()).collect()
    }

    /// Ends all connections of a node, and refuses new ones. Its data stay.
    pub(super) async fn take_away(&self, node: usize) {
        if let Some(handle) = self.nodes[node].listening.lock().await.take() {
            handle.shutdown().await;
        }
    }

    /// Lets a node that is away listen again.
    pub(super) async fn bring_back(&self, node: usize) -> Result<(), ExperimentError> {
        let ours = &self.nodes[node];
        let mut listening = ours.listening.lock().await;
        if listening.is_none() {
            *listening = Some(ours.listen_again().await?);
        }
        Ok(())
    }

    /// Makes it a node that lost its data.
    pub(super) fn wipe(&self, node: usize) -> Result<(), ExperimentError> {
        Ok(self.nodes[node].node.wipe()?)
    }

    /// Moves a node's clock.
    pub(super) fn jump(&self, node: usize, millis: i64) {
        self.nodes[node].offset.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Ours {
    /// On the same port, which a stranger's outgoing connection may have for a moment.
    async fn listen_again(&self) -> std::io::Result<NodeHandle> {
        let mut tries = 100;
        loop {
            match self.node.listen(&self.address).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries > 0 => tries -= 1,
                done => return done,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn start() -> Result<Self, ExperimentError> {
        let offset = Arc::new(AtomicI64::new(0));
        let (begun, start, off) =
            (SystemClock::default().unix_micros() / 1_000, Instant::now(), Arc::clone(&offset));
        let clock = move || {
            let passed = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            begun.saturating_add(passed).saturating_add_signed(off.load(Ordering::Relaxed))
        };
        let node = EmbeddedNode::new(&NodeOptions::new().clock(clock))?;
        let handle = node.listen("127.0.0.1:0").await?;
        let (url, address) = (handle.url(), handle.address().to_string());
        Ok(Self { node, url, address, offset, listening: Mutex::new(Some(handle)) })
    }
}
