//! Why an experiment could not be done.

use super::Fault;
use crate::lock::error::{AcquireError, ConfigError};
use crate::memory::{StoreError, UpdateError};

/// Why an experiment could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A number that makes no experiment.
    #[error("{what} {given}: it must be 1 to {most}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// How many.
        given: u64,
        /// The most.
        most: u64,
    },
    /// A fault of a lock that is not there, or is not ours to break.
    #[error(
        "fault {fault} finds nothing to strike under strategy {strategy}: take classic or fenced; with etcd and zookeeper only pause"
    )]
    NothingToBreak {
        /// Which.
        fault: Fault,
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A fault that is done to nodes, which are not ours.
    #[error(
        "fault {0} is done to the nodes themselves, and these are not in this process; take --nodes embedded:5"
    )]
    NodesNotOurs(Fault),
    /// A fault that is done to connections, which are not plain TCP.
    #[error(
        "fault {fault} is done to TCP connections, and node {node} is reached otherwise; take redis://host:port, or nodes in this process: --nodes embedded:5"
    )]
    NotTcp {
        /// Which.
        fault: Fault,
        /// Its place in the list, from 1.
        node: usize,
    },
    /// A fault of a minority, where there is none.
    #[error("fault {fault} strikes a minority, and {given} node(s) have none; take at least {least}")]
    TooFewNodes {
        /// Which.
        fault: Fault,
        /// How many nodes there are.
        given: usize,
        /// How many are needed.
        least: usize,
    },
    /// A memory that is not known.
    #[error(
        "this memory is not known in this build; take in-process, sqlite:PATH, redis:URL as in redis:redis://127.0.0.1:6379, or postgres:URL as in postgres:postgresql://127.0.0.1/db"
    )]
    UnknownMemory,
    /// The lock cannot work as it is configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lock was not acquired, and waiting did not help.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The counter cannot be read or written.
    #[error("the counter cannot be used: {0}")]
    Memory(#[from] StoreError),
    /// An update of the counter that was not made.
    #[error("the counter was not updated: {0}")]
    Update(Box<UpdateError>),
    /// The counter holds something else.
    #[error("the counter holds {found:?}, which is not a number; somebody else writes to it")]
    NotANumber {
        /// What it holds.
        found: String,
    },
    /// The embedded nodes could not be started.
    #[error("the embedded nodes cannot listen on 127.0.0.1")]
    Listen(#[from] std::io::Error),
    /// It was stopped.
    #[error("the experiment was stopped")]
    Stopped,
    /// A mistake in the experiment itself.
    #[error("a worker failed: {0}; this is a mistake in redfence, please report it")]
    Internal(String),
}

impl From<UpdateError<Self>> for ExperimentError {
    fn from(error: UpdateError<Self>) -> Self {
        match error.split() {
            Ok(own) => own,
            Err(update) => Self::Update(Box::new(update)),
        }
    }
}
