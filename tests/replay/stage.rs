//! Drives the steps of a trace against real nodes, one message at a time, and compares what is there after each step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redfence::DistributedLock;
use redfence::backend::redlock::scripts::Script;
use redfence::invariants::{Violation, exclusion, release_safety, token_order};
use redfence::lock::Mode;
use redfence::proto::node::{NodeState, execute};
use redfence::proto::{Drift, FencingToken, Owner, Request};
use redfence::trace::{Moment, Trace, Unit};
use serde::Deserialize;

use crate::client::{Client, NAME, Seen, StoppingClock};
use crate::gate::Gate;
use crate::guarded::{Access, Fence, Guarded};
use crate::record::{Recorder, Told};
use crate::support::{Cluster, Options, RedisServer, Restart, Stopwatch, wait_until};
use crate::words::{answered, asked, reply, request};

/// The bound on what should be so at once.
const SOON: Duration = Duration::from_secs(10);

/// Where nothing waits for time to pass: a life longer than any replay.
const NEVER: Duration = Duration::from_secs(20);

/// The steps that can be done with real processes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Begin { client: usize },
    Execute { client: usize, node: usize },
    Deliver { client: usize, node: usize },
    Read(usize),
    Check(usize),
    Write(usize),
    Release(usize),
    Expire(usize),
    Jump(usize),
    Wipe(usize),
    Pause(usize),
    Stop(usize),
    Resume(usize),
    Tick,
}

/// How a live run is to differ from the model's.
#[derive(Clone, Copy)]
pub(crate) struct Play {
    /// The property that the file is about.
    pub(crate) property: &'static str,
    /// What the guarded value checks; what the file says if not said.
    pub(crate) fence: Option<Fence>,
    /// A wiped node is given its old epoch and number 0 at once: "votes as if new".
    pub(crate) wiped_votes: bool,
    /// A paused client's clock stands still too.
    pub(crate) clock_stops: bool,
    /// Releases go out as a plain DEL.
    pub(crate) plain_delete: bool,
    /// What is otherwise than in the model after a step.
    pub(crate) otherwise: fn(usize, &mut Moment),
}

impl Play {
    pub(crate) const fn as_in_the_model(property: &'static str) -> Self {
        Self {
            property,
            fence: None,
            wiped_votes: false,
            clock_stops: false,
            plain_delete: false,
            otherwise: |_, _| {},
        }
    }
}

/// The machine was too busy for the pace of this run.
#[derive(Debug)]
struct Late;

/// What a run has shown.
pub(crate) struct Shown {
    pub(crate) trace: Trace,
    pub(crate) violations: Vec<Violation>,
    /// The guarded value at the end, and how many writes were accepted.
    pub(crate) value: u64,
    pub(crate) writes: u64,
    pub(crate) refusals: u64,
    /// Answers that were compared with the reference node's.
    pub(crate) compared: usize,
    /// What became of the clients once everything was let through.
    pub(crate) clients: Vec<Seen>,
}

/// Does the trace again. Where it counts on time: slower, if the machine was too busy.
pub(crate) fn play(trace: &Trace, play: Play) -> Shown {
    let ticks = trace.steps.iter().any(|step| step.does == Some("tick".into()));
    if !ticks {
        return Stage::set(trace, play, NEVER, false).run().expect("nothing waits for time");
    }
    for tick in [600, 1_200, 2_400] {
        match Stage::set(trace, play, Duration::from_millis(tick), true).run() {
            Ok(shown) => return shown,
            Err(Late) => eprintln!("{}: too busy for ticks of {tick} ms", trace.scenario),
        }
    }
    panic!("the machine is too busy for ticks of 2.4 s");
}

struct Stage<'a> {
    model: &'a Trace,
    play: Play,
    tick: Duration,
    timed: bool,
    ticks: u32,
    nodes: Cluster,
    offsets: Vec<i64>,
    /// By client, then node.
    gates: Vec<Vec<Gate>>,
    clocks: Vec<Arc<StoppingClock>>,
    clients: Vec<Client>,
    guarded: Guarded,
    /// The reference nodes, which must answer as the real ones do.
    reference: Vec<NodeState>,
    compared: usize,
    writes: u64,
    refusals: u64,
    violations: Vec<Violation>,
    /// Properties of the history that have been broken so far.
    broken: BTreeSet<String>,
    /// The largest token won when each client began, and the tokens won so far.
    before: Vec<Option<FencingToken>>,
    won: Vec<Option<FencingToken>>,
    recorder: Recorder,
    watch: Stopwatch,
}

