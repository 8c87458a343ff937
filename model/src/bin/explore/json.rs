//! The documents that `--json` prints.

use std::collections::BTreeMap;

use redfence_model::scenario::{Outcome, Scenario, Size, assumptions, bounds};
use redfence_model::world::Kind;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct List {
    schema: &'static str,
    scenarios: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    shows: &'static str,
    size: &'static str,
    mutant: Option<&'static str>,
    assumptions: BTreeMap<&'static str, String>,
    bounds: BTreeMap<&'static str, String>,
    properties: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Checked {
    schema: &'static str,
    scenarios: Vec<CheckedScenario>,
    peak_memory_kib: Option<u64>,
    ok: bool,
}

#[derive(Serialize)]
pub(crate) struct CheckedScenario {
    name: &'static str,
    assumptions: BTreeMap<&'static str, String>,
    bounds: BTreeMap<&'static str, String>,
    states: u64,
    expected_states: Option<u64>,
    pub(crate) complete: bool,
    generated: u64,
    depth: u64,
    seconds: f64,
    states_per_second: u64,
    pub(crate) properties: Vec<CheckedProperty>,
    pub(crate) ok: bool,
}

#[derive(Serialize)]
pub(crate) struct CheckedProperty {
    pub(crate) name: String,
    kind: &'static str,
    pub(crate) expected: &'static str,
    pub(crate) found: &'static str,
    pub(crate) steps: Option<usize>,
}

pub(crate) fn list(scenarios: &[Scenario]) -> List {
    let listed = |scenario: &Scenario| Listed {
        name: scenario.name,
        shows: scenario.shows,
        size: match scenario.size {
            Size::Quick => "quick",
            Size::Full => "long",
            Size::Open => "open",
        },
        mutant: scenario.mutant,
        assumptions: assumptions(&scenario.settings).into_iter().collect(),
        bounds: bounds(&scenario.settings).into_iter().collect(),
        properties: scenario.expect.iter().map(|expect| expect.property.name()).collect(),
    };
    List { schema: "redfence-explore-list/1", scenarios: scenarios.iter().map(listed).collect() }
}

pub(crate) fn outcomes(outcomes: &[Outcome]) -> Checked {
    Checked {
        schema: "redfence-explore-check/1",
        scenarios: outcomes.iter().map(outcome).collect(),
        peak_memory_kib: redfence_model::report::peak_memory_kib(),
        ok: outcomes.iter().all(Outcome::is_ok),
    }
}

pub(crate) fn outcome(outcome: &Outcome) -> CheckedScenario {
    let properties = outcome.properties.iter().map(|property| CheckedProperty {
        name: property.expect.property.name(),
        kind: match property.expect.property.kind() {
            Kind::Always => "always",
            Kind::Sometimes => "sometimes",
        },
        expected: property.expect.verdict.name(),
        found: property.found.name(),
        steps: property.steps,
    });
    CheckedScenario {
        name: outcome.scenario.name,
        assumptions: assumptions(&outcome.scenario.settings).into_iter().collect(),
        bounds: bounds(&outcome.scenario.settings).into_iter().collect(),
        states: outcome.states,
        expected_states: outcome.scenario.states,
        complete: outcome.complete,
        generated: outcome.generated,
        depth: outcome.depth,
        seconds: outcome.took.as_secs_f64(),
        states_per_second: redfence_model::report::rate(outcome),
        properties: properties.collect(),
        ok: outcome.is_ok(),
    }
}
