//! A search started from the page: one at a time, bounded, watched.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use redfence_model::check::Control;
use redfence_model::scenario::{self, Outcome, Scenario};
use serde::Serialize;

use super::oops::Oops;
use super::{story, variant};
use crate::json::{CheckedScenario, outcome};

/// How often a run is looked at.
const PERIOD: Duration = Duration::from_millis(50);
/// A run that nobody has looked at for this long ends.
const UNWATCHED: Duration = Duration::from_secs(30);
/// A run ends before the process is larger than this.
const MOST_KIB: u64 = 4 << 20;
/// What a run gets if nobody says otherwise, and what it can get.
const STATES: (u64, u64) = (5_000_000, 50_000_000);
const SECONDS: (u64, u64) = (120, 3_600);

/// The run under way or the last one, and what all runs of this process have found.
#[derive(Default)]
pub(super) struct Runs {
    now: Arc<Mutex<Now>>,
}

#[derive(Default)]
struct Now {
    run: Option<Run>,
    outcomes: BTreeMap<&'static str, Outcome>,
}

struct Run {
    scenario: &'static str,
    control: Control,
    most_states: u64,
    most: Duration,
    took: Duration,
    unwatched: Duration,
    /// States at each of the latest looks, for the rate.
    lately: Vec<u64>,
    ended: Option<&'static str>,
    done: bool,
}

/// What there is to see.
#[derive(Serialize)]
pub(super) struct Look {
    schema: &'static str,
    pub(super) running: bool,
    pub(super) scenario: Option<&'static str>,
    pub(super) states: u64,
    pub(super) states_per_second: u64,
    pub(super) depth: u64,
    pub(super) frontier: u64,
    pub(super) seconds: f64,
    pub(super) most_states: u64,
    pub(super) most_seconds: u64,
    /// Why it ended before its time.
    pub(super) ended: Option<&'static str>,
    pub(super) outcome: Option<CheckedScenario>,
}

impl Runs {
    fn now(&self) -> MutexGuard<'_, Now> {
        lock(&self.now)
    }

    /// What all runs of this process have found.
    pub(super) fn outcomes(&self) -> BTreeMap<&'static str, Outcome> {
        self.now().outcomes.clone()
    }

    /// Begins the run that a form asks for.
    pub(super) fn start(&self, form: &HashMap<String, String>) -> Result<(), Oops> {
        let Some(name) = form.get("scenario") else {
            return Err(Oops::new(StatusCode::BAD_REQUEST, "which scenario? `scenario` is missing"));
        };
        let scenario = variant::wanted(&story::scenario(name)?, form)?;
        let most_states = within("states", form.get("states"), STATES)?;
        let most = Duration::from_secs(within("seconds", form.get("seconds"), SECONDS)?);
        let mut now = self.now();
        if let Some(run) = now.run.as_ref().filter(|run| !run.done) {
            let text = format!("{} is being searched; one search at a time", run.scenario);
            return Err(
                Oops::new(StatusCode::CONFLICT, text).near(vec![("the search".into(), "/run".into())])
            );
        }
        let control = Control::default();
        now.run = Some(Run {
            scenario: scenario.name,
            control: control.clone(),
            most_states,
            most,
            took: Duration::ZERO,
            unwatched: Duration::ZERO,
            lately: Vec::new(),
            ended: None,
            done: false,
        });
        let (shared, watched) = (self.now.clone(), control.clone());
        std::thread::spawn(move || {
            while watch(&mut lock(&shared), &watched) {
                std::thread::sleep(PERIOD);
            }
        });
        let shared = self.now.clone();
        std::thread::spawn(move || search(&shared, &scenario, &control));
        Ok(())
    }

    /// Ends the run.
    pub(super) fn cancel(&self) {
        if let Some(run) = self.now().run.as_mut().filter(|run| !run.done) {
            run.end("cancelled");
        }
    }

    /// How far it is. Who looks keeps it running.
    pub(super) fn look(&self) -> Look {
        let mut now = self.now();
        let Now { run, outcomes } = &mut *now;
        let Some(run) = run else { return Look::nothing() };
        run.unwatched = Duration::ZERO;
        let progress = &run.control.progress;
        let states = progress.states.load(Ordering::Relaxed);
        let looks = u64::try_from(run.lately.len()).unwrap_or(1).max(1);
        let risen = run.lately.first().map_or(0, |first| states.saturating_sub(*first));
        let found = outcomes.get(run.scenario).filter(|_| run.done);
        Look {
            running: !run.done,
            scenario: Some(run.scenario),
            states: found.map_or(states, |outcome| outcome.states),
            states_per_second: match found {
                Some(outcome) => redfence_model::report::rate(outcome),
                None => risen * 1_000 / (looks * PERIOD.as_millis() as u64),
            },
            depth: found.map_or(progress.depth.load(Ordering::Relaxed), |outcome| outcome.depth),
            frontier: match run.done {
                true => 0,
                false => progress.frontier.load(Ordering::Relaxed),
            },
            seconds: run.took.as_secs_f64(),
            most_states: run.most_states,
            most_seconds: run.most.as_secs(),
            ended: run.ended,
            outcome: found.map(outcome),
            ..Look::nothing()
        }
    }
}

