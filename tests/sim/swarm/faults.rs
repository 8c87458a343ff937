//! Faults that come at random times, last for a while, and end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redfence::marks::Mark;
use redfence::proto::Quorum;

use super::draw::{Drawn, Strategy};
use crate::world::clock::micros;
use crate::world::{Host, World};

/// What is still to happen.
enum Next {
    Begin(Mark),
    Mend(Host, Host),
    Quick(Host, Host),
    NoLoss,
    Restart(Host),
    Readmit,
}

pub(super) struct Trouble {
    drawn: Drawn,
    dice: fastrand::Rng,
    agenda: BTreeMap<(u64, u64), Next>,
    planned: u64,
    /// Links that have trouble now: only one kind at a time.
    busy: BTreeSet<(Host, Host)>,
    slow: BTreeSet<Host>,
    lossy: bool,
    /// When re-admission is harmless for exclusion: every key that a wiped node held has ended.
    careful_from: u64,
    /// How often each fault was made.
    pub(super) made: BTreeMap<Mark, u64>,
}

impl Trouble {
    pub(super) fn new(drawn: &Drawn, world: &World) -> Self {
        let dice = fastrand::Rng::with_seed(drawn.shape.seed ^ 0xfa_017);
        let mut trouble = Self {
            drawn: drawn.clone(),
            dice,
            agenda: BTreeMap::new(),
            planned: 0,
            busy: BTreeSet::new(),
            slow: BTreeSet::new(),
            lossy: false,
            careful_from: 0,
            made: BTreeMap::new(),
        };
        trouble.set_clocks(world);
        for worker in world.workers() {
            world.gate(worker).set_odds(drawn.odds);
        }
        let faults: Vec<Mark> = drawn.faults.keys().copied().collect();
        faults.into_iter().for_each(|fault| trouble.plan_next(0, fault));
        trouble
    }

    fn set_clocks(&mut self, world: &World) {
        let ppm = self.drawn.ppm;
        if ppm == 0 {
            return;
        }
        for host in world.node_hosts().chain(world.workers()) {
            world.clock(host).set_rate(self.dice.i64(-ppm..=ppm));
            let mark = match host {
                Host::Node(_) => Mark::NodeClockDrifted,
                _ => Mark::ClientClockDrifted,
            };
            *self.made.entry(mark).or_default() += 1;
        }
    }

