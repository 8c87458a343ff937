//! Was it right? Looks at the whole log of a world, after its end.
//!
//! `history` gives [`redfence::invariants`], the judge of the model, what it needs; `nodes` holds every answer of a node to the
//! reference of one node; `sessions` runs every attempt's state machine again; `scenes` notes what was met.

pub(crate) mod history;
pub(crate) mod nodes;
mod scenes;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};

use redfence::invariants::Violation;
use redfence::marks::Mark;

use crate::world::World;
use crate::world::log::Entry;

/// What was found.
#[derive(Default)]
pub(crate) struct Findings {
    /// Broken properties.
    pub(crate) violations: Vec<Violation>,
    /// Anything else that must not be: it is never excused.
    pub(crate) problems: Vec<String>,
    pub(crate) marks: BTreeSet<Mark>,
    /// Locks won.
    pub(crate) won: u64,
    /// Answers of nodes that the reference accepts.
    pub(crate) answers_checked: u64,
    /// Inputs of state machines that were run again.
    pub(crate) inputs_replayed: u64,
}

impl Findings {
    /// How often each property was broken.
    pub(crate) fn by_property(&self) -> BTreeMap<&'static str, u64> {
        let mut count = BTreeMap::new();
        for violation in &self.violations {
            *count.entry(violation.property()).or_default() += 1;
        }
        count
    }
}

/// Judges everything that has happened in this world.
pub(crate) fn judge(entries: &[Entry], world: &World) -> Findings {
    let mut findings = Findings::default();
    nodes::check(entries, &mut findings);
    sessions::replay(entries, &mut findings);
    let histories = history::histories(entries, world);
    for history in histories.values() {
        findings.won += history.acquisitions.len() as u64;
        findings.violations.extend(redfence::invariants::judge(history));
    }
    scenes::note(entries, &mut findings);
    findings
}