impl Look {
    fn nothing() -> Self {
        Self {
            schema: "redfence-explore-run/1",
            running: false,
            scenario: None,
            states: 0,
            states_per_second: 0,
            depth: 0,
            frontier: 0,
            seconds: 0.0,
            most_states: STATES.0,
            most_seconds: SECONDS.0,
            ended: None,
            outcome: None,
        }
    }
}

impl Run {
    fn end(&mut self, why: &'static str) {
        self.ended.get_or_insert(why);
        self.control.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(now: &Mutex<Now>) -> MutexGuard<'_, Now> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

fn within(what: &str, wanted: Option<&String>, (usual, most): (u64, u64)) -> Result<u64, Oops> {
    let wrong = |text: String| Err(Oops::new(StatusCode::BAD_REQUEST, text));
    let Some(text) = wanted else { return Ok(usual) };
    match text.parse() {
        Ok(0) => wrong(format!("{what}: at least 1")),
        Ok(wanted) if wanted > most => {
            wrong(format!("{what}: {wanted} is more than this page searches, {most}"))
        }
        Ok(wanted) => Ok(wanted),
        Err(_) => wrong(format!("{what}: `{text}` is not a number")),
    }
}

fn search(now: &Mutex<Now>, scenario: &Scenario, control: &Control) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checked = || scenario::check(scenario, threads, control);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked));
    let mut now = lock(now);
    let Now { run, outcomes } = &mut *now;
    if let Some(run) = run {
        run.done = true;
        match outcome {
            Ok(outcome) => {
                outcomes.insert(scenario.name, outcome);
            }
            Err(_) => run.end("the search broke; please report it"),
        }
    }
}

/// Looks after the run under this control; whether it still needs it.
fn watch(now: &mut Now, control: &Control) -> bool {
    let mine = |run: &&mut Run| !run.done && Arc::ptr_eq(&run.control.stop, &control.stop);
    let Some(run) = now.run.as_mut().filter(mine) else { return false };
    run.took += PERIOD;
    run.unwatched += PERIOD;
    let states = run.control.progress.states.load(Ordering::Relaxed);
    // A run is several searches, each counted from zero.
    if run.lately.last().is_some_and(|last| states < *last) {
        run.lately.clear();
    }
    run.lately.push(states);
    if run.lately.len() > 20 {
        run.lately.remove(0);
    }
    if states > run.most_states {
        run.end("as many states as allowed");
    } else if run.took > run.most {
        run.end("as much time as allowed");
    } else if run.unwatched > UNWATCHED {
        run.end("nobody was looking");
    } else if memory_kib().is_some_and(|kib| kib > MOST_KIB) {
        run.end("as much memory as allowed");
    }
    true
}

/// Memory in use, where the system tells.
fn memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
