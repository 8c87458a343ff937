//! What a back end hands over when it has acquired: a lease to look at, and a way to ask for more.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::error::ExtendError;
use super::report::Report;
use crate::proto::session::{LostReason, ReleaseOutcome};
use crate::proto::{FencingToken, Owner, Timestamp, Ttl};

/// A lock that somebody holds, or held: to look at, to clone, to hand to the work it protects.
///
/// Looking asks no node. After the process was frozen or the machine suspended, the first look says "lost" (B37).
#[derive(Clone)]
pub struct Lease {
    state: Arc<State>,
}

struct State {
    resource: String,
    owner: Owner,
    token: Option<FencingToken>,
    clock: Arc<dyn Clock>,
    valid_until: AtomicU64,
    /// The end of the longest hold, if there is one: no extension moves validity beyond it.
    cap: Option<Timestamp>,
    lost: OnceLock<LostReason>,
    stop: CancellationToken,
}

impl Lease {
    pub(crate) fn new(
        resource: String,
        owner: Owner,
        token: Option<FencingToken>,
        valid_until: Timestamp,
        cap: Option<Timestamp>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let valid_until = AtomicU64::new(valid_until.as_micros());
        let state = State {
            resource,
            owner,
            token,
            clock,
            valid_until,
            cap,
            lost: OnceLock::new(),
            stop: CancellationToken::new(),
        };
        Self { state: Arc::new(state) }
    }

    /// What is locked.
    pub fn resource(&self) -> &str {
        &self.state.resource
    }

    /// The value that signs the lock keys.
    pub fn owner(&self) -> Owner {
        self.state.owner
    }

    /// The fencing token: give it to every read and write of the protected resource (`R9` in `docs/safety.md`).
    ///
    /// Always `Some`, except in classic mode, which has none. It stays the same through extensions.
    pub fn token(&self) -> Option<FencingToken> {
        self.state.token
    }

    /// For how long the holder may still believe: TTL - elapsed - drift; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        match self.lost_reason() {
            Some(_) => Duration::ZERO,
            None => self.valid_until().since(self.state.clock.now()),
        }
    }

    /// The end of validity, on the lock's own clock.
    pub fn valid_until(&self) -> Timestamp {
        Timestamp::from_micros(self.state.valid_until.load(Ordering::Acquire))
    }

    /// Whether the holder may still believe. A clock is read; no node is asked.
    ///
    /// True now says nothing about the next moment: a check before a write does not replace the fencing token.
    pub fn is_held(&self) -> bool {
        self.lost_reason().is_none()
    }

    /// Why the lock is lost, if it is.
    pub fn lost_reason(&self) -> Option<LostReason> {
        if let Some(reason) = self.state.lost.get() {
            return Some(*reason);
        }
        let until = self.valid_until();
        if self.state.clock.now() < until {
            return None;
        }
        let capped = self.state.cap.is_some_and(|cap| until >= cap);
        Some(self.lose(if capped { LostReason::MaxHold } else { LostReason::Expired }))
    }

    /// Waits until the lock is lost. Comes before the keys can expire, whether or not any node speaks.
    pub async fn lost(&self) -> LostReason {
        loop {
            if let Some(reason) = self.lost_reason() {
                return reason;
            }
            // A timer of its own: loss must not depend on the task that talks to the nodes.
            tokio::select! {
                biased;
                () = self.state.stop.cancelled() => {}
                () = self.state.clock.sleep(self.remaining()) => {}
            }
        }
    }

    /// A token that is cancelled when the lock is lost: hand it to the work that must stop.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.state.stop.clone()
    }

    pub(crate) fn prolong(&self, valid_until: Timestamp) {
        self.state.valid_until.fetch_max(valid_until.as_micros(), Ordering::AcqRel);
    }

    /// Notes the loss; the first reason stays.
    pub(crate) fn lose(&self, reason: LostReason) -> LostReason {
        let first = *self.state.lost.get_or_init(|| reason);
        self.state.stop.cancel();
        first
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resource", &self.resource())
            .field("owner", &self.owner().short())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .field("lost", &self.lost_reason())
            .finish()
    }
}

/// What became of a release, and what every node said.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Released {
    /// Released, not held any more, or unknown.
    pub outcome: ReleaseOutcome,
    /// What every node said.
    pub report: Report,
}

/// What a holder asks of the task that talks to the nodes. Closing the channel asks for a release.
pub(crate) enum Command {
    Extend {
        ttl: Ttl,
        done: oneshot::Sender<Result<(), ExtendError>>,
    },
    Release {
        done: oneshot::Sender<Released>,
    },
    /// Leave the keys at the nodes.
    Keep,
}

/// A lease and the line to its back end.
pub(crate) struct Hold {
    pub(crate) lease: Lease,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
}
