//! A node on a TCP address.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EmbeddedNode;

/// A node that listens on a TCP address; see [`EmbeddedNode::listen`].
///
/// Dropping it closes the address and every connection. The data stay with the [`EmbeddedNode`]: listening again is a
/// node that was away for a while.
#[derive(Debug)]
pub struct NodeHandle {
    node: EmbeddedNode,
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl NodeHandle {
    pub(super) async fn new(node: EmbeddedNode, address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        node.state().port = address.port();
        let (stop, tasks) = (node.stop.child_token(), TaskTracker::new());
        tasks.spawn(accept(node.clone(), listener, stop.clone(), tasks.clone()));
        tasks.close();
        Ok(Self { node, address, stop, tasks })
    }

    /// Where it listens, with the port that was chosen if port 0 was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL that Redis clients take.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The node itself.
    pub const fn node(&self) -> &EmbeddedNode {
        &self.node
    }

    /// Returns when it no longer listens and every connection has ended: after a shutdown, or when its log has failed.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
    }

    /// Closes the address and every connection, and waits until that is done.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.stopped().await;
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(node: EmbeddedNode, listener: TcpListener, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                tasks.spawn(attend(node.clone(), stream, peer, stop.clone()));
            }
            Err(error) => {
                // Most likely no file descriptor is left: ask again when some connection may have ended.
                tracing::warn!(%error, "node: a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn attend(node: EmbeddedNode, stream: TcpStream, peer: SocketAddr, stop: CancellationToken) {
    // A reply that waits for more bytes to send would cost the lock its speed; without this option it is only slower.
    let _ = stream.set_nodelay(true);
    if let Err(error) = super::serve::serve(&node, stream, peer.to_string(), &stop).await {
        tracing::debug!(%peer, %error, "node: connection ended");
    }
}
