//! One acquisition, from lining up to leaving: a task that outlives its caller for as long as there is something to clear up.
//!
//! Whatever the service says, the holder stops believing by its own clock: a TTL after the moment *before* the last sign of
//! life was sent that the service has confirmed, less the margin. Streams and watches only make a loss known sooner.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Entered, Failure, Manner, Place, Trouble};
use crate::lock::clock::Clock;
use crate::lock::error::{ConfigError, ExtendError};
use crate::lock::hold::{Command, Lease, Released};
use crate::lock::report::Report;
use crate::proto::retry::Backoff;
use crate::proto::session::{AutoExtend, LostReason, ReleaseOutcome};
use crate::proto::{Drift, FencingToken, Owner, Timestamp, Ttl};

/// Pauses between tries of something that the service did not do.
const AGAIN: Backoff = Backoff { first: Duration::from_millis(50), most: Duration::from_secs(5) };

/// A watch costs a request, and most holds are short: they end before anybody could need it.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// What one acquisition is about.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) resource: String,
    pub(super) owner: Owner,
    pub(super) extend: Option<AutoExtend>,
    pub(super) manner: Manner,
    /// When to give up waiting; `None` for never.
    pub(super) until: Option<Timestamp>,
    pub(super) drift: Drift,
}

/// The last confirmed sign of life.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// Before it was sent.
    asked: Timestamp,
    granted: Duration,
    margin: Duration,
}

impl Proof {
    fn valid_until(self) -> Timestamp {
        self.asked + self.validity()
    }

    fn validity(self) -> Duration {
        self.granted.saturating_sub(self.margin)
    }

    /// The place cannot end before this, and ends about then if nobody renews it.
    fn lives_until(self) -> Timestamp {
        self.asked + self.granted
    }
}

pub(super) struct Keeper<P> {
    place: Arc<P>,
    terms: Terms,
    clock: Arc<dyn Clock>,
    start: Timestamp,
    /// Closed when the caller, or the holder, is gone.
    commands: mpsc::UnboundedReceiver<Command>,
}

type Renewal = Pin<Box<dyn Future<Output = (Timestamp, Result<(), Trouble>)> + Send>>;

impl<P: Place> Keeper<P> {
    pub(super) fn new(
        place: P,
        terms: Terms,
        clock: Arc<dyn Clock>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let start = clock.now();
        Self { place: Arc::new(place), terms, clock, start, commands }
    }

    pub(super) async fn run(mut self, decided: oneshot::Sender<Result<Lease, Failure>>) {
        let (token, proof) = match self.acquire().await {
            Ok(acquired) => acquired,
            Err(failure) => {
                let (resource, owner) = (&self.terms.resource, self.terms.owner.short());
                let elapsed = self.clock.now().since(self.start);
                tracing::info!(resource, owner, ?failure, ?elapsed, "not acquired");
                // Who was not in the queue has nothing to leave.
                let in_queue =
                    !matches!((&failure, self.terms.manner), (Failure::Contended, Manner::OnlyIfFree));
                let _ = decided.send(Err(failure));
                if in_queue {
                    self.leave(None, None).await;
                }
                return;
            }
        };
        let now = self.clock.now();
        let cap = self.terms.extend.map(|auto| now + auto.max_hold);
        let until = cap.map_or(proof.valid_until(), |cap| proof.valid_until().min(cap));
        let (validity, elapsed) = (until.since(now), now.since(self.start));
        let (resource, owner) = (self.terms.resource.clone(), self.terms.owner);
        tracing::info!(resource, owner = owner.short(), token = token.0, ?validity, ?elapsed, "acquired");
        let lease = Lease::new(resource, owner, Some(token), until, cap, Arc::clone(&self.clock));
        let _ = decided.send(Ok(lease.clone()));
        Holding::new(self, lease, proof, cap).run().await;
    }

