//! Counterexamples of the model, done again step by step with the real lock on simulated hosts.
//!
//! A file in `tests/counterexamples` tells what the model did: `docs/traces.md`. Here all links between workers and nodes are held,
//! and each step lets through exactly the request or the answer that the model moved. After every step both worlds must agree:
//! on who believes, on whose keys live at which node, on the numbers, and on whether the property is broken.
//!
//! What is different, and does not matter for any of them:
//!
//! * A message that takes no time in the model takes some milliseconds here, a tick is a second. So a key ends a little after its
//!   tick, never before, and all steps of one moment together take less than a tick.
//! * Where the model has no time and a key may end at any moment, the node's clock steps past its end.
//! * A request that is sent anew over a connection that has just been opened, or with its script's text, counts as one.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redfence::lock::{LockGuard, Mode};
use redfence::proto::{Drift, Event, FencingToken, Input, Output};
use redfence::trace::{Moment, Trace, Unit};
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc};

use crate::judge;
use crate::moments::{BELIEF, Moments};
use crate::mutants;
use crate::world::log::{Entry, What};
use crate::world::memory::{Ask, Said};
use crate::world::resp::Frame;
use crate::world::worker::{Job, LockSettings, Worker};
use crate::world::{Host, Shape, World};

/// A tick of the model.
const TICK: Duration = Duration::from_secs(1);
/// Life of a key where the model has no time: no key ends by itself.
const LONG: Duration = Duration::from_secs(60);
/// For everything that follows from a step by itself.
const SETTLE: Duration = Duration::from_millis(30);
/// For a message, or a connection and a message, to arrive.
const ARRIVE: Duration = Duration::from_millis(500);
pub(crate) const RESOURCE: &str = "r";

/// Steps of the model that can be done here; any other is an error that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Begin { client: u8 },
    Execute { client: u8, node: u8 },
    Deliver { client: u8, node: u8 },
    Read(u8),
    Check(u8),
    Write(u8),
    Release(u8),
    Expire(u8),
    Tick,
    Jump(u8),
    Wipe(u8),
    Pause(u8),
    Stop(u8),
    Resume(u8),
}

/// What the guarded memory is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guard {
    Open,
    Writes,
    ReadsAndWrites,
}

/// How a file is done again; by default as it says.
#[derive(Clone, Copy, Default)]
struct Variant {
    mode: Option<Mode>,
    guard: Option<Guard>,
    /// A process that is stopped has a clock that goes on.
    honest_clock: bool,
}

/// What a worker is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// Takes the lock on another resource and releases it: connections, scripts and the first start are out of the way.
    WarmUp,
    Begin,
    Read,
    Check,
    Write,
    Release,
}

/// Does what it is told.
async fn obey(mut worker: Worker, mut orders: mpsc::UnboundedReceiver<Order>, guard: Guard) {
    let mut held: Option<LockGuard> = None;
    let mut token: Option<FencingToken> = None;
    let mut read = (0, 0);
    let gate = worker.clock.gate.clone();
    loop {
        let lost = async {
            match &held {
                Some(guard) => guard.lost().await,
                None => std::future::pending().await,
            }
        };
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            reason = lost => {
                worker.log.note(worker.host, format!("lost: {reason}"));
                // Lets go; what it is about to write, it writes.
                held = None;
                continue;
            }
        };
        gate.pass().await;
        let shown = token.filter(|_| guard != Guard::Open);
        match order {
            None => return,
            Some(Order::WarmUp) => {
                let guard = worker.locks.acquire("warm-up", Duration::from_secs(20)).await;
                guard.expect("nothing fails yet").release().await;
                worker.log.note(worker.host, "warm");
            }
            Some(Order::Begin) => match worker.locks.try_acquire(RESOURCE).await {
                Ok(guard) => (token, held) = (guard.token(), Some(guard)),
                Err(error) => worker.log.note(worker.host, format!("not acquired: {error}")),
            },
            Some(Order::Read) => {
                let shown = shown.filter(|_| guard == Guard::ReadsAndWrites);
                if let Said::Value { value, version } = worker.memory.ask(RESOURCE, shown, &Ask::Read).await {
                    read = (value, version);
                }
            }
            Some(Order::Check) => {
                let held = held.as_ref().is_some_and(|guard| guard.is_held());
                worker.log.note(worker.host, format!("looks at its lease: held {held}"));
            }
            Some(Order::Write) => {
                let Host::Worker(index) = worker.host else { return };
                let write = Ask::Write { value: read.0 + 1, base: read.1, operation: index.into() };
                worker.memory.ask(RESOURCE, shown, &write).await;
            }
            Some(Order::Release) => held = None,
        }
    }
}

