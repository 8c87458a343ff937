//! Drawings are compared with committed files. `REDFENCE_UPDATE=1 cargo test -p redfence-model --test drawings` writes them anew; look
//! at each before committing it.

use std::path::PathBuf;
use std::process::Command;

use redfence_model::check::Control;
use redfence_model::draw::{Options, svg};
use redfence_model::scenario::{self, Scenario};
use redfence_model::trace::{self, Trace};

fn drawn(name: &str, property: &str) -> Trace {
    let scenario: Scenario = scenario::find(name).expect("a scenario of this name");
    let expect =
        scenario.expect.iter().find(|expect| expect.property.name() == property).expect("a property");
    let path = trace::shortest(&scenario, expect.property, &Control::default()).expect("not ended");
    trace::record(&scenario, &path.expect("a path")).expect("possible")
}

#[test]
fn drawings_are_as_committed() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut stale = Vec::new();
    for (name, property) in [
        ("s3-empty-restart", "belief"),
        ("s1-clock-jump", "damage"),
        ("fact4-fence-on-writes", "damage"),
        ("f3-no-write-back", "token-order"),
        ("l5-dead-holder", "dead-holder"),
    ] {
        let file = folder.join(format!("{name}-{property}.svg"));
        let fresh = svg(&drawn(name, property), Options::default());
        if std::env::var_os("REDFENCE_UPDATE").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            std::fs::write(&file, fresh).expect("the file can be written");
        } else if std::fs::read_to_string(&file).unwrap_or_default() != fresh {
            stale.push(file);
        }
    }
    assert!(stale.is_empty(), "run with REDFENCE_UPDATE=1, then look at: {stale:?}");
}

#[test]
fn nothing_in_a_trace_can_break_out_of_the_drawing() {
    let mut trace = drawn("s3-empty-restart", "belief");
    let evil = "</text><script>alert(\"1\")</script>&amp;'";
    trace.scenario = evil.into();
    trace.shows = evil.into();
    for step in &mut trace.steps {
        step.sentence = evil.into();
        step.marks.iter_mut().for_each(|mark| mark.text = evil.into());
    }
    trace.messages.iter_mut().for_each(|message| message.label = evil.into());
    let link = |_: usize| "\"><script>".to_owned();
    let text = svg(&trace, Options { at: Some(3), link: Some(&link), bare: false });
    assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
}

#[test]
fn a_trace_that_names_nobody_is_still_drawn() {
    let mut trace = drawn("s3-empty-restart", "belief");
    trace.lanes.clear();
    assert!(svg(&trace, Options::default()).contains("</svg>"));
    trace.steps.clear();
    assert!(svg(&trace, Options { at: Some(99), link: None, bare: true }).contains("start"));
}

#[test]
fn the_command_line_draws_the_same_picture_and_says_where_it_cannot() {
    let draw = |file: &str| {
        let args = ["trace", "s3-empty-restart", "belief", "--json", "--svg", file];
        Command::new(env!("CARGO_BIN_EXE_explore")).args(args).output().expect("explore runs")
    };
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("drawn.svg");
    let output = draw(file.to_str().expect("a plain path"));
    assert!(output.status.success());
    let trace: Trace = serde_json::from_slice(&output.stdout).expect("one trace");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), svg(&trace, Options::default()));
    let nowhere = draw("/nowhere/at/all.svg");
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere/at/all.svg"));
}
