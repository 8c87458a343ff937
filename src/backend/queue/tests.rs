//! The keeper over a service that does what a test says, in virtual time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::backend::Wanted;
use crate::lock::LockGuard;
use crate::lock::clock::SystemEntropy;
use crate::lock::error::ExtendError;
use crate::lock::{LostReason, ReleaseOutcome};
use crate::proto::Timestamp;
use crate::proto::session::AutoExtend;

const TTL: Duration = Duration::from_secs(10);

/// Tokio's clock, which a test stops and moves.
#[derive(Debug)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn unix_micros(&self) -> u64 {
        self.now().as_micros()
    }
}

/// What the service does, and what it was asked.
#[derive(Debug, Default)]
struct Script {
    /// Not the first in the queue until told.
    queued: bool,
    first: Notify,
    gone: Notify,
    /// Requests get no answer.
    silent: Mutex<bool>,
    entered: AtomicU32,
    renewed: AtomicU32,
    left: AtomicU32,
}

#[derive(Clone, Debug)]
struct Scripted(Arc<Script>);

impl Scripted {
    /// As a service that does not answer: patience, then failure.
    async fn answer(&self) -> Result<(), Trouble> {
        if !*self.0.silent.lock().unwrap() {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
        Err(Trouble::Failed(Report::default()))
    }
}

impl Service for Scripted {
    type Place = Self;

    fn place(&self, _: &str, _: Owner, _: Ttl) -> Self {
        self.clone()
    }

    fn endpoints(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }

    async fn inspect(&self, _: &str) -> Result<Inspection, NodeError> {
        unreachable!("not asked")
    }

    async fn evict(&self, _: &str, _: Owner) -> Result<bool, NodeError> {
        unreachable!("not asked")
    }

    async fn prolong(&self, _: &str, _: Owner, _: Duration) -> Prolonged {
        unreachable!("not asked")
    }
}

impl Place for Scripted {
    const NEEDS_RENEWAL: bool = true;

    fn margin(_: Duration, drift: Drift) -> Duration {
        drift.fixed
    }

    async fn enter(&self, _: Manner) -> Result<Option<Entered>, Trouble> {
        self.0.entered.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(100)).await;
        self.answer().await?;
        Ok(Some(Entered { token: FencingToken(7), granted: TTL, first: !self.0.queued }))
    }

    async fn turn(&self) -> Result<(), Trouble> {
        tokio::select! {
            biased;
            () = self.0.gone.notified() => Err(Trouble::Gone),
            () = self.0.first.notified() => Ok(()),
        }
    }

