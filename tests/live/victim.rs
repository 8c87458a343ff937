//! This binary as another process: a client that a test kills or freezes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use redfence::DistributedLock;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::Mortal;

const ROLE: &str = "REDFENCE_LIVE_VICTIM";
const NODES: &str = "REDFENCE_LIVE_NODES";

/// Plays the role in the environment, if there is one, and does not return then.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let nodes = std::env::var(NODES).expect("the test names the nodes");
    let locks = DistributedLock::builder().nodes(nodes.split(',')).patience(Duration::from_secs(5));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "locker" => lock_for_ever(&locks.build().expect("a lock")).await,
            "holder" => hold(&locks.build().expect("a lock")).await,
            other => panic!("no such role: {other}"),
        }
    });
    std::process::exit(0);
}

/// Acquires and releases, as fast as it goes.
async fn lock_for_ever(locks: &DistributedLock) {
    println!("starts");
    for i in 0_u64.. {
        let name = format!("resource {}", i % 3);
        let Ok(guard) = locks.on(&name).ttl(Duration::from_secs(2)).try_acquire().await else { continue };
        if i % 2 == 0 {
            let _ = guard.extend(Duration::from_secs(3)).await;
        }
        guard.release().await;
    }
}

/// Holds a lock that extends itself, and says at each line whether it does.
async fn hold(locks: &DistributedLock) {
    let ttl = Duration::from_secs(1);
    let guard = locks.on("held").ttl(ttl).wait(ttl * 20).auto_extend(true).acquire().await.expect("the lock");
    println!("holds");
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
    /// A client that acquires and releases without end.
    pub(crate) fn locker(nodes: &[String]) -> Self {
        let mut victim = Self::start("locker", nodes);
        assert_eq!(victim.next_line(), "starts");
        victim
    }

    /// A client that holds the lock `held` for a second at a time, and extends it.
    pub(crate) fn holder(nodes: &[String]) -> Self {
        let mut victim = Self::start("holder", nodes);
        assert_eq!(victim.next_line(), "holds");
        victim
    }

    fn start(role: &str, nodes: &[String]) -> Self {
        let this = std::env::current_exe().expect("a path");
        let mut process = Mortal::spawn(
            Command::new(this)
                .env(ROLE, role)
                .env(NODES, nodes.join(","))
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
        writeln!(self.ask, "well?").expect("it listens");
        self.next_line()
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// The question waits in its input when it wakes up.
    pub(crate) fn ask_while_frozen(&mut self) {
        writeln!(self.ask, "well?").expect("the pipe is open");
    }

    pub(crate) fn next_line(&mut self) -> String {
        self.answers.next().expect("it answers").expect("text")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("our own child can be signalled");
    }
}
