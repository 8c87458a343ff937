//! A TCP proxy in front of one node, whose faults a test switches while connections are open.
//!
//! Own code, because what is needed here is small and the ready-made one lacks the part that matters: `noxious` (the
//! Rust port of Toxiproxy) has no way to keep bytes back and let them go on later, does not count requests, and lets a
//! connection go on after bytes of it were lost, so that a client would take the answer of one request for another's.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::types::{BytesFrame, Resp2Frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc as queue, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Cluster, Port, RedisServer};

/// What becomes of the bytes in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Pass,
    /// Each chunk arrives this much later; order and rate stay.
    Delay(Duration),
    /// Kept until the flow changes, then delivered in order.
    Hold,
    /// Swallowed. As TCP cannot go on behind a gap, the connection is closed when the flow changes.
    Lose,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flows {
    requests: Flow,
    replies: Flow,
}

/// One command that reached the proxy from a client, whether or not it went on to the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// In upper case.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// The proxy. It runs on its own thread until dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: Arc<Port>,
    orders: queue::UnboundedSender<(Order, mpsc::Sender<()>)>,
    log: Log,
    carried: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Flow(Flows),
    /// Close all connections and refuse new ones.
    Cut,
    /// Close all connections, accept new ones.
    Reset,
}

type Log = Arc<Mutex<Vec<Seen>>>;

impl Proxy {
    pub(crate) fn before(server: &RedisServer) -> Self {
        Self::to(server.addr())
    }

    /// One before each node.
    pub(crate) fn before_each(nodes: &Cluster) -> Vec<Self> {
        nodes.iter().map(Self::before).collect()
    }

    /// One that does not note commands: cheaper, for tests that send thousands. See [`Proxy::carried`].
    pub(crate) fn unwatched(server: &RedisServer) -> Self {
        Self::start(server.addr(), false)
    }

    /// A proxy to any address on loopback; bytes pass.
    pub(crate) fn to(target: SocketAddr) -> Self {
        Self::start(target, true)
    }

