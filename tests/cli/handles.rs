//! acquire, extend, release, status: a lock that outlives the command.

use crate::assert_fields;
use crate::servers::Servers;
use crate::support::{Mortal, Stopwatch, wait_until};
use std::process::Stdio;
use std::time::Duration;

const FREE_OWNER: &str = "00000000000000000000000000000000";

#[test]
fn a_handle_lasts_after_the_command_and_serves_to_extend_and_release() {
    let nodes = Servers::start(3);
    let handle = nodes.redfence(&["acquire", "jobs/1", "--ttl", "30s", "--json"]).expect(0).json();
    assert_fields(&handle, &["schema", "resource", "owner", "token", "validity_ms", "nodes"]);
    assert_eq!((&handle["schema"], &handle["resource"]), (&"redfence.acquire/1".into(), &"jobs/1".into()));
    assert_eq!(handle["nodes"].as_array().unwrap().len(), 3);
    let validity = handle["validity_ms"].as_u64().unwrap();
    assert!((20_000..30_000).contains(&validity), "{validity}");
    let owner = handle["owner"].as_str().unwrap();
    let keys: Vec<Option<String>> = (0..3).map(|node| nodes.ask(node, &["GET", "jobs/1"])).collect();
    assert!(keys.iter().flatten().all(|key| key == owner) && keys.iter().flatten().count() >= 2, "{keys:?}");

    let extended = nodes.redfence(&["extend", "jobs/1", "--owner", owner, "--ttl", "90s", "--json"]);
    let extended = extended.expect(0).json();
    assert_fields(&extended, &["schema", "resource", "outcome", "validity_ms", "nodes"]);
    assert!(extended["validity_ms"].as_u64().unwrap() > 60_000, "{extended}");

    let released = nodes.redfence(&["release", "jobs/1", "--owner", owner, "--json"]).expect(0).json();
    assert_fields(&released, &["schema", "resource", "outcome", "nodes"]);
    assert_eq!(released["outcome"], "released");
    assert!((0..3).all(|node| nodes.ask::<Option<String>>(node, &["GET", "jobs/1"]).is_none()));

    let next = nodes.redfence(&["acquire", "jobs/1"]).expect(0).json();
    assert!(next["token"].as_u64() > handle["token"].as_u64(), "{next} after {handle}");
}

#[test]
fn classic_mode_gives_no_token() {
    let nodes = Servers::start(3);
    let handle = nodes.redfence(&["--mode", "classic", "acquire", "plain"]).expect(0).json();
    assert!(handle["token"].is_null() && handle["owner"].is_string(), "{handle}");
}

/// B54: an unlock of something that is not held crashed, or said "unlocked" while the key was there.
#[test]
fn b54_releasing_or_extending_what_is_not_held_says_so_and_touches_nothing() {
    let nodes = Servers::start(3);
    nodes.redfence(&["release", "r", "--owner", FREE_OWNER]).expect(79).says("not held");
    let handle = nodes.redfence(&["acquire", "r"]).expect(0).json();
    let owner = handle["owner"].as_str().unwrap();
    nodes.redfence(&["release", "r", "--owner", FREE_OWNER]).expect(79).says("not held");
    nodes.redfence(&["extend", "r", "--owner", FREE_OWNER]).expect(79).says("not held");
    assert_eq!(nodes.ask::<Option<String>>(0, &["GET", "r"]).as_deref(), Some(owner));
    nodes.redfence(&["release", "r", "--owner", owner]).expect(0);
    let again = nodes.redfence(&["release", "r", "--owner", owner, "--json"]).expect(79);
    assert_eq!(again.json()["outcome"], "not held");
}

/// B10: application data under the name of the lock.
#[test]
fn b10_data_that_is_no_lock_is_told_by_every_command_and_left_alone() {
    let nodes = Servers::start(3);
    let owned = ["release", "r", "--owner", FREE_OWNER, "--json"];
    nodes.redfence(&["acquire", "another"]).expect(0);
    (0..3).for_each(|node| assert_eq!(nodes.ask::<u64>(node, &["RPUSH", "r", "data"]), 1));
    nodes.redfence(&["acquire", "r", "--nowait"]).expect(78).says("is not a lock");
    let released = nodes.redfence(&owned).expect(78);
    assert_eq!(released.says("left as it is").json()["outcome"], "not a lock");
    let extended = nodes.redfence(&["extend", "r", "--owner", FREE_OWNER, "--json"]).expect(78);
    assert_eq!(extended.says("it holds a list").json()["outcome"], "not a lock");
    let status = nodes.redfence(&["status", "r", "--json"]).expect(78).says("another resource name").json();
    let state = &status["nodes"][0]["state"];
    assert_eq!((&status["state"], state), (&"not a lock".into(), &"not a lock".into()));
    for node in 0..3 {
        assert_eq!(nodes.ask::<Vec<String>>(node, &["LRANGE", "r", "0", "-1"]), ["data"]);
    }
}

/// B8: "somebody has it" and "redis is down" looked the same.
#[test]
fn b8_a_held_lock_and_dead_nodes_end_differently() {
    let mut nodes = Servers::start(5);
    nodes.redfence(&["acquire", "r", "--ttl", "60s"]).expect(0);
    nodes.redfence(&["acquire", "r", "--nowait"]).expect(75).says("held by another");
    (0..3).for_each(|node| nodes.kill(node));
    nodes.redfence(&["acquire", "other", "--nowait"]).expect(69).says("no quorum");
    nodes.redfence(&["release", "r", "--owner", FREE_OWNER]).expect(69).says("too few nodes");
    nodes.redfence(&["extend", "r", "--owner", FREE_OWNER]).expect(69).says("too few nodes");
    nodes.redfence(&["status", "r"]).expect(69).says("unknown");
    nodes.redfence(&["init"]).expect(69).says("no answer");
}

