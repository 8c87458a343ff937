//! `explore` as a user and a script see it.

use std::process::{Command, Output};

fn explore(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_explore")).args(args).output().expect("explore runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_mistyped_name_gets_suggestions_and_exit_2() {
    let scenario = explore(&["trace", "s1-clok-jump", "belief"]);
    assert_eq!(scenario.status.code(), Some(2));
    assert!(text(&scenario.stderr).contains("did you mean s1-clock-jump"), "{}", text(&scenario.stderr));
    let property = explore(&["trace", "s1-clock-jump", "beleif"]);
    assert_eq!(property.status.code(), Some(2));
    assert!(text(&property.stderr).contains("did you mean belief"), "{}", text(&property.stderr));
    assert_eq!(explore(&["check", "nothing-like-it"]).status.code(), Some(2));
    assert_eq!(explore(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn a_check_prints_one_json_document_with_the_fixed_names() {
    let output = explore(&["check", "s1-clock-jump", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "silent when piped");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["ok"], true);
    assert!(document["schema"].is_string());
    let scenario = &document["scenarios"][0];
    assert_eq!(scenario["name"], "s1-clock-jump");
    for field in ["assumptions", "bounds", "states", "depth", "seconds", "properties", "ok"] {
        assert!(!scenario[field].is_null(), "{field}");
    }
    let belief = &scenario["properties"][0];
    let expected = serde_json::json!({
        "name": "belief", "kind": "always", "expected": "violated", "found": "violated", "steps": belief["steps"]
    });
    assert_eq!(*belief, expected);
    assert!(belief["steps"].is_u64());
}

#[test]
fn a_trace_tells_of_locks_step_by_step() {
    let output = explore(&["trace", "s1-clock-jump", "belief"]);
    assert_eq!(output.status.code(), Some(0));
    let story = text(&output.stdout);
    for part in ["A starts: asks every node", "A has the lock", "CLOCK JUMP", "B has the lock"] {
        assert!(story.contains(part), "{part} is not in\n{story}");
    }
    assert!(story.contains("no key, number 0 -> key A's for 3"), "{story}");
}

#[test]
fn what_holds_has_no_trace() {
    let output = explore(&["trace", "fact7-classic", "belief"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("there is no trace"));
}

#[test]
fn the_list_names_every_scenario_once() {
    let output = explore(&["list", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let names: Vec<&str> =
        document["scenarios"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    let lines = text(&explore(&["list"]).stdout);
    assert_eq!(lines.lines().count(), names.len());
    assert!(names.contains(&"fact3-tokens"));
}