/// A file that is being done again.
struct Replay {
    trace: Trace,
    honest_clock: bool,
    world: World,
    orders: Vec<mpsc::UnboundedSender<Order>>,
    /// After each step, from the start: how many entries there are, and the time.
    stops: Vec<(usize, u64)>,
    /// Steps that could not be done.
    missed: Vec<String>,
}

/// What both worlds show after one step.
struct Compared {
    sentence: String,
    model: Shown,
    here: Shown,
}

/// By position: clients, nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Shown {
    believes: Vec<bool>,
    /// Which client's key lives, in which attempt.
    keys: Vec<Option<(usize, u64)>>,
    /// Since the beginning; what a node that lost its data starts from is not compared.
    numbers: Vec<u64>,
    violated: bool,
}

/// A file that has been done again.
struct Replayed {
    steps: Vec<Compared>,
    entries: Vec<Entry>,
    problems: Vec<String>,
}

fn load(name: &str) -> Trace {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counterexamples").join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

impl Replay {
    fn new(name: &str, variant: Variant) -> Self {
        let trace = load(name);
        let says = |what: &str| {
            let mut all = trace.assumptions.iter();
            all.find(|assumption| assumption.name == what).map_or("", |assumption| assumption.value.as_str())
        };
        let mode = variant.mode.unwrap_or(match says("protocol") {
            "classic" => Mode::Classic,
            "fenced" => Mode::Fenced,
            other => panic!("protocol {other}"),
        });
        let guard = variant.guard.unwrap_or(match says("resource") {
            "unfenced" | "not looked at" => Guard::Open,
            "fenced on writes only" => Guard::Writes,
            "fenced on reads and writes" => Guard::ReadsAndWrites,
            other => panic!("resource {other}"),
        });
        let ticks = |ticks: Option<u64>| TICK * u32::try_from(ticks.unwrap_or(0)).expect("few");
        let (ttl, drift) = match trace.clock.unit {
            Unit::None => (LONG, Drift::default()),
            _ => (ticks(trace.clock.ttl), Drift { rate_ppm: 0, fixed: ticks(trace.clock.margin) }),
        };
        let lock = LockSettings { mode, ttl, patience: ttl, drift };
        let (tick, latency) = (Duration::from_millis(1), Duration::from_millis(1));
        let (nodes, workers) = (trace.start.nodes.len(), trace.start.clients.len());
        let shape = Shape { seed: 1, nodes, workers, lock, tick, latency, latency_curve: 1.0 };
        let (orders, queues): (Vec<_>, VecDeque<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let queues = Arc::new(Mutex::new(queues.into_iter().map(Some).collect::<Vec<_>>()));
        let job: Job = Arc::new(move |worker| {
            let queues = Arc::clone(&queues);
            Box::pin(async move {
                let Host::Worker(index) = worker.host else { return };
                let orders = queues.lock().await[usize::from(index)].take().expect("started once");
                obey(worker, orders, guard).await;
            })
        });
        let world = World::new(shape, &job);
        let mut replay = Self {
            trace,
            honest_clock: variant.honest_clock,
            world,
            orders,
            stops: Vec::new(),
            missed: Vec::new(),
        };
        replay.warm_up();
        replay
    }

    /// Everything is started, nobody has anything, and all links are held. All connections are broken, so that each is opened by
    /// the request that needs it: a node that restarts later would end those that were open, and requests on their way with them.
    fn warm_up(&mut self) {
        for index in 0..self.orders.len() {
            self.order(index as u8, Order::WarmUp);
            let warm = |world: &mut World| {
                world.log.count(|entry| matches!(&entry.what, What::Note(text) if text == "warm")) > index
            };
            assert!(self.world.run_until(Duration::from_secs(30), warm), "a lock without any fault");
        }
        let nodes: Vec<Host> = self.world.node_hosts().collect();
        let workers: Vec<Host> = self.world.workers().collect();
        self.run(SETTLE);
        nodes.iter().for_each(|node| self.world.crash(*node));
        self.run(SETTLE);
        nodes.iter().for_each(|node| self.world.restart(*node));
        self.run(SETTLE);
        for worker in workers {
            nodes.iter().for_each(|node| self.world.hold(worker, *node));
        }
        self.stop();
    }

    fn run(&mut self, span: Duration) {
        self.world.run_until(span, |_| false);
    }

    fn stop(&mut self) {
        self.stops.push((self.world.log.len(), self.world.time.now()));
    }

    fn order(&mut self, client: u8, order: Order) {
        self.orders[usize::from(client)].send(order).expect("the worker listens");
    }

    /// Steps, letting messages through, until one more entry is as wanted; false if none comes.
    fn until(&mut self, pass: &[(Host, Host)], wanted: impl Fn(&Entry) -> bool) -> bool {
        let before = self.world.log.count(&wanted);
        let pass = pass.to_vec();
        self.world.run_until(ARRIVE, |world| {
            if world.log.count(&wanted) > before {
                return true;
            }
            pass.iter().for_each(|(from, to)| world.pass(*from, *to));
            false
        })
    }

    /// Lets the client's next request through, and whatever has to come before it on that link: a connection, an answer that
    /// nobody waits for any more. Its answer stays on the link.
    fn execute(&mut self, client: u8, node: u8) -> bool {
        let (worker, at) = (Host::Worker(client), Host::Node(node));
        let owners = self.world.log.collect(|entry| match &entry.what {
            What::Begun { owner, resource, .. } if entry.host == worker && resource == RESOURCE => {
                Some(*owner)
            }
            _ => None,
        });
        self.until(&[(worker, at), (at, worker)], |entry| match &entry.what {
            What::Served(served) if entry.host == at => {
                let done = matches!(&served.answer, Some(answer) if !matches!(answer, Frame::Error(_)));
                done && served.owner().is_some_and(|owner| owners.contains(&owner))
            }
            _ => false,
        })
    }

    fn deliver(&mut self, client: u8, node: u8) -> bool {
        let (worker, at) = (Host::Worker(client), Host::Node(node));
        self.until(&[(at, worker)], |entry| match &entry.what {
            What::Input { input: Input::Reply { node: from, .. }, .. } => {
                entry.host == worker && from.index() == usize::from(node)
            }
            _ => false,
        })
    }

    fn take(&mut self, action: Action) {
        let ttl = self.world.shape.lock.ttl;
        let happened = match action {
            Action::Begin { client } => {
                self.order(client, Order::Begin);
                let host = Host::Worker(client);
                self.until(&[], |entry| entry.host == host && matches!(entry.what, What::Begun { .. }))
            }
            Action::Execute { client, node } => self.execute(client, node),
            Action::Deliver { client, node } => self.deliver(client, node),
            Action::Read(client) | Action::Write(client) => {
                self.order(
                    client,
                    if matches!(action, Action::Read(_)) { Order::Read } else { Order::Write },
                );
                let host = Some(Host::Worker(client));
                self.until(&[], |entry| matches!(&entry.what, What::Access(access) if access.from == host))
            }
            Action::Check(client) => {
                self.order(client, Order::Check);
                let held = "looks at its lease: held true";
                self.until(&[], |entry| matches!(&entry.what, What::Note(text) if text == held))
            }
            Action::Release(client) => {
                self.order(client, Order::Release);
                true
            }
            Action::Tick => {
                self.run(TICK);
                true
            }
            Action::Jump(node) | Action::Expire(node) => {
                self.world.fault(Host::Node(node), format!("clock steps by {ttl:?}"));
                self.world.clock(Host::Node(node)).jump((ttl.as_micros() as i64) + 1_000);
                true
            }
            Action::Wipe(node) => {
                self.world.wipe(node);
                self.run(SETTLE);
                self.world.restart(Host::Node(node));
                true
            }
            Action::Pause(client) | Action::Stop(client) => {
                let host = Host::Worker(client);
                let clock_too = matches!(action, Action::Stop(_)) && !self.honest_clock;
                self.world.fault(host, format!("stands still, its clock too: {clock_too}"));
                self.world.gate(host).pause(u64::MAX);
                if clock_too {
                    let end = self.world.time.now() + crate::world::clock::micros(LONG);
                    self.world.clock(host).stop_until(end);
                }
                true
            }
            Action::Resume(client) => {
                self.world.fault(Host::Worker(client), "goes on");
                self.world.gate(Host::Worker(client)).resume();
                true
            }
        };
        self.run(SETTLE);
        if !happened {
            self.missed.push(format!("{action:?} did not happen"));
        }
        self.stop();
    }

    /// Does all of it.
    fn take_all(&mut self) {
        let steps: Vec<Action> = self
            .trace
            .steps
            .iter()
            .map(|step| {
                let does = step.does.clone().unwrap_or_else(|| panic!("no action: {}", step.sentence));
                serde_json::from_value(does).unwrap_or_else(|error| panic!("{}: {error}", step.sentence))
            })
            .collect();
        steps.into_iter().for_each(|action| self.take(action));
    }

    /// Does all of it, and whatever `afterwards` adds.
    fn finish(mut self, property: &str, afterwards: &[Action]) -> Replayed {
        self.take_all();
        let compared = self.stops.len();
        afterwards.iter().for_each(|action| self.take(*action));
        let entries = self.world.log.take();
        let findings = judge::judge(&entries, &self.world);
        let mut moments = Moments::new(&entries, &self.world, RESOURCE);
        let mut seen = 0;
        let mut here: Vec<(Moment, bool)> = Vec::new();
        for &(upto, time) in &self.stops {
            entries[seen..upto].iter().for_each(|entry| moments.see(entry));
            seen = upto;
            let broken = judge::judge(&entries[..upto], &self.world).by_property().contains_key(property);
            // Just before, as clocks go: the next step may begin in the very same moment, with a jump of one.
            here.push((moments.at(time - 1), broken));
        }
        let mut steps = Vec::new();
        for (number, (moment, broken)) in here.iter().enumerate() {
            let (sentence, model) = match self.trace.steps.get(number.wrapping_sub(1)) {
                Some(step) if number < compared => (step.sentence.clone(), &step.after),
                None if number == 0 => ("the start".to_owned(), &self.trace.start),
                _ => ("afterwards".to_owned(), self.trace.moment(compared - 1)),
            };
            let violated =
                self.trace.moments().take(number + 1).any(|at| at.violated.iter().any(|p| p == property));
            steps.push(Compared {
                sentence,
                model: Shown::new(model, &self.trace.start, violated),
                here: Shown::new(moment, &here[0].0, *broken),
            });
        }
        self.missed.extend(findings.problems);
        Replayed { steps, entries, problems: self.missed }
    }
}

impl Shown {
    fn new(moment: &Moment, start: &Moment, violated: bool) -> Self {
        let client = |lane: &str| moment.clients.iter().position(|client| client.lane == lane);
        let keys = moment.nodes.iter().map(|node| {
            let key = node.key.as_ref()?;
            Some((client(&key.client)?, key.attempt))
        });
        let number = |(now, then): (&redfence::trace::Node, &redfence::trace::Node)| {
            now.number.saturating_sub(then.number)
        };
        Self {
            believes: moment.clients.iter().map(|client| client.believes).collect(),
            keys: keys.collect(),
            numbers: moment.nodes.iter().zip(&start.nodes).map(number).collect(),
            violated,
        }
    }
}

impl Replayed {
    /// The first step after which the two worlds differ, counted as in the file.
    fn first_difference(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.model != step.here)
    }

    fn is_violated(&self) -> bool {
        self.steps.last().is_some_and(|step| step.here.violated)
    }

    /// The token that this client has won with.
    fn won(&self, client: u8) -> Option<Option<FencingToken>> {
        self.entries.iter().find_map(|entry| match &entry.what {
            What::Outputs { owner, outputs } if entry.host == Host::Worker(client) => {
                let about = |begun: &Entry| match &begun.what {
                    What::Begun { owner: whose, resource, .. } => whose == owner && resource == RESOURCE,
                    _ => false,
                };
                let won = outputs.iter().find_map(|output| match output {
                    Output::Event(Event::Acquired { token, .. }) => Some(*token),
                    _ => None,
                });
                won.filter(|_| self.entries.iter().any(about))
            }
            _ => None,
        })
    }

    /// Who was refused by the memory, and whether at a read.
    fn fenced(&self) -> Vec<(Host, bool)> {
        let fenced = self.entries.iter().filter_map(|entry| match &entry.what {
            What::Access(access) if access.said == Said::Fenced => {
                Some((access.from?, matches!(access.ask, Ask::Read)))
            }
            _ => None,
        });
        fenced.collect()
    }

    /// Everything, for a test that fails.
    fn tell(&self) -> String {
        let entries: Vec<_> = self.entries.iter().map(ToString::to_string).collect();
        let steps = self.steps.iter().enumerate().map(|(number, Compared { sentence, model, here })| {
            let differs = if model == here { "" } else { "   <-- differs" };
            format!("{number} {sentence}{differs}\n    model {model:?}\n    here  {here:?}")
        });
        format!("{}\n{}\n{:?}", entries.join("\n"), steps.collect::<Vec<_>>().join("\n"), self.problems)
    }

    /// The simulation has done what the model did, step by step, and the judge finds the same.
    fn assert_same(&self, violated: bool) {
        assert_eq!(self.problems, Vec::<String>::new(), "{}", self.tell());
        assert_eq!(self.first_difference(), None, "{}", self.tell());
        assert_eq!(self.is_violated(), violated, "{}", self.tell());
    }

    /// The same up to that step, at which the two worlds part; nothing is violated.
    fn assert_averted_at(&self, step: usize) {
        assert_eq!(self.problems, Vec::<String>::new(), "{}", self.tell());
        assert_eq!(self.first_difference(), Some(step), "{}", self.tell());
        assert!(!self.is_violated(), "{}", self.tell());
    }
}

fn replay(name: &str, property: &str, variant: Variant) -> Replayed {
    Replay::new(&format!("{name}-{property}.json"), variant).finish(property, &[])
}

/// A file done again: what happened, and the world in which it did.
pub(crate) fn done_again(file: &str) -> (Vec<Entry>, World) {
    let mut replay = Replay::new(file, Variant::default());
    replay.take_all();
    (replay.world.log.take(), replay.world)
}

/// S1: a node's clock jumps, and two believe.
#[test]
fn a_clock_jump_makes_two_believers() {
    let _alone = mutants::nobody();
    replay("s1-clock-jump", BELIEF, Variant::default()).assert_same(true);
}

/// S3: a node restarts empty, and two believe.
#[test]
fn an_empty_restart_makes_two_believers_of_classic_redlock() {
    let _alone = mutants::nobody();
    replay("s3-empty-restart", BELIEF, Variant::default()).assert_same(true);
}

/// The same schedule against the fenced protocol: the empty node does not vote.
#[test]
fn the_same_empty_restart_makes_no_two_believers_of_the_fenced_protocol() {
    let _alone = mutants::nobody();
    let fenced = Variant { mode: Some(Mode::Fenced), ..Variant::default() };
    let replayed = replay("s3-empty-restart", BELIEF, fenced);
    assert!(!replayed.is_violated() && replayed.problems.is_empty(), "{}", replayed.tell());
    assert!(replayed.won(1).is_none(), "{}", replayed.tell());
}

/// S8: a process is suspended and its clock with it: its lease looks good when another has the lock.
#[test]
fn a_stopped_clock_makes_two_believers() {
    let _alone = mutants::nobody();
    replay("s8-stopped-clock", BELIEF, Variant::default()).assert_same(true);
}

/// S8': the shipped clock counts suspension. The schedule is the same, and the sleeper's lease ends in its sleep, at the second tick.
#[test]
fn a_clock_that_counts_suspension_averts_it() {
    let _alone = mutants::nobody();
    let honest = Variant { honest_clock: true, ..Variant::default() };
    replay("s8-stopped-clock", BELIEF, honest).assert_averted_at(8);
}

/// S10: stopped between check and write. Never two believe, and an update is lost.
#[test]
fn a_pause_after_the_check_loses_an_update() {
    let _alone = mutants::nobody();
    let replayed = replay("s10-pause-after-check", "damage", Variant::default());
    replayed.assert_same(true);
    assert!(replayed.steps.iter().all(|step| step.here.believes != [true, true]), "{}", replayed.tell());
}

/// F3 of the fence: it looks at writes alone, and an update is lost.
#[test]
fn a_fence_on_writes_alone_loses_an_update() {
    let _alone = mutants::nobody();
    replay("fact4-fence-on-writes", "damage", Variant::default()).assert_same(true);
}

/// F5: the very same schedule with reads fenced as well. The second reader's token shuts the first one out.
#[test]
fn a_fence_on_reads_and_writes_refuses_the_same_write() {
    let _alone = mutants::nobody();
    let fenced = Variant { guard: Some(Guard::ReadsAndWrites), ..Variant::default() };
    let replayed = replay("fact4-fence-on-writes", "damage", fenced);
    replayed.assert_averted_at(16);
    assert_eq!(replayed.fenced(), [(Host::Worker(0), false)], "{}", replayed.tell());
}

/// F5: two believe, and the memory refuses the read of the one with the smaller token.
#[test]
fn where_two_believe_the_fence_refuses_one_of_them() {
    let _alone = mutants::nobody();
    let replayed = replay("fact5-fence", "fence-refuses", Variant::default());
    replayed.assert_same(false);
    assert_eq!(replayed.fenced(), [(Host::Worker(0), true)], "{}", replayed.tell());
    assert_eq!(replayed.steps.last().map(|step| &step.here.believes[..]), Some(&[true, true][..]));
}

/// Amnesia: in the model a node that lost its data votes at once. The shipped one answers that it is empty, at the step at which the
/// model's grants.
#[test]
fn an_empty_node_does_not_vote() {
    let _alone = mutants::nobody();
    let replayed = replay("fact6-empty-node-votes", "token-order", Variant::default());
    replayed.assert_averted_at(10);
    assert!(replayed.won(1).is_none(), "{}", replayed.tell());
}

/// Amnesia with a node that votes although it is empty. One thing is not as in the model: there all numbers begin at zero, here at
/// the time of the first start, and those of a node that lost its data at zero. So the two grants differ, and a confirm round brings
/// them together: the same token is won two messages later.
#[cfg(feature = "mutants")]
#[test]
fn an_empty_node_that_votes_repeats_a_token() {
    use redfence::proto::mutant::Mutant;
    let _in_force = mutants::in_force(Mutant::EmptyVotes);
    let confirm = |node| [Action::Execute { client: 1, node }, Action::Deliver { client: 1, node }];
    let replay = Replay::new("fact6-empty-node-votes-token-order.json", Variant::default());
    let replayed = replay.finish("token-order", &[confirm(2), confirm(0)].concat());
    assert!(replayed.is_violated(), "{}", replayed.tell());
    assert!(replayed.won(0).is_some() && replayed.won(0) == replayed.won(1), "{}", replayed.tell());
}

/// S12: a release that deletes whatever key is there. The release of the second client arrives at the node after the refusal, which
/// nobody waits for any more, has arrived at the client: the driver sends nothing to a node that owes it an answer.
#[cfg(feature = "mutants")]
#[test]
fn a_plain_delete_ends_a_foreign_key() {
    use redfence::proto::mutant::Mutant;
    let _in_force = mutants::in_force(Mutant::PlainDelete);
    replay("s12-plain-delete", "release-safety", Variant::default()).assert_same(true);
}

/// S12 with the shipped release, which compares: the foreign key stays.
#[test]
fn a_release_that_compares_leaves_a_foreign_key() {
    let _alone = mutants::nobody();
    replay("s12-plain-delete", "release-safety", Variant::default()).assert_averted_at(7);
}
