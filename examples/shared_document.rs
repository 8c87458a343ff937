//! Three agents add to one document. Each thinks between reading and writing, as a call of a model does, and nothing is lost:
//! under the lock they wait for each other; by version the later ones think again.
//!
//! `cargo run --example shared_document` needs no server: the lock's nodes are in this process.

use std::error::Error;
use std::time::Duration;

use redfence::DistributedLock;
use redfence::memory::{InProcessStore, SharedMemory, Strategy, UpdateError};
use redfence::simulate::EmbeddedCluster;
use tokio::task::JoinSet;

const AGENTS: usize = 3;
const LINES: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = EmbeddedCluster::start(3).await?;
    let locks = DistributedLock::builder().nodes(cluster.urls()).build()?;
    for strategy in [Strategy::Locked, Strategy::Optimistic, Strategy::Adaptive] {
        let memory = SharedMemory::new(InProcessStore::default()).with_locks(locks.clone());
        let mut agents = JoinSet::new();
        for agent in 0..AGENTS {
            agents.spawn(write_lines(memory.clone(), strategy, agent));
        }
        let mut again = 0;
        for written in agents.join_all().await {
            again += written?;
        }
        let document = memory.get("notes/plan").await?.unwrap_or_default();
        let lines = String::from_utf8(document)?.lines().count();
        println!(
            "{strategy:?}: {lines} of {} lines are there, the work was done again {again} times",
            AGENTS * LINES
        );
    }
    Ok(())
}

/// Adds lines, and answers how often it had to think again.
async fn write_lines(memory: SharedMemory, strategy: Strategy, agent: usize) -> Result<u32, UpdateError> {
    let mut again = 0;
    for line in 0..LINES {
        let add = |value: Option<Vec<u8>>| async move {
            let mut text = value.unwrap_or_default();
            // Here the model is called. Whatever it answers was computed from `text`, so `text` must still be what is there.
            tokio::time::sleep(Duration::from_millis(20)).await;
            text.extend(format!("agent {agent} says {line}\n").bytes());
            Ok(text)
        };
        let updated = memory.update("notes/plan", strategy, add).await?;
        again += updated.conflicts + updated.fenced;
    }
    Ok(again)
}
