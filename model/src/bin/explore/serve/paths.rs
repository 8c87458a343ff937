//! Shortest paths, each searched once.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use redfence_model::check::Control;
use redfence_model::scenario::Scenario;
use redfence_model::trace::{Error, shortest};
use redfence_model::world::Property;
use tokio::time::Instant;

use super::oops::Oops;

/// How long a page waits for its search before it says how far that is.
pub(super) const A_MOMENT: Duration = Duration::from_millis(900);
/// How long a picture or a file waits.
pub(super) const TO_THE_END: Duration = Duration::from_secs(90);

/// Searches at one time.
const MOST: usize = 2;
/// Bounds of one search.
const MOST_STATES: u64 = 8_000_000;
const LONGEST: Duration = Duration::from_secs(90);
/// A search that nobody asks for any more ends.
const PERIOD: Duration = Duration::from_millis(100);
const UNWATCHED: u32 = 300;
/// How long it is said that a search took too long, before it is tried again: the machine may have had other things to do.
const NOT_NOW: Duration = Duration::from_secs(5);

/// Asks again while the answer is that it will be there soon: a page loads itself again then, a picture or a file cannot.
pub(super) fn patiently<T>(ask: impl Fn() -> Result<T, Oops>) -> Result<T, Oops> {
    let begun = Instant::now();
    loop {
        match ask() {
            // Whoever says so has waited already.
            Err(oops) if oops.is_soon() && begun.elapsed() < TO_THE_END => {}
            answer => return answer,
        }
    }
}

type Name = (&'static str, Property);

/// What is known, and what is being searched.
#[derive(Clone, Default)]
pub(super) struct Paths {
    known: Arc<Known>,
}

#[derive(Default)]
struct Known {
    entries: Mutex<HashMap<Name, Entry>>,
    news: Condvar,
}

enum Entry {
    Searching {
        control: Control,
        unwatched: u32,
    },
    Found(Option<Vec<usize>>),
    /// Not within the bounds. Out of states it stays so; out of time it is searched again for whoever asks later.
    TooLong {
        states: u64,
        until: Option<Instant>,
    },
}

impl Entry {
    fn is_over(&self) -> bool {
        matches!(self, Self::TooLong { until: Some(until), .. } if *until <= Instant::now())
    }
}

impl Known {
    fn entries(&self) -> MutexGuard<'_, HashMap<Name, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Paths {
    /// The shortest path to a violation or an instance of the property, if there is one; waits so long for it.
    pub(super) fn shortest(
        &self,
        scenario: &Scenario,
        property: Property,
        patience: Duration,
    ) -> Result<Option<Vec<usize>>, Oops> {
        let name = (scenario.name, property);
        let full =
            |entries: &mut HashMap<Name, Entry>| !entries.contains_key(&name) && under_way(entries) >= MOST;
        let waited = self.known.news.wait_timeout_while(self.known.entries(), patience, full);
        let (mut entries, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(Oops::soon(StatusCode::ACCEPTED, "waiting for another search to end"));
        }
        self.begin(&mut entries, scenario, property);
        let searching = |entries: &mut HashMap<Name, Entry>| match entries.get_mut(&name) {
            Some(Entry::Searching { unwatched, .. }) => {
                *unwatched = 0;
                true
            }
            _ => false,
        };
        let (entries, _) = self
            .known
            .news
            .wait_timeout_while(entries, patience, searching)
            .unwrap_or_else(PoisonError::into_inner);
        match entries.get(&name) {
            Some(Entry::Found(path)) => Ok(path.clone()),
            Some(Entry::TooLong { states, .. }) => Err(Oops::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "no state found in {states} states, which is as far as this page searches; \
                     `explore trace {} {}` has no such bound",
                    scenario.name,
                    property.name()
                ),
            )),
            Some(Entry::Searching { control, .. }) => {
                let states = control.progress.states.load(Ordering::Relaxed);
                let depth = control.progress.depth.load(Ordering::Relaxed);
                Err(Oops::soon(
                    StatusCode::ACCEPTED,
                    format!("searching for the shortest trace: {states} states, {depth} steps deep"),
                ))
            }
            None => Err(Error::Busy.into()),
        }
    }

    fn begin(&self, entries: &mut HashMap<Name, Entry>, scenario: &Scenario, property: Property) {
        let name = (scenario.name, property);
        if entries.get(&name).is_some_and(|entry| !entry.is_over()) {
            return;
        }
        let control = Control::default();
        entries.insert(name, Entry::Searching { control: control.clone(), unwatched: 0 });
        let (known, scenario) = (self.known.clone(), scenario.clone());
        std::thread::spawn(move || known.search(&scenario, property, &control));
    }
}

fn under_way(entries: &HashMap<Name, Entry>) -> usize {
    entries.values().filter(|entry| matches!(entry, Entry::Searching { .. })).count()
}

impl Known {
    fn search(self: Arc<Self>, scenario: &Scenario, property: Property, control: &Control) {
        let name = (scenario.name, property);
        let known = self.clone();
        let watched = control.clone();
        std::thread::spawn(move || known.watch(name, &watched));
        let search = || shortest(scenario, property, control);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(search));
        let states = control.progress.states.load(Ordering::Relaxed);
        let mut entries = self.entries();
        let unwatched = match entries.remove(&name) {
            Some(Entry::Searching { unwatched, .. }) => unwatched,
            _ => 0,
        };
        match found {
            Ok(Ok(path)) => {
                entries.insert(name, Entry::Found(path));
            }
            Ok(Err(Error::Ended)) if unwatched < UNWATCHED => {
                let until = (states <= MOST_STATES).then(|| Instant::now() + NOT_NOW);
                entries.insert(name, Entry::TooLong { states, until });
            }
            // Not now, or it broke: whoever asks again gets another search.
            Ok(Err(_)) | Err(_) => {}
        }
        self.news.notify_all();
    }

    /// Ends the search when it is out of bounds, or when nobody asks for it.
    fn watch(&self, name: Name, control: &Control) {
        let mut periods = 0;
        loop {
            std::thread::sleep(PERIOD);
            periods += 1;
            let mut entries = self.entries();
            let Some(Entry::Searching { unwatched, .. }) = entries.get_mut(&name) else { return };
            *unwatched += 1;
            // Whoever waits for it says so when woken.
            self.news.notify_all();
            let far = control.progress.states.load(Ordering::Relaxed) > MOST_STATES;
            if far || PERIOD * periods > LONGEST || *unwatched >= UNWATCHED {
                control.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use redfence_model::scenario;

    use super::*;

    #[test]
    fn a_search_that_ran_out_of_time_is_tried_again_and_one_that_ran_out_of_states_is_not() {
        let scenario = scenario::find("s3-empty-restart").expect("a scenario");
        let name = (scenario.name, Property::Belief);
        let asked = |until: Option<Instant>| {
            let paths = Paths::default();
            paths.known.entries().insert(name, Entry::TooLong { states: 7, until });
            paths.shortest(&scenario, Property::Belief, TO_THE_END)
        };
        assert!(asked(Some(Instant::now() + TO_THE_END)).is_err());
        assert!(asked(None).is_err());
        let path = asked(Some(Instant::now())).expect("an answer").expect("a path");
        assert_eq!(path.len(), 11);
    }
}
