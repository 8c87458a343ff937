//! Ctrl-C and SIGTERM while agents work.

use std::sync::{Arc, OnceLock};

use redfence::agents::AgentsError;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals;

/// The wish to stop: told to those who can end in good order, and remembered for the exit code.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopping {
    pub(super) token: CancellationToken,
    exit: Arc<OnceLock<Exit>>,
}

impl Stopping {
    /// Listens from now on.
    pub(super) fn listen() -> Self {
        let stopping = Self::default();
        let heard = stopping.clone();
        tokio::spawn(async move {
            let exit = signals::stop().await;
            let _ = heard.exit.set(exit);
            heard.token.cancel();
        });
        stopping
    }

    /// Something that may be dropped half-way.
    pub(super) async fn or<T>(
        &self,
        work: impl Future<Output = Result<T, AgentsError>>,
    ) -> Result<T, Failure> {
        let done = tokio::select! {
            biased;
            () = self.token.cancelled() => Err(AgentsError::Stopped),
            done = work => done,
        };
        done.map_err(|error| self.failure(error))
    }

    /// What went wrong, or that it was stopped and by what.
    pub(super) fn failure(&self, error: AgentsError) -> Failure {
        let stopped = matches!(error, AgentsError::Stopped);
        let mut failure = Failure::from(error);
        if let (true, Some(exit)) = (stopped, self.exit.get()) {
            failure.exit = *exit;
        }
        failure
    }
}
