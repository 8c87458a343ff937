//! `redfence node` and `redfence init`.

use std::time::Duration;

use crate::servers::{Server, Servers};
use crate::support::wait_until;
use crate::{assert_fields, command, finish, redfence};

#[test]
fn fresh_nodes_start_by_themselves_or_by_the_operator_but_only_once() {
    let nodes = Servers::start(3);
    let started = nodes.redfence(&["init", "--floor", "500", "--json"]).expect(0).json();
    assert_fields(&started, &["schema", "outcome", "floor", "nodes"]);
    let handle = nodes.redfence(&["acquire", "r"]).expect(0).json();
    assert_eq!(handle["token"], 501);
    nodes.redfence(&["init"]).expect(78).says("refused");
    let automatic = Servers::start(3);
    automatic.redfence(&["acquire", "r"]).expect(0);
    automatic.redfence(&["init"]).expect(78).says("refused");
}

#[test]
fn an_empty_node_beside_nodes_in_use_is_shown_and_kept_out() {
    let mut nodes = Servers::start(3);
    nodes.redfence(&["init"]).expect(0);
    nodes.redfence(&["acquire", "r"]).expect(0);
    nodes.0[2] = Server::start(&[]);
    nodes.redfence(&["init"]).expect(78).says("empty are");
    let status = nodes.redfence(&["status", "r", "--json"]).expect(0).json();
    assert_eq!((&status["state"], &status["nodes"][2]["empty"]), (&"held".into(), &true.into()));
    let table = nodes.redfence(&["status", "r"]).expect(0).stdout;
    assert!(
        table.contains("empty node: does not vote") && table.contains("r: held on 2 of 3 nodes"),
        "{table}"
    );
}

#[test]
fn a_node_that_lost_its_data_comes_back_above_every_number() {
    let mut nodes = Servers::start(3);
    nodes.redfence(&["init", "--floor", "40"]).expect(0);
    let first = nodes.redfence(&["acquire", "r"]).expect(0).json();
    nodes.0[2] = Server::start(&[]);
    let done = nodes.redfence(&["readmit", "--json"]).expect(0).json();
    assert_fields(&done, &["schema", "outcome", "admitted", "epoch", "floor"]);
    assert_eq!(done["outcome"], "done");
    let back = nodes.0[2].url.trim_start_matches("redis://");
    assert!(done["admitted"][0].as_str().unwrap().contains(back), "{done}");
    let status = nodes.redfence(&["status", "r", "--json"]).expect(0).json();
    assert_eq!(status["nodes"][2]["empty"], false, "{status}");
    let again = nodes.redfence(&["readmit"]).expect(0);
    assert!(again.stdout.contains("nothing to do"), "{}", again.stdout);
    // Only the node that came back and one other: the token is still larger.
    nodes.redfence(&["release", "r", "--owner", first["owner"].as_str().unwrap()]).expect(0);
    nodes.kill(0);
    let second = nodes.redfence(&["acquire", "r"]).expect(0).json();
    assert!(second["token"].as_u64() > first["token"].as_u64(), "{first} {second}");
    // Who does not answer may have its numbers still; once both are empty, there are too few to learn them from.
    nodes.0[1] = Server::start(&[]);
    nodes.redfence(&["readmit"]).expect(69).says("no agreement from");
    nodes.0[0] = Server::start(&[]);
    nodes.redfence(&["readmit"]).expect(69).says("too few nodes still have their numbers");
}

#[test]
fn a_first_start_that_died_half_way_shows_who_was_left_out() {
    let nodes = Servers::start(3);
    for place in 0..2 {
        let record = ["HSET", "redfence:node", "epoch", "1", "floor", "7", "high", "7"];
        assert_eq!(nodes.ask::<u64>(place, &record), 3);
    }
    // Two have an epoch and are a quorum; from the first grant on nobody can tell whether the third has lost data.
    assert_eq!(nodes.redfence(&["acquire", "r"]).expect(0).json()["token"], 8);
    let table = nodes.redfence(&["status", "r"]).expect(0).stdout;
    let left_out = nodes.0[2].url.trim_start_matches("redis://");
    let line = table.lines().find(|line| line.contains(left_out)).unwrap();
    assert!(line.contains("empty node: does not vote"), "{table}");
    let empty: Option<String> = nodes.ask(2, &["HGET", "redfence:node", "epoch"]);
    assert_eq!(empty, None);
    nodes.redfence(&["init"]).expect(78).says(left_out);
}

#[test]
fn a_node_keeps_its_log_and_its_password_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("node.aof").display().to_string();
    let mut node = Server::start(&["--aof", &log, "--password", "hunter2"]);
    let with_password = node.url.replace("redis://", "redis://:hunter2@");
    let one = |url: &str, args: &[&str]| {
        let mut all = vec!["--allow-weak-quorum", "--nodes", url];
        all.extend_from_slice(args);
        redfence(&all)
    };
    let refused = one(&node.url, &["acquire", "r"]).expect(78);
    refused.says("authentication failed");
    let wrong = one(&node.url.replace("redis://", "redis://:letmein@"), &["acquire", "r"]).expect(78);
    assert!(!wrong.stderr.contains("letmein"), "{}", wrong.stderr);
    let handle = one(&with_password, &["acquire", "r", "--ttl", "600s"]).expect(0);
    assert!(!handle.stdout.contains("hunter2"), "{}", handle.stdout);

    let pid = rustix::process::Pid::from_raw(i32::try_from(node.process.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_until(Duration::from_secs(20), || node.process.has_ended());
    assert_eq!(node.process.child().wait().unwrap().code(), Some(0));

    let again = Server::start(&["--aof", &log]);
    let status = one(&again.url, &["status", "r", "--json"]).expect(0).json();
    assert_eq!((&status["state"], &status["owner"]), (&"held".into(), &handle.json()["owner"]));
}

#[test]
fn a_port_in_use_and_a_log_that_is_none_are_told() {
    let node = Server::start(&[]);
    let port = node.url.rsplit(':').next().unwrap();
    redfence(&["node", "--port", port]).expect(78).says("cannot listen on");
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = command(&["node", "--port", "0", "--aof"]);
    damaged.arg(folder.path());
    finish(damaged).expect(78).says("--aof");
}
