//! What the answers to a release or an extension by owner value come to.

use redfence::lock::report::{NodeAnswer, NodeError, Report};
use redfence::proto::Quorum;

use crate::exit::Exit;
use crate::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Done,
    /// A quorum cannot be this owner's.
    NotHeld,
    /// The key holds something else.
    NotALock,
    /// The nodes refuse for a reason that lasts.
    Refused,
    /// Too few have answered.
    Unknown,
}

impl Outcome {
    pub(super) fn of(report: &Report, quorum: Quorum, done: &NodeAnswer) -> Self {
        let too_many = |test: fn(&NodeAnswer) -> bool| report.count(test) > quorum.spare();
        if report.count(|answer| answer == done) >= quorum.needed() {
            Self::Done
        } else if too_many(|answer| matches!(answer, NodeAnswer::Failed(NodeError::NotALock(_)))) {
            Self::NotALock
        } else if too_many(is_not_ours) {
            Self::NotHeld
        } else if too_many(|answer| matches!(answer, NodeAnswer::Failed(error) if error.is_permanent())) {
            Self::Refused
        } else {
            Self::Unknown
        }
    }

    /// As it stands in JSON; `done` is the verb's own word.
    pub(super) fn word(self, done: &'static str) -> &'static str {
        match self {
            Self::Done => done,
            Self::NotHeld => "not held",
            Self::NotALock => "not a lock",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// What is the same for every verb; `not_held` and `unknown` are the verb's own.
    pub(super) fn into_result(
        self,
        resource: &str,
        report: &Report,
        not_held: (&str, &str),
        unknown: (&str, &str),
    ) -> Result<Exit, Failure> {
        let (exit, what, next) = match self {
            Self::Done => return Ok(Exit::Ok),
            Self::NotHeld => {
                let what = format!("{resource:?} is not held by this owner (any more): {}", not_held.0);
                (Exit::Lost, what, not_held.1)
            }
            Self::NotALock => {
                let what = format!("{resource:?} is not a lock: the data there was left as it is");
                (Exit::Configuration, what, "choose another resource name, or a --prefix")
            }
            Self::Refused => {
                let what = format!("nodes cannot serve {resource:?} as they are configured");
                (Exit::Configuration, what, "change what the nodes complain about, then try again")
            }
            Self::Unknown => (Exit::NoQuorum, format!("{} {resource:?}", unknown.0), unknown.1),
        };
        Err(Failure::new(exit, format!("{what} [{report}]")).next(next))
    }
}

/// A key of another kind is nobody's lock.
fn is_not_ours(answer: &NodeAnswer) -> bool {
    matches!(answer, NodeAnswer::NotMine | NodeAnswer::Failed(NodeError::NotALock(_)))
}

#[cfg(test)]
mod tests {
    use redfence::lock::report::NodeReport;
    use redfence::proto::NodeId;

    use super::*;

    #[test]
    fn what_cannot_be_ours_is_not_held_and_what_is_missing_is_unknown() {
        let outcome = |answers: [NodeAnswer; 3]| {
            let line =
                |(place, answer)| NodeReport { node: NodeId::new(place), address: String::new(), answer };
            let report = Report(answers.into_iter().enumerate().map(line).collect());
            Outcome::of(&report, Quorum::of(3), &NodeAnswer::Released)
        };
        let (done, not_mine) = (NodeAnswer::Released, NodeAnswer::NotMine);
        let failed = |error: fn(String) -> NodeError| NodeAnswer::Failed(error(String::new()));
        let (other, away) = (failed(NodeError::NotALock), failed(NodeError::NoAnswer));
        let denied = failed(NodeError::Denied);
        assert_eq!(outcome([done.clone(), away.clone(), done.clone()]), Outcome::Done);
        assert_eq!(outcome([not_mine.clone(), done.clone(), not_mine.clone()]), Outcome::NotHeld);
        assert_eq!(outcome([not_mine.clone(), other.clone(), away.clone()]), Outcome::NotHeld);
        assert_eq!(outcome([other.clone(), other.clone(), not_mine.clone()]), Outcome::NotALock);
        assert_eq!(outcome([denied.clone(), done.clone(), denied.clone()]), Outcome::Refused);
        assert_eq!(outcome([denied, other, away.clone()]), Outcome::Refused);
        assert_eq!(outcome([away.clone(), done, away]), Outcome::Unknown);
    }
}