    async fn acquire(&mut self) -> Result<(FencingToken, Proof), Failure> {
        let asked = self.clock.now();
        // Not cut short when the caller goes: what was half done could not be cleared up.
        let entered = self.place.enter(self.terms.manner).await.map_err(failure)?;
        let Entered { token, granted, first } = entered.ok_or(Failure::Contended)?;
        let mut proof = Proof { asked, granted, margin: P::margin(granted, self.terms.drift) };
        if !first {
            tracing::debug!(resource = self.terms.resource, owner = self.terms.owner.short(), "in the queue");
            proof = self.wait_for_turn(proof).await?;
        }
        // The time in the queue is not the holder's loss; and one who was frozen must not believe what was true before.
        let used = self.clock.now().since(proof.asked);
        if used > proof.validity() / 4 {
            let asked = self.clock.now();
            self.place.renew().await.map_err(failure)?;
            proof.asked = asked;
        }
        if self.clock.now() >= proof.valid_until() {
            return Err(Failure::ValidityExhausted { granted, margin: proof.margin });
        }
        Ok((token, proof))
    }

    async fn wait_for_turn(&mut self, mut proof: Proof) -> Result<Proof, Failure> {
        let place = Arc::clone(&self.place);
        let mut turn = Box::pin(turn(Arc::clone(&place), Arc::clone(&self.clock), None));
        let mut renewal: Option<Renewal> = None;
        let mut renew_at = P::NEEDS_RENEWAL.then(|| proof.asked + proof.validity() / 3);
        // What the service said when it last could not.
        let mut trouble = None;
        loop {
            let (wait_over, due) = (self.until(self.terms.until), self.until(renew_at));
            tokio::select! {
                biased;
                // Nothing is asked before there is a guard: the caller has gone.
                _ = self.commands.recv() => return Err(Failure::GivenUp),
                outcome = &mut turn => match outcome {
                    Ok(()) => return Ok(proof),
                    Err(Trouble::Gone) => return Err(Failure::PlaceLost),
                    Err(Trouble::Failed(report)) => {
                        trouble = Some(report);
                        turn = Box::pin(self::turn(Arc::clone(&place), Arc::clone(&self.clock), Some(AGAIN.first)));
                    }
                },
                (asked, outcome) = ready(&mut renewal) => {
                    renewal = None;
                    renew_at = match outcome {
                        Ok(()) => {
                            (proof.asked, trouble) = (asked, None);
                            Some(asked + proof.validity() / 3)
                        }
                        Err(Trouble::Gone) => return Err(Failure::PlaceLost),
                        Err(Trouble::Failed(report)) => {
                            trouble = Some(report);
                            Some(self.clock.now() + again(proof))
                        }
                    };
                }
                () = wait_over => return Err(trouble.map_or(Failure::Contended, Failure::Unavailable)),
                () = due, if renewal.is_none() => {
                    renewal = Some(self.renewal());
                    renew_at = None;
                }
            }
        }
    }

    fn renewal(&self) -> Renewal {
        let (place, asked) = (Arc::clone(&self.place), self.clock.now());
        Box::pin(async move { (asked, place.renew().await) })
    }

    /// Waits for a moment; for ever if there is none. A timer may wake early, so whoever is woken looks at the clock.
    fn until(&self, moment: Option<Timestamp>) -> impl Future<Output = ()> + Send + use<P> {
        let clock = Arc::clone(&self.clock);
        async move {
            let Some(moment) = moment else { return pending().await };
            loop {
                let now = clock.now();
                if now >= moment {
                    return;
                }
                clock.sleep(moment.since(now)).await;
            }
        }
    }

    /// Gives the place up, again and again until the service has said that it is gone. `told` hears of it, after `patience` at the
    /// latest. A place that needs renewal has ended by itself after `ends`; one that does not is never given up on.
    async fn leave(
        &self,
        mut told: Option<oneshot::Sender<Released>>,
        ends: Option<Timestamp>,
    ) -> ReleaseOutcome {
        const ROUNDS: u32 = 12;
        let (resource, owner) = (&self.terms.resource, self.terms.owner.short());
        let mut tell = |outcome, report| {
            if let Some(told) = told.take() {
                let _ = told.send(Released { outcome, report });
            }
        };
        for round in 0.. {
            let report = match self.place.leave().await {
                Ok(was_there) => {
                    let outcome = if was_there { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
                    tracing::info!(resource, owner, %outcome, "released");
                    tell(outcome, Report::default());
                    self.place.tidy().await;
                    return outcome;
                }
                Err(Trouble::Gone) => {
                    tell(ReleaseOutcome::NotHeld, Report::default());
                    return ReleaseOutcome::NotHeld;
                }
                Err(Trouble::Failed(report)) => report,
            };
            tracing::debug!(resource, owner, round, nodes = %report, "not released yet");
            let over = P::NEEDS_RENEWAL && ends.is_none_or(|ends| self.clock.now() >= ends);
            if round >= ROUNDS && over {
                tracing::warn!(resource, owner, nodes = %report, "not released: what is left ends with its TTL");
                tell(ReleaseOutcome::Unknown, report);
                return ReleaseOutcome::Unknown;
            }
            tell(ReleaseOutcome::Unknown, report);
            self.clock.sleep(AGAIN.delay(round, 1.0)).await;
        }
        ReleaseOutcome::Unknown
    }
}

/// Waits for the turn, after a pause if the try before had failed.
async fn turn<P: Place>(
    place: Arc<P>,
    clock: Arc<dyn Clock>,
    pause: Option<Duration>,
) -> Result<(), Trouble> {
    if let Some(pause) = pause {
        clock.sleep(pause).await;
    }
    place.turn().await
}

fn failure(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Gone => Failure::PlaceLost,
        Trouble::Failed(report) => Failure::Unavailable(report),
    }
}

