//! Pauses: a process that stands still while time passes.
//!
//! turmoil cannot stop a host. So everything that moves a process is stopped: its streams neither take nor give bytes, its
//! timers do not ring, and its own work waits at marked points. Within one step of its runtime a task that was woken runs
//! on until it next waits for one of these: a pause begins at a point of waiting, as one by the scheduler may begin anywhere.
//! The redis client's own queue between the driver and the stream goes on, but nothing leaves the host.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::clock::{HostClock, TrueTime};

/// How often a stopped process looks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

/// Where a process may be stopped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Point {
    /// In the driver, and in every look at the lease: the clock was read, and what follows from it comes later.
    ClockRead,
    /// The lock is held, the value not yet read.
    BeforeRead,
    /// The lease was found held; the value is not yet written.
    BeforeWrite,
    /// Everything is done but the release.
    BeforeRelease,
}

/// What is drawn for the marked points.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PauseOdds {
    /// At a look at the clock.
    pub(crate) clock_read: f64,
    /// In the critical section.
    pub(crate) critical: f64,
    /// The longest pause, microseconds.
    pub(crate) longest: u64,
    /// How often the clock stands still as well.
    pub(crate) with_clock: f64,
}

struct Inner {
    time: TrueTime,
    /// Closed until this true time.
    until: AtomicU64,
    /// From when to when it was closed, for those who ask afterwards.
    spans: Mutex<Vec<(u64, u64)>>,
    odds: Mutex<(PauseOdds, fastrand::Rng)>,
    clock: Option<HostClock>,
    told: Box<dyn Fn(Pause) + Send + Sync>,
    /// What a script does when the process next passes a point.
    script: Mutex<Option<(Point, Script)>>,
}

type Script = Box<dyn FnOnce() + Send>;

/// A pause that a marked point has begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pause {
    pub(crate) point: Point,
    pub(crate) micros: u64,
    /// The host's clock stands still too.
    pub(crate) with_clock: bool,
}

/// Lets a process run, or not. Clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    /// `told` hears of pauses at marked points; `clock` is what stands still with them where that is drawn.
    pub(crate) fn new(
        time: &TrueTime,
        clock: Option<HostClock>,
        seed: u64,
        told: impl Fn(Pause) + Send + Sync + 'static,
    ) -> Self {
        let odds = Mutex::new((PauseOdds::default(), fastrand::Rng::with_seed(seed)));
        let (time, until, told) = (time.clone(), AtomicU64::new(0), Box::new(told));
        let spans = Mutex::default();
        Self(Arc::new(Inner { time, until, spans, odds, clock, told, script: Mutex::default() }))
    }

    pub(crate) fn set_odds(&self, odds: PauseOdds) {
        self.0.odds.lock().unwrap_or_else(PoisonError::into_inner).0 = odds;
    }

    /// Stops the process for this long from now, or for ever if it is `u64::MAX`.
    pub(crate) fn pause(&self, micros: u64) {
        let now = self.0.time.now();
        let until = now.saturating_add(micros);
        self.0.until.fetch_max(until, Ordering::Relaxed);
        self.spans().push((now, until));
    }

    fn spans(&self) -> std::sync::MutexGuard<'_, Vec<(u64, u64)>> {
        self.0.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was closed at this true time.
    pub(crate) fn was_closed(&self, at: u64) -> bool {
        self.spans().iter().any(|(from, until)| (*from..*until).contains(&at))
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.0.until.store(0, Ordering::Relaxed);
        let now = self.0.time.now();
        self.spans().iter_mut().for_each(|(_, until)| *until = now.min(*until));
    }

    /// True time left until it goes on.
    fn left(&self) -> Duration {
        let until = self.0.until.load(Ordering::Relaxed);
        Duration::from_micros(until.saturating_sub(self.0.time.now()))
    }

    /// Scripted runs: does this when the process next comes to that point.
    pub(crate) fn on_point(&self, point: Point, script: impl FnOnce() + Send + 'static) {
        *self.0.script.lock().unwrap_or_else(PoisonError::into_inner) = Some((point, Box::new(script)));
    }

    fn follow_script(&self, point: Point) {
        let mut script = self.0.script.lock().unwrap_or_else(PoisonError::into_inner);
        let due = script.take_if(|(at, _)| *at == point);
        drop(script);
        if let Some((_, script)) = due {
            script();
        }
    }

    /// A marked point: stops the process if a script or the dice say so.
    pub(crate) fn may_pause(&self, point: Point) {
        self.follow_script(point);
        let mut odds = self.0.odds.lock().unwrap_or_else(PoisonError::into_inner);
        let (odds, dice) = &mut *odds;
        let chance = if point == Point::ClockRead { odds.clock_read } else { odds.critical };
        if chance <= 0.0 || dice.f64() >= chance {
            return;
        }
        let micros = dice.u64(1_000..=odds.longest.max(1_000));
        let with_clock = dice.f64() < odds.with_clock;
        self.pause(micros);
        if let Some(clock) = self.0.clock.as_ref().filter(|_| with_clock) {
            clock.stop_until(self.0.time.now() + micros);
        }
        (self.0.told)(Pause { point, micros, with_clock });
    }

    /// A marked point where the process also waits while it is stopped.
    pub(crate) async fn point(&self, point: Point) {
        self.may_pause(point);
        self.pass().await;
    }

    /// Returns when the process may run.
    pub(crate) async fn pass(&self) {
        let mut nap = None;
        poll_fn(|cx| self.poll_pass(cx, &mut nap)).await;
    }

    fn poll_pass(&self, cx: &mut Context<'_>, nap: &mut Option<Pin<Box<Sleep>>>) -> Poll<()> {
        loop {
            let left = self.left();
            if left.is_zero() {
                *nap = None;
                return Poll::Ready(());
            }
            let sleep = nap.get_or_insert_with(|| Box::pin(tokio::time::sleep(left.min(LOOK))));
            match sleep.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => *nap = None,
            }
        }
    }
}

/// A stream of a process that may be stopped.
pub(crate) struct Gated<S> {
    stream: S,
    gate: Gate,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> Gated<S> {
    pub(crate) fn new(stream: S, gate: &Gate) -> Self {
        Self { stream, gate: gate.clone(), reading: None, writing: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        match this.gate.poll_pass(cx, &mut this.reading) {
            Poll::Ready(()) => Pin::new(&mut this.stream).poll_read(cx, buf),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        match this.gate.poll_pass(cx, &mut this.writing) {
            Poll::Ready(()) => Pin::new(&mut this.stream).poll_write(cx, buf),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
