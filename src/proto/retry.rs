//! When to try again: arithmetic only. Chance comes in as a number.

use core::time::Duration;

/// Delays between attempts: they double from `first` to `most`, and each is drawn from its upper half.
///
/// The random part (`R13`) keeps contenders from splitting the vote over and over (Redis page, "retry on failure").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    /// Upper bound of the first delay.
    pub first: Duration,
    /// Upper bound of every delay.
    pub most: Duration,
}

impl Backoff {
    /// The delay before attempt number `attempt + 1`, counting from 0; `chance` in 0..1 places it in its range.
    pub fn delay(self, attempt: u32, chance: f64) -> Duration {
        let half = self.first.saturating_mul(1 << attempt.min(20)).min(self.most) / 2;
        // `max` and `min`, not `clamp`: they turn a NaN into a number.
        #[allow(clippy::manual_clamp)]
        half.saturating_add(half.mul_f64(chance.max(0.0).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound_and_keep_half_of_it() {
        let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(35) };
        let bounds: Vec<_> = (0..4).map(|n| backoff.delay(n, 1.0).as_millis()).collect();
        assert_eq!(bounds, [10, 20, 35, 35]);
        assert_eq!(backoff.delay(1, 0.0), Duration::from_millis(10));
        let forever = Backoff { first: Duration::MAX, most: Duration::MAX };
        for chance in [f64::NAN, f64::NEG_INFINITY, -0.0, 0.5, 1.0, f64::INFINITY] {
            assert!(forever.delay(3, chance) >= Duration::MAX / 2, "chance {chance}");
        }
        assert_eq!(backoff.delay(u32::MAX, 7.0), Duration::from_millis(35));
    }
}
