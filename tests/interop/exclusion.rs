//! This lock and another client's on the same nodes: never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redfence::lock::ReleaseOutcome;
use redfence::lock::error::{AcquireError, ConfigError};
use redfence::{DistributedLock, LockGuard};

use crate::clients::Client;
use crate::support::{Cluster, Stopwatch, eventually};
use crate::{SOON, TTL};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn ours(nodes: &Cluster) -> Result<DistributedLock, ConfigError> {
    // Patience for a busy machine: what is tested here is who may enter, not how fast.
    DistributedLock::builder().nodes(nodes.urls()).ttl(TTL).patience(Duration::from_secs(5)).build()
}

/// Acquired, and heard of at every node: the lock is ours at a quorum, the other grants come a moment later.
async fn acquired(locks: &DistributedLock, nodes: &Cluster) -> Result<LockGuard, AcquireError> {
    let guard = locks.try_acquire("resource").await?;
    let owner = guard.owner().to_string();
    eventually(SOON, || nodes.count_with("resource", &owner) == nodes.len()).await;
    Ok(guard)
}

pub(crate) async fn keeps_us_out(client: Client) -> Outcome {
    let nodes = Cluster::start(3);
    let locks = ours(&nodes)?;
    let held = client.try_acquire(&nodes, "resource", TTL).expect("a free lock");
    let refused = locks.try_acquire("resource").await;
    assert!(matches!(refused, Err(AcquireError::Contended { .. })), "{refused:?}");
    let refused = locks.acquire("resource", Duration::from_millis(300)).await;
    assert!(matches!(refused, Err(AcquireError::Contended { .. })), "{refused:?}");

    assert!(locks.drain(SOON).await);
    assert_eq!(nodes.count_with("resource", &held.value), 3, "our attempts touched its keys");
    held.release();
    assert!(!nodes.exists_anywhere("resource"));
    Ok(())
}

pub(crate) async fn is_kept_out_by_us(client: Client) -> Outcome {
    let nodes = Cluster::start(3);
    let locks = ours(&nodes)?;
    let guard = acquired(&locks, &nodes).await?;
    assert!(client.try_acquire(&nodes, "resource", TTL).is_none(), "a second holder");
    let owner = guard.owner().to_string();
    assert_eq!(nodes.count_with("resource", &owner), 3, "its attempt touched our keys");
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    assert!(locks.drain(SOON).await);
    assert!(client.try_acquire(&nodes, "resource", TTL).is_some());
    Ok(())
}

pub(crate) async fn cannot_release_ours(client: Client) -> Outcome {
    let nodes = Cluster::start(3);
    let locks = ours(&nodes)?;
    let guard = acquired(&locks, &nodes).await?;
    let answer = client.release(&nodes, "resource", "somebody else");
    // redlock-py does not look at what its nodes say.
    let expected = if client == Client::RedlockPy { "released" } else { "refused" };
    assert_eq!(answer["event"], expected, "{answer}");
    assert_eq!(nodes.count_with("resource", &guard.owner().to_string()), 3);
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    Ok(())
}

/// Another client neither rings our bell nor answers with a number: waiting and tokens must do without.
pub(crate) async fn takes_turns_with_us(client: Client) -> Outcome {
    let nodes = Cluster::start(3);
    let locks = ours(&nodes)?;
    let first = locks.try_acquire("resource").await?;
    let token = first.token();
    first.release().await;
    assert!(locks.drain(SOON).await);

    let held = client.try_acquire(&nodes, "resource", TTL).expect("a free lock");
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("resource", SOON).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "two holders");
    held.release();
    let second = waiting.await??;
    assert!(second.token() > token, "{:?} after {token:?}", second.token());
    second.release().await;
    assert!(locks.drain(SOON).await);

    // A client that crashed: its keys end with their TTL, and not before.
    let (ttl, watch) = (Duration::from_secs(2), Stopwatch::start());
    drop(client.try_acquire(&nodes, "resource", ttl).expect("a free lock"));
    let third = locks.acquire("resource", SOON).await?;
    let waited = watch.elapsed();
    assert!(
        waited >= ttl - Duration::from_millis(100),
        "acquired after {waited:?}, before the keys could end"
    );
    third.release().await;
    Ok(())
}

/// All clients at once on one resource; each is inside three times, never two at the same time.
pub(crate) async fn never_two_inside() -> Outcome {
    const ROUNDS: usize = 3;
    let nodes = Arc::new(Cluster::start(3));
    let locks = ours(&nodes)?;
    let inside = Arc::new(AtomicUsize::new(0));

    let others = [Client::RedlockPy, Client::NodeRedlock4, Client::NodeRedlock5].map(|client| {
        let (nodes, inside) = (Arc::clone(&nodes), Arc::clone(&inside));
        tokio::task::spawn_blocking(move || {
            let mut done = 0;
            while done < ROUNDS {
                if let Some(held) = client.try_acquire(&nodes, "resource", TTL) {
                    visit(&inside);
                    held.release();
                    done += 1;
                }
            }
        })
    });
    for _ in 0..ROUNDS {
        let guard = locks.acquire("resource", TTL).await?;
        visit(&inside);
        guard.release().await;
    }
    for other in others {
        other.await?;
    }
    Ok(())
}

fn visit(inside: &AtomicUsize) {
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
    std::thread::sleep(Duration::from_millis(20));
    inside.fetch_sub(1, Ordering::SeqCst);
}
