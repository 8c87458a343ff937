//! Time as the state machine sees it: a number that the host supplies.

use core::fmt;
use core::ops::Add;
use core::time::Duration;

/// A moment on the host's clock, in microseconds since an origin that only the host knows.
///
/// The machine compares and adds; it never reads a clock. The live host counts suspended time where the
/// platform can (see `lock::clock`), the simulation uses virtual time, the model counts ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The host's origin.
    pub const ORIGIN: Self = Self(0);

    /// A moment `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A moment `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ms", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_runs_backwards_elapses_nothing() {
        let (early, late) = (Timestamp::from_millis(3), Timestamp::from_millis(5));
        assert_eq!(late.since(early), Duration::from_millis(2));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn the_far_future_saturates() {
        let end = Timestamp::from_micros(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Timestamp::ORIGIN + Duration::MAX, end);
        assert_eq!(Timestamp::from_micros(1_234_567).to_string(), "1234.567ms");
    }
}
