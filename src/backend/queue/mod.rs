//! Locks that are places in a queue which a consensus service keeps: what etcd and ZooKeeper have in common.
//!
//! `Service` and `Place` are what such a service can do; `keeper` runs one acquisition over them, from lining up to leaving;
//! `endpoint` reads addresses, `names` makes resources into paths. Nothing here knows which service it is.
//!
//! The service decides who is first, and its own history gives the token, so there is no quorum to count here. What is the same
//! as for Redlock, because no lease can do without it: the holder believes its own clock only, from *before* the last
//! request that the service has confirmed (`R3`), and needs the token all the same (`R9`).

pub(crate) mod endpoint;
mod keeper;
pub(crate) mod names;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use self::keeper::{Keeper, Terms};
use super::{Wait, Wanted};
use crate::lock::clock::{Clock, Entropy};
use crate::lock::error::{AcquireError, ConfigError};
use crate::lock::hold::Hold;
use crate::lock::report::{NodeAnswer, NodeError, NodeReport, Report};
use crate::lock::{Capabilities, Inspection};
use crate::proto::{Drift, FencingToken, NodeId, Owner, Quorum, Ttl};

/// What went wrong with a place.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It is provably gone: its lease or its session has ended, or somebody removed it.
    Gone,
    /// The service could not, or did not answer; what each endpoint said.
    Failed(Report),
}

/// A place that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The place's number in the history of the service: grows with each place in this queue.
    pub(crate) token: FencingToken,
    /// How long the place lives after each sign of life. The service may grant another TTL than it was asked for.
    pub(crate) granted: Duration,
    /// Nobody is before it.
    pub(crate) first: bool,
}

/// How to line up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Behind those who are there.
    Queue,
    /// Only if nobody is there: who will not wait must not stand in others' way.
    OnlyIfFree,
}

/// What became of a renewal from outside.
#[derive(Debug)]
pub(crate) enum Prolonged {
    Done,
    /// This owner is not first, or not there.
    NotFirst,
    /// The place lives by the TTL of its grant, which is shorter.
    Shorter {
        granted: Duration,
    },
    /// Only the holder itself can do this.
    Impossible,
    Failed(NodeError),
}

/// A service that keeps queues.
pub(crate) trait Service: fmt::Debug + Send + Sync + 'static {
    /// One place in one queue.
    type Place: Place;

    /// A place that is not taken yet; nothing is asked. `queue` is an encoded name.
    fn place(&self, queue: &str, owner: Owner, ttl: Ttl) -> Self::Place;

    /// The addresses given, without credentials.
    fn endpoints(&self) -> Vec<String>;

    /// Who is first in a queue.
    fn inspect(&self, queue: &str) -> impl Future<Output = Result<Inspection, NodeError>> + Send;

    /// Removes an owner's place. Whether it was there.
    fn evict(&self, queue: &str, owner: Owner) -> impl Future<Output = Result<bool, NodeError>> + Send;

    /// Renews an owner's place at the head of a queue, if it may be expected to live for `ttl` then.
    fn prolong(&self, queue: &str, owner: Owner, ttl: Duration) -> impl Future<Output = Prolonged> + Send;
}

/// One acquisition's place in a queue. Every call ends by itself within the patience that the service was made with, except
/// [`turn`](Self::turn) and [`gone`](Self::gone).
pub(crate) trait Place: Send + Sync + 'static {
    /// Whether the place ends unless it is renewed: in a queue too.
    const NEEDS_RENEWAL: bool;

    /// What must be taken off a granted TTL so that the holder stops believing before the place ends.
    fn margin(granted: Duration, drift: Drift) -> Duration;

    /// Lines up; `None` if it was [`Manner::OnlyIfFree`] and is not.
    fn enter(&self, manner: Manner) -> impl Future<Output = Result<Option<Entered>, Trouble>> + Send;

    /// Returns when nobody is before it any more. Dropping the future is harmless.
    fn turn(&self) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// A sign of life that the service has confirmed.
    fn renew(&self) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Returns when the place is provably gone, else never.
    fn gone(&self) -> impl Future<Output = ()> + Send;

    /// Gives the place up, whether or not it was ever taken. True if it was there. May be repeated.
    fn leave(&self) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// Clears up after the place was left: what is in nobody's way, and ends by itself if this fails.
    fn tidy(&self) -> impl Future<Output = ()> + Send;
}

/// What all acquisitions share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) drift: Drift,
    pub(crate) prefix: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) capabilities: Capabilities,
}

/// The lock on one service.
#[derive(Debug)]
pub(crate) struct Queue<S> {
    pub(crate) settings: Settings,
    service: S,
    tasks: TaskTracker,
}

/// Why an acquisition failed.
#[derive(Debug)]
enum Failure {
    Contended,
    /// The place was gone before its turn came.
    PlaceLost,
    Unavailable(Report),
    ValidityExhausted {
        granted: Duration,
        margin: Duration,
    },
    GivenUp,
}

