//! One seed draws the whole run: how large, how fast, which faults, how often.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use redfence::lock::Mode;
use redfence::marks::Mark;
use redfence::proto::Drift;

use crate::world::Shape;
use crate::world::gate::PauseOdds;
use crate::world::worker::LockSettings;

/// What protects the counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Strategy {
    /// Nothing.
    None,
    /// Redlock as the Redis page has it; the memory checks nothing.
    Classic,
    /// Tokens, checked by the memory on reads and writes.
    Fenced,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Classic => "classic",
            Self::Fenced => "fenced",
        })
    }
}

/// How a worker holds its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holding {
    Plain,
    ExtendedByHand,
    ExtendedAlone,
}

/// How wrong the clocks may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clocks {
    /// All alike.
    Good,
    /// Within the drift that the lock allows for.
    WithinDrift,
    /// Beyond it, and they jump; a paused client's may stand still.
    Wild,
}

/// One run, drawn. The same seed and strategy draw the same.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Drawn {
    pub(crate) shape: Shape,
    pub(crate) strategy: Strategy,
    pub(crate) ops: u64,
    pub(crate) resources: u8,
    pub(crate) thinking: Duration,
    pub(crate) holding: Holding,
    pub(crate) clocks: Clocks,
    /// Starting rates are drawn up to this many millionths, either way.
    pub(crate) ppm: i64,
    /// For how long faults are made.
    pub(crate) trouble: Duration,
    /// Faults that are on, and how many come in a second.
    pub(crate) faults: BTreeMap<Mark, f64>,
    /// The longest of them.
    pub(crate) longest: Duration,
    pub(crate) odds: PauseOdds,
    /// An operator re-admits before the longest TTL has passed: exclusion is not promised then.
    pub(crate) hasty: bool,
}

/// Faults that come and go by themselves, for any clocks.
const FAULTS: [Mark; 14] = [
    Mark::LinkCut,
    Mark::LinkCutOneWay,
    Mark::LinkHeld,
    Mark::OldRequestLate,
    Mark::MessagesLost,
    Mark::NodeSlow,
    Mark::NodeStopped,
    Mark::NodeRestartedIntact,
    Mark::NodeRestartedEmpty,
    Mark::ClientPaused,
    Mark::ClientCrashed,
    Mark::MemoryRestarted,
    Mark::MemoryAnswersLost,
    Mark::Readmitted,
];

/// And those of wild clocks.
const WILD: [Mark; 3] = [Mark::NodeClockForward, Mark::NodeClockBack, Mark::ClientClockStopped];

