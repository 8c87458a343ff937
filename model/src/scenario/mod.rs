//! Named worlds, and what is expected of them.
//!
//! A scenario names its assumptions, its bounds, its expected verdict for each property, the exact number of states where the
//! search is complete, and the exact length of the shortest trace where there is one. Anything else found is an error.

mod describe;
pub mod marks;
mod registry;
mod run;

pub use describe::{assumptions, bounds};
pub use registry::everything;
pub use run::{Outcome, PropertyOutcome, check};
pub(crate) use run::{stops, with_world};

use crate::world::{Property, Settings};

/// A named world with what is expected of it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Begins with the row that it stands for, in lower case.
    pub name: &'static str,
    /// What it shows, in one sentence.
    pub shows: &'static str,
    /// What it is built from.
    pub settings: Settings,
    /// What is expected.
    pub expect: Vec<Expect>,
    /// Exact number of states of the complete search, up to symmetry; `None` if nothing needs a complete search.
    pub states: Option<u64>,
    /// How long it takes.
    pub size: Size,
    /// The name of the wrong edit under which it runs, if any.
    pub mutant: Option<&'static str>,
}

/// All scenarios that are searched to the end, in the order in which they are told.
pub fn all() -> Vec<Scenario> {
    everything().into_iter().filter(|scenario| scenario.size != Size::Open).collect()
}

/// How long a scenario takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Size {
    /// Seconds: part of `cargo test`.
    Quick,
    /// Longer: part of `explore check --all` only.
    Full,
    /// So long that nobody has seen its end: in no table of verdicts. It can be searched by name, until told to stop.
    Open,
}

/// What is expected of one property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expect {
    /// The property.
    pub property: Property,
    /// The verdict.
    pub verdict: Verdict,
    /// Length of the shortest trace, for `Violated` and where it is worth knowing for `Reached`.
    pub steps: Option<usize>,
}

/// What a search says about a property.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// True in every reachable state.
    Holds,
    /// False in some reachable state.
    Violated,
    /// True in some reachable state.
    Reached,
    /// True in no reachable state.
    Unreached,
    /// The search was ended before it could tell.
    Unknown,
}

impl Verdict {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Violated => "violated",
            Self::Reached => "reached",
            Self::Unreached => "unreached",
            Self::Unknown => "unknown",
        }
    }

    /// Whether only a complete search can say so.
    pub const fn needs_all_states(self) -> bool {
        matches!(self, Self::Holds | Self::Unreached)
    }
}

/// The scenario with this name, or names that are like it.
pub fn find(name: &str) -> Result<Scenario, Vec<&'static str>> {
    let all = everything();
    if let Some(scenario) = all.iter().find(|scenario| scenario.name == name) {
        return Ok(scenario.clone());
    }
    Err(similar(name, all.iter().map(|scenario| scenario.name)))
}

/// Up to three names like this one.
pub fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = names
        .map(|other| {
            let starts = other.split('-').next() == Some(name) || other.starts_with(name);
            (if starts { 1.0 } else { strsim::jaro_winkler(name, other) }, other)
        })
        .filter(|(likeness, _)| *likeness > 0.7)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().take(3).map(|(_, name)| name).collect()
}
