//! Paths by number: which of the possible actions was taken, again and again from the start.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Trace;
use super::record::{Recorder, fault};
use crate::check::{Control, Search, search};
use crate::mutants;
use crate::scenario::{Scenario, stops, with_world};
use crate::world::{Action, Kind, Property, World};

/// How long a scenario waits for a search under another wrong edit.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An action that is not possible.
    Impossible {
        /// At which step, counted from 1.
        step: usize,
        /// Which action was asked for.
        action: usize,
        /// How many there are.
        choices: usize,
    },
    /// A search with other wrong edits is under way in this process.
    Busy,
    /// The search was ended before it found anything.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible { step, choices: 0, .. } => {
                write!(f, "step {step} is not possible: nothing can happen there any more")
            }
            Self::Impossible { step, action, choices } => write!(
                f,
                "step {step} is not possible: action {action} of {choices} (the first is 0, the last {})",
                choices - 1
            ),
            Self::Busy => write!(
                f,
                "a search with other edits of the protocol is under way; try again when it has ended"
            ),
            Self::Ended => write!(f, "the search was ended before it found anything"),
        }
    }
}

impl std::error::Error for Error {}

/// Something that can happen next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// By which number a path takes it.
    pub action: usize,
    /// What would happen, in words.
    pub sentence: String,
    /// Whether it is a fault of the world.
    pub fault: bool,
    /// Properties that are false afterwards and true before.
    pub violates: Vec<String>,
}

/// Takes the path, and says what happened.
pub fn record(scenario: &Scenario, path: &[usize]) -> Result<Trace, Error> {
    let _guard = mutants::apply_within(scenario.mutant, PATIENCE).ok_or(Error::Busy)?;
    with_world!(scenario.settings, world => Ok(walk(scenario, &world, path)?.finish()))
}

/// What can happen after the path.
pub fn choices(scenario: &Scenario, path: &[usize]) -> Result<Vec<Choice>, Error> {
    let _guard = mutants::apply_within(scenario.mutant, PATIENCE).ok_or(Error::Busy)?;
    with_world!(scenario.settings, world => Ok(choices_in(scenario, &walk(scenario, &world, path)?)))
}

/// Takes the same steps in another scenario, as far as they are possible there.
pub fn follow(scenario: &Scenario, path: &[usize], other: &Scenario) -> Result<Vec<usize>, Error> {
    let actions = actions(scenario, path)?;
    let _guard = mutants::apply_within(other.mutant, PATIENCE).ok_or(Error::Busy)?;
    Ok(with_world!(other.settings, world => {
        let mut recorder = Recorder::new(other, &world);
        let mut followed = Vec::new();
        for action in actions {
            let Some(index) = recorder.enabled().iter().position(|enabled| *enabled == action) else { break };
            recorder.take(index, action);
            followed.push(index);
        }
        followed
    }))
}

/// A shortest path to a violation of the property, or to an instance of it; nothing if there is none.
pub fn shortest(
    scenario: &Scenario,
    property: Property,
    control: &Control,
) -> Result<Option<Vec<usize>>, Error> {
    let _guard = mutants::apply_within(scenario.mutant, PATIENCE).ok_or(Error::Busy)?;
    with_world!(scenario.settings, world => {
        let target = move |world: &World<_, _>, state: &_| stops(property, world, state);
        let found = search(&world, Search::Shortest, control, target);
        match found.path {
            None if found.cut => Err(Error::Ended),
            None => Ok(None),
            Some(trace) => {
                let mut before = trace.start;
                let mut path = Vec::new();
                let mut enabled = Vec::new();
                for (action, after) in trace.steps {
                    enabled.clear();
                    world.enabled(&before, &mut enabled);
                    path.extend(enabled.iter().position(|possible| *possible == action));
                    before = after;
                }
                Ok(Some(path))
            }
        }
    })
}

fn actions(scenario: &Scenario, path: &[usize]) -> Result<Vec<Action>, Error> {
    let _guard = mutants::apply_within(scenario.mutant, PATIENCE).ok_or(Error::Busy)?;
    with_world!(scenario.settings, world => {
        let mut recorder = Recorder::new(scenario, &world);
        path.iter().map(|&index| step(&mut recorder, index)).collect()
    })
}

fn walk<'a, const N: usize, const C: usize>(
    scenario: &'a Scenario,
    world: &'a Arc<World<N, C>>,
    path: &[usize],
) -> Result<Recorder<'a, N, C>, Error> {
    let mut recorder = Recorder::new(scenario, world);
    for &index in path {
        step(&mut recorder, index)?;
    }
    Ok(recorder)
}

fn step<const N: usize, const C: usize>(
    recorder: &mut Recorder<'_, N, C>,
    index: usize,
) -> Result<Action, Error> {
    let enabled = recorder.enabled();
    let action = *enabled.get(index).ok_or(Error::Impossible {
        step: recorder.steps() + 1,
        action: index,
        choices: enabled.len(),
    })?;
    recorder.take(index, action);
    Ok(action)
}

fn choices_in<const N: usize, const C: usize>(
    scenario: &Scenario,
    recorder: &Recorder<'_, N, C>,
) -> Vec<Choice> {
    let settings = &scenario.settings;
    let always = || {
        let asked = scenario.expect.iter().map(|expect| expect.property);
        asked.filter(|property| property.kind() == Kind::Always)
    };
    let choice = |(index, action)| {
        let (sentence, after) = recorder.preview(action);
        let breaks = |property: &Property| {
            property.is_true(settings, &recorder.state) && !property.is_true(settings, &after)
        };
        let violates = always().filter(breaks).map(Property::name).collect();
        Choice { action: index, sentence, fault: fault(action).is_some(), violates }
    };
    recorder.enabled().into_iter().enumerate().map(choice).collect()
}
