//! Eight agents need the same summary, which a model has to write. One calls the model; the others wait for what it writes.
//!
//! `cargo run --example single_flight` needs no server: the lock's nodes are in this process.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redfence::DistributedLock;
use redfence::memory::recipes::get_or_fill;
use redfence::memory::{InProcessStore, SharedMemory};
use redfence::simulate::EmbeddedCluster;
use tokio::task::JoinSet;

const AGENTS: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = EmbeddedCluster::start(3).await?;
    let locks = DistributedLock::builder().nodes(cluster.urls()).build()?;
    let memory = SharedMemory::new(InProcessStore::default()).with_locks(locks);
    let calls = Arc::new(AtomicU32::new(0));

    let mut agents = JoinSet::new();
    for _ in 0..AGENTS {
        let (memory, calls) = (memory.clone(), Arc::clone(&calls));
        agents.spawn(async move {
            get_or_fill(&memory, "summary/report-7", || {
                let calls = Arc::clone(&calls);
                async move {
                    calls.fetch_add(1, Ordering::Relaxed);
                    // Here the model is called.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Ok::<_, Infallible>(b"seven pages on one lock".to_vec())
                }
            })
            .await
        });
    }
    for summary in agents.join_all().await {
        assert_eq!(summary?, b"seven pages on one lock");
    }
    println!(
        "{AGENTS} agents have the summary; the model was called {} time(s)",
        calls.load(Ordering::Relaxed)
    );
    Ok(())
}
