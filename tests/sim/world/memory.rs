//! The guarded memory as a host of its own: its answers can be late, and lost.
//!
//! A line asks, a line answers, in order; the number in front tells a late answer from the one that is waited for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redfence::lock::clock::Clock;
use redfence::memory::{Guarded, Operation, Read, Written};
use redfence::proto::FencingToken;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::io::{ReadHalf, WriteHalf};
use turmoil::net::{TcpListener, TcpStream};

use super::clock::WorkerClock;
use super::gate::{Gate, Gated};
use super::log::{Log, What};
use super::{Host, PORT};

/// How long a worker waits for an answer before it asks again.
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(25);

/// What is asked of the memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    Read,
    Write {
        value: u64,
        /// The version that was read: for the judge; it decides nothing.
        base: u64,
        operation: u128,
    },
}

/// What is said back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Said {
    Value { value: u64, version: u64 },
    Applied,
    Fenced,
}

/// One access, as the memory saw it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Access {
    /// Whose; `None` if that cannot be told.
    pub(crate) from: Option<Host>,
    pub(crate) resource: String,
    pub(crate) ask: Ask,
    pub(crate) token: Option<u64>,
    pub(crate) said: Said,
    /// The version before it.
    pub(crate) version: u64,
    /// A write that had been applied before.
    pub(crate) repeated: bool,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = if self.repeated { " (again)" } else { "" };
        let Self { resource, ask, token, said, version, .. } = self;
        if let Some(from) = self.from {
            write!(f, "{from}: ")?;
        }
        write!(f, "{resource} at version {version}: {ask:?} with token {token:?} -> {said:?}{again}")
    }
}

/// Everything that is kept; outlives a crash of its host.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<BTreeMap<String, Guarded<u64>>>>);

impl Store {
    /// The sum of all counters.
    pub(crate) fn total(&self) -> u64 {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        store.values().filter_map(Guarded::value).sum()
    }

    fn answer(&self, from: Option<Host>, resource: &str, token: Option<u64>, ask: Ask) -> Access {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = store.entry(resource.to_owned()).or_insert_with(|| Guarded::starting_at(0));
        let version = counter.version();
        let shown = token.map(FencingToken);
        let mut repeated = false;
        let said = match ask {
            Ask::Read => match counter.read(shown) {
                Read::Value { value, version } => Said::Value { value, version },
                Read::Missing { version } => Said::Value { value: 0, version },
                Read::Fenced { .. } => Said::Fenced,
            },
            Ask::Write { value, operation, .. } => {
                repeated = counter.has_applied(Operation(operation));
                // The token alone decides: a version would hide a fence that fails.
                match counter.write(value, shown, None, Operation(operation)) {
                    Written::Applied { .. } => Said::Applied,
                    Written::Fenced { .. } => Said::Fenced,
                    other => unreachable!("no version was expected, and yet {other:?}"),
                }
            }
        };
        Access { from, resource: resource.to_owned(), ask, token, said, version, repeated }
    }
}

/// Serves for ever.
pub(super) async fn serve(store: Store, log: Log) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    super::serve_all(&listener, |stream| attend(stream, store.clone(), log.clone())).await
}

async fn attend(stream: TcpStream, store: Store, log: Log) -> std::io::Result<()> {
    let from = turmoil::reverse_lookup(stream.peer_addr()?.ip()).and_then(|name| Host::named(&name));
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let Some((number, resource, token, ask)) = parse(&line) else {
            return Err(std::io::Error::other(format!("not understood: {line}")));
        };
        let access = store.answer(from, resource, token, ask);
        let answer = match access.said {
            Said::Value { value, version } => format!("{number} value {value} {version}\n"),
            Said::Applied => format!("{number} applied\n"),
            Said::Fenced => format!("{number} fenced\n"),
        };
        log.add(Host::Memory, What::Access(access));
        write.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

fn parse(line: &str) -> Option<(u64, &str, Option<u64>, Ask)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (number, resource, token, rest) = match words[..] {
        [number, resource, token, ref rest @ ..] => (number.parse().ok()?, resource, token, rest),
        _ => return None,
    };
    let token = if token == "-" { None } else { Some(token.parse().ok()?) };
    let ask = match rest {
        ["read"] => Ask::Read,
        [value, base, operation] => Ask::Write {
            value: value.parse().ok()?,
            base: base.parse().ok()?,
            operation: operation.parse().ok()?,
        },
        _ => return None,
    };
    Some((number, resource, token, ask))
}

type Stream = Gated<TcpStream>;
type Answers = Lines<BufReader<ReadHalf<Stream>>>;

/// A worker's line to the memory. Asks until it knows.
pub(crate) struct Line {
    gate: Gate,
    clock: Arc<WorkerClock>,
    open: Option<(Answers, WriteHalf<Stream>)>,
    asked: u64,
    /// Answers that did not come.
    pub(crate) unknown: u64,
}

impl Line {
    pub(super) fn new(clock: &Arc<WorkerClock>) -> Self {
        Self { gate: clock.gate.clone(), clock: Arc::clone(clock), open: None, asked: 0, unknown: 0 }
    }

    /// Asks, again and again if need be. A write that is sent again is the same operation: it is not done twice.
    pub(crate) async fn ask(&mut self, resource: &str, token: Option<FencingToken>, ask: &Ask) -> Said {
        let token = token.map_or("-".to_owned(), |token| token.to_string());
        let what = match ask {
            Ask::Read => "read".to_owned(),
            Ask::Write { value, base, operation } => format!("{value} {base} {operation}"),
        };
        loop {
            self.gate.pass().await;
            self.asked += 1;
            let line = format!("{} {resource} {token} {what}\n", self.asked);
            let patience = self.clock.sleep(PATIENCE);
            let answer = tokio::select! {
                biased;
                answer = self.once(&line) => answer.ok(),
                () = patience => None,
            };
            if let Some(said) = answer {
                return said;
            }
            self.unknown += 1;
            self.open = None;
            self.clock.sleep(PAUSE).await;
        }
    }

    async fn once(&mut self, line: &str) -> std::io::Result<Said> {
        if self.open.is_none() {
            let stream = TcpStream::connect((Host::Memory.to_string(), PORT)).await?;
            let (read, write) = tokio::io::split(Gated::new(stream, &self.gate));
            self.open = Some((BufReader::new(read).lines(), write));
        }
        let Some((lines, write)) = &mut self.open else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        write.write_all(line.as_bytes()).await?;
        loop {
            let answer = lines.next_line().await?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            let words: Vec<&str> = answer.split(' ').collect();
            if words[0] != self.asked.to_string() {
                continue;
            }
            let number = |word: &str| word.parse().map_err(std::io::Error::other);
            return match words[1..] {
                ["value", value, version] => {
                    Ok(Said::Value { value: number(value)?, version: number(version)? })
                }
                ["applied"] => Ok(Said::Applied),
                ["fenced"] => Ok(Said::Fenced),
                _ => Err(std::io::Error::other(answer)),
            };
        }
    }
}
