//! What went into an attempt's state machine and what came out of it: enough to run it again.

use std::fmt;

use crate::proto::session::Config;
use crate::proto::{Input, Output, Owner, Timestamp};

/// Keeps what it is told of every attempt: [`LockBuilder::recorder`](super::LockBuilder::recorder).
///
/// The machine decides by its inputs alone. So whoever has them can run [`Session`](crate::proto::Session) again, later and
/// elsewhere, and must get the same outputs: for finding out what happened in the field, and to check that the lock that ran
/// is the machine that was model-checked.
///
/// Called between the machine and the nodes, in order for each owner, on the task that serves the attempt: be quick.
pub trait Recorder: Send + Sync + fmt::Debug {
    /// One step of one attempt; the owner value names the attempt.
    fn record(&self, owner: Owner, step: Step<'_>);
}

/// One step of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// It begins.
    Begun {
        /// What is to be locked.
        resource: &'a str,
        /// What the machine goes by.
        config: &'a Config,
        /// One more than the largest number known for the resource, or 0.
        hint: u64,
        /// The time, on the lock's clock.
        now: Timestamp,
    },
    /// The machine is told something.
    Input {
        /// The time, on the lock's clock.
        now: Timestamp,
        /// What.
        input: Input,
    },
    /// The machine has answered the step before, with all of this; nothing is told if it said nothing.
    Outputs(&'a [Output]),
}