impl<S: Service> Queue<S> {
    pub(crate) fn new(service: S, settings: Settings) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self { settings, service, tasks }
    }

    /// Lines up, and waits for its turn for at most `wait`, if it may wait at all.
    pub(crate) async fn attempt(&self, wanted: &Wanted, wait: Wait) -> Result<Hold, AcquireError> {
        let clock = Arc::clone(&self.settings.clock);
        let start = clock.now();
        let owner = self.settings.entropy.owner();
        let place = self.service.place(&self.queue(&wanted.resource), owner, wanted.ttl);
        let terms = Terms {
            resource: wanted.resource.clone(),
            owner,
            extend: wanted.extend,
            manner: if wait == Wait::No { Manner::OnlyIfFree } else { Manner::Queue },
            until: match wait {
                Wait::AtMost(span) => Some(start + span),
                Wait::No | Wait::ForEver => None,
            },
            drift: self.settings.drift,
        };
        let (commands, requests) = mpsc::unbounded_channel();
        let (decided, verdict) = oneshot::channel();
        let keeper = Keeper::new(place, terms, Arc::clone(&clock), requests);
        self.tasks.spawn(keeper.run(decided));
        match verdict.await {
            Ok(Ok(lease)) => Ok(Hold { lease, commands }),
            Ok(Err(failure)) => Err(self.error(wanted, failure, clock.now().since(start))),
            Err(_) => Err(AcquireError::Shutdown),
        }
    }

    /// Waits until nothing is left to clear up.
    pub(crate) async fn drain(&self) {
        self.tasks.wait().await;
    }

    pub(crate) async fn inspect(&self, resource: &str) -> Vec<(String, Result<Inspection, NodeError>)> {
        vec![(self.address(), self.service.inspect(&self.queue(resource)).await)]
    }

    pub(crate) async fn evict(&self, resource: &str, owner: Owner) -> Report {
        let done = self.service.evict(&self.queue(resource), owner).await;
        self.said(match done {
            Ok(true) => NodeAnswer::Released,
            Ok(false) => NodeAnswer::NotMine,
            Err(error) => NodeAnswer::Failed(error),
        })
    }

    pub(crate) async fn prolong(
        &self,
        resource: &str,
        owner: Owner,
        ttl: Ttl,
        backend: &'static str,
    ) -> Result<Report, ConfigError> {
        let asked = ttl.as_duration();
        let answer = match self.service.prolong(&self.queue(resource), owner, asked).await {
            Prolonged::Done => NodeAnswer::Extended,
            Prolonged::NotFirst => NodeAnswer::NotMine,
            Prolonged::Failed(error) => NodeAnswer::Failed(error),
            Prolonged::Shorter { granted } => return Err(ConfigError::TtlFixed { asked, granted }),
            Prolonged::Impossible => {
                let what = "extending a lock from outside its holder";
                return Err(ConfigError::NotForBackend { what, backend });
            }
        };
        Ok(self.said(answer))
    }

    /// The service as one address: it votes within itself.
    pub(crate) fn address(&self) -> String {
        self.service.endpoints().join(",")
    }

    fn queue(&self, resource: &str) -> String {
        names::encoded(&format!("{}{resource}", self.settings.prefix))
    }

    fn said(&self, answer: NodeAnswer) -> Report {
        Report(vec![NodeReport { node: NodeId::new(0), address: self.address(), answer }])
    }

    fn error(&self, wanted: &Wanted, failure: Failure, waited: Duration) -> AcquireError {
        let resource = wanted.resource.clone();
        let quorum = Quorum::of(self.service.endpoints().len());
        let (needed, nodes, attempts) = (quorum.needed(), quorum.nodes(), 1);
        match failure {
            Failure::Contended => {
                let report = self.said(NodeAnswer::Taken { remaining: None });
                AcquireError::Contended { resource, waited, attempts, report }
            }
            Failure::PlaceLost => AcquireError::PlaceLost { resource, waited },
            Failure::Unavailable(report) if is_lasting(&report) => {
                AcquireError::Unusable { resource, needed, nodes, report }
            }
            Failure::Unavailable(report) => {
                AcquireError::NoQuorum { resource, needed, nodes, waited, attempts, report }
            }
            Failure::ValidityExhausted { granted, margin } => AcquireError::ValidityExhausted {
                resource,
                ttl: granted,
                elapsed: waited,
                drift: margin,
                report: self.said(NodeAnswer::Silent),
            },
            Failure::GivenUp => AcquireError::Shutdown,
        }
    }
}

/// One member that refuses for good speaks for all: they share one state.
fn is_lasting(report: &Report) -> bool {
    report.count(|answer| matches!(answer, NodeAnswer::Failed(error) if error.is_permanent())) > 0
}