/// B13: no waiting still waited. B12: a sleep after the last try.
#[test]
fn b12_b13_not_waiting_returns_at_once_and_waiting_ends_in_time() {
    let nodes = Servers::start(3);
    nodes.redfence(&["acquire", "r", "--ttl", "60s"]).expect(0);
    let watch = Stopwatch::start();
    nodes.redfence(&["acquire", "r", "--nowait"]).expect(75).says("1 attempts");
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
    let watch = Stopwatch::start();
    nodes.redfence(&["acquire", "r", "--wait", "700ms"]).expect(75).says("held by another");
    let waited = watch.elapsed();
    assert!(Duration::from_millis(700) <= waited && waited < Duration::from_secs(8), "{waited:?}");
    let watch = Stopwatch::start();
    nodes.redfence(&["acquire", "r", "--wait", "0s"]).expect(75);
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
}

/// B21: a fractional timeout was truncated, or stored so that nobody could read it.
#[test]
fn b21_a_ttl_reaches_the_nodes_exactly_or_is_refused() {
    let nodes = Servers::start(3);
    for (text, millis) in [("1s 500ms", 1_500), ("1.5s", 1_500), ("1000s", 1_000_000), ("40ms", 40)] {
        let handle = nodes.redfence(&["--mode", "classic", "acquire", text, "--ttl", text]).expect(0).json();
        let validity = handle["validity_ms"].as_u64().unwrap();
        assert!(validity <= millis, "{text}: {validity}");
        let left: i64 = nodes.ask(0, &["PTTL", text]);
        assert!(left <= millis as i64 && (millis < 1_000_000 || left > 900_000), "{text}: {left}");
    }
    for text in ["1.5ms", "0.0015s", "1500", "1e3s", "1500us", "0s", "-1s", "60days"] {
        let refused = nodes.redfence(&["acquire", "r", &format!("--ttl={text}")]).expect(2);
        refused.says("--ttl");
    }
    assert_eq!(nodes.ask::<Option<String>>(0, &["GET", "r"]), None);
}

/// B80: "locked?" said no for a lock that another process had.
#[test]
fn b80_status_tells_of_a_lock_that_another_process_holds() {
    let nodes = Servers::start(3);
    let free = nodes.redfence(&["status", "r", "--json"]).expect(0).json();
    assert_eq!((&free["state"], &free["held_on"]), (&"free".into(), &0.into()));
    let handle = nodes.redfence(&["acquire", "r", "--ttl", "60s"]).expect(0).json();
    let status = nodes.redfence(&["status", "r", "--json"]).expect(0).json();
    let names = ["schema", "resource", "state", "owner", "ms_left", "held_on", "needed", "nodes"];
    assert_fields(&status, &names);
    assert_eq!((&status["state"], &status["owner"]), (&"held".into(), &handle["owner"]));
    assert!((1..=60_000).contains(&status["ms_left"].as_u64().unwrap()), "{status}");
    let first = &status["nodes"][0];
    assert_fields(first, &["node", "state", "owner", "ms_left", "number", "epoch", "empty", "error"]);
    assert_eq!(
        (&first["state"], &first["number"], &first["empty"]),
        (&"held".into(), &handle["token"], &false.into())
    );
}

/// B81: the first node that could not be reached made a held lock look free.
#[test]
fn b81_a_lock_is_held_although_the_first_node_is_down() {
    let mut nodes = Servers::start(3);
    nodes.redfence(&["acquire", "r", "--ttl", "60s"]).expect(0);
    nodes.kill(0);
    let status = nodes.redfence(&["status", "r", "--json"]).expect(0).json();
    assert_eq!((&status["state"], &status["nodes"][0]["state"]), (&"held".into(), &"unreachable".into()));
    assert!(status["nodes"][0]["error"].is_string(), "{status}");
}

#[test]
fn a_waiting_command_that_is_stopped_leaves_nothing_behind() {
    let nodes = Servers::start(3);
    let handle = nodes.redfence(&["acquire", "r", "--ttl", "60s"]).expect(0).json();
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let mut waiting = nodes.command(&["acquire", "r"]);
        let waiting = waiting.env("RUST_LOG", "redfence=info").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut waiting = Mortal::spawn(waiting).expect("the binary starts");
        // It has tried, so it is waiting, or about to.
        let mut log = std::io::BufReader::new(waiting.child().stderr.take().expect("stderr is piped"));
        let mut line = String::new();
        while !line.contains("not acquired") {
            line.clear();
            let read = std::io::BufRead::read_line(&mut log, &mut line).expect("a log");
            assert!(read > 0, "it ended before it waited");
        }
        let pid = rustix::process::Pid::from_raw(i32::try_from(waiting.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).expect("it runs");
        wait_until(Duration::from_secs(20), || waiting.has_ended());
        assert_eq!(waiting.child().wait().unwrap().code(), Some(code));
    }
    nodes.redfence(&["release", "r", "--owner", handle["owner"].as_str().unwrap()]).expect(0);
    assert!((0..3).all(|node| nodes.ask::<Option<String>>(node, &["GET", "r"]).is_none()));
}

#[test]
fn a_prefix_makes_another_key() {
    let nodes = Servers::start(3);
    nodes.redfence(&["--prefix", "locks:", "acquire", "r"]).expect(0);
    assert!(nodes.ask::<Option<String>>(0, &["GET", "locks:r"]).is_some());
    nodes.redfence(&["acquire", "r", "--nowait"]).expect(0);
    nodes.redfence(&["acquire", "r", "--nowait", "--prefix", "locks:"]).expect(75);
}
