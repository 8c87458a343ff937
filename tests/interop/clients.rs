//! Other Redlock clients, each as a process that says in JSON lines what it did.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Cluster, Mortal, require_redis};

/// A Python or Node process starts slowly on a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    RedlockPy,
    NodeRedlock4,
    NodeRedlock5,
}

impl Client {
    /// The client and a Redis server to use it on; else what is missing.
    pub(crate) fn require(self) -> Result<(), String> {
        require_redis()?;
        let (what, marker) = match self {
            Self::RedlockPy => ("redlock-py", installed("venv/bin/python")),
            Self::NodeRedlock4 => ("node-redlock 4", installed("node/node_modules/redlock-4")),
            Self::NodeRedlock5 => ("node-redlock 5", installed("node/node_modules/redlock")),
        };
        if marker.exists() {
            return Ok(());
        }
        Err(format!("{what} is not installed ({} is missing): run scripts/test once", marker.display()))
    }

    pub(crate) fn require_all() -> Result<(), String> {
        [Self::RedlockPy, Self::NodeRedlock4, Self::NodeRedlock5].into_iter().try_for_each(Self::require)
    }

    /// Tries once. The process that got the lock keeps it until told otherwise.
    pub(crate) fn try_acquire(self, nodes: &Cluster, resource: &str, ttl: Duration) -> Option<Held> {
        let ttl = ttl.as_millis().to_string();
        let mut process = self.run(nodes, &["acquire", "--resource", resource, "--ttl", &ttl]);
        let answer = process.answer();
        match answer["event"].as_str() {
            Some("acquired") => {
                let value = answer["value"].as_str().expect("a value").to_owned();
                Some(Held { process, value })
            }
            Some("refused") => None,
            _ => panic!("{self:?} says {answer}"),
        }
    }

    /// Asks a fresh process to release what `value` holds, as a foreign client could by mistake.
    pub(crate) fn release(self, nodes: &Cluster, resource: &str, value: &str) -> Value {
        self.run(nodes, &["release", "--resource", resource, "--value", value]).answer()
    }

    fn run(self, nodes: &Cluster, words: &[&str]) -> Process {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let mut command = match self {
            Self::RedlockPy => {
                let mut command = Command::new(installed("venv/bin/python"));
                command.arg(scripts.join("redlock_py.py"));
                command
            }
            Self::NodeRedlock4 | Self::NodeRedlock5 => {
                let mut command = Command::new("node");
                command.arg(scripts.join("node_redlock.mjs")).env("REDFENCE_INTEROP_NODE", installed("node"));
                command
            }
        };
        command.args(words).args(["--nodes", &nodes.urls().join(",")]);
        if let Some(version) = self.version() {
            command.args(["--version", version]);
        }
        Process::start(&mut command)
    }

    fn version(self) -> Option<&'static str> {
        match self {
            Self::RedlockPy => None,
            Self::NodeRedlock4 => Some("4"),
            Self::NodeRedlock5 => Some("5"),
        }
    }
}

/// A lock in the hands of another client. Dropping it ends that client without a release.
pub(crate) struct Held {
    process: Process,
    pub(crate) value: String,
}

impl Held {
    pub(crate) fn release(mut self) {
        self.process.order("release");
        let answer = self.process.answer();
        assert_eq!(answer["event"], "released", "{answer}");
    }
}

struct Process {
    process: Mortal,
    orders: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Mortal::spawn(command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let orders = process.child().stdin.take().expect("stdin is piped");
        let output = BufReader::new(process.child().stdout.take().expect("stdout is piped"));
        let (send, lines) = channel();
        // Ends with the output of the process. A pipe cannot be read with a time limit; a channel can.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { process, orders, lines }
    }

    fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").expect("the client reads its orders");
    }

    fn answer(&mut self) -> Value {
        let line = self.lines.recv_timeout(ANSWER_LIMIT);
        let line = line.unwrap_or_else(|error| panic!("process {}: {error}", self.process.id()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

/// Where `scripts/test` puts the other clients.
fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop").join(path)
}
