//! Input that cannot work: told with the numbers and the next step, before any node is asked.

use crate::{command, finish, redfence};

const OWNER: &str = "00112233445566778899aabbccddeeff";

/// Nobody listens there; a command that cannot work must not come so far.
const THREE: &str = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";

#[test]
fn arguments_that_no_nodes_could_make_work_are_a_matter_of_usage() {
    let long = "x".repeat(2_000);
    let cases: &[(&[&str], &str)] = &[
        (&["acquire", ""], "the resource name is empty"),
        (&["status", ""], "the resource name is empty"),
        (&["acquire", "redfence:node"], "kept for redfence's own keys"),
        (&["acquire", "fence:x", "--prefix", "red"], "kept for redfence's own keys"),
        (&["status", "redfence:counter:x"], "kept for redfence's own keys"),
        (&["acquire", &long], "2000 bytes"),
        (&["acquire", "r", "--ttl", "0s"], "whole number of milliseconds"),
        (&["acquire", "r", "--ttl", "1.5ms"], "whole number of milliseconds"),
        (&["acquire", "r", "--ttl", "1ms"], "leaves no validity"),
        (&["extend", "r", "--owner", OWNER, "--ttl", "2ms"], "leaves no validity"),
        (&["acquire", "r", "--ttl", "30days"], "24 days"),
        (&["acquire", "r", "--nowait", "--wait", "1s"], "cannot be used with"),
        (&["release", "r", "--owner", "me"], "32 lower-case hexadecimal digits"),
        (&["release", "r"], "--owner"),
        (&["aquire", "r"], "a similar subcommand exists: 'acquire'"),
        (
            &["simulate", "--strategy", "redis"],
            "possible values: none, classic, fenced, optimistic, adaptive, etcd, zookeeper",
        ),
        (&["simulate", "--strategy", "zookeper"], "a similar value exists: 'zookeeper'"),
        (&["acquire", "r", "--ttl", "10"], "a number with a unit"),
        (&["simulate", "--mode", "classic"], "choose with --strategy"),
        (&["simulate", "--workers", "0"], "workers 0"),
        (&["simulate", "--ops", "0"], "ops 0"),
        (&["simulate", "--runs", "0"], "runs 0"),
        (&["simulate", "--memory", "files:/tmp/x"], "not known in this build"),
        (&["simulate", "--strategy", "etcd"], "--backend etcd://"),
        (
            &["simulate", "--strategy", "zookeeper", "--backend", "etcd://127.0.0.1:1"],
            "--backend zookeeper://",
        ),
        (&["simulate", "--strategy", "optimistic", "--fault", "pause"], "nothing to strike"),
        (&["simulate", "--svg", "x.svg"], "--sweep"),
        (&["simulate", "--sweep", "--svg", "/nowhere/x.svg"], "cannot be written"),
        (&["simulate", "--strategy", "none", "--fault", "pause"], "nothing to strike under strategy none"),
        (&["simulate", "--fault", "node-crash"], "invalid value 'node-crash'"),
        (
            &["simulate", "--nodes", "embedded:1", "--allow-weak-quorum", "--fault", "node-hang"],
            "1 node(s) have none; take at least 3",
        ),
        (
            &["simulate", "--nodes", "redis://a,unix:///b,redis://c", "--fault", "delay"],
            "node 2 is reached otherwise; take redis://host:port",
        ),
        (&["init", "--floor", "9007199254740992"], "--floor"),
        (&["node", "--port", "99999"], "--port"),
    ];
    for (args, part) in cases {
        let mut command = command(args);
        command.env("REDFENCE_NODES", THREE);
        finish(command).expect(2).says(part);
    }
}

#[test]
fn nodes_that_make_no_quorum_are_a_matter_of_configuration() {
    let cases = [
        ("", "no nodes"),
        (",", "no nodes"),
        ("redis://127.0.0.1:1", "tolerate only 0"),
        ("redis://127.0.0.1:1,redis://127.0.0.1:2", "tolerate only 0"),
        ("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:1", "places 1 and 3"),
        ("redis://127.0.0.1:1,ftp://127.0.0.1:2,redis://127.0.0.1:3", "ftp://127.0.0.1:2"),
        ("redis://127.0.0.1:1,,redis://127.0.0.1:3", "node \"\""),
        ("embedded:3", "end with this command"),
        ("embedded:many", "not a number of nodes"),
    ];
    for (nodes, part) in cases {
        redfence(&["--nodes", nodes, "acquire", "r"]).expect(78).says(part);
    }
    redfence(&["acquire", "r"]).expect(78).says("REDFENCE_NODES");
    for nodes in ["embedded:0", "embedded:2", "embedded:99"] {
        redfence(&["simulate", "--nodes", nodes]).expect(78);
    }
}

#[test]
fn unreachable_nodes_are_told_one_by_one_without_their_passwords() {
    let nodes = "redis://:hunter2@127.0.0.1:1,redis://u:hunter2@127.0.0.1:2,redis://127.0.0.1:3";
    for args in [&["acquire", "r", "--nowait"][..], &["simulate", "--ops", "1"], &["status", "r"], &["init"]]
    {
        let mut all = vec!["--nodes", nodes];
        all.extend_from_slice(args);
        let ran = redfence(&all).expect(69);
        assert!(!ran.stderr.contains("hunter2") && !ran.stdout.contains("hunter2"), "{ran:?}");
    }
    redfence(&["--nodes", nodes, "acquire", "r", "--nowait"]).expect(69).says("127.0.0.1:2");
    let bad = redfence(&["--nodes", "redis://u:hunter2@:x,a,b", "acquire", "r"]).expect(78);
    assert!(!bad.stderr.contains("hunter2"), "{}", bad.stderr);
    let memory = "redis:redis://:hunter2@127.0.0.1:1";
    let ran = redfence(&["simulate", "--strategy", "none", "--ops", "1", "--memory", memory]).expect(69);
    assert!(ran.stderr.contains("127.0.0.1:1") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_no_redis_is_told_on_one_line() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
            });
        }
    });
    let nodes = format!("redis://localhost:{port},redis://127.0.0.1:{port},redis://127.0.0.1:1");
    let ran = redfence(&["--nodes", &nodes, "acquire", "r", "--nowait"]).expect(69);
    ran.says("does not speak the Redis protocol");
    assert_eq!(ran.stderr.lines().filter(|line| !line.starts_with("  next:")).count(), 1, "{}", ran.stderr);
}
