//! Connections of the workers to the nodes that can be cut, held up and slowed down: for faults that need nothing of the nodes.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::lock::{ByteStream, Connecting, Connector};

/// What becomes of the bytes between the workers and one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Pass,
    /// Each piece is this much later.
    Delay(Duration),
    /// Kept until the flow changes.
    Hang,
    /// Connections end, and new ones are refused.
    Cut,
}

/// The links of all workers, by the address of the node.
#[derive(Debug)]
pub(super) struct Links {
    flows: HashMap<String, watch::Sender<Flow>>,
}

/// As large as a pipe of the kernel.
const BUFFER: usize = 64 * 1024;

impl Links {
    pub(super) fn to(addresses: &[String]) -> Self {
        let flow = |address: &String| (address.clone(), watch::channel(Flow::Pass).0);
        Self { flows: addresses.iter().map(flow).collect() }
    }

    pub(super) fn set(&self, address: &str, flow: Flow) {
        if let Some(link) = self.flows.get(address) {
            link.send_replace(flow);
        }
    }

    pub(super) fn pass_all(&self) {
        for link in self.flows.values() {
            link.send_replace(Flow::Pass);
        }
    }

    async fn open(&self, address: &str) -> io::Result<Box<dyn ByteStream>> {
        let Some(link) = self.flows.get(address) else {
            return Ok(Box::new(TcpStream::connect(address).await?));
        };
        if *link.borrow() == Flow::Cut {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "cut off by the experiment"));
        }
        let node = TcpStream::connect(address).await?;
        node.set_nodelay(true)?;
        let (worker, end) = tokio::io::duplex(BUFFER);
        tokio::spawn(join(end, node, link.subscribe()));
        Ok(Box::new(worker))
    }
}

impl Connector for Links {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(self.open(address))
    }
}

/// Carries bytes in both directions until one side ends or the link is cut.
async fn join(worker: impl AsyncRead + AsyncWrite, node: TcpStream, mut flow: watch::Receiver<Flow>) {
    let (from_worker, to_worker) = tokio::io::split(worker);
    let (from_node, to_node) = node.into_split();
    let (there, back) = (flow.clone(), flow.clone());
    tokio::select! {
        _ = carry(from_worker, to_node, there) => {}
        _ = carry(from_node, to_worker, back) => {}
        _ = flow.wait_for(|flow| *flow == Flow::Cut) => {}
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        // The links outlive their connections, or all is over.
        let now = flow.wait_for(|flow| *flow != Flow::Hang).await.map(|flow| *flow);
        if let Ok(Flow::Delay(by)) = now {
            tokio::time::sleep(by).await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A server that says everything twice, and a link to it.
    async fn echo() -> (String, Links) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        let links = Links::to(std::slice::from_ref(&address));
        (address, links)
    }

    async fn say(stream: &mut Box<dyn ByteStream>) -> io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn a_cut_link_ends_and_refuses_until_it_passes_again() {
        let (address, links) = echo().await;
        let mut stream = links.open(&address).await.unwrap();
        assert_eq!(say(&mut stream).await.unwrap(), b'x');
        links.set(&address, Flow::Cut);
        assert!(say(&mut stream).await.is_err());
        assert!(links.open(&address).await.is_err());
        links.pass_all();
        assert_eq!(say(&mut links.open(&address).await.unwrap()).await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn a_link_that_hangs_keeps_what_was_said_and_delivers_it_late() {
        let (address, links) = echo().await;
        let mut stream = links.open(&address).await.unwrap();
        links.set(&address, Flow::Hang);
        let silence = tokio::time::timeout(Duration::from_millis(50), say(&mut stream)).await;
        assert!(silence.is_err(), "{silence:?}");
        links.pass_all();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
    }
}