impl<'a> Stage<'a> {
    fn set(model: &'a Trace, play: Play, tick: Duration, timed: bool) -> Self {
        let jumps = model.steps.iter().any(|step| {
            let does = step.does.as_ref();
            does.is_some_and(|does| does.get("jump").or(does.get("expire")).is_some())
        });
        let options = Options::default().in_memory();
        let options = if jumps { options.own_clock() } else { options };
        let nodes = Cluster::with(model.start.nodes.len(), &options);
        nodes.iter().for_each(load_scripts);
        let fenced = assumed(model, "protocol") == Some("fenced");
        if fenced {
            start_first(&nodes);
        }
        let gates: Vec<Vec<Gate>> = model
            .start
            .clients
            .iter()
            .map(|_| nodes.iter().map(|node| Gate::before(node.addr())).collect())
            .collect();
        let clocks: Vec<Arc<StoppingClock>> = gates.iter().map(|_| Arc::default()).collect();
        let time = Time::of(model, tick);
        let clients = gates.iter().zip(&clocks).map(|(gates, clock)| {
            let builder = DistributedLock::builder()
                .nodes(gates.iter().map(Gate::url))
                .mode(if fenced { Mode::Fenced } else { Mode::Classic })
                .ttl(time.ttl)
                .drift(Drift { rate_ppm: 0, fixed: time.margin })
                .patience(time.ttl - time.margin);
            let builder = if play.clock_stops { builder.clock(Arc::clone(clock) as Arc<_>) } else { builder };
            Client::start(builder.build().expect("a lock"))
        });
        let clients: Vec<Client> = clients.collect();
        let count = clients.len();
        let fence = play.fence.unwrap_or_else(|| fence(model));
        let reference = nodes.iter().map(|node| if fenced { told(node) } else { NodeState::default() });
        let reference = reference.collect();
        Self {
            model,
            play,
            tick,
            timed,
            ticks: 0,
            offsets: vec![0; nodes.len()],
            gates,
            clocks,
            clients,
            guarded: Guarded::new(fence, count),
            reference,
            compared: 0,
            writes: 0,
            refusals: 0,
            violations: Vec::new(),
            broken: BTreeSet::new(),
            before: vec![None; count],
            won: vec![None; count],
            recorder: Recorder::new(model, time.ttl, time.margin),
            watch: Stopwatch::start(),
            nodes,
        }
    }

    fn run(mut self) -> Result<Shown, Late> {
        self.watch = Stopwatch::start();
        let start = self.look();
        self.recorder.begin(start);
        for step in &self.model.steps {
            let does = step.does.clone().expect("a trace of the model");
            let action = serde_json::from_value(does).unwrap_or_else(|error| {
                panic!(
                    "{}, step {}: not possible with real processes: {error}",
                    self.model.scenario, step.number
                )
            });
            let told = self.does(step.number, action);
            self.in_time()?;
            let after = self.settled(step.number, &step.after);
            self.in_time()?;
            let arrived = self.gates.iter().map(|gates| gates.iter().map(Gate::arrived).collect()).collect();
            self.recorder.step(told, step.fault, after, arrived);
        }
        Ok(self.end())
    }

    /// Everything passes now; whoever still waits hears what there is to hear.
    fn end(mut self) -> Shown {
        self.clients.iter_mut().for_each(Client::thaw);
        self.gates.iter().flatten().for_each(Gate::open);
        let decided = |client: &Client| {
            let seen = client.seen();
            seen.attempts == 0 || seen.lease.is_some() || seen.failed.is_some()
        };
        wait_until(SOON, || self.clients.iter().all(decided));
        Shown {
            trace: self.recorder.finish(),
            violations: self.violations,
            value: self.guarded.value,
            writes: self.writes,
            refusals: self.refusals,
            compared: self.compared,
            clients: self.clients.iter().map(Client::seen).collect(),
        }
    }

    /// Behind by more than half a tick, nothing that depends on time can be relied on.
    fn in_time(&self) -> Result<(), Late> {
        let late = self.watch.elapsed().saturating_sub(self.tick * self.ticks);
        if self.timed && late > self.tick / 2 { Err(Late) } else { Ok(()) }
    }

