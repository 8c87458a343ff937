//! The experiment and the tour: what they find is real.
//! Rule R9 of `docs/safety.md`: the counter checks tokens on reads and on writes.

use std::collections::HashSet;

use redfence::simulate::Fault;

use crate::servers::Servers;
use crate::{assert_fields, command, finish, redfence};

#[test]
fn without_a_lock_updates_are_lost_and_nobody_promised_otherwise() {
    let report = redfence(&["simulate", "--strategy", "none", "--runs", "3", "--ops", "400", "--json"])
        .expect(0)
        .json();
    let names = [
        "schema",
        "strategy",
        "workers",
        "ops_per_worker",
        "expected",
        "fault",
        "runs",
        "mean_final",
        "mean_lost",
        "mean_lost_pct",
        "acquire_us",
        "ops_per_s",
    ];
    assert_fields(&report, &names);
    let run = &report["runs"][0];
    let names = [
        "final",
        "lost",
        "wall_ms",
        "acquisitions",
        "retries",
        "conflicts",
        "fenced_rejections",
        "faults_injected",
    ];
    assert_fields(run, &names);
    assert!(report["fault"].is_null() && run["faults_injected"].as_object().unwrap().is_empty(), "{report}");
    assert_fields(&report["acquire_us"], &["p50", "p99"]);
    assert_eq!((&report["expected"], report["runs"].as_array().unwrap().len()), (&1200.into(), 3));
    for run in report["runs"].as_array().unwrap() {
        let (last, lost) = (run["final"].as_i64().unwrap(), run["lost"].as_i64().unwrap());
        assert!(lost > 0 && last + lost == 1200, "{run}");
        assert!(last >= 400, "one worker's own updates cannot all be lost: {run}");
    }
    let runs = report["runs"].as_array().unwrap();
    assert!(runs.iter().any(|run| run["final"] != 400), "nobody ever built on another's update: {report}");
    let lost = report["mean_lost"].as_f64().unwrap();
    let percent = report["mean_lost_pct"].as_f64().unwrap();
    assert!((percent - lost / 12.0).abs() < 0.02, "{report}");
}

#[test]
fn with_a_lock_every_update_counts() {
    for strategy in ["classic", "fenced"] {
        let report = redfence(&["simulate", "--strategy", strategy, "--ops", "100", "--runs", "2", "--json"]);
        let report = report.expect(0).json();
        for run in report["runs"].as_array().unwrap() {
            assert_eq!((&run["final"], &run["lost"]), (&300.into(), &0.into()), "{report}");
            assert!(run["acquisitions"].as_u64().unwrap() >= 300, "{report}");
        }
        assert!(report["acquire_us"]["p50"].as_u64().unwrap() > 0, "{report}");
    }
}

/// A holder that is paused past its lease overwrites what others did, unless the counter checks tokens.
#[test]
fn a_pause_costs_classic_redlock_updates_and_fenced_redlock_none() {
    let run = |strategy: &str, code: i32| {
        let args = ["simulate", "--strategy", strategy, "--fault", "pause", "--ops", "150", "--json"];
        redfence(&args).expect(code).json()["runs"][0].clone()
    };
    let classic = run("classic", 1);
    assert!(classic["lost"].as_i64().unwrap() > 0, "{classic}");
    let fenced = run("fenced", 0);
    assert_eq!(fenced["final"], 450, "{fenced}");
    assert!(
        fenced["fenced_rejections"].as_u64().unwrap() > 0 && fenced["retries"].as_u64().unwrap() > 0,
        "{fenced}"
    );
}

/// Others get the lock beside a holder that believes in it, and rightly so by its own clock.
#[test]
fn a_clock_jump_costs_classic_redlock_updates_and_fenced_redlock_none() {
    let run = |strategy: &str, code: i32| {
        let args = ["simulate", "--strategy", strategy, "--fault", "clock-jump", "--ops", "150", "--json"];
        redfence(&args).expect(code).json()["runs"][0].clone()
    };
    let classic = run("classic", 1);
    assert!(classic["lost"].as_i64().unwrap() > 0, "{classic}");
    let fenced = run("fenced", 0);
    assert_eq!((&fenced["final"], &fenced["faults_injected"]["clock-jump"]), (&450.into(), &3.into()));
    assert!(fenced["fenced_rejections"].as_u64().unwrap() > 0, "{fenced}");
}

#[test]
fn every_fault_strikes_and_is_counted_and_fenced_redlock_loses_nothing() {
    let under = |fault: &str| {
        let args = ["simulate", "--fault", fault, "--ops", "300", "--json"];
        redfence(&args).expect(0).json()
    };
    for fault in Fault::ALL {
        let report = under(fault.name());
        assert_eq!((&report["fault"], &report["mean_final"]), (&fault.name().into(), &900.0.into()));
        let struck = report["runs"][0]["faults_injected"][fault.name()].as_u64();
        assert!(struck >= Some(1), "{report}");
    }
    let mix = under("mix");
    assert_eq!(mix["mean_final"], 900.0);
    assert!(mix["runs"][0]["faults_injected"].as_object().unwrap().len() >= 4, "{mix}");
    assert_eq!(under("delay,pause,delay")["fault"], "pause,delay");
}

#[test]
fn faults_of_links_strike_real_nodes_too_and_faults_of_nodes_do_not() {
    let nodes = Servers::start(3);
    let simulate = |fault: &str| nodes.redfence(&["simulate", "--fault", fault, "--ops", "300", "--json"]);
    for fault in ["partition-majority", "node-hang"] {
        let report = simulate(fault).expect(0).json();
        assert_eq!(report["mean_final"], 900.0);
        assert!(report["runs"][0]["faults_injected"][fault].as_u64() >= Some(1), "{report}");
    }
    for fault in ["node-restart", "node-empty", "clock-jump"] {
        simulate(fault).expect(2).says("these are not in this process; take --nodes embedded:5");
    }
    let mix = simulate("mix").expect(0).json();
    assert_eq!(mix["fault"], "pause,node-hang,partition-minority,partition-majority,delay");
}

