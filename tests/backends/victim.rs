//! This binary as another process: a client that a test freezes or kills.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use redfence::DistributedLock;
use rustix::process::{Pid, Signal, kill_process};

use crate::service::{Kind, NAME, SOON, Service};
use crate::support::{Mortal, is_frozen, wait_until};

const ROLE: &str = "REDFENCE_BACKENDS_VICTIM";
const KIND: &str = "REDFENCE_BACKENDS_KIND";
const AT: &str = "REDFENCE_BACKENDS_AT";

/// The TTL that a victim asks for.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// Plays the role in the environment, if there is one, and does not return then.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let kind = match std::env::var(KIND).expect("the test names the kind").as_str() {
        "etcd" => Kind::Etcd,
        _ => Kind::ZooKeeper,
    };
    let at: Vec<_> =
        std::env::var(AT).expect("the test names the place").split(',').map(str::to_owned).collect();
    let locks = kind.builder(&at).ttl(TTL).build().expect("a lock");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        match role.as_str() {
            "waiter" => wait(&locks).await,
            "holder" => hold(&locks, false).await,
            "extender" => hold(&locks, true).await,
            other => panic!("no such role: {other}"),
        }
    });
    std::process::exit(0);
}

/// Waits for the lock, for ever, and says what came of it.
async fn wait(locks: &DistributedLock) {
    println!("waits");
    match locks.on(NAME).acquire().await {
        Ok(guard) => println!("acquired {}", guard.owner()),
        Err(error) => println!("failed {error}"),
    }
}

/// Holds the lock, and says at each line whether it does.
async fn hold(locks: &DistributedLock, extend: bool) {
    let guard = locks.on(NAME).wait(SOON).auto_extend(extend).acquire().await.expect("the lock");
    println!("holds {}", guard.token().map_or(0, |token| token.0));
    // On this thread and without an await: nothing but the clock can tell.
    for line in std::io::stdin().lines() {
        line.expect("a line");
        println!("{}", if guard.is_held() { "holds" } else { "lost" });
    }
}

/// Such a process. Dropping it kills it.
pub(crate) struct Victim {
    process: Mortal,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    /// One that waits in the queue.
    pub(crate) fn waiter(service: &Service) -> Self {
        let mut victim = Self::start("waiter", service);
        assert_eq!(victim.next_line(), "waits");
        victim
    }

    /// One that holds the lock, with or without extending it; and its token.
    pub(crate) fn holder(service: &Service, extend: bool) -> (Self, u64) {
        let mut victim = Self::start(if extend { "extender" } else { "holder" }, service);
        let line = victim.next_line();
        let token = line.strip_prefix("holds ").and_then(|token| token.parse().ok());
        (victim, token.unwrap_or_else(|| panic!("not a holder: {line}")))
    }

    fn start(role: &str, service: &Service) -> Self {
        let this = std::env::current_exe().expect("a path");
        let mut process = Mortal::spawn(
            Command::new(this)
                .env(ROLE, role)
                .env(KIND, service.kind().name())
                .env(AT, service.addresses().join(","))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        )
        .expect("it starts");
        let ask = process.child().stdin.take().expect("piped");
        let answers = BufReader::new(process.child().stdout.take().expect("piped")).lines();
        Self { process, ask, answers }
    }

    /// What the holder believes.
    pub(crate) fn believes(&mut self) -> String {
        self.ask_while_frozen();
        self.next_line()
    }

    /// The question waits in its input when it wakes up.
    pub(crate) fn ask_while_frozen(&mut self) {
        writeln!(self.ask, "well?").expect("the pipe is open");
    }

    pub(crate) fn next_line(&mut self) -> String {
        self.answers.next().expect("it answers").expect("text")
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_until(SOON, || is_frozen(self.process.id()));
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("our own child can be signalled");
    }
}
