//! A live run as a trace, in the format that the explorer draws.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use redfence::proto::{FencingToken, Owner, Reply, Request};
use redfence::trace::{
    Assumption, Client, Clock, Key, Mark, MarkKind, Message, Moment, Node, Resource, SCHEMA, Step, Trace,
    Unit,
};

use crate::client::{NAME, Seen};
use crate::guarded::{Access, Guarded};
use crate::support::{Cluster, RedisServer};
use crate::words::{answered, asked};

/// A request or an answer, by client and node.
type Way = (usize, usize);

/// What a step has done.
pub(crate) struct Told {
    sentence: String,
    marks: Vec<Mark>,
    begun: Option<usize>,
    executed: Option<(Way, Request, Reply)>,
    /// An answer has arrived.
    delivered: Option<Way>,
}

impl Told {
    pub(crate) fn says(sentence: String) -> Self {
        Self { sentence, marks: Vec::new(), begun: None, executed: None, delivered: None }
    }

    pub(crate) fn begins(self, client: usize) -> Self {
        Self { begun: Some(client), ..self }
    }

    pub(crate) fn delivered(self, client: usize, node: usize) -> Self {
        Self { delivered: Some((client, node)), ..self }
    }

    pub(crate) fn executed(
        self,
        client: usize,
        node: usize,
        asks: Request,
        says: Reply,
        heard: bool,
    ) -> Self {
        let way = (client, node);
        Self { executed: Some((way, asks, says)), delivered: heard.then_some(way), ..self }
    }

    pub(crate) fn fault(self, node: usize, text: &str) -> Self {
        self.fault_of(format!("node {node}"), text)
    }

    pub(crate) fn fault_of(self, lane: String, text: &str) -> Self {
        self.mark(lane, MarkKind::Fault, text)
    }

    pub(crate) fn damages(self, damaged: bool, node: usize) -> Self {
        if damaged {
            self.mark(format!("node {node}"), MarkKind::Damage, "another's key is gone")
        } else {
            self
        }
    }

    pub(crate) fn access(client: usize, sentence: String, access: Access) -> Self {
        let lane = String::from(char::from(b'A' + u8::try_from(client).unwrap_or(25)));
        match access {
            Access::Done => Self::says(sentence),
            Access::Damaged(violation) => Self::says(format!("{sentence}: {violation}")).mark(
                lane,
                MarkKind::Damage,
                "an update is lost",
            ),
            Access::Refused => Self::says(format!("{sentence}: refused, its token is old")).mark(
                lane,
                MarkKind::Refused,
                "refused",
            ),
        }
    }

    fn mark(mut self, lane: String, kind: MarkKind, text: &str) -> Self {
        self.marks.push(Mark { lane, kind, text: text.into() });
        self
    }
}

pub(crate) struct Recorder {
    trace: Trace,
    /// Who signs what: client and attempt.
    owners: HashMap<Owner, (usize, u64)>,
    attempts: Vec<u64>,
    begun: Vec<Duration>,
    begins: Option<usize>,
    /// Requests seen at each gate so far.
    arrived: Vec<Vec<usize>>,
    /// Messages on each way that have not arrived: requests, then answers.
    requests: HashMap<Way, Vec<usize>>,
    answers: HashMap<Way, Vec<usize>>,
}