impl Drawn {
    pub(crate) fn new(seed: u64, strategy: Strategy) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let dice = &mut dice;
        let millis = |millis: u64| Duration::from_millis(millis);
        let ttl = millis(*one_of(dice, &[150, 300, 600, 1_000, 2_000]));
        let tick = millis(*one_of(dice, &[1, 2, 2, 4]));
        let latency = (tick + millis(*one_of(dice, &[1, 5, 20, 60]))).min(ttl / 20).max(tick);
        let clocks = *one_of(dice, &[Clocks::Good, Clocks::WithinDrift, Clocks::WithinDrift, Clocks::Wild]);
        let shape = Shape {
            seed: dice.u64(..),
            nodes: *one_of(dice, &[3, 3, 5]),
            workers: dice.usize(2..=4),
            lock: LockSettings {
                mode: if strategy == Strategy::Classic { Mode::Classic } else { Mode::Fenced },
                ttl,
                // Enough for a few round trips of the slowest messages, or no attempt ever succeeds.
                patience: ttl.div_f64(*one_of(dice, &[2.0, 4.0])).max(millis(60)).max(latency * 5),
                drift: Drift::default(),
            },
            tick,
            latency,
            latency_curve: *one_of(dice, &[1.0, 5.0, 20.0]),
        };
        let wild: &[Mark] = if clocks == Clocks::Wild { &WILD } else { &[] };
        let busy = dice.f64();
        let mut faults = BTreeMap::new();
        for &fault in FAULTS.iter().chain(wild) {
            let (on, often) = (dice.f64() < 0.15 + 0.5 * busy, 0.1 + 1.4 * dice.f64());
            if on {
                faults.insert(fault, often);
            }
        }
        let odds = PauseOdds {
            clock_read: *one_of(dice, &[0.0, 0.0, 0.002, 0.01]),
            critical: *one_of(dice, &[0.0, 0.02, 0.1]),
            longest: crate::world::clock::micros(ttl.mul_f64(*one_of(dice, &[0.5, 1.5, 3.0]))),
            with_clock: if clocks == Clocks::Wild { *one_of(dice, &[0.0, 0.5]) } else { 0.0 },
        };
        Self {
            shape,
            strategy,
            ops: dice.u64(3..=16),
            resources: *one_of(dice, &[1, 1, 1, 2]),
            thinking: ttl.mul_f64(*one_of(dice, &[0.02, 0.2, 0.8])),
            holding: *one_of(dice, &[Holding::Plain, Holding::ExtendedByHand, Holding::ExtendedAlone]),
            clocks,
            ppm: match clocks {
                Clocks::Good => 0,
                // Two clocks that differ by twice this are within 1 % of each other.
                Clocks::WithinDrift => 4_000,
                Clocks::Wild => *one_of(dice, &[0, 20_000, 200_000]),
            },
            trouble: millis(dice.u64(1_500..=8_000)),
            faults,
            longest: ttl.mul_f64(*one_of(dice, &[0.5, 2.0, 4.0])),
            odds,
            hasty: dice.bool(),
        }
    }

    /// What the counters must show together.
    pub(crate) fn expected(&self) -> u64 {
        self.shape.workers as u64 * self.ops
    }

    /// What in this run takes away an assumption of Redlock without a fence.
    pub(crate) fn hardships(&self) -> String {
        let on = |fault: Mark| self.faults.contains_key(&fault);
        // A write on its way is late as well if its writer stands still, or the link does.
        let late = self.odds.critical > 0.0 || self.odds.clock_read > 0.0;
        let all = [
            (late || on(Mark::ClientPaused), "pauses"),
            (on(Mark::MemoryAnswersLost) || on(Mark::MemoryRestarted), "a memory that is away"),
            (self.clocks == Clocks::Wild, "wild clocks"),
            (on(Mark::NodeRestartedEmpty), "empty restarts"),
        ];
        let named: Vec<&str> = all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
        if named.is_empty() { "none of these hardships".to_owned() } else { named.join(" + ") }
    }

    /// Properties that this run's faults may break: its assumptions are not theirs.
    pub(crate) fn excuses(&self) -> BTreeMap<&'static str, &'static str> {
        let mut excuses = BTreeMap::new();
        if self.clocks == Clocks::Wild {
            excuses.insert("belief", "clocks beyond the drift");
            excuses.insert("orphan", "clocks beyond the drift");
        }
        let empty = self.faults.contains_key(&Mark::NodeRestartedEmpty);
        if empty && (self.hasty || self.strategy == Strategy::Classic) {
            excuses.entry("belief").or_insert("an empty node votes within a TTL");
        }
        if self.strategy != Strategy::Fenced {
            excuses.insert("damage", "nothing checks the writes");
        }
        excuses
    }
}

fn one_of<'a, T>(dice: &mut fastrand::Rng, all: &'a [T]) -> &'a T {
    &all[dice.usize(..all.len())]
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, strategy, ops, resources, thinking, holding, clocks, ppm, .. } = self;
        let Shape { nodes, workers, lock, tick, latency, latency_curve, .. } = shape;
        writeln!(f, "{strategy}: {workers} workers x {ops} updates of {resources} counters, {nodes} nodes")?;
        writeln!(
            f,
            "ttl {:?}, patience {:?}, held {holding:?}, thinking up to {thinking:?}",
            lock.ttl, lock.patience
        )?;
        writeln!(
            f,
            "tick {tick:?}, messages up to {latency:?} (curve {latency_curve}), clocks {clocks:?} {ppm} ppm"
        )?;
        writeln!(
            f,
            "trouble for {:?}, each up to {:?}, hasty operator {}",
            self.trouble, self.longest, self.hasty
        )?;
        let faults: Vec<_> = self.faults.iter().map(|(fault, rate)| format!("{fault} {rate:.1}/s")).collect();
        writeln!(f, "faults: {}", faults.join(", "))?;
        write!(f, "pauses at marked points: {:?}", self.odds)
    }
}