    fn does(&mut self, number: usize, action: Action) -> Told {
        let lane = |client: usize| self.model.start.clients[client].lane.clone();
        match action {
            Action::Begin { client } => {
                self.before[client] = self.won.iter().copied().flatten().max();
                self.clients[client].begin();
                for gate in &self.gates[client] {
                    let owner = request(&gate.next_request())
                        .and_then(Request::owner)
                        .expect("a request for the lock");
                    self.recorder.signs(owner, client);
                }
                Told::says(format!("{} starts: asks every node for the lock", lane(client))).begins(client)
            }
            Action::Execute { client, node } => self.execute(client, node),
            Action::Deliver { client, node } => {
                self.gates[client][node].deliver();
                let told = Told::says(format!("{} hears from node {node}", lane(client)));
                told.delivered(client, node)
            }
            Action::Read(client) => {
                let access = self.guarded.read(client, self.token(client));
                self.refusals += u64::from(access == Access::Refused);
                Told::access(client, format!("{} reads the guarded value", lane(client)), access)
            }
            Action::Check(client) => {
                let held = self.clients[client].seen().lease.is_some_and(|lease| lease.is_held());
                assert!(held, "step {number}: {} looks, and its validity is over", lane(client));
                Told::says(format!(
                    "{} looks at its validity: still good; it is about to write",
                    lane(client)
                ))
            }
            Action::Write(client) => {
                let access = self.guarded.write(client, self.token(client));
                self.refusals += u64::from(access == Access::Refused);
                self.writes += u64::from(access != Access::Refused);
                if let Access::Damaged(violation) = access {
                    self.wrong(violation);
                }
                Told::access(client, format!("{} writes the guarded value", lane(client)), access)
            }
            Action::Release(client) => {
                self.clients[client].release();
                Told::says(format!("{} releases", lane(client)))
            }
            Action::Expire(node) | Action::Jump(node) => {
                self.jump(node);
                Told::says(format!("node {node}'s clock is set forward, past the end of its key"))
                    .fault(node, "clock jump")
            }
            Action::Wipe(node) => {
                self.wipe(node);
                Told::says(format!("node {node} is killed and starts again without its data"))
                    .fault(node, "empty restart")
            }
            Action::Pause(client) | Action::Stop(client) => {
                self.clients[client].freeze();
                if matches!(action, Action::Stop(_)) && self.play.clock_stops {
                    self.clocks[client].stop();
                }
                Told::says(format!("{} is frozen", lane(client))).fault_of(lane(client), "pause")
            }
            Action::Resume(client) => {
                self.clocks[client].go_on();
                self.clients[client].thaw();
                Told::says(format!("{} goes on", lane(client)))
            }
            Action::Tick => {
                self.ticks += 1;
                let next = self.tick * self.ticks;
                std::thread::sleep(next.saturating_sub(self.watch.elapsed()));
                Told::says(format!("{} ms pass", self.tick.as_millis()))
            }
        }
    }

    /// Lets one request through to its node, and compares the answer with the reference's.
    fn execute(&mut self, client: usize, node: usize) -> Told {
        let gate = &self.gates[client][node];
        let mut heard = false;
        if !gate.has_request() && gate.has_answer() {
            // The model drops an answer that nobody waits for when the next request leaves. On a connection it arrives first.
            gate.deliver();
            heard = true;
        }
        let words = gate.next_request();
        let asks = request(&words).expect("a request about the lock");
        let lane = &self.model.start.clients[client].lane;
        let before = signed(&self.nodes[node]);
        if before.is_none() {
            self.reference[node].expire();
        }
        let plain = self.play.plain_delete && matches!(asks, Request::Release { .. });
        let exchange = gate.execute(plain.then_some(["DEL", NAME].as_slice()));
        assert_eq!(exchange.words, words, "the request that was looked at");
        let says = reply(asks, &exchange.answer).unwrap_or_else(|strange| panic!("{strange}"));
        if plain {
            self.reference[node].expire();
        } else {
            let expected = execute(&mut self.reference[node], asks).expect("a request without an obstacle");
            assert_eq!(says, expected, "node {node} answers {asks:?} otherwise than the reference");
            self.compared += 1;
        }
        let after = signed(&self.nodes[node]);
        if let Err(violation) = release_safety(asks, before, after) {
            self.wrong(violation);
        }
        let sentence =
            format!("node {node} does {lane}'s {}: {}", asked(asks).trim_end_matches('?'), answered(says));
        let damage = before.is_some() && before != asks.owner() && after.is_none();
        Told::says(sentence).executed(client, node, asks, says, heard).damages(damage, node)
    }

    fn jump(&mut self, node: usize) {
        let left = self.nodes[node].pttl(NAME);
        assert!(left > 0, "a key with a TTL at node {node}: {left}");
        self.offsets[node] += left + 1_000;
        self.nodes[node].shift_clock(self.offsets[node]);
        wait_until(SOON, || signed(&self.nodes[node]).is_none());
        self.reference[node].expire();
    }

    fn wipe(&mut self, node: usize) {
        let server = &self.nodes[node];
        let epoch: Option<u64> = server.ask(&["HGET", "redfence:node", "epoch"]);
        server.restart(Restart::Empty);
        load_scripts(server);
        self.gates.iter().for_each(|gates| gates[node].node_restarted());
        self.reference[node].wipe();
        if let Some(epoch) = epoch.filter(|_| self.play.wiped_votes) {
            let epoch = epoch.to_string();
            server.ask::<u64>(&["HSET", "redfence:node", "epoch", &epoch, "floor", "0", "high", "0"]);
            self.reference[node] = told(server);
        }
    }