    fn plan(&mut self, at: u64, next: Next) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), next);
    }

    /// Faults of one kind come independently of each other.
    fn plan_next(&mut self, now: u64, fault: Mark) {
        let rate = self.drawn.faults.get(&fault).copied().unwrap_or_default();
        let wait = -(1.0 - self.dice.f64()).ln() / rate;
        self.plan(now + micros(Duration::from_secs_f64(wait)), Next::Begin(fault));
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, world: &mut World) {
        let now = world.time.now();
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= now
        {
            let next = entry.remove();
            if let Next::Begin(fault) = next {
                self.plan_next(now, fault);
                if self.begin(world, fault) {
                    *self.made.entry(fault).or_default() += 1;
                }
            } else {
                self.end(world, next);
            }
        }
    }

    /// Ends everything at once.
    pub(super) fn heal(&mut self, world: &mut World) {
        for (_, next) in std::mem::take(&mut self.agenda) {
            self.end(world, next);
        }
        world.lose(0.0);
        let workers: Vec<Host> = world.workers().collect();
        for worker in workers {
            world.gate(worker).set_odds(Default::default());
            world.gate(worker).resume();
            world.clock(worker).set_rate(0);
            let others: Vec<Host> = world.node_hosts().chain([Host::Memory]).collect();
            others.into_iter().for_each(|other| world.mend(worker, other));
        }
        let nodes: Vec<Host> = world.node_hosts().collect();
        for node in nodes {
            world.gate(node).resume();
            world.clock(node).set_rate(0);
            world.mend(Host::Operator, node);
        }
    }

    fn end(&mut self, world: &mut World, next: Next) {
        match next {
            Next::Begin(_) => {}
            Next::Mend(a, b) => {
                self.busy.remove(&(a, b));
                world.mend(a, b);
            }
            Next::Quick(a, b) => {
                self.slow.remove(&b);
                world.quick(a, b);
            }
            Next::NoLoss => {
                self.lossy = false;
                world.lose(0.0);
            }
            Next::Restart(host) => world.restart(host),
            Next::Readmit if self.may_readmit(world) => world.readmit(),
            Next::Readmit => {}
        }
    }

    fn span(&mut self) -> u64 {
        self.dice.u64(5_000..=micros(self.drawn.longest).max(10_000))
    }

    fn node(&mut self, world: &World) -> Host {
        Host::Node(self.dice.u8(..world.shape.nodes as u8))
    }

    fn worker(&mut self, world: &World) -> Host {
        Host::Worker(self.dice.u8(..world.shape.workers as u8))
    }

    /// Makes one fault; false if it is not possible now.
    fn begin(&mut self, world: &mut World, fault: Mark) -> bool {
        let now = world.time.now();
        match fault {
            Mark::LinkCut | Mark::LinkCutOneWay | Mark::LinkHeld | Mark::OldRequestLate => {
                self.trouble_links(world, fault)
            }
            Mark::MemoryAnswersLost => {
                let worker = self.worker(world);
                self.on_link(world, worker, Host::Memory, |world| world.cut_one_way(Host::Memory, worker))
            }
            Mark::MessagesLost if !self.lossy => {
                self.lossy = true;
                world.lose(0.0005 + 0.01 * self.dice.f64());
                let end = now + self.span();
                self.plan(end, Next::NoLoss);
                true
            }
            Mark::NodeSlow => self.slow_node(world),
            Mark::NodeStopped => {
                let (node, span) = (self.node(world), self.span());
                world.fault(node, format!("stands still for {}ms", span / 1_000));
                world.gate(node).pause(span);
                true
            }
            Mark::ClientPaused | Mark::ClientClockStopped => {
                let (worker, span) = (self.worker(world), self.span());
                world.fault(worker, format!("stands still for {}ms", span / 1_000));
                world.gate(worker).pause(span);
                if fault == Mark::ClientClockStopped {
                    world.clock(worker).stop_until(now + span);
                }
                true
            }
            Mark::NodeRestartedIntact => {
                let node = self.node(world);
                self.crash(world, node)
            }
            Mark::ClientCrashed => {
                let worker = self.worker(world);
                self.crash(world, worker)
            }
            Mark::MemoryRestarted => self.crash(world, Host::Memory),
            Mark::NodeRestartedEmpty => self.wipe(world),
            Mark::NodeClockForward | Mark::NodeClockBack => {
                let (node, by) = (self.node(world), self.span().cast_signed());
                let by = if fault == Mark::NodeClockBack { -by } else { by };
                world.fault(node, format!("clock steps by {}ms", by / 1_000));
                world.clock(node).jump(by);
                true
            }
            // Without need: nothing is wiped, or the operator tries before all are back.
            Mark::Readmitted if self.drawn.strategy != Strategy::Classic && self.may_readmit(world) => {
                world.readmit();
                true
            }
            _ => false,
        }
    }

    /// An operator who is not hasty waits.
    pub(super) fn may_readmit(&self, world: &World) -> bool {
        self.drawn.hasty || world.time.now() >= self.careful_from
    }

    /// A worker and some of the nodes: one, a minority, most, all.
    fn trouble_links(&mut self, world: &mut World, fault: Mark) -> bool {
        let worker = self.worker(world);
        let mut nodes: Vec<Host> = world.node_hosts().collect();
        self.dice.shuffle(&mut nodes);
        let some = if fault == Mark::OldRequestLate { 1 } else { self.dice.usize(1..=nodes.len()) };
        let outwards = self.dice.bool();
        let mut any = false;
        for &node in &nodes[..some] {
            any |= self.on_link(world, worker, node, |world| match fault {
                Mark::LinkCut => world.cut(worker, node),
                Mark::LinkCutOneWay if outwards => world.cut_one_way(worker, node),
                Mark::LinkCutOneWay => world.cut_one_way(node, worker),
                Mark::LinkHeld => world.hold(worker, node),
                _ => world.straggle(worker, node),
            });
        }
        any
    }

    fn on_link(&mut self, world: &mut World, a: Host, b: Host, make: impl FnOnce(&mut World)) -> bool {
        if !self.busy.insert((a, b)) {
            return false;
        }
        make(world);
        let end = world.time.now() + self.span();
        self.plan(end, Next::Mend(a, b));
        true
    }

    fn slow_node(&mut self, world: &mut World) -> bool {
        let node = self.node(world);
        if !self.slow.insert(node) {
            return false;
        }
        let most = micros(self.drawn.shape.lock.ttl).div_ceil(2_000).max(10);
        let latency = Duration::from_millis(self.dice.u64(5..=most));
        let end = world.time.now() + self.span();
        let workers: Vec<Host> = world.workers().collect();
        for worker in workers {
            world.slow(worker, node, latency.max(self.drawn.shape.tick));
            self.plan(end, Next::Quick(worker, node));
        }
        true
    }

    fn crash(&mut self, world: &mut World, host: Host) -> bool {
        if world.is_down(host) {
            return false;
        }
        world.crash(host);
        let end = world.time.now() + self.span();
        self.plan(end, Next::Restart(host));
        true
    }

    /// A quorum keeps its data: if it does not, the numbers are gone, and no protocol brings them back.
    fn wipe(&mut self, world: &mut World) -> bool {
        let Host::Node(index) = self.node(world) else { return false };
        let host = Host::Node(index);
        let spare = Quorum::of(world.shape.nodes).spare();
        // Without epochs nobody is ever re-admitted: a classic node that comes back empty votes at once.
        let limited = self.drawn.strategy == Strategy::Fenced && world.empty().len() >= spare;
        if world.is_down(host) || limited {
            return false;
        }
        world.wipe(index);
        let back = world.time.now() + self.span();
        self.plan(back, Next::Restart(host));
        // The longest life of a key, on the slowest clock.
        let careful = back + micros(self.drawn.shape.lock.ttl) * 5 / 4;
        self.careful_from = self.careful_from.max(careful);
        let hasty = back + self.span() / 2;
        self.plan(if self.drawn.hasty { hasty } else { careful }, Next::Readmit);
        true
    }
}
