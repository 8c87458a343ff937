//! Waiting for a condition, never for a while: bounded, and with the place of the caller in the failure.

use std::panic::Location;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);

/// Time as a person with a stopwatch would take it. Tests judge real servers, so they may look at a real clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "live tests run on real time; no simulation replays them")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Blocks until `condition` holds. Panics after `limit`.
///
/// Not for the inside of a current-thread runtime: tasks in the background stand still meanwhile. See [`eventually`].
#[track_caller]
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) {
    let caller = Location::caller();
    let watch = Stopwatch::start();
    while !condition() {
        assert!(watch.elapsed() < limit, "not so within {limit:?}: the condition at {caller}");
        std::thread::sleep(STEP);
    }
}

/// As [`wait_until`], for async tests: other tasks run on between two looks.
#[track_caller]
pub(crate) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let watch = Stopwatch::start();
        while !condition() {
            assert!(watch.elapsed() < limit, "not so within {limit:?}: the condition at {caller}");
            tokio::time::sleep(STEP).await;
        }
    }
}