    fn token(&self, client: usize) -> u64 {
        let token = self.clients[client].seen().lease.and_then(|lease| lease.token());
        token.map_or(0, |FencingToken(number)| number)
    }

    fn wrong(&mut self, violation: Violation) {
        self.violations.push(violation);
        self.broken.insert(violation.property().to_owned());
    }

    /// The moment after a step, once it is what the model says: at once, or the replay fails.
    #[track_caller]
    fn settled(&mut self, step: usize, model: &Moment) -> Moment {
        let mut expected = model.clone();
        (self.play.otherwise)(step, &mut expected);
        let limit = if self.timed { self.tick / 2 } else { SOON };
        let fenced = assumed(self.model, "protocol") == Some("fenced");
        let watch = Stopwatch::start();
        loop {
            let live = self.look();
            let different = crate::compare::differences(&expected, &live, self.play.property, fenced);
            if different.is_empty() || watch.elapsed() > limit {
                let shown = different.join("\n  ");
                assert!(
                    self.timed && self.in_time().is_err() || different.is_empty(),
                    "{} after step {step}:\n  {shown}",
                    self.model.scenario
                );
                return live;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What is so now: leases by their own clocks, keys by the servers' own answers.
    fn look(&mut self) -> Moment {
        let seen: Vec<Seen> = self.clients.iter().map(Client::seen).collect();
        for (client, seen) in seen.iter().enumerate() {
            let token = seen.lease.as_ref().and_then(redfence::Lease::token);
            if let Some(token) = token.filter(|_| self.won[client].is_none()) {
                let issued = self.won.contains(&Some(token));
                self.won[client] = Some(token);
                if let Err(violation) = token_order(token, issued, self.before[client]) {
                    self.wrong(violation);
                }
            }
        }
        let believers = seen.iter().filter_map(|seen| seen.lease.as_ref()).filter(|lease| lease.is_held());
        let overlap = exclusion(believers.map(redfence::Lease::owner));
        let mut violated = self.broken.clone();
        if let Err(violation) = overlap {
            violated.insert(violation.property().to_owned());
            if !self.violations.iter().any(|known| known.property() == violation.property()) {
                self.violations.push(violation);
            }
        }
        let frozen: Vec<bool> = self.clients.iter().map(Client::is_frozen).collect();
        self.recorder.moment(&seen, &frozen, &self.guarded, &self.nodes, violated, self.watch.elapsed())
    }
}

/// TTL and margin of a replay.
struct Time {
    ttl: Duration,
    margin: Duration,
}

impl Time {
    fn of(model: &Trace, tick: Duration) -> Self {
        let ticks = |count: Option<u64>, otherwise: u64| {
            tick * u32::try_from(count.unwrap_or(otherwise)).expect("few ticks")
        };
        assert!(model.clock.unit != Unit::Microsecond, "a trace of the model");
        Self { ttl: ticks(model.clock.ttl, 3), margin: ticks(model.clock.margin, 1) }
    }
}

fn assumed<'a>(model: &'a Trace, name: &str) -> Option<&'a str> {
    model.assumptions.iter().find(|assumption| assumption.name == name).map(|found| found.value.as_str())
}

fn fence(model: &Trace) -> Fence {
    match assumed(model, "resource") {
        Some("fenced on writes only") => Fence::Writes,
        Some("fenced on reads and writes") => Fence::ReadsAndWrites,
        _ => Fence::None,
    }
}

/// A node that has just been started knows no script; the first use of one would take two messages.
fn load_scripts(node: &RedisServer) {
    for script in Script::ALL {
        node.ask::<String>(&["SCRIPT", "LOAD", script.text()]);
    }
}

/// From number 0, as in the model.
fn start_first(nodes: &Cluster) {
    let locks = DistributedLock::builder().nodes(nodes.urls()).patience(SOON).build().expect("a lock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(locks.init(0)).expect("fresh nodes");
    assert_eq!(nodes.get(NAME), vec![None; nodes.len()]);
}

/// Who has signed the lock key of a node.
fn signed(node: &RedisServer) -> Option<Owner> {
    node.get(NAME).map(|text| text.parse().expect("an owner value"))
}

/// The reference in the state of a node that nobody has asked for the lock yet.
fn told(node: &RedisServer) -> NodeState {
    let (epoch, floor): (u64, u64) = node.ask(&["HMGET", "redfence:node", "epoch", "floor"]);
    NodeState::member(epoch, floor)
}
