//! A simulated history as a trace, for the explorer's eyes: `docs/traces.md`.
//!
//! One resource is told of: its attempts, the nodes' answers about it, accesses to it, and every fault.

use std::collections::BTreeMap;

use redfence::invariants;
use redfence::proto::{Event, Input, NodeId, Output, Owner, Reply, Request};
use redfence::trace::{
    Assumption, Clock, Lane, LaneKind, Mark, MarkKind, Message, Moment, RESOURCE, SCHEMA, Step, Trace, Unit,
};

use crate::moments::Moments;
use crate::world::clock::micros;
use crate::world::log::{Entry, What};
use crate::world::memory::{Access, Ask, Said};
use crate::world::resp::Frame;
use crate::world::tap::Served;
use crate::world::{Host, World};

/// What is told of a run.
pub(crate) struct About<'a> {
    /// Its name.
    pub(crate) scenario: String,
    /// What it shows, in one sentence.
    pub(crate) shows: String,
    pub(crate) assumptions: Vec<(&'static str, String)>,
    pub(crate) resource: &'a str,
    /// At most so many entries, the last ones.
    pub(crate) last: usize,
}

/// The last part of a history as a trace.
pub(crate) fn trace(entries: &[Entry], world: &World, about: &About<'_>) -> Trace {
    let from = entries.len().saturating_sub(about.last);
    // The log is in the order of the simulation, which within one step does one host after the other. No message takes less than a
    // step, so by time, and on each host as it was, is an order in which it happened.
    let mut in_order: Vec<&Entry> = entries.iter().collect();
    in_order.sort_by_key(|entry| entry.at);
    let mut teller = Teller {
        moments: Moments::new(entries, world, about.resource),
        resource: about.resource,
        begun: false,
        start: Moment::default(),
        steps: Vec::new(),
        messages: Vec::new(),
        asked: BTreeMap::new(),
        answered: BTreeMap::new(),
        open: None,
        damage: false,
    };
    teller.start = teller.moments.at(0);
    for (index, entry) in in_order.into_iter().enumerate() {
        if index == from {
            teller.start = teller.moment(entry.at);
            teller.begun = true;
        }
        teller.moments.see(entry);
        teller.tell(entry);
    }
    let lock = world.shape.lock;
    let ttl = redfence::proto::Ttl::from_duration(lock.ttl);
    let lane = |id: String, kind| Lane { id, kind };
    let workers = world.workers().map(|host| lane(host.to_string(), LaneKind::Client));
    let nodes = world.node_hosts().map(|host| lane(host.to_string(), LaneKind::Node));
    let rest =
        [lane(Host::Operator.to_string(), LaneKind::Operator), lane(RESOURCE.into(), LaneKind::Resource)];
    let assumption =
        |(name, value): &(&str, String)| Assumption { name: (*name).into(), value: value.clone() };
    // Of what was sent before the beginning, only what ends after it is still of interest.
    teller
        .messages
        .retain(|message| message.sent > 0 || message.arrives.or(message.lost).is_some_and(|end| end > 0));
    Trace {
        schema: SCHEMA.into(),
        scenario: about.scenario.clone(),
        shows: about.shows.clone(),
        edit: None,
        assumptions: about.assumptions.iter().map(assumption).collect(),
        clock: Clock {
            unit: Unit::Microsecond,
            ttl: Some(micros(lock.ttl)),
            margin: ttl.map(|ttl| micros(lock.drift.margin(ttl))),
        },
        lanes: workers.chain(nodes).chain(rest).collect(),
        start: teller.start,
        steps: teller.steps,
        messages: teller.messages,
    }
}

/// What the next entry may still belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A machine was told something; what it answers is the same step.
    Machine(Owner),
    /// A node has read a request; its answer is the same step.
    Node(Host, (u64, u64)),
}

struct Teller<'a> {
    moments: Moments<'a>,
    resource: &'a str,
    /// Whether steps are told already.
    begun: bool,
    start: Moment,
    steps: Vec<Step>,
    messages: Vec<Message>,
    /// Requests on their way: which message.
    asked: BTreeMap<(Owner, Host, Request), usize>,
    /// Answers on their way.
    answered: BTreeMap<(Owner, Host), usize>,
    open: Option<Open>,
    /// An update was lost.
    damage: bool,
}

