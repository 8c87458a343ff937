//! Work under a lock, stopped when the lock is lost.

use super::error::AcquireError;
use super::guard::LockGuard;
use super::hold::Lease;
use super::report::Report;
use crate::proto::session::LostReason;

/// Why work under a lock did not end by itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired; the work was not begun.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost, and the work was stopped. What it has done so far may stand beside another holder's doing, unless the
    /// resource checks fencing tokens.
    #[error("the lock on {resource:?} was lost ({reason}) and the work was stopped")]
    Lost {
        /// The resource.
        resource: String,
        /// Why.
        reason: LostReason,
    },
}

impl RunError {
    /// What every node said, if the lock was not acquired.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Acquire(error) => error.report(),
            Self::Lost { .. } => None,
        }
    }
}

/// Runs the work while the guard holds. A panic in the work drops the guard, which releases.
pub(super) async fn run<T, F>(guard: LockGuard, work: impl FnOnce(Lease) -> F) -> Result<T, RunError>
where
    F: Future<Output = T>,
{
    let work = work(guard.lease().clone());
    tokio::select! {
        biased;
        reason = guard.lost() => {
            let resource = guard.resource().to_owned();
            Err(RunError::Lost { resource, reason })
        }
        done = work => {
            guard.release().await;
            Ok(done)
        }
    }
}
