//! Running a scenario.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Expect, Scenario, Verdict};
use crate::check::{Control, Found, Search, search};
use crate::world::{Kind, Property, State, World};

/// What was found about a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario.
    pub scenario: Scenario,
    /// Each property, expected and found.
    pub properties: Vec<PropertyOutcome>,
    /// States of the complete search, if one was made; else of the longest search.
    pub states: u64,
    /// Whether that search was complete.
    pub complete: bool,
    /// Longest path searched.
    pub depth: u64,
    /// States generated in that search, repetitions counted.
    pub generated: u64,
    /// Time of that search.
    pub search: Duration,
    /// Time of all searches.
    pub took: Duration,
}

/// One property, expected and found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertyOutcome {
    /// What was expected.
    pub expect: Expect,
    /// What was found.
    pub found: Verdict,
    /// Length of the shortest trace, if one was looked for and found.
    pub steps: Option<usize>,
}

impl PropertyOutcome {
    /// Found as expected.
    pub fn is_ok(&self) -> bool {
        let steps = self.expect.steps.is_none() || self.expect.steps == self.steps;
        self.found == self.expect.verdict && steps
    }
}

impl Outcome {
    /// Everything was found as expected, to the state and to the step.
    pub fn is_ok(&self) -> bool {
        self.properties.iter().all(PropertyOutcome::is_ok) && self.states_are_right()
    }

    /// The complete search found exactly as many states as expected.
    pub fn states_are_right(&self) -> bool {
        self.scenario.states.is_none_or(|states| self.complete && states == self.states)
    }
}

/// Picks the world of the scenario's size.
macro_rules! with_world {
    ($settings:expr, $world:ident => $body:expr) => {
        match ($settings.nodes, $settings.clients) {
            (1, 2) => {
                let $world = std::sync::Arc::new($crate::world::World::<1, 2>::new($settings));
                $body
            }
            (3, 1) => {
                let $world = std::sync::Arc::new($crate::world::World::<3, 1>::new($settings));
                $body
            }
            (2, 2) => {
                let $world = std::sync::Arc::new($crate::world::World::<2, 2>::new($settings));
                $body
            }
            (3, 2) => {
                let $world = std::sync::Arc::new($crate::world::World::<3, 2>::new($settings));
                $body
            }
            (3, 3) => {
                let $world = std::sync::Arc::new($crate::world::World::<3, 3>::new($settings));
                $body
            }
            (4, 2) => {
                let $world = std::sync::Arc::new($crate::world::World::<4, 2>::new($settings));
                $body
            }
            (5, 2) => {
                let $world = std::sync::Arc::new($crate::world::World::<5, 2>::new($settings));
                $body
            }
            (nodes, clients) => panic!("no world of {nodes} nodes and {clients} clients"),
        }
    };
}

pub(crate) use with_world;

/// Checks every property of a scenario, on `threads` threads.
///
/// All properties that are expected to hold everywhere, or nowhere, share one complete search: it ends at the first state that
/// contradicts any of them, and then each is searched on its own. Every other property gets its own search.
pub fn check(scenario: &Scenario, threads: usize, control: &Control) -> Outcome {
    let _guard = crate::mutants::apply(scenario.mutant);
    with_world!(scenario.settings, world => check_in(scenario, &world, threads, control))
}

fn check_in<const N: usize, const C: usize>(
    scenario: &Scenario,
    world: &Arc<World<N, C>>,
    threads: usize,
    control: &Control,
) -> Outcome {
    let mut outcome = Outcome {
        scenario: scenario.clone(),
        properties: Vec::new(),
        states: 0,
        complete: false,
        depth: 0,
        generated: 0,
        search: Duration::ZERO,
        took: Duration::ZERO,
    };
    let began = now();
    let (everywhere, some): (Vec<Expect>, Vec<Expect>) =
        scenario.expect.iter().partition(|expect| expect.verdict.needs_all_states());
    let together: Vec<Property> = everywhere.iter().map(|expect| expect.property).collect();
    let all_hold = !together.is_empty() && {
        let found = search(world, Search::Verdict(threads), control, move |world: &World<N, C>, state| {
            together.iter().any(|property| stops(*property, world, state))
        });
        outcome.note(&found, began.elapsed());
        outcome.complete = found.path.is_none() && !found.cut;
        outcome.complete
    };
    for expect in everywhere {
        let found = match all_hold {
            true => PropertyOutcome { expect, found: expect.verdict, steps: None },
            false => alone(world, expect, &mut outcome, control, threads),
        };
        outcome.properties.push(found);
    }
    for expect in some {
        let found = alone(world, expect, &mut outcome, control, threads);
        outcome.properties.push(found);
    }
    outcome.properties.sort_by_key(|found| scenario.expect.iter().position(|e| *e == found.expect));
    outcome.took = began.elapsed();
    outcome
}

impl Outcome {
    fn note<Y: crate::check::System>(&mut self, found: &Found<Y>, took: Duration) {
        if found.states > self.states && !self.complete {
            self.states = found.states;
            self.depth = found.depth;
            self.generated = found.generated;
            self.search = took;
        }
    }
}

/// Whether a search for this property ends here: a violation of an `Always`, an instance of a `Sometimes`.
pub(crate) fn stops<const N: usize, const C: usize>(
    property: Property,
    world: &World<N, C>,
    state: &State<N, C>,
) -> bool {
    property.is_true(world.settings(), state) == (property.kind() == Kind::Sometimes)
}

fn alone<const N: usize, const C: usize>(
    world: &Arc<World<N, C>>,
    expect: Expect,
    outcome: &mut Outcome,
    control: &Control,
    threads: usize,
) -> PropertyOutcome {
    let Expect { property, steps, .. } = expect;
    let shortest = steps.is_some() || property.kind() == Kind::Always;
    let began = now();
    let ends = move |world: &World<N, C>, state: &State<N, C>| stops(property, world, state);
    let how = if shortest { Search::Shortest } else { Search::Verdict(threads) };
    let found = search(world, how, control, ends);
    outcome.note(&found, began.elapsed());
    let verdict = match (property.kind(), &found.path) {
        (Kind::Always, Some(_)) => Verdict::Violated,
        (Kind::Sometimes, Some(_)) => Verdict::Reached,
        (_, None) if found.cut => Verdict::Unknown,
        (Kind::Always, None) => Verdict::Holds,
        (Kind::Sometimes, None) => Verdict::Unreached,
    };
    let steps = found.path.filter(|_| shortest).map(|path| path.steps.len());
    PropertyOutcome { expect, found: verdict, steps }
}

#[expect(clippy::disallowed_methods, reason = "how long a search takes is no part of any state")]
fn now() -> Instant {
    Instant::now()
}