#[test]
fn the_counter_may_be_in_redis_and_is_gone_afterwards() {
    let nodes = Servers::start(3);
    let memory = format!("redis:{}", nodes.0[0].url);
    let simulate = |strategy: &str, code: i32| {
        let args = ["simulate", "--strategy", strategy, "--ops", "60", "--memory", &memory, "--json"];
        nodes.redfence(&args).expect(code).json()
    };
    assert!(simulate("none", 0)["mean_lost"].as_f64().unwrap() > 0.0);
    assert_eq!(simulate("classic", 0)["mean_final"], 180.0);
    assert_eq!(simulate("fenced", 0)["mean_final"], 180.0);
    let left: HashSet<String> = nodes.ask(0, &["KEYS", "*"]);
    let expected = ["redfence:node", "redfence:counter:simulation/counter", "redfence-simulation:store"]
        .map(String::from);
    assert_eq!(
        left,
        HashSet::from(expected),
        "only what must stay at a node, and whose tokens the counters compare"
    );
}

#[test]
fn no_update_is_lost_by_version_or_adaptively_in_any_store() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Servers::start(3);
    let stores = [
        "in-process".to_owned(),
        format!("sqlite:{}", folder.path().join("counter.db").display()),
        format!("redis:{}", nodes.0[0].url),
    ];
    for memory in &stores {
        for strategy in ["optimistic", "adaptive", "fenced"] {
            let args = ["simulate", "--strategy", strategy, "--ops", "40", "--memory", memory, "--json"];
            let summary = nodes.redfence(&args).expect(0).json();
            assert_eq!(summary["mean_final"], 120.0, "{strategy} in {memory}: {summary}");
        }
    }
    // Without a lock, and without versions, the same store loses.
    let args = ["simulate", "--strategy", "none", "--ops", "200", "--memory", &stores[1], "--json"];
    assert!(nodes.redfence(&args).expect(0).json()["mean_lost"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_sweep_measures_every_combination_and_is_exact_in_each() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("sweep.svg");
    let args = ["simulate", "--sweep", "--each", "5ms", "--svg", svg.to_str().unwrap(), "--json"];
    let report = redfence(&args).expect(0).json();
    assert_eq!(report["schema"], "redfence.sweep/1");
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3 * 6 * 4 * 3);
    assert!(cells.iter().all(|cell| cell["lost"] == 0 && cell["updates"].as_u64() > Some(0)), "{report}");
    assert_fields(
        &cells[0],
        &[
            "strategy",
            "workers",
            "keys",
            "hold_ms",
            "updates",
            "updates_per_s",
            "conflicts_per_update",
            "locked",
            "p50_ms",
            "p99_ms",
            "lost",
        ],
    );
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("64 keys, work 10 ms"), "{:.200}", drawn);
}

#[test]
fn an_experiment_stops_when_told_and_releases_what_it_holds() {
    let nodes = Servers::start(3);
    let mut long = nodes.command(&["simulate", "--ops", "1000000"]);
    long.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut long = crate::support::Mortal::spawn(&mut long).unwrap();
    let second = std::time::Duration::from_secs(20);
    crate::support::wait_until(second, || {
        nodes.ask::<Option<u64>>(0, &["EXISTS", "redfence:counter:simulation/counter"]) == Some(1)
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(long.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    crate::support::wait_until(second, || long.has_ended());
    assert_eq!(long.child().wait().unwrap().code(), Some(130));
    let left = [0, 1, 2].map(|node| nodes.ask::<Option<String>>(node, &["GET", "simulation/counter"]));
    assert_eq!(left, [None, None, None], "who still holds the lock at each node");
}

#[test]
fn the_tour_needs_no_server_and_tells_what_it_saw() {
    let ran = redfence(&["tour", "--ops", "60", "--seed", "7"]).expect(0);
    for part in ["no lock", "classic Redlock", "fenced Redlock", "180 of 180", "what happened"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {}", ran.stdout);
    }
    ran.says("3 workers share one counter").says("seed 7").says("5 of 5");
    let tour = redfence(&["tour", "--ops", "40", "--json"]).expect(0).json();
    assert_fields(&tour, &["schema", "seed", "stops"]);
    let stops = tour["stops"].as_array().unwrap();
    let seen: Vec<_> = stops.iter().map(|stop| stop["summary"]["strategy"].as_str().unwrap()).collect();
    assert_eq!(seen, ["none", "classic", "fenced", "classic", "fenced"]);
    assert!(stops[0]["summary"]["mean_lost"].as_f64().unwrap() > 0.0, "{tour}");
    assert_eq!(
        (&stops[2]["summary"]["mean_lost"], &stops[4]["summary"]["mean_lost"]),
        (&0.0.into(), &0.0.into())
    );
    assert_eq!(stops[4]["fault"], "pause");
}

#[test]
fn logs_tell_each_event_when_asked_and_only_then() {
    let nodes = Servers::start(3);
    let quiet = nodes.redfence(&["acquire", "quiet"]).expect(0);
    assert!(!quiet.stderr.contains("INFO"), "{}", quiet.stderr);
    let mut loud = command(&["acquire", "loud"]);
    loud.env("REDFENCE_NODES", nodes.urls()).env("RUST_LOG", "redfence=info");
    let loud = finish(loud).expect(0);
    loud.says("acquired").says("kept");
    loud.json();
}
