//! Why agents could not do their work.

use std::error::Error;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::lock::error::{AcquireError, ConfigError};
use crate::memory::recipes::TaskError;
use crate::memory::{StoreError, UpdateError};

/// Why agents could not do their work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentsError {
    /// A number that makes no run.
    #[error("{what} {given}: it must be 1 to {most}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// How many.
        given: u64,
        /// The most.
        most: u64,
    },
    /// Nobody could take over from a frozen agent.
    #[error(
        "1 agent: one that is frozen needs another that takes over; take at least 2 agents, or freeze none"
    )]
    TooFewToFreeze,
    /// The user's vectors are not what they must be.
    #[error("vectors, line {line}: {problem}")]
    Vectors {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The store holds the documents of another run.
    #[error("this memory holds the documents of an earlier run; give another file")]
    AlreadyThere,
    /// The store holds no run.
    #[error("this memory holds no documents to add: fill it first")]
    NotFilled,
    /// The lock cannot work as it is configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lock was not acquired, and waiting did not help.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The store failed.
    #[error("the memory failed")]
    Memory(#[source] Box<dyn Error + Send + Sync>),
    /// The locks have no tokens, and the store could refuse nobody.
    #[error("classic locks have no tokens: take fenced ones")]
    NoToken,
    /// A process of ours cannot be started, heard or signalled.
    #[error("agent {name}: its process cannot be {what}")]
    Process {
        /// Which agent.
        name: String,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// An agent ended that should not have.
    #[error("agent {name} has failed ({status}); what it said of it is above")]
    Died {
        /// Which agent.
        name: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// No agent says anything any more.
    #[error("no agent has said anything for {0:?}")]
    Silent(Duration),
    /// It was stopped.
    #[error("the agents were stopped")]
    Stopped,
}

impl From<StoreError> for AgentsError {
    fn from(error: StoreError) -> Self {
        Self::Memory(error.into())
    }
}

impl From<TaskError> for AgentsError {
    fn from(error: TaskError) -> Self {
        Self::Memory(error.into())
    }
}

impl From<UpdateError<serde_json::Error>> for AgentsError {
    fn from(error: UpdateError<serde_json::Error>) -> Self {
        Self::Memory(error.into())
    }
}

/// Something in the store is not what this program writes there.
impl From<serde_json::Error> for AgentsError {
    fn from(error: serde_json::Error) -> Self {
        Self::Memory(error.into())
    }
}
