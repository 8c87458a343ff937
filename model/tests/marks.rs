//! The model meets what the simulation must meet.

use redfence::marks::Mark;
use redfence_model::scenario::marks::{Met, met};
use redfence_model::scenario::{self, Scenario, Verdict};
use redfence_model::world::{Kind, Property};

/// Scenarios whose expectations the other tests check, and `explore check --all`.
fn is_met(all: &[Scenario], property: Property) -> bool {
    let wanted = match property.kind() {
        Kind::Always => Verdict::Violated,
        Kind::Sometimes => Verdict::Reached,
    };
    let expected = |scenario: &Scenario| {
        scenario.expect.iter().any(|expect| (expect.property, expect.verdict) == (property, wanted))
    };
    all.iter().any(expected)
}

#[test]
fn every_mark_is_met_by_the_model_or_says_why_not() {
    let all: Vec<Scenario> = scenario::all().into_iter().filter(|s| s.mutant.is_none()).collect();
    let mut nowhere = Vec::new();
    for mark in Mark::ALL {
        match met(*mark) {
            Met::Fault(fault) => assert!(is_met(&all, Property::Happens(fault)), "{mark}: {fault:?}"),
            Met::Property(property) => assert!(is_met(&all, property), "{mark}: {property:?}"),
            Met::Scenario(name) => assert!(all.iter().any(|s| s.name == name), "{mark}: no scenario {name}"),
            Met::Everywhere => {}
            Met::Nowhere(why) => nowhere.push(format!("{mark}: {why}")),
        }
    }
    println!("not in the model:\n{}", nowhere.join("\n"));
    assert!(nowhere.len() < Mark::ALL.len() / 8, "{nowhere:?}");
}
