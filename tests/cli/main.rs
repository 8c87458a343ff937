//! The real binary, from the outside: what it prints, what it means by its exit codes, what it leaves at the nodes.
//!
//! `words/*.trycmd` hold what a person reads, word for word; `TRYCMD=overwrite cargo test --test cli` writes them anew.

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod bad_input;
mod experiments;
mod handles;
mod nodes;
mod servers;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a command has printed, and how it has ended.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The one JSON document on stdout.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    #[track_caller]
    fn says(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "{part:?} is not in: {}", self.stderr);
        self
    }
}

/// A command with nothing from this test's own environment that could change it.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redfence"));
    for name in ["REDFENCE_NODES", "REDFENCE_NODE_PASSWORD", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

fn finish(mut command: Command) -> Ran {
    let output = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran {
        code: output.status.code().expect("the command ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

fn redfence(args: &[&str]) -> Ran {
    finish(command(args))
}

/// The object has these fields and no others.
#[track_caller]
fn assert_fields(value: &Value, names: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    let found: BTreeSet<_> = object.keys().map(String::as_str).collect();
    assert_eq!(found, names.iter().copied().collect());
}

#[test]
fn help_errors_and_tables_read_as_committed() {
    let cases = trycmd::TestCases::new();
    cases.default_bin_path(env!("CARGO_BIN_EXE_redfence")).case("tests/cli/words/*.trycmd");
}

#[test]
fn the_environment_is_not_shown_in_help() {
    let mut help = command(&["status", "--help"]);
    help.env("REDFENCE_NODES", "redis://:hunter2@10.0.0.1:6379");
    let ran = finish(help).expect(0);
    assert!(
        ran.stdout.contains("[env: REDFENCE_NODES]") && !ran.stdout.contains("hunter2"),
        "{}",
        ran.stdout
    );
}
