//! What was met on the way.

use std::collections::{BTreeMap, BTreeSet};

use redfence::invariants::Violation;
use redfence::marks::Mark;
use redfence::proto::session::{AcquireFailure, LostReason};
use redfence::proto::{Event, Input, NodeSet, Output, Owner, Reply, Request, Round};

use super::Findings;
use crate::world::gate::Point;
use crate::world::log::{Entry, What};
use crate::world::memory::{Ask, Said};
use crate::world::resp::Frame;
use crate::world::tap::Served;

/// What is remembered of an attempt.
#[derive(Default)]
struct Seen {
    resource: String,
    confirmed: bool,
    over: bool,
    releases: u32,
    late: NodeSet,
}

#[derive(Default)]
struct Scenes {
    attempts: BTreeMap<Owner, Seen>,
    /// Attempts that believe, by resource.
    believing: BTreeMap<String, BTreeSet<Owner>>,
    /// The last winner of a resource, and whether it released by itself.
    last: BTreeMap<String, (Owner, bool)>,
    /// Attempts that released.
    released: BTreeSet<Owner>,
    marks: BTreeSet<Mark>,
}

pub(super) fn note(entries: &[Entry], findings: &mut Findings) {
    let mut scenes = Scenes::default();
    for Entry { what, .. } in entries {
        match what {
            What::Begun { owner, resource, .. } => {
                let seen = Seen { resource: resource.clone(), ..Seen::default() };
                scenes.attempts.insert(*owner, seen);
            }
            What::Input { owner, input, .. } => scenes.input(*owner, *input),
            What::Outputs { owner, outputs } => {
                outputs.iter().for_each(|output| scenes.output(*owner, output))
            }
            What::Served(served) => scenes.served(served),
            What::Paused(pause) => scenes.paused(pause.point, pause.with_clock),
            What::Access(access) => match (&access.ask, access.said) {
                (Ask::Read, Said::Fenced) => scenes.mark(Mark::ReadFenced),
                (Ask::Write { .. }, Said::Fenced) => scenes.mark(Mark::WriteFenced),
                (Ask::Write { .. }, Said::Applied) if access.repeated => scenes.mark(Mark::WriteRecognised),
                _ => {}
            },
            What::Note(text) if text.contains("Done") => scenes.mark(Mark::Readmitted),
            What::Note(text) if text.contains("Stopped") => scenes.mark(Mark::ReadmissionStopped),
            _ => {}
        }
    }
    findings.marks.extend(scenes.marks);
    if findings.violations.iter().any(|violation| matches!(violation, Violation::TwoBelievers(..))) {
        findings.marks.insert(Mark::TwoBelievers);
    }
}

impl Scenes {
    fn mark(&mut self, mark: Mark) {
        self.marks.insert(mark);
    }

    fn input(&mut self, owner: Owner, input: Input) {
        let Some(seen) = self.attempts.get_mut(&owner) else { return };
        match input {
            Input::Reply { reply: Reply::Unknown, .. } => self.mark(Mark::AnswerUnknown),
            Input::Reply { node, round: Round::Grant | Round::Confirm, reply: Reply::Mine(_) }
                if seen.over =>
            {
                seen.late.insert(node);
            }
            Input::Reply { node, round: Round::Release, reply: Reply::Released }
                if seen.late.contains(node) =>
            {
                self.mark(Mark::LateGrantReleased);
            }
            Input::Release => {
                self.released.insert(owner);
                self.lets_go(owner);
            }
            _ => {}
        }
    }

    fn lets_go(&mut self, owner: Owner) {
        self.believing.values_mut().for_each(|all| {
            all.remove(&owner);
        });
    }

    fn output(&mut self, owner: Owner, output: &Output) {
        let Some(seen) = self.attempts.get_mut(&owner) else { return };
        match *output {
            Output::Send { round: Round::Confirm, .. } => seen.confirmed = true,
            Output::Send { round: Round::Release, .. } => {
                seen.releases += 1;
                if seen.releases > 1 {
                    self.mark(Mark::ReleaseRepeated);
                }
            }
            Output::Event(Event::Acquired { .. }) => {
                let (confirmed, resource) = (seen.confirmed, seen.resource.clone());
                self.mark(if confirmed { Mark::WonAfterConfirm } else { Mark::WonAtOnce });
                self.believing.entry(resource.clone()).or_default().insert(owner);
                if let Some((before, _)) = self.last.insert(resource, (owner, false))
                    && !self.released.contains(&before)
                {
                    self.mark(Mark::TakenOver);
                }
            }
            Output::Event(Event::Failed(reason)) => {
                seen.over = true;
                let resource = seen.resource.clone();
                match reason {
                    AcquireFailure::Contended => {
                        self.mark(Mark::Contended);
                        if self.believing.get(&resource).is_none_or(BTreeSet::is_empty) {
                            self.mark(Mark::SplitVote);
                        }
                    }
                    AcquireFailure::NoQuorum => self.mark(Mark::NoQuorum),
                    AcquireFailure::ValidityExhausted => self.mark(Mark::ValidityExhausted),
                    AcquireFailure::GivenUp => {}
                }
            }
            Output::Event(Event::Extended { .. }) => self.mark(Mark::Extended),
            Output::Event(Event::NotExtended { .. }) => self.mark(Mark::NotExtended),
            Output::Event(Event::Lost(reason)) => {
                seen.over = true;
                self.lets_go(owner);
                match reason {
                    LostReason::Expired => self.mark(Mark::LeaseExpired),
                    LostReason::QuorumGone => self.mark(Mark::QuorumGone),
                    LostReason::MaxHold | LostReason::Released => {}
                }
            }
            _ => {}
        }
    }

    fn served(&mut self, served: &Served) {
        let Some(answer) = &served.answer else { return };
        match (served.request, answer) {
            (Request::Acquire { .. }, Frame::Array(parts)) if parts[..] == [Frame::Int(-1)] => {
                self.mark(Mark::EmptyNodeRefused);
            }
            (Request::Init { .. }, Frame::Array(_)) => self.mark(Mark::FirstStart),
            _ => {}
        }
    }

    fn paused(&mut self, point: Point, with_clock: bool) {
        match point {
            Point::ClockRead => self.mark(Mark::ClientPausedAtClock),
            Point::BeforeWrite => self.mark(Mark::ClientPausedBeforeWrite),
            Point::BeforeRead | Point::BeforeRelease => self.mark(Mark::ClientPaused),
        }
        if with_clock {
            self.mark(Mark::ClientClockStopped);
        }
    }
}