impl Recorder {
    pub(crate) fn new(model: &Trace, ttl: Duration, margin: Duration) -> Self {
        let mut assumptions = model.assumptions.clone();
        assumptions.push(Assumption { name: "run".into(), value: "real redis-server processes".into() });
        let trace = Trace {
            schema: SCHEMA.into(),
            scenario: format!("{} on real nodes", model.scenario),
            shows: model.shows.clone(),
            edit: model.edit.clone(),
            assumptions,
            clock: Clock { unit: Unit::Microsecond, ttl: Some(micros(ttl)), margin: Some(micros(margin)) },
            lanes: model.lanes.clone(),
            start: Moment::default(),
            steps: Vec::new(),
            messages: Vec::new(),
        };
        let clients = model.start.clients.len();
        Self {
            trace,
            owners: HashMap::new(),
            attempts: vec![0; clients],
            begun: vec![Duration::ZERO; clients],
            begins: None,
            arrived: vec![vec![0; model.start.nodes.len()]; clients],
            requests: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    pub(crate) fn begin(&mut self, start: Moment) {
        self.trace.start = start;
    }

    /// This owner value is of the attempt that the client has just begun.
    pub(crate) fn signs(&mut self, owner: Owner, client: usize) {
        if !self.owners.contains_key(&owner) {
            self.attempts[client] += 1;
            self.owners.insert(owner, (client, self.attempts[client]));
            self.begins = Some(client);
        }
    }

    pub(crate) fn step(&mut self, told: Told, fault: bool, after: Moment, arrived: Vec<Vec<usize>>) {
        let number = self.trace.steps.len() + 1;
        let before = self.trace.moment(number - 1).clone();
        self.messages(number, &told, arrived);
        let mut marks = told.marks;
        if let Some(client) = told.begun {
            marks.push(Mark { lane: lane(client), kind: MarkKind::Begins, text: "begins".into() });
        }
        for (old, new) in before.clients.iter().zip(&after.clients) {
            let (kind, text) = match (old.believes, new.believes) {
                (false, true) => (MarkKind::Wins, "has the lock"),
                (true, false) => (MarkKind::Ends, "no longer holds"),
                _ => continue,
            };
            marks.push(Mark { lane: new.lane.clone(), kind, text: text.into() });
        }
        for (old, new) in before.nodes.iter().zip(&after.nodes) {
            let Some(key) = old.key.as_ref().filter(|_| new.key.is_none()) else { continue };
            let text = format!("{}'s key ends", key.client);
            marks.push(Mark { lane: new.lane.clone(), kind: MarkKind::KeyEnds, text });
        }
        let changes = before.changes(&after);
        let sentence = told.sentence;
        self.trace.steps.push(Step {
            number,
            action: None,
            does: None,
            sentence,
            fault,
            marks,
            changes,
            reached: Vec::new(),
            after,
        });
    }

    fn messages(&mut self, number: usize, told: &Told, arrived: Vec<Vec<usize>>) {
        let messages = &mut self.trace.messages;
        if let Some(way) = told.delivered
            && let Some(index) = pop(&mut self.answers, way)
        {
            messages[index].arrives = Some(number);
        }
        for (client, now) in arrived.iter().enumerate() {
            for (node, now) in now.iter().enumerate() {
                for _ in self.arrived[client][node]..*now {
                    let label = if told.begun == Some(client) { "lock?" } else { "release" };
                    self.requests.entry((client, node)).or_default().push(messages.len());
                    messages.push(message(lane(client), format!("node {node}"), label.into(), false, number));
                }
            }
        }
        self.arrived = arrived;
        if let Some((way, asks, says)) = told.executed {
            if let Some(index) = pop(&mut self.requests, way) {
                messages[index].arrives = Some(number);
                messages[index].label = asked(asks).into();
            }
            self.answers.entry(way).or_default().push(messages.len());
            messages.push(message(format!("node {}", way.1), lane(way.0), answered(says), true, number));
        }
    }

    pub(crate) fn finish(self) -> Trace {
        self.trace
    }

    /// All there is now.
    pub(crate) fn moment(
        &mut self,
        seen: &[Seen],
        frozen: &[bool],
        guarded: &Guarded,
        nodes: &Cluster,
        violated: BTreeSet<String>,
        at: Duration,
    ) -> Moment {
        if let Some(client) = self.begins.take() {
            self.begun[client] = at;
        }
        let clients = seen.iter().zip(frozen).enumerate().map(|(id, (seen, frozen))| {
            let outdated = guarded.is_outdated(id);
            client(id, seen, *frozen, outdated, at.saturating_sub(self.begun[id]))
        });
        Moment {
            at: micros(at),
            clients: clients.collect(),
            nodes: nodes.iter().enumerate().map(|(id, node)| self.node(id, node)).collect(),
            operators: Vec::new(),
            resource: Some(Resource { mark: guarded.mark }),
            violated: violated.into_iter().collect(),
        }
    }

    fn node(&self, id: usize, server: &RedisServer) -> Node {
        let counter = format!("redfence:counter:{NAME}");
        let mut look = redis::pipe();
        look.cmd("GET").arg(NAME).cmd("PTTL").arg(NAME).cmd("GET").arg(counter);
        look.cmd("HMGET").arg("redfence:node").arg("epoch").arg("floor").arg("high");
        type Looked = (Option<String>, i64, Option<u64>, (Option<u64>, Option<u64>, Option<u64>));
        let (owner, left, counter, (epoch, floor, high)): Looked =
            look.query(&mut server.connection()).expect("the node answers");
        let key = owner.map(|text| {
            let owner: Owner = text.parse().expect("an owner value");
            let (client, attempt) = self.owners.get(&owner).copied().expect("of a client of this replay");
            Key { client: lane(client), attempt, left: u64::try_from(left).ok().map(|left| left * 1_000) }
        });
        let number = counter.or(floor).unwrap_or(0);
        let held = key.as_ref().map_or("no key".to_owned(), |key| format!("key {}'s", key.client));
        Node {
            lane: format!("node {id}"),
            words: format!("{held}, number {number}"),
            key,
            number,
            largest: high.unwrap_or(0),
            epoch,
            joining: None,
            silent: 0,
        }
    }
}

fn client(id: usize, seen: &Seen, frozen: bool, outdated: bool, clock: Duration) -> Client {
    let held = seen.lease.as_ref().filter(|lease| lease.is_held());
    let token = seen.lease.as_ref().and_then(redfence::Lease::token).map(|FencingToken(number)| number);
    let does = match (seen, held) {
        (_, Some(_)) => "holding",
        (Seen { lease: Some(_), .. }, None) => "no longer holds",
        (Seen { failed: Some(_), .. }, None) => "has failed",
        (Seen { attempts: 0, .. }, None) => "idle",
        _ => "waiting for the lock",
    };
    let token_words = token.map_or(String::new(), |token| format!(", token {token}"));
    Client {
        lane: lane(id),
        words: format!("{does}{token_words}"),
        does: does.into(),
        attempt: seen.attempts,
        token,
        clock: i64::try_from(micros(clock)).unwrap_or(i64::MAX),
        pace: if frozen { "paused" } else { "running" }.into(),
        holds: held.is_some(),
        believes: held.is_some(),
        belief_left: held.map(|lease| micros(lease.remaining())),
        outdated,
    }
}

fn message(from: String, to: String, label: String, answer: bool, sent: usize) -> Message {
    Message { from, to, label, answer, sent, arrives: None, lost: None, late: false }
}

fn pop(waiting: &mut HashMap<Way, Vec<usize>>, way: Way) -> Option<usize> {
    let waiting = waiting.get_mut(&way)?;
    (!waiting.is_empty()).then(|| waiting.remove(0))
}

/// The first is A.
fn lane(client: usize) -> String {
    u8::try_from(client).map_or_else(|_| client.to_string(), |client| char::from(b'A' + client).into())
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