/// The pause after a renewal that failed.
fn again(proof: Proof) -> Duration {
    (proof.validity() / 12).max(Duration::from_millis(20))
}

/// The outcome of what is under way; never, if nothing is.
async fn ready<F: Future + Unpin>(open: &mut Option<F>) -> F::Output {
    match open {
        Some(open) => open.await,
        None => pending().await,
    }
}

/// A lock that is held, or was.
struct Holding<P> {
    keeper: Keeper<P>,
    lease: Lease,
    proof: Proof,
    cap: Option<Timestamp>,
    every: Option<Duration>,
    renewal: Option<Renewal>,
    renew_at: Option<Timestamp>,
    /// Who waits for the renewal under way.
    waiting: Vec<oneshot::Sender<Result<(), ExtendError>>>,
    /// Who asked during it: what was sent before cannot be theirs.
    next: Vec<oneshot::Sender<Result<(), ExtendError>>>,
    /// The place has been given up, or is gone.
    left: bool,
    /// When to try again to give it up.
    leave_at: Option<Timestamp>,
}

impl<P: Place> Holding<P> {
    fn new(keeper: Keeper<P>, lease: Lease, proof: Proof, cap: Option<Timestamp>) -> Self {
        // A granted TTL may be shorter than the one that was asked for.
        let every = keeper.terms.extend.map(|auto| auto.every.min(proof.validity() / 2));
        let renew_at = every.map(|every| proof.asked + every);
        let (waiting, next) = (Vec::new(), Vec::new());
        Self {
            keeper,
            lease,
            proof,
            cap,
            every,
            renewal: None,
            renew_at,
            waiting,
            next,
            left: false,
            leave_at: None,
        }
    }

    async fn run(mut self) {
        let place = Arc::clone(&self.keeper.place);
        let clock = Arc::clone(&self.keeper.clock);
        let mut gone = pin!(async {
            clock.sleep(WATCH_AFTER).await;
            place.gone().await;
        });
        loop {
            let [lost, renew, ends] = self.moments();
            tokio::select! {
                biased;
                command = self.keeper.commands.recv() => match command {
                    Some(Command::Extend { ttl, done }) => self.extend(ttl, done),
                    Some(Command::Release { done }) => return self.release(Some(done)).await,
                    Some(Command::Keep) => return self.keep().await,
                    None => return self.release(None).await,
                },
                (asked, outcome) = ready(&mut self.renewal) => self.renewed(asked, outcome),
                () = &mut gone, if self.lease.is_held() => self.lose(LostReason::QuorumGone),
                () = lost, if !self.left => self.validity_ended(),
                () = renew => self.begin_renewal(),
                () = ends, if !self.left => self.end().await,
            }
        }
    }

    /// When validity ends, when to renew, and when the place ends.
    fn moments(&self) -> [impl Future<Output = ()> + Send + use<P>; 3] {
        let held = self.lease.is_held();
        let lost = held.then(|| self.lease.valid_until());
        let renew = self.renew_at.filter(|_| held && self.renewal.is_none());
        let ends = (!held).then(|| self.leave_at.unwrap_or(self.proof.lives_until()));
        [lost, renew, ends].map(|moment| self.keeper.until(moment))
    }

    fn validity_ended(&mut self) {
        // The lease reads the clock itself, and says why.
        if let Some(reason) = self.lease.lost_reason() {
            self.lose(reason);
        }
    }