impl Teller<'_> {
    fn moment(&self, at: u64) -> Moment {
        let mut moment = self.moments.at(at);
        if self.damage {
            moment.violated.push("damage".into());
        }
        moment
    }

    fn tell(&mut self, entry: &Entry) {
        let Entry { at, host, what } = entry;
        let before = self.open.take();
        match what {
            What::Fault(text) => self.fault(*at, *host, text),
            What::Paused(pause) => {
                let clock = if pause.with_clock { ", clock too" } else { "" };
                let text = format!("paused at {:?} for {}ms{clock}", pause.point, pause.micros / 1_000);
                self.fault(*at, *host, &text);
            }
            What::Crashed => self.fault(*at, *host, "crashes"),
            What::Wiped => self.fault(*at, *host, "has lost its data"),
            What::Restarted => self.step(*at, format!("{host} starts again"), Vec::new()),
            What::Note(text) => self.step(*at, format!("{host}: {text}"), Vec::new()),
            What::Done(number) => self.step(*at, format!("{host}: update {number} is done"), Vec::new()),
            What::Begun { owner, resource, .. } if resource == self.resource => {
                let marks = vec![mark(*host, MarkKind::Begins, "begins")];
                self.step(*at, format!("{host} begins an attempt, as {}", owner.short()), marks);
                self.open = Some(Open::Machine(*owner));
            }
            What::Input { owner, input, .. } if self.moments.attempt(*owner).is_some() => {
                self.input(*at, *host, *owner, *input);
            }
            What::Outputs { owner, outputs } if self.moments.attempt(*owner).is_some() => {
                if before != Some(Open::Machine(*owner)) {
                    self.step(*at, format!("{host} looks at its clock"), Vec::new());
                }
                self.outputs(*at, *host, *owner, outputs);
            }
            What::Served(served) => self.served(*at, *host, served, before),
            What::Access(access) if access.resource == self.resource => self.access(*at, access),
            What::Begun { .. }
            | What::Input { .. }
            | What::Outputs { .. }
            | What::Access(_)
            | What::Touched(_) => {}
        }
    }

    fn number(&self) -> usize {
        self.steps.len()
    }

    fn step(&mut self, at: u64, sentence: String, marks: Vec<Mark>) {
        if !self.begun {
            return;
        }
        let after = self.moment(at);
        let last = self.steps.last().map_or(&self.start, |step| &step.after);
        // Clocks go on at every step.
        let changes = last.changes(&after).into_iter().filter(|change| change.field != "clock").collect();
        let fault = marks.iter().any(|mark| mark.kind == MarkKind::Fault);
        let number = self.steps.len() + 1;
        let (action, does, reached) = (None, None, Vec::new());
        self.steps.push(Step { number, action, does, sentence, fault, marks, changes, reached, after });
    }

    /// The last step goes on.
    fn add(&mut self, at: u64, words: &str, marks: Vec<Mark>) {
        let Some(Step { sentence, marks: before, .. }) = self.steps.pop() else { return };
        self.step(at, sentence + words, before.into_iter().chain(marks).collect());
    }

    fn fault(&mut self, at: u64, host: Host, text: &str) {
        self.step(at, format!("{host}: {text}"), vec![mark(host, MarkKind::Fault, text)]);
    }

    fn input(&mut self, at: u64, host: Host, owner: Owner, input: Input) {
        match input {
            // It is a step only if something follows from it.
            Input::Wake => return,
            Input::Reply { node, reply, .. } => {
                self.step(at, format!("{host} hears from {}: {reply}", at_node(node)), Vec::new());
                self.heard(owner, at_node(node), reply);
            }
            Input::Release => {
                let marks = vec![mark(host, MarkKind::Ends, "lets go")];
                self.step(at, format!("{host} lets go"), marks);
            }
            Input::Extend { .. } => self.step(at, format!("{host} asks for more time"), Vec::new()),
        }
        self.open = Some(Open::Machine(owner));
    }

    fn heard(&mut self, owner: Owner, node: Host, reply: Reply) {
        let number = self.number();
        let answer = self.answered.remove(&(owner, node));
        let message = if reply == Reply::Unknown {
            let asked = self.asked.keys().find(|(who, at, _)| (*who, *at) == (owner, node)).copied();
            answer.or_else(|| self.asked.remove(&asked?))
        } else {
            answer
        };
        let Some(message) = message.and_then(|index| self.messages.get_mut(index)) else { return };
        match reply {
            Reply::Unknown => message.lost = Some(number),
            _ => message.arrives = Some(number),
        }
    }

    fn outputs(&mut self, at: u64, host: Host, owner: Owner, outputs: &[Output]) {
        let words: Vec<String> = outputs.iter().map(ToString::to_string).collect();
        let marks = outputs.iter().filter_map(|output| match output {
            Output::Event(Event::Acquired { .. }) => Some(mark(host, MarkKind::Wins, "has the lock")),
            Output::Event(Event::Failed(reason)) => Some(mark(host, MarkKind::Fails, &reason.to_string())),
            Output::Event(Event::Lost(reason)) => Some(mark(host, MarkKind::Ends, &reason.to_string())),
            _ => None,
        });
        self.add(at, &format!("; {}", words.join("; ")), marks.collect());
        for output in outputs {
            if let Output::Send { to, request, .. } = output {
                for node in to.iter() {
                    let message = self.send(host, at_node(node), request.to_string(), false);
                    self.asked.insert((owner, at_node(node), *request), message);
                }
            }
        }
    }

    fn send(&mut self, from: Host, to: Host, label: String, answer: bool) -> usize {
        let (from, to, sent) = (from.to_string(), to.to_string(), self.number());
        self.messages.push(Message { from, to, label, answer, sent, arrives: None, lost: None, late: false });
        self.messages.len() - 1
    }

    fn served(&mut self, at: u64, node: Host, served: &Served, before: Option<Open>) {
        let Some(owner) = served.owner() else { return };
        let Some((worker, _)) = self.moments.attempt(owner) else { return };
        let here = Open::Node(node, served.number);
        let Some(answer) = &served.answer else {
            self.step(at, format!("{node} reads from {worker}: {}", served.request), Vec::new());
            let number = self.number();
            if let Some(message) = self.asked.remove(&(owner, node, served.request)) {
                self.messages[message].arrives = Some(number);
            }
            self.open = Some(here);
            return;
        };
        let words = spell(answer);
        match before == Some(here) {
            true => self.add(at, &format!("; answers {words}"), Vec::new()),
            false => self.step(at, format!("{node} answers {worker}: {words}"), Vec::new()),
        }
        // A request by its script's digest is sent again, with the text, by the client library: that is not heard here.
        if !matches!(answer, Frame::Error(text) if text.starts_with("NOSCRIPT")) {
            let message = self.send(node, worker, words, true);
            self.answered.insert((owner, node), message);
        }
    }

    fn access(&mut self, at: u64, access: &Access) {
        let from = access.from.map_or_else(|| "somebody".to_owned(), |from| from.to_string());
        let token = access.token.map_or_else(String::new, |token| format!(" with token {token}"));
        let lost = match access.ask {
            Ask::Write { base, .. } if access.said == Said::Applied && !access.repeated => {
                invariants::no_lost_update(base, access.version).is_err()
            }
            _ => false,
        };
        self.damage |= lost;
        let (does, outcome) = (
            if matches!(access.ask, Ask::Read) { "reads" } else { "writes" },
            match access.said {
                Said::Fenced => "refused: a larger token has been seen".to_owned(),
                Said::Value { value, .. } => format!("it is {value}"),
                Said::Applied if access.repeated => "it was done already".to_owned(),
                Said::Applied if lost => "done, AND ANOTHER'S UPDATE IS LOST".to_owned(),
                Said::Applied => "done".to_owned(),
            },
        );
        let kind = match (access.said, lost) {
            (Said::Fenced, _) => Some((MarkKind::Refused, "refused")),
            (_, true) => Some((MarkKind::Damage, "an update is lost")),
            _ => None,
        };
        let marks = kind.map(|(kind, text)| Mark { lane: RESOURCE.into(), kind, text: text.into() });
        self.step(at, format!("{from} {does}{token}: {outcome}"), marks.into_iter().collect());
        let (number, to) = (self.number(), RESOURCE.to_owned());
        if access.from.is_some() && self.begun {
            self.messages.push(Message {
                from,
                to,
                label: format!("{does}{token}"),
                answer: false,
                sent: number,
                arrives: Some(number),
                lost: None,
                late: false,
            });
        }
    }
}

