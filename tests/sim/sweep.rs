//! Many seeds, on all cores, added up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io::{IsTerminal, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redfence::marks::Mark;

use crate::swarm::Run;
use crate::swarm::draw::{Drawn, Strategy};

/// Entries of the log that a failure prints.
const LAST: usize = 60;

pub(crate) struct Sweep {
    strategy: Strategy,
    seeds: Range<u64>,
    /// Ends at the first failure.
    hasty: bool,
    progress: bool,
}

/// What a sweep has found.
#[derive(Default)]
pub(crate) struct Summary {
    strategy: Option<Strategy>,
    pub(crate) seeds: u64,
    simulated: Duration,
    wall: Duration,
    slowest_recovery: Duration,
    pub(crate) updates: u64,
    won: u64,
    answers_checked: u64,
    inputs_replayed: u64,
    faults: BTreeMap<Mark, u64>,
    /// Runs in which each mark was met.
    pub(crate) marks: BTreeMap<Mark, u64>,
    /// Runs in which a property was broken although, or because, the run's faults leave its assumptions; by property and excuse.
    excused: BTreeMap<(&'static str, &'static str), u64>,
    /// Runs that could have been excused.
    excusable: BTreeMap<(&'static str, &'static str), u64>,
    /// Runs by what hardens them, and those among them that lost updates.
    worlds: BTreeMap<String, (u64, u64)>,
    /// Runs that lost updates, and how many.
    pub(crate) losing_runs: u64,
    pub(crate) lost: i64,
    /// Seeds that failed, and what there is to say.
    pub(crate) failures: BTreeMap<u64, String>,
}

impl Sweep {
    pub(crate) fn new(strategy: Strategy, seeds: Range<u64>) -> Self {
        Self { strategy, seeds, hasty: false, progress: false }
    }

    /// Stop at the first failure.
    #[cfg(feature = "mutants")]
    pub(crate) fn until_it_fails(mut self) -> Self {
        self.hasty = true;
        self
    }

    /// Tells how far it is, now and then.
    pub(crate) fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }

    pub(crate) fn run(self) -> Summary {
        let begun = now();
        let next = AtomicU64::new(self.seeds.start);
        let summary = Mutex::new(Summary { strategy: Some(self.strategy), ..Summary::default() });
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end {
                            return;
                        }
                        let failed = self.one(seed, &summary);
                        if failed && self.hasty {
                            next.store(self.seeds.end, Ordering::Relaxed);
                        }
                        if self.progress {
                            lock(&summary).tell(begun, &self.seeds);
                        }
                        if failed && self.progress {
                            eprintln!("failed; {}", replay(seed, self.strategy));
                        }
                    }
                });
            }
        });
        let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.wall = begun.elapsed();
        summary
    }

    /// One seed; true if it failed.
    fn one(&self, seed: u64, summary: &Mutex<Summary>) -> bool {
        let drawn = Drawn::new(seed, self.strategy);
        // A panic, of our assertions or of turmoil's, is a finding like any other, and needs its seed.
        let run = std::panic::catch_unwind(|| crate::swarm::run(&drawn));
        let mut summary = lock(summary);
        match run {
            Ok(run) => summary.add(seed, &run),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                summary
                    .failures
                    .insert(seed, format!("panicked: {text}\n{drawn}\n{}", replay(seed, self.strategy)));
            }
        }
        summary.failures.contains_key(&seed)
    }
}

fn lock(summary: &Mutex<Summary>) -> std::sync::MutexGuard<'_, Summary> {
    summary.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "how long a sweep takes is told, and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

/// What is wrong with a run and not excused by its faults.
pub(crate) fn unexcused(run: &Run) -> Vec<String> {
    let excuses = run.drawn.excuses();
    let broken =
        run.findings.violations.iter().filter(|violation| !excuses.contains_key(violation.property()));
    let broken = broken.map(|violation| format!("{}: {violation}", violation.property()));
    broken.chain(run.findings.problems.iter().cloned()).collect()
}

/// The command that does this run again.
pub(crate) fn replay(seed: u64, strategy: Strategy) -> String {
    let strategy = match strategy {
        Strategy::Fenced => String::new(),
        other => format!(" REDFENCE_SIM_STRATEGY={other}"),
    };
    format!("replay: REDFENCE_SIM_SEED={seed}{strategy} cargo test --test sim -- one_seed --nocapture")
}

