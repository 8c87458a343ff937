//! Where the model meets what a search must have met.
//!
//! The list is the simulation's too ([`redfence::marks`]): what both must reach is written once. A mark that the model does not have
//! says why.

use redfence::marks::Mark;

use crate::world::{Fault, Property};

/// Where the model meets a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// Wherever this fault happens.
    Fault(Fault),
    /// Wherever this is reached, or violated.
    Property(Property),
    /// In this scenario.
    Scenario(&'static str),
    /// In every world: messages take any time, answers come in any order.
    Everywhere,
    /// Nowhere, and why.
    Nowhere(&'static str),
}

/// Where the model meets this mark.
pub const fn met(mark: Mark) -> Met {
    match mark {
        Mark::LinkCut | Mark::LinkCutOneWay | Mark::LinkHeld | Mark::NodeSlow | Mark::NodeStopped => {
            Met::Everywhere
        }
        Mark::OldRequestLate | Mark::MessagesLost | Mark::AnswerUnknown => Met::Fault(Fault::Loss),
        Mark::NodeRestartedIntact => Met::Fault(Fault::Restart),
        Mark::NodeRestartedEmpty => Met::Fault(Fault::Wipe),
        Mark::NodeClockDrifted | Mark::ClientClockDrifted => Met::Scenario("s2-rate-drift"),
        Mark::NodeClockForward => Met::Fault(Fault::Jump),
        Mark::NodeClockBack => Met::Fault(Fault::JumpBack),
        Mark::ClientClockStopped => Met::Fault(Fault::Stop),
        Mark::ClientPaused | Mark::ClientPausedAtClock => Met::Fault(Fault::Pause),
        Mark::ClientPausedBeforeWrite => Met::Scenario("s10-pause-after-check"),
        Mark::ClientCrashed => Met::Fault(Fault::Crash),
        Mark::MemoryRestarted | Mark::MemoryAnswersLost | Mark::WriteRecognised => {
            Met::Nowhere("the guarded resource answers at once")
        }
        Mark::WonAtOnce => Met::Property(Property::Win),
        Mark::WonAfterConfirm => Met::Property(Property::Confirm),
        Mark::Contended => Met::Property(Property::Failure),
        Mark::SplitVote => Met::Property(Property::SplitVote),
        Mark::NoQuorum => Met::Property(Property::MajoritySilent),
        Mark::ValidityExhausted => Met::Scenario("s14-validity-from-end-repaired"),
        Mark::LateGrantReleased | Mark::ReleaseRepeated => Met::Scenario("l3-late-grant-repaired"),
        Mark::FirstStart => Met::Scenario("v5b-look-first"),
        Mark::EmptyNodeRefused => Met::Scenario("v4b-empty-node-never-votes"),
        Mark::Readmitted => Met::Scenario("v4c-readmission-one-client"),
        Mark::ReadmissionStopped => Met::Scenario("v4c-readmission-late-requests"),
        Mark::ScriptUnknown => Met::Nowhere("how a request is sent is the live driver's"),
        Mark::LeaseExpired => Met::Scenario("fact7-fenced"),
        Mark::QuorumGone => Met::Fault(Fault::Evict),
        Mark::Extended | Mark::NotExtended => Met::Fault(Fault::Extend),
        Mark::TakenOver => Met::Scenario("v7-takeover"),
        Mark::TwoBelievers => Met::Property(Property::Belief),
        Mark::ReadFenced | Mark::WriteFenced => Met::Property(Property::FenceRefuses),
    }
}
