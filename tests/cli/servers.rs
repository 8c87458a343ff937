//! `redfence node` processes, as many as a test needs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Mortal;
use crate::{Ran, command, finish};

/// One embedded node in a process of its own. Ends with the test.
pub(crate) struct Server {
    pub(crate) process: Mortal,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut node = command(&["node", "--port", "0"]);
        node.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Mortal::spawn(&mut node).expect("the binary starts");
        let stdout = process.child().stdout.take().expect("stdout is piped");
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url).expect("the node tells its URL");
        assert!(url.starts_with("redis://127.0.0.1:"), "{url:?}");
        Self { process, url: url.trim().to_owned() }
    }
}

/// Several of them.
pub(crate) struct Servers(pub(crate) Vec<Server>);

impl Servers {
    pub(crate) fn start(number: usize) -> Self {
        Self((0..number).map(|_| Server::start(&[])).collect())
    }

    pub(crate) fn urls(&self) -> String {
        let urls: Vec<_> = self.0.iter().map(|server| server.url.as_str()).collect();
        urls.join(",")
    }

    /// A command that finds these nodes in its environment.
    pub(crate) fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = command(args);
        command.env("REDFENCE_NODES", self.urls());
        command
    }

    pub(crate) fn redfence(&self, args: &[&str]) -> Ran {
        finish(self.command(args))
    }

    /// Ends the node at this place: connections are refused from now on.
    pub(crate) fn kill(&mut self, place: usize) {
        let server = &mut self.0[place];
        server.process.child().kill().expect("the node can be killed");
        server.process.child().wait().expect("the node ends");
    }

    /// Asks one node in Redis' own words.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, place: usize, words: &[&str]) -> T {
        let client = redis::Client::open(self.0[place].url.as_str()).expect("a URL");
        let mut connection = client.get_connection().expect("the node answers");
        let mut cmd = redis::cmd(words[0]);
        cmd.arg(&words[1..]).query(&mut connection).expect("the node does it")
    }
}
