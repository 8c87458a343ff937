//! The clock of a node that was given none: the only place in this room that reads one.

use std::time::{Duration, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
pub(crate) type Clock = dyn Fn() -> u64 + Send + Sync;

/// The wall clock as it was when the node started, moved on by the monotonic clock (tokio's, so a paused runtime pauses
/// the node). It does not jump when the wall clock is set, and it stops while the machine sleeps: then keys outlive the
/// belief of their holders, which is the safe side.
pub(crate) fn steady() -> impl Fn() -> u64 + Send + Sync {
    #[expect(
        clippy::disallowed_methods,
        reason = "keys end at absolute times, and outlive the process in a log"
    )]
    let wall = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let start = tokio::time::Instant::now();
    move || u64::try_from((wall + start.elapsed()).as_millis()).unwrap_or(u64::MAX)
}
