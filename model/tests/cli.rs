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

#[test]
fn a_trace_from_a_file_is_told_and_drawn_and_what_is_none_gets_exit_2() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/counterexamples");
    let file = folder.join("s3-empty-restart-belief.json");
    let file = file.to_str().expect("a plain path");
    let told = explore(&["draw", file]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    for part in ["11 steps; violated from step 11: belief", "WIPE 0", "B has the lock"] {
        assert!(text(&told.stdout).contains(part), "{part} is not in\n{}", text(&told.stdout));
    }
    let place = |name: &str| format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    let picture = place("from-file.svg");
    assert_eq!(explore(&["draw", file, "--svg", &picture]).status.code(), Some(0));
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    let committed = include_str!("testdata/s3-empty-restart-belief.svg");
    assert_eq!(drawn, committed, "a file is drawn as the model's own trace is");

    let whole = std::fs::read_to_string(file).expect("a file");
    let far = whole.replacen("\"sent\": 1", "\"sent\": 99", 1);
    let bad = [
        ("no-json", "}", "not JSON"),
        ("no-schema", "{\"steps\": []}", "no `schema`"),
        ("other-schema", "{\"schema\": \"redfence.trace/9\"}", "`redfence.trace/9`"),
        ("too-little", "{\"schema\": \"redfence.trace/1\"}", "missing field"),
        ("far", far.as_str(), "names step 99, but there are 11 steps"),
    ];
    for (name, content, why) in bad {
        let file = place(name);
        std::fs::write(&file, content).expect("written");
        let output = explore(&["draw", &file]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let said = text(&output.stderr);
        assert!(said.contains(why) && said.contains(&file), "{name}: {said}");
        assert_eq!(explore(&["serve", "--port", "0", "--trace", &file]).status.code(), Some(2), "{name}");
    }
    assert_eq!(explore(&["draw", "/nowhere/at/all.json"]).status.code(), Some(2));
}
