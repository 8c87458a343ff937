//! `redfence agents`: one process killed and one frozen with a lock in its hands, and every document is there once.
//! Rule R9 of `docs/safety.md`: the store refuses the frozen agent's late write.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::servers::Servers;
use crate::support::{Mortal, wait_until};
use crate::{Ran, assert_fields, finish, redfence};

/// Small and quick; locks live for long enough that a busy machine does not lose them by itself.
const QUICK: [&str; 6] = ["--documents", "30", "--think", "1ms..5ms", "--ttl", "2s"];

fn agents(more: &[&str]) -> Ran {
    let mut args = vec!["agents"];
    args.extend(QUICK);
    args.extend(more);
    redfence(&args)
}

fn sum(report: &Value, field: &str) -> u64 {
    let agents = report["agents"].as_array().expect("agents");
    agents.iter().map(|agent| agent[field].as_u64().expect("a number")).sum()
}

fn count(report: &Value, flag: &str) -> usize {
    report["agents"].as_array().expect("agents").iter().filter(|agent| agent[flag] == true).count()
}

#[track_caller]
fn assert_all_there(report: &Value, expected: u64) {
    let there = serde_json::json!({ "expected": expected, "present": expected, "lost": 0, "doubled": 0 });
    assert_eq!(report["documents"], there, "{report}");
}

#[test]
fn one_is_killed_and_one_is_frozen_and_every_document_is_there_once() {
    let ran = agents(&["--json"]).expect(0);
    let report = ran.json();
    assert_fields(&report, &["schema", "agents", "documents", "refused_late_writes", "wall_ms", "search"]);
    assert_eq!(report["schema"], "redfence.agents/1");
    assert_all_there(&report, 30);
    assert_eq!(report["agents"].as_array().unwrap().len(), 4, "three, and one for the killed one: {report}");
    let fields = ["name", "documents", "conflicts", "retries", "fenced_rejections", "killed", "frozen"];
    report["agents"].as_array().unwrap().iter().for_each(|agent| assert_fields(agent, &fields));
    assert_eq!((count(&report, "killed"), count(&report, "frozen")), (1, 1), "{report}");
    assert_eq!(sum(&report, "documents"), 30, "each was written by one agent: {report}");
    let frozen = report["agents"].as_array().unwrap().iter().find(|agent| agent["frozen"] == true).unwrap();
    assert!(frozen["fenced_rejections"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["refused_late_writes"], 1, "{report}");
    let search = report["search"].as_array().unwrap();
    assert_eq!(search.len(), 5, "{report}");
    search.iter().for_each(|hit| assert_fields(hit, &["key", "distance"]));
    let distances: Vec<_> = search.iter().map(|hit| hit["distance"].as_f64().unwrap()).collect();
    assert!(distances.is_sorted() && distances[0] < 1.4, "{distances:?}");
    assert!(!ran.stderr.contains('\u{1b}'), "no bar where nobody looks: {:?}", ran.stderr);
}

#[test]
fn what_happened_is_told_to_people_too() {
    let ran = agents(&[]).expect(0);
    for part in [
        "is killed as it is about to write",
        "is frozen as it is about to write",
        "is thawed: its lock has ended",
        "refused, a larger one was seen",
        "documents: 30 of 30 present, 0 lost, 0 doubled",
        "late writes refused: 1;",
        "about fencing",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is not in: {}", ran.stdout);
    }
}

#[test]
fn without_strikes_nobody_is_harmed() {
    let report = agents(&["--no-kill", "--no-freeze", "--agents", "2", "--json"]).expect(0).json();
    assert_all_there(&report, 30);
    assert_eq!(report["agents"].as_array().unwrap().len(), 2);
    assert_eq!((count(&report, "killed"), count(&report, "frozen")), (0, 0));
    assert_eq!(report["refused_late_writes"], 0, "{report}");
}

#[test]
fn on_nodes_of_the_users_own_no_lock_is_left() {
    let servers = Servers::start(3);
    let mut args = vec!["agents", "--prefix", "demo:", "--json"];
    args.extend(QUICK);
    let report = servers.redfence(&args).expect(0).json();
    assert_all_there(&report, 30);
    // The killed agent's key lives until its TTL ends.
    wait_until(Duration::from_secs(20), || {
        (0..3).all(|place| servers.ask::<Vec<String>>(place, &["KEYS", "demo:*"]).is_empty())
    });
}

#[test]
fn the_parts_do_it_one_by_one_and_the_file_stays() {
    let servers = Servers::start(3);
    let folder = tempfile::tempdir().unwrap();
    let memory = format!("sqlite:{}", folder.path().join("kept.sqlite").display());
    let part = |name: &'static str, more: &[&str]| {
        let mut args = vec!["agents", name, "--memory", &memory, "--json"];
        args.extend(more);
        servers.redfence(&args)
    };
    part("check", &[]).expect(78).says("redfence agents fill");
    part("work", &["--name", "a"]).expect(78).says("redfence agents fill");
    let filled = part("fill", &["--documents", "12"]).expect(0).json();
    assert_eq!((&filled["documents"], &filled["fresh"]), (&12.into(), &true.into()));
    let checked = part("check", &[]).expect(1).json();
    assert_eq!(
        (&checked["documents"]["lost"], &checked["open_tasks"]),
        (&12.into(), &12.into()),
        "{checked}"
    );
    let again = part("fill", &["--documents", "12"]).expect(0).json();
    assert_eq!(again["fresh"], false);
    part("fill", &["--documents", "13"]).expect(78).says("an earlier run");
    let workers = ["a", "b"].map(|name| {
        let args = ["agents", "work", "--memory", &memory, "--json", "--name", name, "--think", "1ms"];
        let mut worker = servers.command(&args);
        worker.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let mut documents = 0;
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let worked: Value = serde_json::from_slice(&output.stdout).unwrap();
        documents += worked["documents"].as_u64().unwrap();
    }
    assert_eq!(documents, 12);
    let checked = part("check", &[]).expect(0).json();
    assert_fields(&checked, &["schema", "documents", "open_tasks", "search"]);
    assert_all_there(&checked, 12);
    let mut whole = servers.command(&["agents", "--memory", &memory]);
    whole.args(["--documents", "12"]);
    finish(whole).expect(78).says("an earlier run");
}

#[test]
fn the_users_vectors_are_stored_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors.jsonl");
    let line = |key: &str, x: f32, y: f32| {
        serde_json::json!({ "key": key, "text": format!("text of {key}"), "embedding": [x, y] }).to_string()
    };
    let lines = [line("north", 0.0, 1.0), line("east", 1.0, 0.0), line("northish", 0.1, 0.9)];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let args = ["agents", "--vectors", file, "--think", "1ms", "--no-kill", "--no-freeze", "--json"];
    let report = redfence(&args).expect(0).json();
    assert_all_there(&report, 3);
    let keys: Vec<_> = report["search"].as_array().unwrap().iter().map(|hit| &hit["key"]).collect();
    assert_eq!(keys, ["north", "northish", "east"]);
    assert_eq!(report["search"][0]["distance"], 0.0);
    std::fs::write(file, "{\"key\":\"a\"}").unwrap();
    redfence(&args).expect(2).says("vectors, line 1: missing field");
}

