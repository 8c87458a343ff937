//! One back end of several: what the face of the lock asks of any of them.

use std::time::Duration;

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use super::queue::Queue;
use super::redlock::Redlock;
use crate::lock::clock::{Clock, Entropy};
use crate::lock::error::{AcquireError, ConfigError};
use crate::lock::hold::Hold;
use crate::lock::report::{NodeError, Report};
use crate::lock::{Capabilities, Inspection};
use crate::proto::session::AutoExtend;
use crate::proto::{Drift, Owner, Quorum, Request, Ttl};

/// What one attempt asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) resource: String,
    pub(crate) ttl: Ttl,
    pub(crate) extend: Option<AutoExtend>,
}

/// How long an attempt may stand in a queue, where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    No,
    AtMost(Duration),
    ForEver,
}

/// Where the locks are.
#[derive(Debug)]
pub(crate) enum Backend {
    Redlock(Redlock),
    #[cfg(feature = "etcd")]
    Etcd(Queue<super::Etcd>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Queue<super::ZooKeeper>),
}

/// One answer for Redlock, one for every service with a queue.
macro_rules! on {
    ($backend:expr, $redlock:pat => $one:expr, $queue:pat => $other:expr) => {
        match $backend {
            Backend::Redlock($redlock) => $one,
            #[cfg(feature = "etcd")]
            Backend::Etcd($queue) => $other,
            #[cfg(feature = "zookeeper")]
            Backend::ZooKeeper($queue) => $other,
        }
    };
}

impl Backend {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Redlock(_) => "redlock",
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => "etcd",
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => "zookeeper",
        }
    }

    /// Redlock, or the error that says that `what` is not for this back end.
    #[cfg_attr(
        not(any(feature = "etcd", feature = "zookeeper")),
        expect(unused_variables, reason = "without other back ends there is nothing to refuse")
    )]
    pub(crate) fn redlock(&self, what: &'static str) -> Result<&Redlock, ConfigError> {
        let backend = self.name();
        on!(self, redlock => Ok(redlock), _ => Err(ConfigError::NotForBackend { what, backend }))
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        on!(self, redlock => Capabilities::of_redlock(redlock.settings.drift), queue => queue.settings.capabilities)
    }

    pub(crate) fn drift(&self) -> Drift {
        on!(self, redlock => redlock.settings.drift, queue => queue.settings.drift)
    }

    pub(crate) fn prefix(&self) -> &str {
        on!(self, redlock => &redlock.settings.prefix, queue => &queue.settings.prefix)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        on!(self, redlock => redlock.clock(), queue => queue.settings.clock.as_ref())
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        on!(self, redlock => redlock.entropy(), queue => queue.settings.entropy.as_ref())
    }

    /// A service votes within itself: from outside it is one.
    pub(crate) fn quorum(&self) -> Quorum {
        on!(self, redlock => redlock.settings.quorum, _ => Quorum::of(1))
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        on!(self,
            redlock => redlock.nodes().iter().map(|node| node.address.clone()).collect(),
            queue => vec![queue.address()])
    }

    pub(crate) async fn attempt(&self, wanted: &Wanted, wait: Wait) -> Result<Hold, AcquireError> {
        // Redlock has no queue: `lock::wait` tries again.
        let _ = wait;
        on!(self, redlock => redlock.attempt(wanted).await, queue => queue.attempt(wanted, wait).await)
    }

    pub(crate) async fn inspect(&self, resource: &str) -> Vec<(String, Result<Inspection, NodeError>)> {
        on!(self, redlock => redlock.inspect(resource).await, queue => queue.inspect(resource).await)
    }

    pub(crate) async fn release_owner(&self, resource: &str, owner: Owner) -> Report {
        on!(self,
            redlock => redlock.ask_all(resource, Request::Release { owner }).await,
            queue => queue.evict(resource, owner).await)
    }

    pub(crate) async fn extend_owner(
        &self,
        resource: &str,
        owner: Owner,
        ttl: Ttl,
    ) -> Result<Report, ConfigError> {
        on!(self,
            redlock => Ok(redlock.ask_all(resource, Request::Extend { owner, ttl }).await),
            queue => queue.prolong(resource, owner, ttl, self.name()).await)
    }

    /// Waits until nothing is left to clear up.
    pub(crate) async fn drain(&self) {
        on!(self, redlock => redlock.drain().await, queue => queue.drain().await)
    }
}
