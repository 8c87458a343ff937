//! Time: one true time, and a clock for each host that may be wrong.
//!
//! turmoil gives all hosts one time and has neither drift nor jumps. So the hosts' clocks are made here, as functions of the
//! simulated time: straight pieces, one after the other.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redfence::lock::clock::{Clock, Sleeping};
use redfence::proto::Timestamp;

use super::gate::Gate;

/// When all simulations begin: 2020-01-01, in microseconds since 1970.
pub(crate) const EPOCH_MICROS: u64 = 1_577_836_800_000_000;

/// The longest nap: a change of a clock's rate is noticed after it.
const NAP: Duration = Duration::from_millis(20);

/// Simulated time in microseconds since the beginning: what an observer outside sees.
#[derive(Clone, Default)]
pub(crate) struct TrueTime {
    /// As it was when the world last stood between two steps.
    between_steps: Arc<AtomicU64>,
}

impl TrueTime {
    /// Now, for the host that runs, or between two steps.
    pub(crate) fn now(&self) -> u64 {
        // Where a runtime is taken down there is none to ask, and then turmoil would answer with the machine's time.
        let inside = tokio::runtime::Handle::try_current().is_ok();
        let host = inside.then(turmoil::sim_elapsed).flatten();
        host.map_or_else(|| self.between_steps.load(Ordering::Relaxed), micros)
    }

    pub(super) fn set(&self, elapsed: Duration) {
        self.between_steps.store(micros(elapsed), Ordering::Relaxed);
    }
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// One straight piece: from this true time on the clock reads `reads`, and runs too fast by `ppm` millionths.
#[derive(Clone, Copy)]
struct Piece {
    from: u64,
    reads: i64,
    ppm: i64,
}

impl Piece {
    fn at(self, time: u64) -> i64 {
        let span = i128::from(time.saturating_sub(self.from));
        let run = span * i128::from(1_000_000 + self.ppm) / 1_000_000;
        self.reads + i64::try_from(run).unwrap_or(i64::MAX / 2)
    }

    /// The first true time at which it reads at least this; `None` if it never does.
    fn when(self, reading: i64) -> Option<u64> {
        let missing = i128::from(reading - self.reads);
        if missing <= 0 {
            return Some(self.from);
        }
        let rate = i128::from(1_000_000 + self.ppm);
        let span = (rate > 0).then(|| (missing * 1_000_000 + rate - 1) / rate)?;
        u64::try_from(span).ok().map(|span| self.from + span)
    }
}

/// One host's clock, in microseconds since the beginning of the world, as that host believes.
#[derive(Clone)]
pub(crate) struct HostClock {
    time: TrueTime,
    pieces: Arc<Mutex<Vec<Piece>>>,
}

impl HostClock {
    pub(crate) fn new(time: &TrueTime, ppm: i64) -> Self {
        let pieces = vec![Piece { from: 0, reads: 0, ppm }];
        Self { time: time.clone(), pieces: Arc::new(Mutex::new(pieces)) }
    }

    fn pieces(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it reads now.
    pub(crate) fn now(&self) -> u64 {
        self.at(self.time.now())
    }

    /// What it read, or will read, at this true time.
    pub(crate) fn at(&self, time: u64) -> u64 {
        let pieces = self.pieces();
        let piece = pieces.iter().rev().find(|piece| piece.from <= time).or(pieces.first());
        piece.map_or(0, |piece| u64::try_from(piece.at(time)).unwrap_or(0))
    }

    /// The first true time at which it reads at least this; the end of time if it never does.
    pub(crate) fn when(&self, reading: u64) -> u64 {
        let reading = i64::try_from(reading).unwrap_or(i64::MAX);
        let pieces = self.pieces();
        for (index, piece) in pieces.iter().enumerate() {
            let end = pieces.get(index + 1).map_or(u64::MAX, |next| next.from);
            if let Some(time) = piece.when(reading).filter(|&time| time < end) {
                return time;
            }
        }
        u64::MAX
    }

    /// From now on it runs too fast by this many millionths.
    pub(crate) fn set_rate(&self, ppm: i64) {
        self.bend(|piece| piece.ppm = ppm);
    }

    /// Steps forward or back.
    pub(crate) fn jump(&self, by_micros: i64) {
        self.bend(|piece| piece.reads += by_micros);
    }

    /// Stands still until this true time: a clock that does not count suspension.
    pub(crate) fn stop_until(&self, end: u64) {
        let mut before = 0;
        self.bend(|piece| {
            before = piece.ppm;
            piece.ppm = -1_000_000;
        });
        let mut pieces = self.pieces();
        if let Some(last) = pieces.last().copied() {
            pieces.push(Piece { from: end.max(last.from), reads: last.reads, ppm: before });
        }
    }

    /// Begins a new piece now. What had been planned for later is forgotten.
    fn bend(&self, change: impl FnOnce(&mut Piece)) {
        let now = self.time.now();
        let mut pieces = self.pieces();
        // A clock that stands still until later goes on with the rate that was planned.
        let planned = pieces.last().map_or(0, |piece| piece.ppm);
        let current = pieces.iter().rev().find(|piece| piece.from <= now).copied();
        pieces.retain(|piece| piece.from <= now);
        let reads = current.map_or(0, |piece| piece.at(now));
        let mut next = Piece { from: now, reads, ppm: planned };
        change(&mut next);
        pieces.push(next);
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostClock")
    }
}

/// A worker's clock: its host's, never running backwards, and standing still where its process does.
#[derive(Debug)]
pub(crate) struct WorkerClock {
    pub(crate) clock: HostClock,
    pub(crate) gate: Gate,
    latest: AtomicU64,
}

impl WorkerClock {
    pub(crate) fn new(clock: HostClock, gate: Gate) -> Self {
        Self { clock, gate, latest: AtomicU64::new(0) }
    }
}

impl Clock for WorkerClock {
    fn now(&self) -> Timestamp {
        let read = self.clock.now();
        let before = self.latest.fetch_max(read, Ordering::Relaxed);
        // The marked point of the driver: it may be stopped right after any look at the clock.
        self.gate.may_pause(super::gate::Point::ClockRead);
        Timestamp::from_micros(read.max(before))
    }

    fn unix_micros(&self) -> u64 {
        EPOCH_MICROS + self.clock.now()
    }

    fn sleep(&self, span: Duration) -> Sleeping {
        let (clock, gate) = (self.clock.clone(), self.gate.clone());
        let wake = clock.now().saturating_add(micros(span));
        Box::pin(async move {
            loop {
                let left = clock.when(wake).saturating_sub(clock.time.now());
                if left == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(left).min(NAP)).await;
            }
            gate.pass().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_read_and_inverted_through_drift_jumps_and_stops() {
        let time = TrueTime::default();
        let clock = HostClock::new(&time, 100_000);
        assert_eq!((clock.at(1_000), clock.when(1_100)), (1_100, 1_000));
        time.set(Duration::from_micros(1_000));
        clock.jump(500);
        assert_eq!((clock.now(), clock.at(2_000)), (1_600, 2_700));
        // What it never showed it shows when it jumps over it.
        assert_eq!((clock.when(1_100), clock.when(1_300), clock.when(2_700)), (1_000, 1_000, 2_000));
        clock.stop_until(3_000);
        assert_eq!((clock.at(2_999), clock.at(4_000), clock.when(2_700)), (1_600, 2_700, 4_000));
        clock.set_rate(0);
        assert_eq!(clock.at(4_000), 4_600, "a new rate ends a stop");
    }
}