    fn start(target: SocketAddr, watched: bool) -> Self {
        let port = Arc::new(Port::reserve());
        let log = Log::default();
        let (orders, inbox) = queue::unbounded_channel();
        let carried = Arc::default();
        let note = Note { log: watched.then(|| Arc::clone(&log)), carried: Arc::clone(&carried) };
        let worker = Worker::new(Arc::clone(&port), target, note);
        let thread = std::thread::Builder::new()
            .name(format!("proxy to {target}"))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(worker.run(inbox));
            })
            .expect("a thread");
        let proxy = Self { port, orders, log, carried, thread: Some(thread) };
        proxy.pass();
        proxy
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Sets both directions. The next chunk meets the new flow, and so does what is held or delayed.
    pub(crate) fn set(&self, requests: Flow, replies: Flow) {
        self.order(Order::Flow(Flows { requests, replies }));
    }

    /// No fault. Lets go what was held.
    pub(crate) fn pass(&self) {
        self.set(Flow::Pass, Flow::Pass);
    }

    pub(crate) fn delay(&self, requests: Duration, replies: Duration) {
        self.set(Flow::Delay(requests), Flow::Delay(replies));
    }

    /// Accepts, swallows, never answers.
    pub(crate) fn black_hole(&self) {
        self.set(Flow::Lose, Flow::Lose);
    }

    /// The node does what it is asked; nobody hears of it.
    pub(crate) fn drop_replies(&self) {
        self.set(Flow::Pass, Flow::Lose);
    }

    /// The node hears nothing any more; what it still has to say arrives.
    pub(crate) fn drop_requests(&self) {
        self.set(Flow::Lose, Flow::Pass);
    }

    pub(crate) fn hold_requests(&self) {
        self.set(Flow::Hold, Flow::Pass);
    }

    pub(crate) fn hold_replies(&self) {
        self.set(Flow::Pass, Flow::Hold);
    }

    /// Closes every connection and refuses new ones, until the next call that sets a flow.
    pub(crate) fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Closes every connection once; what was held is lost. New ones are accepted.
    pub(crate) fn reset(&self) {
        self.order(Order::Reset);
    }

    /// The commands that came from clients since the start or the last [`Proxy::forget`], the client's own greeting
    /// (HELLO, CLIENT SETINFO) included.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.log).clone()
    }

    pub(crate) fn forget(&self) {
        lock(&self.log).clear();
    }

    /// How many requests were seen.
    pub(crate) fn requests(&self) -> usize {
        lock(&self.log).len()
    }

    /// How many of them were this command.
    pub(crate) fn requests_of(&self, name: &str) -> usize {
        lock(&self.log).iter().filter(|seen| seen.name.eq_ignore_ascii_case(name)).count()
    }

    /// How many pieces came from clients since the start: requests, or several sent at once.
    pub(crate) fn carried(&self) -> usize {
        self.carried.load(Ordering::Relaxed)
    }

    /// Returns when the order is carried out.
    fn order(&self, order: Order) {
        let (done, wait) = mpsc::channel();
        self.orders.send((order, done)).expect("the proxy runs");
        wait.recv().expect("the proxy carries out its orders");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let (closed, _) = queue::unbounded_channel();
        drop(std::mem::replace(&mut self.orders, closed));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(log: &Log) -> MutexGuard<'_, Vec<Seen>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is noted of requests.
#[derive(Clone)]
struct Note {
    log: Option<Log>,
    carried: Arc<AtomicUsize>,
}

/// What runs on the proxy's thread.
struct Worker {
    port: Arc<Port>,
    target: SocketAddr,
    note: Note,
    flows: watch::Sender<Flows>,
    /// Absent while cut.
    listener: Option<TcpListener>,
    connections: JoinSet<()>,
}

impl Worker {
    fn new(port: Arc<Port>, target: SocketAddr, note: Note) -> Self {
        let (flows, _) = watch::channel(Flows { requests: Flow::Pass, replies: Flow::Pass });
        Self { port, target, note, flows, listener: None, connections: JoinSet::new() }
    }

    /// Ends when the [`Proxy`] is dropped.
    async fn run(mut self, mut orders: queue::UnboundedReceiver<(Order, mpsc::Sender<()>)>) {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => {
                    let Some((order, done)) = order else { return };
                    self.carry_out(order).await;
                    let _ = done.send(());
                }
                client = accept(self.listener.as_ref()) => self.serve(client),
                Some(_) = self.connections.join_next() => {}
            }
        }
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Flow(flows) => {
                self.flows.send_replace(flows);
                self.listen().await;
            }
            Order::Cut => {
                self.listener = None;
                self.connections.shutdown().await;
            }
            Order::Reset => self.connections.shutdown().await,
        }
    }

    async fn listen(&mut self) {
        while self.listener.is_none() {
            match bind(self.port.addr()) {
                Ok(listener) => self.listener = Some(listener),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    fn serve(&mut self, client: TcpStream) {
        let (target, note, flows) = (self.target, self.note.clone(), self.flows.subscribe());
        self.connections.spawn(async move {
            let _ = client.set_nodelay(true);
            let Ok(node) = TcpStream::connect(target).await else { return };
            let _ = node.set_nodelay(true);
            let (from_client, to_client) = client.into_split();
            let (from_node, to_node) = node.into_split();
            let watcher = Watcher { unread: note.log.is_some().then(BytesMut::new), note };
            let requests = pump(from_client, to_node, flows.clone(), |flows| flows.requests, Some(watcher));
            let replies = pump(from_node, to_client, flows, |flows| flows.replies, None);
            // A direction that ended in order leaves the other one to end by itself; a torn one ends both.
            let _ = tokio::try_join!(requests, replies);
        });
    }
}

fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(1024)
}

/// Never, while there is no listener.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}

/// The connection cannot go on.
struct Torn;

/// One direction of one connection: a reader that never waits for the writer, so that held and delayed bytes queue up
/// here and not in the socket of the sender.
async fn pump(
    mut from: OwnedReadHalf,
    to: OwnedWriteHalf,
    flows: watch::Receiver<Flows>,
    which: fn(&Flows) -> Flow,
    mut watcher: Option<Watcher>,
) -> Result<(), Torn> {
    let (send, chunks) = queue::unbounded_channel();
    let read = async move {
        let mut buffer = BytesMut::with_capacity(64 * 1024);
        while from.read_buf(&mut buffer).await.map_err(|_| Torn)? > 0 {
            let bytes = buffer.split().freeze();
            if let Some(watcher) = &mut watcher {
                watcher.note(&bytes);
            }
            if send.send(Chunk { arrived: Instant::now(), bytes }).is_err() {
                return Err(Torn);
            }
        }
        Ok(())
    };
    let deliver = Deliver { to, flows, which, lossy: false, chunks, waiting: VecDeque::new(), ended: false };
    tokio::try_join!(read, deliver.run()).map(|_| ())
}

struct Chunk {
    arrived: Instant,
    bytes: Bytes,
}

/// The writing end of one direction.
struct Deliver {
    to: OwnedWriteHalf,
    flows: watch::Receiver<Flows>,
    which: fn(&Flows) -> Flow,
    /// Whether bytes were swallowed: then nothing may follow them.
    lossy: bool,
    chunks: queue::UnboundedReceiver<Chunk>,
    waiting: VecDeque<Chunk>,
    /// The sender has closed its side.
    ended: bool,
}

impl Deliver {
    async fn run(mut self) -> Result<(), Torn> {
        loop {
            let flow = (self.which)(&self.flows.borrow_and_update());
            if self.lossy && flow != Flow::Lose {
                return Err(Torn);
            }
            self.deliver_due(flow).await?;
            if self.ended && self.waiting.is_empty() {
                return self.to.shutdown().await.map_err(|_| Torn);
            }
            let due = self.due(flow);
            tokio::select! {
                changed = self.flows.changed() => changed.map_err(|_| Torn)?,
                chunk = self.chunks.recv(), if !self.ended => match chunk {
                    Some(chunk) => self.waiting.push_back(chunk),
                    None => self.ended = true,
                },
                () = sleep_until(due) => {}
            }
        }
    }

    async fn deliver_due(&mut self, flow: Flow) -> Result<(), Torn> {
        while let Some(chunk) = self.waiting.front() {
            match flow {
                Flow::Hold => return Ok(()),
                Flow::Delay(by) if chunk.arrived + by > Instant::now() => return Ok(()),
                Flow::Lose => self.lossy = true,
                Flow::Pass | Flow::Delay(_) => self.to.write_all(&chunk.bytes).await.map_err(|_| Torn)?,
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn due(&self, flow: Flow) -> Option<Instant> {
        match (flow, self.waiting.front()) {
            (Flow::Delay(by), Some(chunk)) => Some(chunk.arrived + by),
            _ => None,
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Reads the requests that pass by. What is not the Redis protocol (TLS) is left alone.
struct Watcher {
    note: Note,
    unread: Option<BytesMut>,
}

impl Watcher {
    fn note(&mut self, bytes: &[u8]) {
        self.note.carried.fetch_add(1, Ordering::Relaxed);
        let (Some(unread), Some(log)) = (&mut self.unread, &self.note.log) else { return };
        unread.extend_from_slice(bytes);
        loop {
            match decode_bytes_mut(unread) {
                Ok(Some((BytesFrame::Array(words), ..))) => lock(log).extend(seen(words)),
                Ok(None) => return,
                Ok(Some(_)) | Err(_) => {
                    self.unread = None;
                    return;
                }
            }
        }
    }
}

fn seen(words: Vec<BytesFrame>) -> Option<Seen> {
    let text = |word: BytesFrame| word.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut words = words.into_iter().map_while(text);
    Some(Seen { name: words.next()?.to_uppercase(), arguments: words.collect() })
}
