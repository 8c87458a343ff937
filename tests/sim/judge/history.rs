//! What an observer with the true time has seen of each resource.

use std::collections::BTreeMap;

use redfence::invariants::{Acquisition, History, Write};
use redfence::proto::{Event, FencingToken, Input, Output, Owner, Timestamp};

use crate::world::log::{Entry, What};
use crate::world::memory::{Ask, Said};
use crate::world::{Host, World};

/// One attempt, as far as it has come.
struct Attempt {
    host: Host,
    resource: String,
    begun: u64,
    won: Option<(u64, Option<FencingToken>)>,
    /// On the worker's clock.
    valid_until: Timestamp,
    /// Let go, told to be lost, or its process ended.
    over: u64,
}

/// A history for each resource.
///
/// A client believes from the moment in which its machine says so, until it lets go, is told of the loss, its process ends, or
/// its own clock reaches the end of validity, whether or not it is running to see it.
pub(crate) fn histories(entries: &[Entry], world: &World) -> BTreeMap<String, History> {
    let mut attempts: BTreeMap<Owner, Attempt> = BTreeMap::new();
    let mut histories: BTreeMap<String, History> = BTreeMap::new();
    for Entry { at, host, what } in entries {
        match what {
            What::Begun { owner, resource, now, .. } => {
                let (host, resource, begun) = (*host, resource.clone(), *at);
                let attempt = Attempt { host, resource, begun, won: None, valid_until: *now, over: u64::MAX };
                attempts.insert(*owner, attempt);
            }
            What::Input { owner, input: Input::Release, .. } => end(&mut attempts, *owner, *at),
            What::Outputs { owner, outputs } => {
                for output in outputs {
                    match output {
                        Output::Event(Event::Acquired { token, valid_until }) => {
                            if let Some(attempt) = attempts.get_mut(owner) {
                                attempt.won = Some((*at, *token));
                                attempt.valid_until = *valid_until;
                            }
                        }
                        Output::Event(Event::Extended { valid_until, .. }) => {
                            if let Some(attempt) = attempts.get_mut(owner) {
                                attempt.valid_until = attempt.valid_until.max(*valid_until);
                            }
                        }
                        Output::Event(Event::Lost(_)) => end(&mut attempts, *owner, *at),
                        _ => {}
                    }
                }
            }
            What::Crashed => {
                let theirs = attempts.values_mut().filter(|attempt| attempt.host == *host);
                theirs.for_each(|attempt| attempt.over = attempt.over.min(*at));
            }
            What::Access(access) if access.said == Said::Applied && !access.repeated => {
                if let Ask::Write { base, .. } = access.ask {
                    let history = histories.entry(access.resource.clone()).or_default();
                    history.writes.push(Write { base, current: access.version });
                }
            }
            _ => {}
        }
    }
    for (owner, attempt) in attempts {
        let Some((won, token)) = attempt.won else { continue };
        let clock_ends = world.clock(attempt.host).when(attempt.valid_until.as_micros());
        let until = attempt.over.min(clock_ends).max(won);
        let at = Timestamp::from_micros;
        let acquisition =
            Acquisition { owner, begun: at(attempt.begun), won: at(won), token, until: at(until) };
        histories.entry(attempt.resource).or_default().acquisitions.push(acquisition);
    }
    histories
}

fn end(attempts: &mut BTreeMap<Owner, Attempt>, owner: Owner, at: u64) {
    if let Some(attempt) = attempts.get_mut(&owner) {
        attempt.over = attempt.over.min(at);
    }
}