    async fn renew(&self) -> Result<(), Trouble> {
        self.answer().await?;
        self.0.renewed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn gone(&self) {
        self.0.gone.notified().await;
    }

    async fn leave(&self) -> Result<bool, Trouble> {
        self.answer().await?;
        self.0.left.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    async fn tidy(&self) {}
}

struct Stage {
    script: Arc<Script>,
    locks: Arc<Queue<Scripted>>,
}

impl Stage {
    fn new(queued: bool) -> Self {
        let script = Arc::new(Script { queued, ..Script::default() });
        let settings = Settings {
            drift: Drift::default(),
            prefix: String::new(),
            clock: Arc::new(Virtual(Instant::now())),
            entropy: Arc::new(SystemEntropy::default()),
            capabilities: Capabilities::of_redlock(Drift::default()),
        };
        let locks = Arc::new(Queue::new(Scripted(Arc::clone(&script)), settings));
        Self { script, locks }
    }

    async fn acquire(&self, extend: bool, wait: Wait) -> Result<LockGuard, AcquireError> {
        let auto = AutoExtend { every: TTL / 3, max_hold: TTL * 10 };
        let ttl = Ttl::from_duration(TTL).unwrap();
        let wanted = Wanted { resource: "a".to_owned(), ttl, extend: extend.then_some(auto) };
        self.locks.attempt(&wanted, wait).await.map(LockGuard::new)
    }

    fn silence(&self, on: bool) {
        *self.script.silent.lock().unwrap() = on;
    }

    fn left(&self) -> u32 {
        self.script.left.load(Ordering::Relaxed)
    }

    async fn drained(&self) {
        timeout(TTL * 20, self.locks.drain()).await.expect("something goes on for ever");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_falls_silent_costs_the_lock_at_its_own_deadline() {
    let stage = Stage::new(false);
    let guard = stage.acquire(true, Wait::No).await.unwrap();
    sleep(TTL * 2).await;
    assert!(guard.is_held(), "it is renewed");
    stage.silence(true);
    let since = Instant::now();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(since.elapsed() < TTL, "{:?}", since.elapsed());
    // Renewals that were answered before do not come back to life.
    stage.silence(false);
    sleep(TTL).await;
    assert!(!guard.is_held());
    drop(guard);
    stage.drained().await;
    assert_eq!(stage.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_a_renewal_was_sent() {
    let stage = Stage::new(false);
    let guard = stage.acquire(false, Wait::No).await.unwrap();
    assert!(guard.remaining() < TTL - Duration::from_millis(100), "entering took 100ms");
    sleep(TTL / 2).await;
    let left = guard.extend(TTL).await.unwrap();
    assert!(left > TTL * 9 / 10 && left < TTL, "{left:?}");
    let longer = guard.extend(TTL * 2).await.unwrap_err();
    assert!(matches!(longer, ExtendError::Config(ConfigError::TtlFixed { .. })), "{longer}");
    stage.silence(true);
    let silent = guard.extend(TTL).await.unwrap_err();
    assert!(matches!(silent, ExtendError::NoQuorum { remaining, .. } if remaining > TTL / 2), "{silent}");
    assert!(guard.is_held(), "what was promised before still holds");
}

#[tokio::test(start_paused = true)]
async fn without_extension_the_place_is_given_up_when_its_ttl_is_over() {
    let stage = Stage::new(false);
    let guard = stage.acquire(false, Wait::No).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(stage.left(), 0, "the TTL is longer than validity");
    sleep(Duration::from_secs(1)).await;
    assert_eq!((stage.left(), stage.script.renewed.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_while_it_enters_leaves_nothing() {
    let stage = Stage::new(false);
    let acquiring = stage.acquire(true, Wait::ForEver);
    assert!(timeout(Duration::from_millis(50), acquiring).await.is_err());
    stage.drained().await;
    assert_eq!((stage.script.entered.load(Ordering::Relaxed), stage.left()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_renews_and_its_time_in_the_queue_is_not_the_holders() {
    let stage = Stage::new(true);
    let waiting = async { stage.acquire(false, Wait::ForEver).await.unwrap() };
    let turn = async {
        sleep(TTL * 3).await;
        stage.script.first.notify_one();
    };
    let (guard, ()) = tokio::join!(waiting, turn);
    assert!(stage.script.renewed.load(Ordering::Relaxed) >= 8);
    assert!(guard.remaining() > TTL / 2, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn b84_a_waiter_whose_place_is_gone_is_told_and_not_served() {
    let stage = Stage::new(true);
    let gone = async {
        sleep(Duration::from_secs(1)).await;
        stage.script.gone.notify_one();
        // Too late: nobody is left who could be served.
        stage.script.first.notify_one();
    };
    let (acquired, ()) = tokio::join!(stage.acquire(false, Wait::ForEver), gone);
    assert!(matches!(acquired, Err(AcquireError::PlaceLost { .. })), "{acquired:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_be_confirmed_is_not_taken() {
    // B82: it was first when the service spoke last, and has not been heard of since.
    let stage = Stage::new(true);
    let turn = async {
        sleep(Duration::from_secs(1)).await;
        stage.silence(true);
        sleep(TTL).await;
        stage.script.first.notify_one();
    };
    let (acquired, ()) = tokio::join!(stage.acquire(false, Wait::ForEver), turn);
    assert!(matches!(acquired, Err(AcquireError::NoQuorum { .. })), "{acquired:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_says_whether_the_lock_was_held_or_the_service_away() {
    let stage = Stage::new(true);
    let held = stage.acquire(false, Wait::AtMost(TTL)).await.unwrap_err();
    assert!(matches!(held, AcquireError::Contended { .. }), "{held}");
    let silence = async {
        sleep(Duration::from_secs(1)).await;
        stage.silence(true);
    };
    let (away, ()) = tokio::join!(stage.acquire(false, Wait::AtMost(TTL)), silence);
    assert!(matches!(away, Err(AcquireError::NoQuorum { .. })), "{away:?}");
}

#[tokio::test(start_paused = true)]
async fn b90_a_release_is_repeated_until_the_service_has_confirmed_it() {
    let stage = Stage::new(false);
    let guard = stage.acquire(false, Wait::No).await.unwrap();
    stage.silence(true);
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Unknown);
    sleep(TTL * 3).await;
    assert_eq!(stage.left(), 0);
    stage.silence(false);
    stage.drained().await;
    assert_eq!(stage.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_gone_is_a_loss_at_once() {
    let stage = Stage::new(false);
    let guard = stage.acquire(true, Wait::No).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    stage.script.gone.notify_one();
    let since = Instant::now();
    assert_eq!(guard.lost().await, LostReason::QuorumGone);
    assert!(since.elapsed() < Duration::from_millis(10));
}