#[test]
fn what_cannot_work_is_said_before_anything_is_started() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--agents", "0"], 2, "agents 0: it must be 1 to 64"),
        (&["--agents", "65"], 2, "agents 65"),
        (&["--agents", "1"], 2, "take at least 2 agents"),
        (&["--documents", "0"], 2, "documents 0"),
        (&["--think", "2s..1s"], 2, "write the shorter time first"),
        (&["--think", "fast"], 2, "a number with a unit"),
        (&["--ttl", "1ms"], 2, "leaves no validity"),
        (&["--memory", "/tmp/x"], 2, "write sqlite:PATH"),
        (&["--memory", "sqlite:/nowhere/at/all.sqlite"], 78, "the memory failed"),
        (&["--vectors", "/nowhere"], 2, "cannot be read"),
        (&["--vectors", "/nowhere", "--documents", "3"], 2, "cannot be used with"),
        (&["--mode", "classic"], 2, "fencing tokens"),
        (&["--nodes", "embedded:2"], 78, "tolerate only 0"),
        (
            &["--nodes", "redis://:hunter2@127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"],
            69,
            "no quorum",
        ),
        (&["work", "--memory", "sqlite:/tmp/x", "--name", ""], 2, "a name has"),
        (&["work", "--memory", "sqlite:/tmp/x", "--name", "a"], 78, "no nodes"),
    ];
    for (args, code, part) in cases {
        let mut all = vec!["agents"];
        all.extend_from_slice(args);
        let ran = redfence(&all).expect(*code);
        ran.says(part);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}

/// Processes of this user whose arguments name this file.
fn processes_with(file: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers =
        all.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let names = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(file)
    };
    numbers.filter(names).collect()
}

/// A run that goes on for long, once all its agents are there; its talk is read until the end of the second value. Its locks live
/// for longer than the test: a key that is not given back is seen.
fn long_run(servers: &Servers, memory: &str) -> (Mortal, impl BufRead) {
    let mut run = servers.command(&["agents", "--documents", "400", "--prefix", "demo:", "--memory"]);
    run.arg(format!("sqlite:{memory}")).args([
        "--think",
        "200ms",
        "--ttl",
        "90s",
        "--no-kill",
        "--no-freeze",
    ]);
    run.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Mortal::spawn(&mut run).expect("it starts");
    let (mut said, mut talk) = (String::new(), BufReader::new(run.child().stderr.take().expect("piped")));
    talk.read_line(&mut said).expect("it says what it does");
    assert!(said.contains("3 agents add 400 documents"), "{said:?}");
    wait_until(Duration::from_secs(60), || {
        processes_with(memory).len() == 4 && !servers.ask::<Vec<String>>(0, &["KEYS", "demo:0*"]).is_empty()
    });
    (run, talk)
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_stops_the_run_stops_its_agents_and_no_key_is_left() {
    use rustix::process::{Pid, Signal, kill_process};
    let servers = Servers::start(3);
    let folder = tempfile::tempdir().unwrap();
    // The supervisor itself is killed in the end: its agents are told by their pipes.
    for signal in [Signal::INT, Signal::KILL] {
        let memory = folder.path().join(format!("{}.sqlite", signal.as_raw()));
        let memory = memory.to_str().unwrap();
        let (mut run, _talk) = long_run(&servers, memory);
        kill_process(Pid::from_raw(run.id() as i32).unwrap(), signal).unwrap();
        let status = run.child().wait().unwrap();
        assert_eq!(status.code(), (signal == Signal::INT).then_some(130), "{status}");
        let limit = Duration::from_secs(20);
        wait_until(limit, || processes_with(memory).is_empty());
        for place in 0..3 {
            wait_until(limit, || servers.ask::<Vec<String>>(place, &["KEYS", "demo:*"]).is_empty());
        }
    }
}