/// Everything that is needed to look into one run.
pub(crate) fn report(seed: u64, run: &Run, last: usize) -> String {
    let mut text = format!("seed {seed}, event hash {:016x}\n{}\n", run.hash, run.drawn);
    let _ = writeln!(
        text,
        "{} of {} updates in {:?} simulated, {:?} after the heal; excused: {:?}; broken: {:?}",
        run.total,
        run.drawn.expected(),
        run.simulated,
        run.recovery,
        run.drawn.excuses(),
        run.findings.by_property(),
    );
    let entries = &run.entries[run.entries.len().saturating_sub(last)..];
    for entry in entries {
        let _ = writeln!(text, "{entry}");
    }
    for wrong in unexcused(run) {
        let _ = writeln!(text, "WRONG: {wrong}");
    }
    text + &replay(seed, run.drawn.strategy)
}

impl Summary {
    fn add(&mut self, seed: u64, run: &Run) {
        let findings = &run.findings;
        self.seeds += 1;
        self.simulated += run.simulated;
        self.slowest_recovery = self.slowest_recovery.max(run.recovery);
        self.updates += run.drawn.expected();
        self.won += findings.won;
        self.answers_checked += findings.answers_checked;
        self.inputs_replayed += findings.inputs_replayed;
        for (fault, number) in &run.made {
            *self.faults.entry(*fault).or_default() += number;
        }
        for mark in &findings.marks {
            *self.marks.entry(*mark).or_default() += 1;
        }
        let broken = findings.by_property();
        for (property, excuse) in run.drawn.excuses() {
            *self.excusable.entry((property, excuse)).or_default() += 1;
            *self.excused.entry((property, excuse)).or_default() += u64::from(broken.contains_key(property));
        }
        let world = self.worlds.entry(run.drawn.hardships()).or_default();
        world.0 += 1;
        if run.lost() != 0 {
            world.1 += 1;
            self.losing_runs += 1;
            self.lost += run.lost();
        }
        if !unexcused(run).is_empty() {
            self.failures.insert(seed, report(seed, run, LAST));
        }
    }

    fn tell(&self, begun: Instant, seeds: &Range<u64>) {
        if !self.seeds.is_multiple_of(100) {
            return;
        }
        let (hours, rate) =
            (self.simulated.as_secs_f64() / 3600.0, self.seeds as f64 / begun.elapsed().as_secs_f64());
        let faults: u64 = self.faults.values().sum();
        let mut err = std::io::stderr();
        let (begin, end) = if err.is_terminal() { ("\r", "") } else { ("", "\n") };
        let _ = write!(
            err,
            "{begin}{} of {} seeds, {hours:.2} simulated hours, {faults} faults, {rate:.1} seeds/s, {} failed{end}",
            self.seeds,
            seeds.end - seeds.start,
            self.failures.len()
        );
    }

    /// Marks that no run has met.
    pub(crate) fn missing(&self) -> BTreeSet<Mark> {
        Mark::ALL.iter().copied().filter(|mark| !self.marks.contains_key(mark)).collect()
    }

    pub(crate) fn assert_clean(&self) {
        for text in self.failures.values() {
            eprintln!("{text}\n");
        }
        let seeds: Vec<_> = self.failures.keys().collect();
        assert!(seeds.is_empty(), "seeds that failed: {seeds:?}");
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let rate = self.seeds as f64 / self.wall.as_secs_f64();
        let strategy = self.strategy.map_or_else(String::new, |strategy| strategy.to_string());
        writeln!(
            f,
            "{strategy}: {} seeds in {:.1?} ({rate:.1}/s), {hours:.2} simulated hours",
            self.seeds, self.wall
        )?;
        writeln!(
            f,
            "  {} updates, {} locks won, {} answers of nodes as the reference gives them, {} inputs run again",
            self.updates, self.won, self.answers_checked, self.inputs_replayed
        )?;
        writeln!(f, "  slowest recovery after the heal: {:.1?}", self.slowest_recovery)?;
        let faults: Vec<_> = self.faults.iter().map(|(fault, number)| format!("{fault} {number}")).collect();
        writeln!(f, "  {} faults: {}", self.faults.values().sum::<u64>(), faults.join(", "))?;
        let marks: Vec<_> = self.marks.iter().map(|(mark, number)| format!("{mark} {number}")).collect();
        writeln!(f, "  marks, in how many runs: {}", marks.join(", "))?;
        let missing: Vec<_> = self.missing().into_iter().map(Mark::name).collect();
        writeln!(
            f,
            "  never met: {}",
            if missing.is_empty() { "none".to_owned() } else { missing.join(", ") }
        )?;
        for ((property, excuse), runs) in &self.excused {
            let of = self.excusable.get(&(*property, *excuse)).copied().unwrap_or_default();
            writeln!(f, "  {property} broken in {runs} of {of} runs that leave its assumptions ({excuse})")?;
        }
        writeln!(f, "  {} runs lost updates: {} in all", self.losing_runs, self.lost)?;
        for (hardships, (runs, losing)) in &self.worlds {
            writeln!(f, "    {losing} of {runs} with {hardships}")?;
        }
        write!(f, "  failures: {}", self.failures.len())
    }
}
