//! Every quick scenario is found as expected: verdicts, exact numbers of states, exact lengths of shortest traces.

use std::collections::BTreeSet;

use redfence_model::check::Control;
use redfence_model::report;
use redfence_model::scenario::{self, Scenario, Size, Verdict};

fn quick(fits: impl Fn(&Scenario) -> bool) {
    let chosen: Vec<Scenario> =
        scenario::all().into_iter().filter(|s| s.size == Size::Quick && fits(s)).collect();
    assert!(!chosen.is_empty(), "there are such scenarios");
    let mut wrong = Vec::new();
    for scenario in &chosen {
        let outcome = scenario::check(scenario, 2, &Control::default());
        println!("{}", report::line(&outcome));
        if !outcome.is_ok() {
            wrong.push(report::line(&outcome));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

#[test]
fn scenarios_of_the_shipped_protocol_are_found_as_expected() {
    quick(|scenario| scenario.mutant.is_none());
}

#[test]
fn every_wrong_edit_is_caught() {
    quick(|scenario| scenario.mutant.is_some());
}

#[test]
fn there_are_many_wrong_edits_and_each_is_expected_to_do_harm() {
    let edits: Vec<Scenario> = scenario::everything().into_iter().filter(|s| s.mutant.is_some()).collect();
    let names: BTreeSet<_> = edits.iter().filter_map(|scenario| scenario.mutant).collect();
    assert!(names.len() >= 20, "only {} wrong edits", names.len());
    for scenario in edits.into_iter().filter(|scenario| !scenario.name.starts_with("h-")) {
        let harm = |verdict| matches!(verdict, Verdict::Violated | Verdict::Reached);
        assert!(scenario.expect.iter().all(|expect| harm(expect.verdict)), "{}", scenario.name);
    }
}

#[test]
fn names_are_unique_and_every_row_of_the_failure_list_has_one() {
    let names: Vec<&str> = scenario::everything().iter().map(|scenario| scenario.name).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(unique.len(), names.len());
    let rows = (1..=18).map(|row| format!("s{row}-")).chain((1..=6).map(|row| format!("l{row}-")));
    let rows = rows.chain((1..=6).map(|row| format!("f{row}-"))).chain(["s8p-".to_owned()]);
    for row in rows {
        assert!(names.iter().any(|name| name.starts_with(&row)), "no scenario for row {row}");
    }
}
