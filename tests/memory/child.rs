//! This binary as another process that uses a store, and is killed.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;

use redfence::memory::{Change, Operation, Store};

use crate::case::{applied, write};
use crate::race::increment;
use crate::subject::{self, Kind, Subject};
use crate::support::Mortal;

const ROLE: &str = "REDFENCE_MEMORY_ROLE";
const PLACE: &str = "REDFENCE_MEMORY_PLACE";

/// Plays the role in the environment, if there is one, and does not return then.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = std::env::var(PLACE).expect("the test names the place");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = subject::open_place(&place).await;
        match role.split_once(' ') {
            Some(("count", times)) => count(&*store, times.parse().expect("a number")).await,
            Some(("go-on", from)) => go_on(store, from.parse().expect("a number")).await,
            _ => panic!("no such role: {role}"),
        }
    });
    std::process::exit(0);
}

async fn count(store: &dyn Store, times: u64) {
    for _ in 0..times {
        increment(store, "sum").await;
    }
}

/// Writes one number after the other, each from the one before and as an operation of its own, and says when it is done.
async fn go_on(store: Arc<dyn Store>, from: u64) {
    for number in from.. {
        let value = number.to_string();
        assert_eq!(write(&*store, "k", step(number, &value)).await, applied(number));
        println!("{number}");
    }
}

/// What [`go_on`] writes.
pub(crate) fn step(number: u64, value: &str) -> Change<'_> {
    Change::set(value.as_bytes()).expecting(number - 1).by(Operation(number.into()))
}

/// Such a process. Dropping it kills it.
pub(crate) struct Child {
    process: Mortal,
    said: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(role: &str, kind: Kind, subject: &Subject) -> Self {
        let this = std::env::current_exe().expect("a path");
        let mut command = Command::new(this);
        command.env(ROLE, role).env(PLACE, subject.place(kind)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Mortal::spawn(&mut command).expect("it starts");
        let said = BufReader::new(process.child().stdout.take().expect("piped")).lines();
        Self { process, said }
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        let line = self.said.next().expect("it goes on").expect("text");
        line.parse().expect("a number")
    }

    /// Waits for its end; the runner bounds that.
    pub(crate) fn succeeds(mut self) {
        let status = self.process.child().wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// SIGKILL, and what it had said until then.
    pub(crate) fn kill(self) -> Option<u64> {
        drop(self.process);
        self.said.map_while(Result::ok).last().and_then(|line| line.parse().ok())
    }
}