fn mark(host: Host, kind: MarkKind, text: &str) -> Mark {
    let lane = if host == Host::Memory { RESOURCE.to_owned() } else { host.to_string() };
    Mark { lane, kind, text: text.to_owned() }
}

fn at_node(node: NodeId) -> Host {
    Host::Node(node.index() as u8)
}

/// An answer in a few words.
fn spell(frame: &Frame) -> String {
    match frame {
        Frame::Simple(text) | Frame::Error(text) => text.clone(),
        Frame::Int(number) => number.to_string(),
        Frame::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Frame::Array(items) => items.iter().map(spell).collect::<Vec<_>>().join(" "),
        Frame::Null => "nothing".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use redfence::trace::Trace;

    use super::*;
    use crate::counterexamples::{RESOURCE as LOCKED, done_again};
    use crate::mutants;
    use crate::swarm;
    use crate::swarm::draw::{Drawn, Strategy};

    fn written_and_read(trace: &Trace) -> Trace {
        let text = serde_json::to_string(trace).expect("it can be written");
        let read: Trace = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(&read, trace);
        read
    }

    fn about(resource: &str, last: usize) -> About<'_> {
        let (scenario, shows) = ("test".to_owned(), "whether a history can be told".to_owned());
        About { scenario, shows, assumptions: Vec::new(), resource, last }
    }

    /// Of a run in which two believe, the trace shows who, since when, and that the keys of the first were gone.
    #[test]
    fn two_believers_can_be_seen_in_a_trace() {
        let _alone = mutants::nobody();
        let (entries, world) = done_again("s1-clock-jump-belief.json");
        let trace = written_and_read(&trace(&entries, &world, &about(LOCKED, usize::MAX)));
        let first = trace.first_violation().expect("two believe");
        let (before, moment) = (trace.moment(first - 1), trace.moment(first));
        let believe = |moment: &Moment| moment.clients.iter().filter(|client| client.believes).count();
        assert_eq!(
            (believe(before), believe(moment), &moment.violated[..]),
            (1, 2, &["belief".to_owned()][..])
        );
        let step = &trace.steps[first - 1];
        assert!(
            step.marks.iter().any(|mark| mark.kind == MarkKind::Wins && mark.lane == "worker-1"),
            "{step:?}"
        );
        let keys: Vec<_> =
            moment.nodes.iter().map(|node| node.key.as_ref().map(|key| key.client.as_str())).collect();
        assert_eq!(
            keys,
            [Some("worker-1"), Some("worker-0"), Some("worker-1")],
            "node 0 has forgotten worker-0"
        );
        assert!(trace.steps.iter().any(|step| step.fault && step.sentence.contains("clock steps")));
        let answers = trace.messages.iter().filter(|message| message.answer && message.arrives.is_some());
        assert_eq!(answers.count(), 4, "two grants each");
    }

    /// The last events of a drawn run: every lane and every step that is named exists, and time goes on.
    #[test]
    fn the_end_of_a_drawn_run_is_a_sound_trace() {
        let _alone = mutants::nobody();
        let (run, world) = swarm::run_with_world(&Drawn::new(3, Strategy::Fenced));
        let trace = written_and_read(&trace(&run.entries, &world, &about("counter-0", 2_000)));
        assert!(trace.steps.len() > 50 && trace.steps.len() <= 2_000, "{} steps", trace.steps.len());
        let lane = |id: &str| trace.lanes.iter().any(|lane| lane.id == id);
        for message in &trace.messages {
            assert!(lane(&message.from) && lane(&message.to), "{message:?}");
            let ends = message.arrives.or(message.lost).unwrap_or(trace.steps.len());
            assert!(message.sent <= ends && ends <= trace.steps.len(), "{message:?}");
        }
        assert!(trace.steps.iter().flat_map(|step| &step.marks).all(|mark| lane(&mark.lane)));
        let times: Vec<u64> = trace.moments().map(|moment| moment.at).collect();
        assert!(times.is_sorted(), "{times:?}");
        let wins = trace.steps.iter().flat_map(|step| &step.marks).filter(|mark| mark.kind == MarkKind::Wins);
        assert!(wins.count() > 0 && trace.moments().any(|moment| moment.clients.iter().any(|c| c.believes)));
    }
}
