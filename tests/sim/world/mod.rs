//! The world: nodes, workers, a memory and an operator, on links and clocks that can be made to fail.
//!
//! Nothing here is random but what turmoil draws from the world's seed (latencies, losses) and what the marked points of a
//! worker draw. *What* fails and when is said from outside, by a swarm or by a script: see [`World`]. Everything that happens
//! goes to the [`Log`](log::Log).

pub(crate) mod clock;
pub(crate) mod gate;
mod links;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod resp;
pub(crate) mod tap;
pub(crate) mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redfence::node::{EmbeddedNode, NodeOptions};
use redfence::proto::NodeSet;
use tokio::io::AsyncWriteExt;
use turmoil::net::{TcpListener, TcpStream};

use clock::{EPOCH_MICROS, HostClock, TrueTime, WorkerClock, micros};
use gate::{Gate, Gated};
use links::Straggle;
use log::{Log, What};
use memory::Store;
use tap::Tap;
use worker::{Dice, Job, LockSettings, Worker};

/// Where nodes and the memory listen.
pub(crate) const PORT: u16 = 6379;

/// Which host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Host {
    Node(u8),
    Worker(u8),
    Memory,
    Operator,
}

impl Host {
    /// The host that is called so.
    fn named(name: &str) -> Option<Self> {
        match name.split_once('-') {
            Some(("worker", index)) => index.parse().ok().map(Self::Worker),
            Some(("node", index)) => index.parse().ok().map(Self::Node),
            _ => [Self::Memory, Self::Operator].into_iter().find(|host| host.to_string() == name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(index) => write!(f, "node-{index}"),
            Self::Worker(index) => write!(f, "worker-{index}"),
            Self::Memory => f.write_str("memory"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

/// A node's clock as the node is told it.
fn node_millis(clock: &HostClock) -> u64 {
    (EPOCH_MICROS + clock.now()) / 1_000
}

/// The same at another true time.
pub(crate) fn node_millis_at(clock: &HostClock, time: u64) -> u64 {
    (EPOCH_MICROS + clock.at(time)) / 1_000
}

/// How a world is built.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    pub(crate) lock: LockSettings,
    /// One step. No message takes less, so that no answer comes before its question.
    pub(crate) tick: Duration,
    /// The slowest message.
    pub(crate) latency: Duration,
    /// How quickly the share of slow messages falls: the rate of an exponential distribution over the whole range.
    pub(crate) latency_curve: f64,
}

/// A world that runs. Between two steps its faults can be changed; see the methods of `links` for the network.
pub(crate) struct World {
    pub(crate) shape: Shape,
    pub(crate) log: Log,
    pub(crate) time: TrueTime,
    pub(crate) store: Store,
    sim: turmoil::Sim<'static>,
    nodes: Vec<EmbeddedNode>,
    clocks: BTreeMap<Host, HostClock>,
    gates: BTreeMap<Host, Gate>,
    down: BTreeSet<Host>,
    straggles: Vec<Straggle>,
    operator: Arc<Operator>,
}

/// What passes between the world and its operator's process.
#[derive(Default)]
struct Operator {
    wanted: AtomicBool,
    /// Nodes without an epoch, as bits: never started, or wiped and not re-admitted.
    empty: AtomicU64,
}

impl World {
    /// Builds it; every worker's process runs `job`, at its start and at each restart.
    pub(crate) fn new(shape: Shape, job: &Job) -> Self {
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(shape.seed)
            .epoch(UNIX_EPOCH + Duration::from_micros(EPOCH_MICROS))
            .simulation_duration(Duration::from_secs(1 << 30))
            .tick_duration(shape.tick)
            .min_message_latency(shape.tick)
            .max_message_latency(shape.latency.max(shape.tick))
            .repair_rate(0.3)
            .tcp_capacity(4096)
            .enable_random_order();
        let sim = builder.build();
        sim.set_message_latency_curve(shape.latency_curve);
        let time = TrueTime::default();
        let log = Log::new(&time);
        let mut world = Self {
            shape,
            log,
            time,
            store: Store::default(),
            sim,
            nodes: Vec::new(),
            clocks: BTreeMap::new(),
            gates: BTreeMap::new(),
            down: BTreeSet::new(),
            straggles: Vec::new(),
            operator: Arc::default(),
        };
        let mut seeds = fastrand::Rng::with_seed(shape.seed ^ 0x5eed);
        for index in 0..shape.nodes {
            world.add_node(Host::Node(index as u8), seeds.u64(..));
        }
        let (store, log) = (world.store.clone(), world.log.clone());
        world.sim.host(Host::Memory.to_string(), move || memory::serve(store.clone(), log.clone()));
        let owners = Arc::new(AtomicU64::new(0));
        for index in 0..shape.workers {
            world.add_worker(Host::Worker(index as u8), &owners, seeds.u64(..), job);
        }
        world.add_operator(&owners, seeds.u64(..));
        world
    }

    /// A clock and a gate of its own.
    fn equip(&mut self, host: Host, seed: u64) -> (HostClock, Gate) {
        let clock = HostClock::new(&self.time, 0);
        let log = self.log.clone();
        let gate =
            Gate::new(&self.time, Some(clock.clone()), seed, move |pause| log.add(host, What::Paused(pause)));
        self.clocks.insert(host, clock.clone());
        self.gates.insert(host, gate.clone());
        (clock, gate)
    }

    fn add_node(&mut self, host: Host, seed: u64) {
        let (clock, gate) = self.equip(host, seed);
        let own = clock.clone();
        let node = EmbeddedNode::new(&NodeOptions::new().clock(move || node_millis(&own)));
        // Fails only on a log file, and there is none.
        let node = node.expect("a node in memory");
        self.nodes.push(node.clone());
        let (log, connections) = (self.log.clone(), Arc::new(AtomicU64::new(0)));
        let (operator, index) = (Arc::clone(&self.operator), self.nodes.len() - 1);
        operator.empty.fetch_or(1 << index, Ordering::Relaxed);
        self.sim.host(host.to_string(), move || {
            let (node, clock, gate) = (node.clone(), clock.clone(), gate.clone());
            let (log, connections, operator) = (log.clone(), Arc::clone(&connections), Arc::clone(&operator));
            async move {
                forget_scripts(&node).await?;
                // That was a command too: the node has looked at its clock, and keys whose time had passed are gone.
                log.add(host, What::Touched(node_millis(&clock)));
                let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
                serve_all(&listener, |stream| {
                    let number = connections.fetch_add(1, Ordering::Relaxed);
                    let operator = Arc::clone(&operator);
                    let started = move || {
                        operator.empty.fetch_and(!(1 << index), Ordering::Relaxed);
                    };
                    let stream = Tap::new(Gated::new(stream, &gate), host, &clock, &log, number, started);
                    let node = node.clone();
                    async move { node.serve(stream).await }
                })
                .await
            }
        });
    }

    fn add_worker(&mut self, host: Host, owners: &Arc<AtomicU64>, seed: u64, job: &Job) {
        let (clock, gate) = self.equip(host, seed);
        let clock = Arc::new(WorkerClock::new(clock, gate));
        let (log, job, owners) = (self.log.clone(), Arc::clone(job), Arc::clone(owners));
        let (nodes, settings, starts) = (self.shape.nodes, self.shape.lock, AtomicU64::new(0));
        self.sim.host(host.to_string(), move || {
            let seed = seed.wrapping_add(starts.fetch_add(1, Ordering::Relaxed));
            let worker = Worker::new(host, nodes, settings, &clock, &log, Dice::new(&owners, seed));
            let work = job(worker);
            async move {
                work.await;
                Ok(())
            }
        });
    }

    fn add_operator(&mut self, owners: &Arc<AtomicU64>, seed: u64) {
        let host = Host::Operator;
        let (clock, gate) = self.equip(host, seed);
        let clock = Arc::new(WorkerClock::new(clock, gate));
        let (log, owners, operator) = (self.log.clone(), Arc::clone(owners), Arc::clone(&self.operator));
        let (nodes, settings) = (self.shape.nodes, self.shape.lock);
        self.sim.host(host.to_string(), move || {
            let worker = Worker::new(host, nodes, settings, &clock, &log, Dice::new(&owners, seed));
            let (operator, log) = (Arc::clone(&operator), log.clone());
            async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    if !operator.wanted.swap(false, Ordering::Relaxed) {
                        continue;
                    }
                    let outcome = worker.locks.readmit().await;
                    log.note(host, format!("re-admission: {outcome:?}"));
                }
            }
        });
    }

    /// One step of everything.
    pub(crate) fn step(&mut self) {
        self.deliver_around_straggles();
        let stepped = self.sim.step();
        self.time.set(self.sim.elapsed());
        stepped.expect("no host of this world ends with an error");
    }

    /// Steps until this is so; false if it is not within `limit`.
    pub(crate) fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.time.now() + micros(limit);
        loop {
            if done(self) {
                return true;
            }
            if self.time.now() >= end {
                return false;
            }
            self.step();
        }
    }

    /// A host's process ends without warning. A node keeps its data, and those who are connected to it are told; of a worker,
    /// the whole machine is gone, and nobody is told.
    pub(crate) fn crash(&mut self, host: Host) {
        if !self.down.insert(host) {
            return;
        }
        self.log.add(host, What::Crashed);
        // A runtime drops its tasks in an order that depends on how many others there have been in this process. The
        // farewells of a worker's streams would draw their latencies in that order, and no run would be like another.
        let silent: Vec<Host> = match host {
            Host::Worker(_) => self.node_hosts().chain([Host::Memory]).collect(),
            _ => Vec::new(),
        };
        silent.iter().for_each(|other| self.sim.partition(host.to_string(), other.to_string()));
        self.sim.crash(host.to_string());
        silent.iter().for_each(|other| self.mend(host, *other));
    }

    /// A process that has ended starts again.
    pub(crate) fn restart(&mut self, host: Host) {
        if self.down.remove(&host) {
            self.log.add(host, What::Restarted);
            self.sim.bounce(host.to_string());
        }
    }

    /// A node's data are gone. It is a node that is down, or crashes now.
    pub(crate) fn wipe(&mut self, index: u8) {
        self.crash(Host::Node(index));
        self.log.add(Host::Node(index), What::Wiped);
        self.operator.empty.fetch_or(1 << index, Ordering::Relaxed);
        // Fails only on a log file, and there is none.
        self.nodes[usize::from(index)].wipe().expect("a node in memory");
    }

    /// Nodes without an epoch: never started, or wiped and not re-admitted.
    pub(crate) fn empty(&self) -> NodeSet {
        let bits = self.operator.empty.load(Ordering::Relaxed);
        (0..self.shape.nodes)
            .filter(|index| bits >> index & 1 == 1)
            .map(redfence::proto::NodeId::new)
            .collect()
    }

    /// The operator re-admits, once, when it next looks.
    pub(crate) fn readmit(&mut self) {
        self.operator.wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_down(&self, host: Host) -> bool {
        self.down.contains(&host)
    }

    /// A host's clock: to read, to set, to bend.
    pub(crate) fn clock(&self, host: Host) -> &HostClock {
        &self.clocks[&host]
    }

    /// A host's gate: to stop its process.
    pub(crate) fn gate(&self, host: Host) -> &Gate {
        &self.gates[&host]
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.shape.workers as u8).map(Host::Worker)
    }

    pub(crate) fn node_hosts(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.shape.nodes as u8).map(Host::Node)
    }

    /// Writes to the log that something was done to a host.
    pub(crate) fn fault(&self, host: Host, text: impl Into<String>) {
        self.log.add(host, What::Fault(text.into()));
    }
}

/// Serves every connection, all in one task: a crash then ends them in the order in which they came.
async fn serve_all<F>(listener: &TcpListener, serve: impl Fn(TcpStream) -> F) -> turmoil::Result
where
    F: Future<Output = std::io::Result<()>>,
{
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => connections.push(serve(accepted?.0)),
            Some(_) = connections.next() => {}
        }
    }
}

/// A node that starts knows no script, as Redis does not.
async fn forget_scripts(node: &EmbeddedNode) -> turmoil::Result {
    let (mut near, far) = tokio::io::duplex(1024);
    near.write_all(b"SCRIPT FLUSH\r\nQUIT\r\n").await?;
    Ok(node.serve(far).await?)
}
