//! How the command line ends: every exit code it can give.

use std::process::{ExitCode, Termination};

/// The exit codes; scripts rely on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// An experiment ran, and a protected strategy lost updates.
    Inexact = 1,
    /// Arguments that cannot work.
    Usage = 2,
    /// Too few nodes, or none, could be asked.
    NoQuorum = 69,
    /// A mistake in redfence.
    Internal = 70,
    /// The lock was not acquired: somebody else holds it, or time ran out.
    NotAcquired = 75,
    /// The nodes are given, or set up, in a way that cannot work.
    Configuration = 78,
    /// The lock is not held (any more).
    Lost = 79,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}
