//! Sound use of stateright 0.31.
//!
//! What is known to go wrong there, and what is done about it here (each with a small reproducer in `tests/checker.rs`):
//!
//! * Discoveries are overwritten while another property is open, so that a breadth-first trace is not the shortest: one
//!   question per run.
//! * A step that is ignored corrupts simulated paths: no step is ever ignored.
//! * Breadth-first search ignores the symmetry function: states hash as their canonical form, in every search.
//! * With several threads a breadth-first trace is not the shortest: one thread for traces, all for verdicts.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Path, Property as Asked};

/// A system that can be searched.
pub trait System: Send + Sync + 'static {
    /// What there is at one moment; hashes as its canonical form.
    type State: Clone + Hash + PartialEq + Send + Sync + std::fmt::Debug + 'static;
    /// One step.
    type Action: Clone + PartialEq + Send + Sync + std::fmt::Debug + 'static;

    /// Where it begins.
    fn start(&self) -> Self::State;
    /// What may happen, in a fixed order; every action changes something.
    fn enabled(&self, state: &Self::State, actions: &mut Vec<Self::Action>);
    /// What comes of it.
    fn step(&self, state: &Self::State, action: Self::Action) -> Self::State;
}

/// How a search is watched and ended.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Set to end every search early.
    pub stop: Arc<AtomicBool>,
    /// How far the search is.
    pub progress: Arc<Progress>,
}

/// How far a search is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Different states found.
    pub states: AtomicU64,
    /// Of these, states whose successors are known.
    pub expanded: AtomicU64,
    /// Different states whose successors are not known yet.
    pub frontier: AtomicU64,
    /// Length of the longest path so far.
    pub depth: AtomicU64,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found<Y: System> {
    /// A path to a state where the question is answered with "stop here".
    pub path: Option<Trace<Y>>,
    /// Different states found, up to symmetry.
    pub states: u64,
    /// States generated, repetitions counted.
    pub generated: u64,
    /// Length of the longest path searched.
    pub depth: u64,
    /// The search ended before it was complete, and found nothing.
    pub cut: bool,
}

/// A path: where it begins, and each step with the state it leads to.
#[derive(Clone, Debug)]
pub struct Trace<Y: System> {
    /// Where it begins.
    pub start: Y::State,
    /// Steps.
    pub steps: Vec<(Y::Action, Y::State)>,
}

/// How to search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// Breadth first, one thread: the path found is a shortest one.
    Shortest,
    /// Depth first, on this many threads: for verdicts.
    Verdict(usize),
}

type Predicate<Y> = Arc<dyn Fn(&Y, &<Y as System>::State) -> bool + Send + Sync>;

struct Question<Y: System> {
    system: Arc<Y>,
    /// True where the search has found what it looks for.
    target: Predicate<Y>,
    control: Control,
    /// The search is over: paths are made again from states, and for that every action is needed.
    over: Arc<AtomicBool>,
}

impl<Y: System> Model for Question<Y> {
    type State = Y::State;
    type Action = Y::Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![self.system.start()]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        if self.control.stop.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed) {
            return;
        }
        self.control.progress.expanded.fetch_add(1, Ordering::Relaxed);
        self.system.enabled(state, actions);
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        Some(self.system.step(state, action))
    }

    fn properties(&self) -> Vec<Asked<Self>> {
        // One question per run, always: see above.
        vec![Asked::sometimes("found", |model: &Self, state| (model.target)(&model.system, state))]
    }
}

/// Searches for a state where `target` is true.
pub fn search<Y: System>(
    system: &Arc<Y>,
    how: Search,
    control: &Control,
    target: impl Fn(&Y, &Y::State) -> bool + Send + Sync + 'static,
) -> Found<Y> {
    let progress = &control.progress;
    [&progress.states, &progress.expanded, &progress.frontier, &progress.depth]
        .iter()
        .for_each(|n| n.store(0, Ordering::Relaxed));
    let over = Arc::new(AtomicBool::new(false));
    let (system, target, watched) = (system.clone(), Arc::new(target), control.clone());
    let question = Question { system, target, control: watched, over: over.clone() };
    let builder = question.checker().finish_when(HasDiscoveries::Any);
    match how {
        Search::Shortest => watch(builder.threads(1).spawn_bfs(), control, &over),
        Search::Verdict(threads) => watch(builder.threads(threads).spawn_dfs(), control, &over),
    }
}

fn watch<Y: System>(
    mut checker: impl Checker<Question<Y>>,
    control: &Control,
    over: &AtomicBool,
) -> Found<Y> {
    let progress = &control.progress;
    let note = |checker: &dyn Fn() -> (usize, usize)| {
        // In this order: what is expanded has been found before.
        let expanded = progress.expanded.load(Ordering::Relaxed);
        let (states, depth) = checker();
        progress.frontier.store((states as u64).saturating_sub(expanded), Ordering::Relaxed);
        progress.states.store(states as u64, Ordering::Relaxed);
        progress.depth.store(depth as u64, Ordering::Relaxed);
    };
    let handles = checker.handles();
    while handles.iter().any(|handle| !handle.is_finished()) {
        note(&|| (checker.unique_state_count(), checker.max_depth()));
        std::thread::sleep(Duration::from_millis(1));
    }
    for handle in handles {
        if let Err(panic) = handle.join() {
            std::panic::resume_unwind(panic);
        }
    }
    note(&|| (checker.unique_state_count(), checker.max_depth()));
    over.store(true, Ordering::Relaxed);
    let path = checker.discovery("found").map(trace);
    Found {
        cut: path.is_none() && control.stop.load(Ordering::Relaxed),
        path,
        states: checker.unique_state_count() as u64,
        generated: checker.state_count() as u64,
        depth: checker.max_depth() as u64,
    }
}

fn trace<Y: System>(path: Path<Y::State, Y::Action>) -> Trace<Y> {
    let mut all = path.into_vec().into_iter();
    let Some((start, mut action)) = all.next() else { unreachable!("a path has a first state") };
    let mut steps = Vec::new();
    for (state, next) in all {
        if let Some(taken) = action {
            steps.push((taken, state));
        }
        action = next;
    }
    Trace { start, steps }
}
