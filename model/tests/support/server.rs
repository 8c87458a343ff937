//! The page in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it on any port that is free.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// The same with more arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_explore"))
            .args(["serve", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("explore runs");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it listens");
        let address = line.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let address = address.expect("an address").to_owned();
        Self { child, address, _output: output }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
