//! How long a holder may believe: the one formula, in one function.

use core::fmt;
use core::time::Duration;

use super::mutant::mutated;
use super::time::Timestamp;

/// Time to live of a lock key at a node, in whole milliseconds, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ttl(u64);

impl Ttl {
    /// The longest TTL: about 24 days. Long work takes a short TTL and extends it.
    pub const MAX: Self = Self(i32::MAX as u64);

    /// A TTL of `millis` milliseconds; `None` for zero and for more than [`Ttl::MAX`].
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis == 0 || millis > Self::MAX.0 { None } else { Some(Self(millis)) }
    }

    /// A TTL of `span`, if it is a whole number of milliseconds within the bounds of [`Ttl::from_millis`].
    pub fn from_duration(span: Duration) -> Option<Self> {
        let millis = u64::try_from(span.as_millis()).ok()?;
        if !span.subsec_nanos().is_multiple_of(1_000_000) { None } else { Self::from_millis(millis) }
    }

    /// Milliseconds, as the node is told.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same as a span.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// Clock error allowed for: a share of the TTL plus a constant.
///
/// The default is that of the Redis page's reference client: 1 % of the TTL plus 2 ms (Redis expires keys with a
/// granularity of about a millisecond). Exclusion holds only while every clock involved stays within it (`R4` in
/// `docs/safety.md`); tokens do not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Drift {
    /// Relative clock error in parts per million of the TTL.
    pub rate_ppm: u32,
    /// Constant part.
    pub fixed: Duration,
}

impl Drift {
    /// No allowance: for models only.
    pub const NONE: Self = Self { rate_ppm: 0, fixed: Duration::ZERO };

    /// The margin to take off a TTL, rounded up to a microsecond.
    pub const fn margin(self, ttl: Ttl) -> Duration {
        let share = (ttl.as_millis() as u128 * self.rate_ppm as u128).div_ceil(1_000);
        #[allow(clippy::cast_possible_truncation)]
        Duration::from_micros(share as u64).saturating_add(self.fixed)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self { rate_ppm: 10_000, fixed: Duration::from_millis(2) }
    }
}

/// The moment until which a holder may believe: `start + TTL - drift`.
///
/// `start` is when this attempt (or this extension) *began*, before any node was asked; so what is left at `now` is
/// TTL - elapsed - drift, the Redis page's `MIN_VALIDITY` (`R3`). A margin above the TTL leaves `start` itself: no validity.
pub fn valid_until(start: Timestamp, ttl: Ttl, drift: Drift) -> Timestamp {
    let drift = if mutated!(NoDrift) { Drift::NONE } else { drift };
    start + ttl.as_duration().saturating_sub(drift.margin(ttl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_margin_is_the_one_of_the_redis_page() {
        let ttl = Ttl::from_millis(10_000).unwrap();
        assert_eq!(Drift::default().margin(ttl), Duration::from_millis(102));
        let until = valid_until(Timestamp::from_millis(5), ttl, Drift::default());
        assert_eq!(until, Timestamp::from_millis(9_903));
    }

    #[test]
    fn tiny_ttls_leave_nothing_and_never_underflow() {
        // B18: a tiny TTL underflowed an unsigned number and panicked.
        for millis in [1, 2, 3] {
            let start = Timestamp::from_millis(7);
            let ttl = Ttl::from_millis(millis).unwrap();
            let left = valid_until(start, ttl, Drift::default()).since(start);
            assert!(left < ttl.as_duration(), "{left:?} of {ttl}");
        }
        assert_eq!(Ttl::from_millis(0), None);
        assert_eq!(Ttl::from_millis(u64::MAX), None);
    }

    #[test]
    fn a_ttl_is_whole_milliseconds_or_refused() {
        // B21: fractional timeouts were silently truncated.
        assert_eq!(Ttl::from_duration(Duration::from_millis(1_500)), Ttl::from_millis(1_500));
        assert_eq!(Ttl::from_duration(Duration::from_micros(1_500)), None);
        assert_eq!(Ttl::from_duration(Duration::from_micros(999)), None);
        assert_eq!(Ttl::from_duration(Duration::MAX), None);
    }
}
