//! The test binary as another process: a client that a test kills or freezes, and that says what it believes.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use redfence::LockGuard;

use super::Mortal;

/// Such a process. Dropping it kills it.
pub(crate) struct Victim {
    process: Mortal,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    /// Starts it. These variables of its environment say what it does.
    pub(crate) fn start(environment: &[(&str, &str)]) -> Self {
        let mut this = Command::new(std::env::current_exe().expect("a path"));
        this.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Mortal::spawn(&mut this).expect("it starts");
        let ask = process.child().stdin.take().expect("piped");
        let answers = BufReader::new(process.child().stdout.take().expect("piped")).lines();
        Self { process, ask, answers }
    }

    /// What a victim that holds a lock does from then on: it says at each line whether it holds it, on this thread and without an
    /// await, so that nothing but the clock can tell.
    pub(crate) fn answer_for(guard: &LockGuard) {
        for line in std::io::stdin().lines() {
            line.expect("a line");
            println!("{}", if guard.is_held() { "holds" } else { "lost" });
        }
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
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }
}
