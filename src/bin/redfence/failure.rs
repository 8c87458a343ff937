//! What went wrong, as a person reads it: what, why, next step; and as a script does: the exit code.

use std::error::Error;

use redfence::lock::error::{AcquireError, ConfigError};
use redfence::lock::report::NodeAnswer;
use redfence::memory::UpdateError;
use redfence::simulate::ExperimentError;

use crate::exit::Exit;

/// A command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    what: Box<dyn Error>,
    next: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<Box<dyn Error>>) -> Self {
        Self { exit, what: what.into(), next: None }
    }

    /// Says what to do about it.
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// Prints it to stderr: every layer once.
    pub(crate) fn print(&self) {
        eprintln!("error: {}", self.what);
        let mut source = self.what.source();
        while let Some(error) = source {
            eprintln!("  because: {error}");
            source = error.source();
        }
        if let Some(next) = &self.next {
            eprintln!("  next: {next}");
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match error {
            ConfigError::NoNodes
            | ConfigError::TooManyNodes { .. }
            | ConfigError::DuplicateNode { .. }
            | ConfigError::BadNode { .. }
            | ConfigError::BadEndpoint { .. }
            | ConfigError::SeveralBackends { .. }
            | ConfigError::NotCompiled { .. }
            | ConfigError::WeakQuorum { .. } => Exit::Configuration,
            ConfigError::NoRuntime => Exit::Internal,
            _ => Exit::Usage,
        };
        let next = match error {
            ConfigError::NoNodes => Some("pass --nodes URL,URL,.. or set REDFENCE_NODES"),
            ConfigError::WeakQuorum { .. } => Some("on the command line: --allow-weak-quorum"),
            _ => None,
        };
        Self { exit, what: error.into(), next: next.map(str::to_owned) }
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        let (exit, next) = match &error {
            AcquireError::Config(config) => return config.clone().into(),
            AcquireError::Contended { .. } => (
                Exit::NotAcquired,
                "wait longer (--wait 30s), or look who holds it: redfence status RESOURCE".to_owned(),
            ),
            AcquireError::PlaceLost { .. } => (
                Exit::NotAcquired,
                "try again: the place in the queue ended while this process stood still or was cut off".to_owned(),
            ),
            AcquireError::ValidityExhausted { .. } => {
                (Exit::NotAcquired, "take a longer --ttl, or look why the nodes are slow".to_owned())
            }
            AcquireError::NoQuorum { report, .. } if report.count(|said| *said == NodeAnswer::Empty) > 0 => (
                Exit::NoQuorum,
                "empty nodes do not vote: if all are new, start them all and try again; if some lost their data, \
                 see \"What is not recognised\" in docs/safety.md"
                    .to_owned(),
            ),
            AcquireError::NoQuorum { needed, nodes, .. } => (
                Exit::NoQuorum,
                format!("start the nodes that do not answer: {needed} of {nodes} must; then try again"),
            ),
            AcquireError::NotALock { .. } => {
                (Exit::Configuration, "choose another resource name, or a --prefix".to_owned())
            }
            AcquireError::Unusable { .. } => {
                (Exit::Configuration, "change what the nodes complain about, then try again".to_owned())
            }
            _ => (Exit::Internal, "please report this".to_owned()),
        };
        Self::new(exit, error).next(next)
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let exit = match error {
            ExperimentError::Config(error) => return error.into(),
            ExperimentError::Acquire(error) => return error.into(),
            ExperimentError::Update(error) => match *error {
                UpdateError::Acquire(error) => return error.into(),
                error => {
                    return Self::new(Exit::NoQuorum, error)
                        .next("look at what the store says, then try again");
                }
            },
            ExperimentError::Memory(ref error) if !error.is_retryable() => Exit::Configuration,
            ExperimentError::Memory(_) | ExperimentError::Listen(_) => Exit::NoQuorum,
            ExperimentError::NotANumber { .. } => Exit::Configuration,
            ExperimentError::Stopped => Exit::Interrupted,
            ExperimentError::Internal(_) => Exit::Internal,
            _ => Exit::Usage,
        };
        let what = Self::new(exit, error);
        match exit {
            Exit::NoQuorum => what.next("check that the server runs and can be reached, then try again"),
            _ => what,
        }
    }
}
