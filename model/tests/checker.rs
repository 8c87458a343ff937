//! What goes wrong in stateright 0.31 when it is used bare, and that it does not when it is used through `check`.
//!
//! If one of the first three tests fails after an upgrade, the defect is gone: the wrapper may become simpler.

use std::sync::Arc;

use redfence_model::check::{Control, Search, System, search};
use stateright::{Checker, Model, Property};

/// States 0 to 49 in a line, one step from each to the next.
#[derive(Clone, Debug)]
struct Line;

impl Model for Line {
    type State = u8;
    type Action = ();

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<()>) {
        if *state < 49 {
            actions.push(());
        }
    }

    fn next_state(&self, state: &u8, (): ()) -> Option<u8> {
        Some(state + 1)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("small", |_, state| *state < 1), Property::always("never broken", |_, _| true)]
    }
}

#[test]
fn bare_breadth_first_search_overwrites_a_short_trace_while_another_property_is_open() {
    let path = Line.checker().spawn_bfs().join().discovery("small").expect("state 1 is not small");
    assert_eq!(path.into_actions().len(), 49, "the shortest trace has one step");
}

/// Two switches that are alike: four states, three up to symmetry.
#[derive(Clone, Debug)]
struct Switches;

impl Model for Switches {
    type State = [bool; 2];
    type Action = usize;

    fn init_states(&self) -> Vec<[bool; 2]> {
        vec![[false; 2]]
    }

    fn actions(&self, state: &[bool; 2], actions: &mut Vec<usize>) {
        actions.extend((0..2).filter(|&which| !state[which]));
    }

    fn next_state(&self, state: &[bool; 2], which: usize) -> Option<[bool; 2]> {
        let mut next = *state;
        next[which] = true;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("fine", |_, _| true)]
    }
}

#[test]
fn bare_breadth_first_search_ignores_the_symmetry_function() {
    fn sorted(state: &[bool; 2]) -> [bool; 2] {
        let mut state = *state;
        state.sort_unstable();
        state
    }
    let depth_first = Switches.checker().symmetry_fn(sorted).spawn_dfs().join();
    assert_eq!(depth_first.unique_state_count(), 3);
    let breadth_first = Switches.checker().symmetry_fn(sorted).spawn_bfs().join();
    assert_eq!(breadth_first.unique_state_count(), 4, "it should be three");
}

/// A line where every other action is ignored.
#[derive(Clone, Debug)]
struct Ignoring;

impl Model for Ignoring {
    type State = u8;
    type Action = bool;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<bool>) {
        if *state < 9 {
            actions.extend([false, true]);
        }
    }

    fn next_state(&self, state: &u8, go: bool) -> Option<u8> {
        go.then_some(state + 1)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("below nine", |_, state| *state < 9)]
    }
}

#[test]
fn bare_simulation_records_paths_that_do_not_lead_to_what_it_found() {
    use stateright::UniformChooser;
    let wrong = (0..20).filter(|&seed| {
        let checker = Ignoring.checker().finish_when(stateright::HasDiscoveries::Any);
        let found = checker.target_state_count(10_000).spawn_simulation(seed, UniformChooser).join();
        found.discovery("below nine").is_some_and(|path| *path.last_state() < 9)
    });
    assert!(wrong.count() > 0, "every path leads to nine");
}

impl System for Line {
    type State = u8;
    type Action = ();

    fn start(&self) -> u8 {
        0
    }

    fn enabled(&self, state: &u8, actions: &mut Vec<()>) {
        self.actions(state, actions);
    }

    fn step(&self, state: &u8, (): ()) -> u8 {
        state + 1
    }
}

#[test]
fn the_wrapper_finds_the_shortest_trace() {
    let found = search(&Arc::new(Line), Search::Shortest, &Control::default(), |_, state| *state >= 1);
    assert_eq!(found.path.map(|path| path.steps.len()), Some(1));
}

#[test]
fn a_search_that_finds_nothing_has_seen_everything_and_says_so() {
    for how in [Search::Shortest, Search::Verdict(2)] {
        let found = search(&Arc::new(Line), how, &Control::default(), |_, state| *state > 49);
        assert!(found.path.is_none() && !found.cut);
        assert_eq!(found.states, 50);
    }
}

#[test]
fn a_search_that_is_stopped_says_that_it_is_cut() {
    let control = Control::default();
    control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let found = search(&Arc::new(Line), Search::Verdict(1), &control, |_, state| *state > 49);
    assert!(found.path.is_none() && found.cut);
    assert!(found.states < 50);
}
