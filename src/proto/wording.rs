//! How the protocol's words are written: one compact wording for logs, model, simulation and text histories.
//!
//! ```text
//! send {0,1,2} grant: acquire a1b2c3d4 ttl 10000ms hint 5        reply 0 grant mine 7/1
//! acquired token 7 until 9898.000ms                              reply 2 grant taken 7
//! ```
//!
//! The wording is stable: the histories under `tests/testdata/` hold it word for word, and people search their logs for it.
//! A stand is written `number/epoch`; an owner by its first eight digits.

use core::fmt;

use super::first_start::{Outcome, Step};
use super::message::{Record, Reply, Request, Stand};
use super::node::{NodeState, Obstacle};
use super::readmit::Readmitted;
use super::ready::Readiness;
use super::session::{
    AcquireFailure, Event, ExtendFailure, Input, LostReason, Mode, Output, ReleaseOutcome, Round,
};
use super::tally::Verdict;

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.epoch)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "epoch {epoch}")?,
            None => f.write_str("epoch none")?,
        }
        write!(f, " floor {} high {}", self.floor, self.high)?;
        self.joining.map_or(Ok(()), |epoch| write!(f, " joining {epoch}"))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire { owner, ttl, hint } => {
                write!(f, "acquire {} ttl {ttl} hint {hint}", owner.short())
            }
            Self::AcquireClassic { owner, ttl } => write!(f, "acquire {} ttl {ttl}", owner.short()),
            Self::Confirm { owner, number } => write!(f, "confirm {} number {number}", owner.short()),
            Self::Extend { owner, ttl } => write!(f, "extend {} ttl {ttl}", owner.short()),
            Self::Release { owner } => write!(f, "release {}", owner.short()),
            Self::Inspect => f.write_str("inspect"),
            Self::Init { epoch, floor } => write!(f, "init epoch {epoch} floor {floor}"),
            Self::Claim { epoch } => write!(f, "claim epoch {epoch}"),
            Self::Raise { epoch } => write!(f, "raise epoch {epoch}"),
            Self::Admit { epoch, floor } => write!(f, "admit epoch {epoch} floor {floor}"),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mine(Stand::CLASSIC) => f.write_str("mine"),
            Self::Mine(stand) => write!(f, "mine {stand}"),
            Self::Taken { number } => write!(f, "taken {number}"),
            Self::NotMine => f.write_str("not mine"),
            Self::Empty => f.write_str("empty"),
            Self::Extended => f.write_str("extended"),
            Self::Released => f.write_str("released"),
            Self::Record(record) => record.fmt(f),
            Self::Refused => f.write_str("refused"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrongType => "a key holds another type",
            Self::NoTtl => "the lock key has no TTL",
            Self::NotANumber => "the counter or the node record is not a number",
            Self::Exhausted => "the numbers are used up",
            Self::NotRaised => "the node is empty, or its epoch is not smaller",
        })
    }
}

impl core::error::Error for Obstacle {}

impl fmt::Display for NodeState {
    /// The node record, the counter if it exists, and who holds the lock: `epoch 1 floor 0 high 7; number 7; A 500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(f)?;
        if let Some(number) = self.counter {
            write!(f, "; number {number}")?;
        }
        match self.lock {
            Some((owner, left)) => write!(f, "; {} {left}ms", owner.short()),
            None => f.write_str("; free"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fenced => "fenced",
            Self::Classic => "classic",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Won => "won",
            Self::Lost => "lost",
        })
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant => f.write_str("grant"),
            Self::Confirm => f.write_str("confirm"),
            Self::Extend(n) => write!(f, "extend {n}"),
            Self::Release => f.write_str("release"),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply { node, round, reply } => write!(f, "reply {node} {round} {reply}"),
            Self::Wake => f.write_str("wake"),
            Self::Extend { ttl } => write!(f, "extend ttl {ttl}"),
            Self::Release => f.write_str("release"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, round, request } => write!(f, "send {to} {round}: {request}"),
            Self::Event(event) => event.fmt(f),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquired { token: Some(token), valid_until } => {
                write!(f, "acquired token {token} until {valid_until}")
            }
            Self::Acquired { token: None, valid_until } => write!(f, "acquired until {valid_until}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Extended { round, valid_until } => write!(f, "extended {round} until {valid_until}"),
            Self::NotExtended { round, reason } => write!(f, "not extended {round}: {reason}"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
            Self::Released(outcome) => write!(f, "release: {outcome}"),
        }
    }
}

impl fmt::Display for AcquireFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contended => "contended",
            Self::NoQuorum => "no quorum",
            Self::ValidityExhausted => "validity exhausted",
            Self::GivenUp => "given up",
        })
    }
}

impl fmt::Display for ExtendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoQuorum => "no quorum",
            Self::Superseded => "superseded",
            Self::Lost => "lost",
            Self::Released => "released",
        })
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "expired",
            Self::QuorumGone => "quorum gone",
            Self::MaxHold => "max hold",
            Self::Released => "released",
        })
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released",
            Self::NotHeld => "not held",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, request } => write!(f, "send {to} {request}"),
            Self::Done(outcome) => outcome.fmt(f),
        }
    }
}

impl fmt::Display for Readmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("not needed"),
            Self::Done { admitted, epoch, floor } if admitted.is_empty() => {
                write!(f, "no node was empty; epoch {epoch}, largest number {floor}")
            }
            Self::Done { admitted, epoch, floor } => {
                write!(f, "admitted {admitted} into epoch {epoch}, numbers from {floor}")
            }
            Self::TooFew { intact } => write!(f, "too few nodes are intact: {intact}"),
            Self::Stopped { at } => write!(f, "stopped at {at}"),
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Started => f.write_str("started"),
            Self::Unstarted { empty } => write!(f, "not started, empty {empty}"),
            Self::NotStarted(outcome) => write!(f, "not started: {outcome}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::NotNeeded => f.write_str("not needed"),
            Self::Unanswered(nodes) => write!(f, "unanswered {nodes}"),
            Self::InUse { empty } => write!(f, "in use, empty {empty}"),
            Self::Partial(nodes) => write!(f, "partial, open {nodes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Owner;
    use super::super::tally::{NodeId, NodeSet};
    use super::super::time::Timestamp;
    use super::super::validity::Ttl;
    use super::*;

    #[test]
    fn the_compact_wording_is_the_one_of_the_logs() {
        let owner = Owner(0xa1b2_c3d4_0000_0000_0000_0000_0000_0001);
        let ttl = Ttl::from_millis(10_000).unwrap();
        let request = Request::Acquire { owner, ttl, hint: 5 };
        let send = Output::Send { to: NodeSet::first(3), round: Round::Grant, request };
        assert_eq!(send.to_string(), "send {0,1,2} grant: acquire a1b2c3d4 ttl 10000ms hint 5");
        let reply = Reply::Mine(Stand { number: 7, epoch: 1 });
        let input = Input::Reply { node: NodeId::new(0), round: Round::Extend(2), reply };
        assert_eq!(input.to_string(), "reply 0 extend 2 mine 7/1");
        let valid_until = Timestamp::from_millis(9_898);
        let acquired = Event::Acquired { token: None, valid_until };
        assert_eq!(acquired.to_string(), "acquired until 9898.000ms");
        assert_eq!(Owner(0xA).short(), "A", "a model's owner");
    }
}
