//! Every answer of a node, held to the reference of one node.
//!
//! The embedded node answers our scripts by `proto::node::execute` on its own keyspace. Here the same requests run once more on
//! the model's few bytes, in the order and at the times at which the node read them; expiry, restarts and the protocol
//! on the wire are between the two.

use std::collections::{BTreeMap, BTreeSet};

use redfence::invariants::{no_orphan, release_safety};
use redfence::proto::message::Record;
use redfence::proto::node::{NodeState, execute};
use redfence::proto::{Owner, Reply, Request};

use super::Findings;
use crate::world::Host;
use crate::world::log::{Entry, What};
use crate::world::resp::Frame;
use crate::world::tap::Served;

/// One resource at one node.
#[derive(Clone, Copy, Default)]
struct Kept {
    counter: Option<u64>,
    /// Who, and the last millisecond of the key's life.
    lock: Option<(Owner, u64)>,
    /// The longest life asked for the key.
    ttl: u64,
}

#[derive(Default)]
struct Node {
    record: Record,
    kept: BTreeMap<String, Kept>,
    scripts: BTreeSet<&'static str>,
    /// Read and not answered: what the answer must be.
    expected: BTreeMap<(u64, u64), Expected>,
}

#[derive(Debug)]
enum Expected {
    Exactly(Frame),
    AnError,
}

pub(super) fn check(entries: &[Entry], findings: &mut Findings) {
    let mut nodes = Nodes::default();
    entries.iter().for_each(|entry| nodes.see(entry, findings));
}

/// All nodes, as the reference has them after the entries seen.
#[derive(Default)]
pub(crate) struct Nodes(BTreeMap<Host, Node>);

impl Nodes {
    /// What a node keeps about a resource: its record, the counter, and who has signed the key until when on its clock.
    pub(crate) fn stand(&self, host: Host, resource: &str) -> (Record, Option<u64>, Option<(Owner, u64)>) {
        let Some(node) = self.0.get(&host) else { return (Record::default(), None, None) };
        let kept = node.kept.get(resource).copied().unwrap_or_default();
        (node.record, kept.counter, kept.lock)
    }

    pub(crate) fn see(&mut self, entry: &Entry, findings: &mut Findings) {
        let Entry { host, what, at } = entry;
        let node = self.0.entry(*host).or_default();
        match what {
            What::Served(served) => match &served.answer {
                None => node.read(served, findings),
                Some(answer) => node.answered(served, answer, *at, *host, findings),
            },
            What::Touched(millis) => node.pass_to(*millis),
            What::Wiped => *node = Node::default(),
            What::Crashed => {
                node.expected.clear();
                node.scripts.clear();
            }
            _ => {}
        }
    }
}

impl Node {
    /// Keys whose time has passed are gone, also if the clock steps back later.
    fn pass_to(&mut self, millis: u64) {
        for kept in self.kept.values_mut() {
            kept.lock = kept.lock.filter(|(_, end)| *end >= millis);
        }
    }

    fn read(&mut self, served: &Served, findings: &mut Findings) {
        self.pass_to(served.millis);
        let script = script(served.request);
        let known = script.is_none_or(|script| self.scripts.contains(script));
        let expected = if served.by_digest && !known {
            findings.marks.insert(redfence::marks::Mark::ScriptUnknown);
            Expected::AnError
        } else {
            self.scripts.extend(script);
            self.execute(served, findings)
        };
        self.expected.insert(served.number, expected);
    }

