//! What a search must have met at least once, or it has proved little.
//!
//! A check that finds nothing wrong may have looked at nothing. So whoever searches (the simulation, and whoever else wants to)
//! notes the marks it passes, and a search that never reached one of them is red.

use core::fmt;

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal;)+) => {
        /// One thing worth meeting.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Mark {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mark {
            /// All of them: the faults, then what they lead to.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

marks! {
    /// A link carried nothing.
    LinkCut "link cut";
    /// A link carried nothing in one direction.
    LinkCutOneWay "link cut one way";
    /// Everything on a link waited, and came later in order.
    LinkHeld "link held";
    /// What was sent on an old connection came after newer requests on a new one.
    OldRequestLate "old request late";
    /// Single messages were lost, and their connections with them.
    MessagesLost "messages lost";
    /// A node answered slowly.
    NodeSlow "node slow";
    /// A node stood still, and did afterwards what had been asked of it.
    NodeStopped "node stopped";
    /// A node came back with its data.
    NodeRestartedIntact "node restarted intact";
    /// A node came back without its data.
    NodeRestartedEmpty "node restarted empty";
    /// A node's clock ran at another rate.
    NodeClockDrifted "node clock drifted";
    /// A node's clock stepped forward.
    NodeClockForward "node clock forward";
    /// A node's clock stepped back.
    NodeClockBack "node clock back";
    /// A client's clock ran at another rate.
    ClientClockDrifted "client clock drifted";
    /// A client's clock stood still while the client did.
    ClientClockStopped "client clock stopped";
    /// A client was stopped anywhere.
    ClientPaused "client paused";
    /// A client was stopped right after it had looked at its clock.
    ClientPausedAtClock "client paused at its clock";
    /// A client was stopped between its last look at the lease and its write.
    ClientPausedBeforeWrite "client paused before its write";
    /// A client ended without warning.
    ClientCrashed "client crashed";
    /// The guarded memory was away.
    MemoryRestarted "memory restarted";
    /// The guarded memory's answers were lost.
    MemoryAnswersLost "memory answers lost";
    /// A lock was won by equal grants.
    WonAtOnce "won at once";
    /// A lock was won in a confirm round.
    WonAfterConfirm "won after a confirm";
    /// An attempt failed because others held too many nodes.
    Contended "contended";
    /// The same, and none of them won either.
    SplitVote "split vote";
    /// An attempt failed because too few nodes could answer.
    NoQuorum "no quorum";
    /// An attempt failed because the answers came too late.
    ValidityExhausted "validity exhausted";
    /// A node's answer was not known.
    AnswerUnknown "answer unknown";
    /// A grant came after the verdict, and was released.
    LateGrantReleased "late grant released";
    /// A release was sent again.
    ReleaseRepeated "release repeated";
    /// Fresh nodes were given their first epoch.
    FirstStart "first start";
    /// A node that had lost its data was asked for its vote, and did not vote.
    EmptyNodeRefused "empty node refused";
    /// Nodes that had lost their data were re-admitted.
    Readmitted "re-admitted";
    /// A re-admission met a refusal or silence, and stopped.
    ReadmissionStopped "re-admission stopped";
    /// A node did not know a script, and was given its text.
    ScriptUnknown "script unknown";
    /// A holder's validity ended.
    LeaseExpired "lease expired";
    /// A holder was told by a quorum that its keys are gone.
    QuorumGone "quorum gone";
    /// A lock was extended.
    Extended "extended";
    /// An extension failed, and what had been promised still held.
    NotExtended "not extended";
    /// A lock was won after its holder's keys had ended unreleased.
    TakenOver "taken over after expiry";
    /// Two clients believed at the same time.
    TwoBelievers "two believers";
    /// The memory refused a read with an old token.
    ReadFenced "read fenced";
    /// The memory refused a write with an old token.
    WriteFenced "write fenced";
    /// The memory knew a write that was sent again.
    WriteRecognised "write recognised";
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