    fn lose(&mut self, reason: LostReason) {
        let reason = self.lease.lose(reason);
        let (resource, owner) = (&self.keeper.terms.resource, self.keeper.terms.owner.short());
        tracing::warn!(resource, owner, %reason, "lost");
        self.renew_at = None;
        for done in self.waiting.drain(..).chain(self.next.drain(..)) {
            let _ = done.send(Err(ExtendError::Lost(reason)));
        }
    }

    fn extend(&mut self, ttl: Ttl, done: oneshot::Sender<Result<(), ExtendError>>) {
        if let Some(reason) = self.lease.lost_reason() {
            let _ = done.send(Err(ExtendError::Lost(reason)));
            return;
        }
        let (asked, granted) = (ttl.as_duration(), self.proof.granted);
        if asked > granted {
            let _ = done.send(Err(ConfigError::TtlFixed { asked, granted }.into()));
            return;
        }
        match self.renewal {
            Some(_) => self.next.push(done),
            None => {
                self.waiting.push(done);
                self.begin_renewal();
            }
        }
    }

    fn begin_renewal(&mut self) {
        self.renew_at = None;
        self.renewal = Some(self.keeper.renewal());
    }

    fn renewed(&mut self, asked: Timestamp, outcome: Result<(), Trouble>) {
        self.renewal = None;
        if self.lease.lost_reason().is_some() {
            return self.validity_ended();
        }
        let (resource, owner) = (&self.keeper.terms.resource, self.keeper.terms.owner.short());
        match outcome {
            Ok(()) => {
                self.proof.asked = asked;
                let until = self.proof.valid_until();
                self.lease.prolong(self.cap.map_or(until, |cap| until.min(cap)));
                tracing::info!(resource, owner, validity = ?self.lease.remaining(), "extended");
                self.renew_at = self.every.map(|every| asked + every);
                self.waiting.drain(..).for_each(|done| drop(done.send(Ok(()))));
            }
            Err(Trouble::Gone) => self.lose(LostReason::QuorumGone),
            Err(Trouble::Failed(report)) => {
                tracing::warn!(resource, owner, nodes = %report, "not extended");
                self.renew_at = self.every.map(|_| self.keeper.clock.now() + again(self.proof));
                let remaining = self.lease.remaining();
                for done in self.waiting.drain(..) {
                    let _ = done.send(Err(ExtendError::NoQuorum { remaining, report: report.clone() }));
                }
            }
        }
        if !self.next.is_empty() {
            self.waiting = std::mem::take(&mut self.next);
            self.begin_renewal();
        }
    }

    /// The TTL of a lost lock is over: others are kept out no longer, not even where places live as long as a session does.
    async fn end(&mut self) {
        match self.keeper.place.leave().await {
            Ok(_) | Err(Trouble::Gone) => self.left = true,
            Err(Trouble::Failed(_)) => self.leave_at = Some(self.keeper.clock.now() + AGAIN.most / 10),
        }
    }

    async fn release(mut self, done: Option<oneshot::Sender<Released>>) {
        self.lose_quietly();
        match done {
            Some(done) if self.left => {
                let gone = Released { outcome: ReleaseOutcome::NotHeld, report: Report::default() };
                let _ = done.send(gone);
            }
            None if self.left => {}
            done => {
                let ends = self.proof.lives_until() + self.proof.margin;
                self.keeper.leave(done, Some(ends)).await;
            }
        }
    }

    fn lose_quietly(&mut self) {
        self.lease.lose(LostReason::Released);
        for done in self.waiting.drain(..).chain(self.next.drain(..)) {
            let _ = done.send(Err(ExtendError::Overtaken));
        }
        // A renewal that is still under way could bring nothing back: it renews, it does not create.
        self.renewal = None;
    }

    /// Leaves the place to its TTL.
    async fn keep(self) {
        tracing::info!(
            resource = self.keeper.terms.resource,
            owner = self.keeper.terms.owner.short(),
            "kept"
        );
        let Self { keeper, lease, proof, .. } = self;
        // Not on the books: whoever waits until nothing is left to clear up does not wait for this.
        tokio::spawn(async move {
            lease.lost().await;
            if !P::NEEDS_RENEWAL {
                keeper.until(Some(proof.lives_until())).await;
                keeper.leave(None, None).await;
            }
        });
    }
}
