//! The counterexamples that are done again in other worlds, as files: each is what the model finds now.
//!
//! `REDFENCE_UPDATE=1 cargo test -p redfence-model --test counterexamples` writes them anew; look at each before committing it.
//! `tests/replay` drives them on real nodes.

use std::path::{Path, PathBuf};

use redfence_model::check::Control;
use redfence_model::scenario::{self, Scenario};
use redfence_model::trace::{self, Trace};

/// Scenario and property of each.
const FILES: &[(&str, &str)] = &[
    ("s1-clock-jump", "belief"),
    ("s3-empty-restart", "belief"),
    ("s8-stopped-clock", "belief"),
    ("s10-pause-after-check", "damage"),
    ("s12-plain-delete", "release-safety"),
    ("fact4-fence-on-writes", "damage"),
    ("fact5-fence", "fence-refuses"),
    ("fact6-empty-node-votes", "token-order"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/counterexamples")
}

fn found(name: &str, property: &str) -> Trace {
    let scenario: Scenario = scenario::find(name).expect("a scenario of this name");
    let expect =
        scenario.expect.iter().find(|expect| expect.property.name() == property).expect("a property");
    let path = trace::shortest(&scenario, expect.property, &Control::default()).expect("not ended");
    trace::record(&scenario, &path.expect("a path")).expect("possible")
}

#[test]
fn every_file_is_what_the_model_finds() {
    let mut stale = Vec::new();
    for &(name, property) in FILES {
        let trace = found(name, property);
        assert!(trace.steps.iter().all(|step| step.does.is_some()), "{name}: steps without their actions");
        let fresh = serde_json::to_string_pretty(&trace).expect("JSON") + "\n";
        let file = folder().join(format!("{name}-{property}.json"));
        if std::env::var_os("REDFENCE_UPDATE").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(folder()).expect("the folder can be made");
            std::fs::write(&file, fresh).expect("the file can be written");
        } else if std::fs::read_to_string(&file).unwrap_or_default() != fresh {
            stale.push(file);
        }
    }
    assert!(stale.is_empty(), "run with REDFENCE_UPDATE=1, then look at: {stale:?}");
    let mut expected: Vec<_> =
        FILES.iter().map(|(name, property)| format!("{name}-{property}.json")).collect();
    expected.sort();
    assert_eq!(present(), expected, "a file that nobody looks after");
}

fn present() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
