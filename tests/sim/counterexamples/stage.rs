//! Does the actions of a file, one by one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redfence::lock::Mode;
use redfence::proto::{Drift, Input};
use redfence::trace::{Trace, Unit};
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc};

use super::RESOURCE;
use super::worker::{Guard, Order, obey};
use crate::world::log::{Entry, What};
use crate::world::resp::Frame;
use crate::world::worker::{Job, LockSettings};
use crate::world::{Host, Shape, World};

/// A tick of the model.
const TICK: Duration = Duration::from_secs(1);
/// Life of a key where the model has no time: no key ends by itself.
const LONG: Duration = Duration::from_secs(60);
/// For everything that follows from a step by itself.
const SETTLE: Duration = Duration::from_millis(30);
/// For a message, or a connection and a message, to arrive.
const ARRIVE: Duration = Duration::from_millis(500);

/// Steps of the model that can be done here; any other is an error that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Action {
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

/// How a file is done again; by default as it says.
#[derive(Clone, Copy, Default)]
pub(super) struct Variant {
    pub(super) mode: Option<Mode>,
    pub(super) guard: Option<Guard>,
    /// A process that is stopped has a clock that goes on.
    pub(super) honest_clock: bool,
}

/// A file that is being done again.
pub(super) struct Replay {
    pub(super) trace: Trace,
    honest_clock: bool,
    pub(super) world: World,
    orders: Vec<mpsc::UnboundedSender<Order>>,
    /// After each step, from the start: how many entries there are, and the time.
    pub(super) stops: Vec<(usize, u64)>,
    /// Steps that could not be done.
    pub(super) missed: Vec<String>,
}

fn load(name: &str) -> Trace {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counterexamples").join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

impl Replay {
    pub(super) fn new(name: &str, variant: Variant) -> Self {
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
        let (orders, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
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

    pub(super) fn take(&mut self, action: Action) {
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
    pub(super) fn take_all(&mut self) {
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
}