    fn execute(&mut self, served: &Served, findings: &mut Findings) -> Expected {
        let kept = self.kept.get(&served.resource).copied().unwrap_or_default();
        let lock = kept.lock.map(|(owner, end)| (owner, end - served.millis));
        let mut state = NodeState { record: self.record, counter: kept.counter, lock };
        let before = state;
        let reply = execute(&mut state, served.request);
        let owner = |state: &NodeState| state.lock.map(|(owner, _)| owner);
        let ttl = match served.request {
            Request::Acquire { ttl, .. }
            | Request::AcquireClassic { ttl, .. }
            | Request::Extend { ttl, .. } => ttl.as_millis(),
            _ => 0,
        };
        let longest = if owner(&before) == owner(&state) { kept.ttl.max(ttl) } else { ttl };
        findings.violations.extend(release_safety(served.request, owner(&before), owner(&state)).err());
        if let Some((_, left)) = state.lock {
            findings.violations.extend(no_orphan(left, longest.max(1)).err());
        }
        self.record = state.record;
        let lock = state.lock.map(|(owner, left)| (owner, served.millis + left));
        let is_about_a_lock = !served.resource.is_empty() && served.request != Request::Inspect;
        if is_about_a_lock {
            let now = Kept { counter: state.counter, lock, ttl: longest };
            self.kept.insert(served.resource.clone(), now);
        }
        match reply {
            Ok(reply) => Expected::Exactly(spell(served.request, reply, &before)),
            Err(_) => Expected::AnError,
        }
    }

    fn answered(&mut self, served: &Served, answer: &Frame, at: u64, host: Host, findings: &mut Findings) {
        let expected = self.expected.remove(&served.number);
        let fits = match &expected {
            Some(Expected::Exactly(frame)) => frame == answer,
            Some(Expected::AnError) => matches!(answer, Frame::Error(_)),
            None => false,
        };
        if fits {
            findings.answers_checked += 1;
        } else {
            let text =
                format!("{host} at {at}us: the reference does not answer so, but {expected:?}: {served}");
            findings.problems.push(text);
        }
    }
}

/// Which script runs; a plain command needs none.
fn script(request: Request) -> Option<&'static str> {
    Some(match request {
        Request::AcquireClassic { .. } => return None,
        Request::Acquire { .. } => "acquire",
        Request::Confirm { .. } => "confirm",
        Request::Extend { .. } => "extend",
        Request::Release { .. } => "release",
        Request::Inspect => "inspect",
        Request::Init { .. } => "init",
        Request::Claim { .. } | Request::Raise { .. } | Request::Admit { .. } => "readmit",
    })
}

fn int(number: u64) -> Frame {
    Frame::Int(number.cast_signed())
}

fn optional(number: Option<u64>) -> Frame {
    number.map_or(Frame::Int(-1), int)
}

/// A reply as it goes over the wire.
fn spell(request: Request, reply: Reply, before: &NodeState) -> Frame {
    match (request, reply) {
        (Request::AcquireClassic { .. }, Reply::Mine(_)) => Frame::Simple("OK".to_owned()),
        (Request::AcquireClassic { .. }, _) => Frame::Null,
        (_, Reply::Mine(stand)) => Frame::Array(vec![Frame::Int(1), int(stand.number), int(stand.epoch)]),
        (_, Reply::Taken { number }) => Frame::Array(vec![
            Frame::Int(0),
            int(number),
            before.lock.map_or(Frame::Int(-2), |(_, left)| int(left)),
        ]),
        (Request::Confirm { .. }, Reply::NotMine) => Frame::Array(vec![Frame::Int(0)]),
        (_, Reply::NotMine) => Frame::Int(0),
        (_, Reply::Empty) => Frame::Array(vec![Frame::Int(-1)]),
        (_, Reply::Extended | Reply::Released) => Frame::Int(1),
        (Request::Inspect, Reply::Record(record)) => {
            let holder = match before.lock {
                Some((owner, _)) => Frame::Bulk(owner.to_string().into_bytes()),
                None => Frame::Null,
            };
            let left = before.lock.map_or(Frame::Int(-2), |(_, left)| int(left));
            let told =
                [optional(before.counter), optional(record.epoch), int(record.floor), int(record.high)];
            Frame::Array([holder, left].into_iter().chain(told).chain([optional(record.joining)]).collect())
        }
        (_, Reply::Record(record)) => {
            let mut told = vec![optional(record.epoch), int(record.floor), int(record.high)];
            if !matches!(request, Request::Init { .. }) {
                told.push(optional(record.joining));
            }
            Frame::Array(told)
        }
        (_, Reply::Refused | Reply::Unknown) => Frame::Null,
    }
}
