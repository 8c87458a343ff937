//! The only place that reads a clock, and the only source of chance.

use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::proto::{Owner, Timestamp};

/// A clock that never runs backwards and, where the platform has one, counts the time the machine was suspended.
///
/// Redis goes on counting while a client's machine sleeps, so a holder's clock must too: a monotonic clock that stops in
/// suspension makes a holder believe in a lock that has passed to another. [`SystemClock`] takes `CLOCK_BOOTTIME` on
/// Linux and Android, and `CLOCK_MONOTONIC` on Apple systems, which counts suspension there. Elsewhere it takes the
/// platform's monotonic clock and **does not count suspension**: fence the resource. A virtual machine that is paused
/// by its host may show no time passing on any clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now. Must never be smaller than an earlier answer.
    fn now(&self) -> Timestamp;

    /// Wall clock: microseconds since 1970. Used for reports, and as the number from which fresh nodes start.
    fn unix_micros(&self) -> u64;

    /// Waits for about this long. Whoever waits looks at [`now`](Self::now) afterwards, so waking early or late is no harm; it
    /// is tokio's timer unless the clock brings its own, as one does that runs at another rate or stands still with its host.
    fn sleep(&self, span: Duration) -> Sleeping {
        Box::pin(tokio::time::sleep(span))
    }
}

/// Waiting for a moment on a [`Clock`].
pub type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Owner values and jitter. The default draws them from the operating system; a simulation brings its own.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// A fresh owner value. No two may ever be equal.
    fn owner(&self) -> Owner;

    /// A number in 0..1.
    fn chance(&self) -> f64;
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest: AtomicU64,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let read = read_micros();
        // Kernels and hypervisors have bugs: time that runs backwards would lengthen a lease.
        let before = self.latest.fetch_max(read, Ordering::AcqRel);
        Timestamp::from_micros(read.max(before))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn unix_micros(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(unix)]
fn read_micros() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000).saturating_add(nanos.unwrap_or(0) / 1_000)
}

#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn read_micros() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    u64::try_from(now.duration_since(*ORIGIN.get_or_init(|| now)).as_micros()).unwrap_or(u64::MAX)
}

/// The operating system's generator.
#[derive(Debug)]
pub struct SystemEntropy {
    jitter: Mutex<fastrand::Rng>,
}

impl Default for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the one source of chance")]
    fn default() -> Self {
        Self { jitter: Mutex::new(fastrand::Rng::new()) }
    }
}

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the one source of chance")]
    fn owner(&self) -> Owner {
        Owner(uuid::Uuid::new_v4().as_u128())
    }

    fn chance(&self) -> f64 {
        self.jitter.lock().map_or(0.5, |mut rng| rng.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_clock_never_runs_backwards_even_if_the_kernel_does() {
        let clock = SystemClock::default();
        let ahead = read_micros() + 5_000_000;
        clock.latest.store(ahead, Ordering::Release);
        assert_eq!(clock.now(), Timestamp::from_micros(ahead));
        assert!(clock.unix_micros() > 1_600_000_000_000_000);
    }

    #[test]
    fn no_two_owner_values_are_equal() {
        // B48: two holders shared a caller-set owner value, so each could free the other.
        let entropy = SystemEntropy::default();
        let drawn: HashSet<_> = (0..10_000).map(|_| entropy.owner()).collect();
        assert_eq!(drawn.len(), 10_000);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&entropy.chance())));
    }
}
