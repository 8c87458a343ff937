//! One client's way to one node, on which every lock request and every answer waits until it is let through.
//!
//! The proxies of `tests/support` hold a direction; a replay lets exactly one message of many pass. The client's side of a
//! connection stays open while its node restarts, as with any proxy that pools connections: a request that was on its way then
//! arrives at the node that came back. Greetings and looks at the node record are not steps of any trace and pass at once.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut as decode_request;
use redis_protocol::resp2::types::{BytesFrame, Resp2Frame};
use redis_protocol::resp3::decode::complete::decode_bytes_mut as decode_answer;
use redis_protocol::resp3::types::BytesFrame as AnswerFrame;

use crate::support::Port;
use crate::words::is_lock_request;

/// The bound on what should be there at once.
const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Gate {
    shared: Arc<Shared>,
    port: Port,
}

struct Shared {
    node: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    /// Everything passes.
    open: AtomicBool,
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    held: VecDeque<Held>,
    answers: VecDeque<(Arc<Line>, Bytes)>,
    lines: Vec<Arc<Line>>,
    arrived: usize,
}

/// A request on its way.
struct Held {
    line: Arc<Line>,
    words: Vec<String>,
    frame: Bytes,
}

/// One connection of the client.
struct Line {
    client: Mutex<TcpStream>,
    node: Mutex<Upstream>,
}

/// The node's side of it.
struct Upstream {
    node: SocketAddr,
    stream: Option<TcpStream>,
    unread: BytesMut,
    /// What the client said first: said again on a new connection.
    greeting: Vec<Bytes>,
}

/// What a request was, and what the node answered.
pub(crate) struct Exchange {
    pub(crate) words: Vec<String>,
    pub(crate) answer: AnswerFrame,
}

impl Gate {
    pub(crate) fn before(node: SocketAddr) -> Self {
        let port = Port::reserve();
        let listener = TcpListener::bind(port.addr()).expect("a reserved port");
        let shared = Arc::new(Shared {
            node,
            state: Mutex::default(),
            changed: Condvar::new(),
            open: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accepting.accept(&listener));
        Self { shared, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.port.addr())
    }

    /// How many lock requests have come from the client so far.
    pub(crate) fn arrived(&self) -> usize {
        self.shared.state().arrived
    }

    /// The request that is next to be done, once it is there.
    pub(crate) fn next_request(&self) -> Vec<String> {
        let state = self.shared.wait(|state| !state.held.is_empty(), "a request");
        state.held.front().map(|held| held.words.clone()).unwrap_or_default()
    }

    /// Whether an answer waits for the client.
    pub(crate) fn has_answer(&self) -> bool {
        !self.shared.state().answers.is_empty()
    }

    pub(crate) fn has_request(&self) -> bool {
        !self.shared.state().held.is_empty()
    }

    /// Lets the next request through, in other words if there are any, and keeps the answer back.
    pub(crate) fn execute(&self, instead: Option<&[&str]>) -> Exchange {
        let mut state = self.shared.wait(|state| !state.held.is_empty(), "a request");
        let held = state.held.pop_front().expect("waited for");
        drop(state);
        let frame = instead.map_or(held.frame, encoded);
        let (bytes, answer) = held.line.ask(&frame).expect("the node answers");
        self.shared.state().answers.push_back((held.line, bytes));
        Exchange { words: held.words, answer }
    }

    /// Lets the next answer through.
    pub(crate) fn deliver(&self) {
        let answer = self.shared.state().answers.pop_front();
        let (line, bytes) = answer.expect("an answer waits");
        line.tell(&bytes);
    }

    /// The node's side of every connection is gone.
    pub(crate) fn node_restarted(&self) {
        let lines = self.shared.state().lines.clone();
        lines.iter().for_each(|line| lock(&line.node).hang_up());
    }

    /// Lets everything through, from now on.
    pub(crate) fn open(&self) {
        self.shared.open.store(true, Ordering::SeqCst);
        while self.has_answer() {
            self.deliver();
        }
        while self.has_request() {
            self.execute(None);
            self.deliver();
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for line in self.shared.state().lines.drain(..) {
            let _ = lock(&line.client).shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(self.port.addr()); // wakes the listener
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    #[track_caller]
    fn wait(&self, is_there: impl Fn(&State) -> bool, what: &str) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.state(), SOON, |state| !is_there(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{what} does not come");
        state
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            let shared = Arc::clone(&self);
            std::thread::spawn(move || shared.serve(client));
        }
    }

    /// Until either side has gone.
    fn serve(&self, mut client: TcpStream) -> Option<()> {
        let _ = client.set_nodelay(true);
        let upstream =
            Upstream { node: self.node, stream: None, unread: BytesMut::new(), greeting: Vec::new() };
        let writer = client.try_clone().ok()?;
        let line = Arc::new(Line { client: Mutex::new(writer), node: Mutex::new(upstream) });
        self.state().lines.push(Arc::clone(&line));
        let mut unread = BytesMut::new();
        let mut piece = [0; 16 * 1024];
        loop {
            while let Some((frame, _, raw)) = decode_request(&mut unread).ok()? {
                self.arrives(&line, words(frame)?, raw)?;
            }
            match client.read(&mut piece).ok()? {
                0 => return None,
                length => unread.extend_from_slice(&piece[..length]),
            }
        }
    }

    fn arrives(&self, line: &Arc<Line>, words: Vec<String>, frame: Bytes) -> Option<()> {
        let holds = is_lock_request(&words);
        if holds {
            self.state().arrived += 1;
        }
        if holds && !self.open.load(Ordering::SeqCst) {
            self.state().held.push_back(Held { line: Arc::clone(line), words, frame });
            self.changed.notify_all();
            return Some(());
        }
        let (answer, _) = line.ask(&frame).ok()?;
        if matches!(words[0].as_str(), "HELLO" | "CLIENT" | "SELECT") {
            lock(&line.node).greeting.push(frame);
        }
        line.tell(&answer);
        Some(())
    }
}

impl Line {
    fn ask(&self, frame: &[u8]) -> io::Result<(Bytes, AnswerFrame)> {
        lock(&self.node).ask(frame)
    }

    /// A client that is gone hears nothing.
    fn tell(&self, bytes: &[u8]) {
        let _ = lock(&self.client).write_all(bytes);
    }
}

impl Upstream {
    fn ask(&mut self, frame: &[u8]) -> io::Result<(Bytes, AnswerFrame)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.node)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SOON))?;
            self.stream = Some(stream);
            for word in self.greeting.clone() {
                self.exchange(&word)?;
            }
        }
        self.exchange(frame)
    }

    fn exchange(&mut self, frame: &[u8]) -> io::Result<(Bytes, AnswerFrame)> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(frame)?;
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some((answer, _, raw)) = decode_answer(&mut self.unread).map_err(io::Error::other)? {
                return Ok((raw, answer));
            }
            match stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.unread.extend_from_slice(&piece[..length]),
            }
        }
    }

    fn hang_up(&mut self) {
        self.stream = None;
        self.unread.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name in upper case, then the arguments.
fn words(frame: BytesFrame) -> Option<Vec<String>> {
    let BytesFrame::Array(parts) = frame else { return None };
    let text = |part: &BytesFrame| part.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut words: Vec<String> = parts.iter().map_while(text).collect();
    words.first_mut()?.make_ascii_uppercase();
    Some(words)
}

fn encoded(words: &[&str]) -> Bytes {
    let parts: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{parts}", words.len()).into()
}
