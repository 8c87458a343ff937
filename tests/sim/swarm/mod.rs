//! One seed, one run: workers that add to counters while faults come and go; then everything is healed, and all must finish.

pub(crate) mod draw;
mod faults;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redfence::marks::Mark;

use crate::judge::{self, Findings};
use crate::world::log::{Entry, What};
use crate::world::worker::{Job, Worker};
use crate::world::{Host, World};
use draw::{Drawn, Holding, Strategy};
use faults::Trouble;

/// How long one call waits for the lock before the worker looks around.
const WAIT: Duration = Duration::from_secs(2);

/// After the heal: this long for anything that was on its way, and for each update that is left. Clocks that were set back
/// keep keys alive, so a multiple of the longest fault comes on top.
const SETTLE: Duration = Duration::from_secs(30);

/// A run that is over.
pub(crate) struct Run {
    pub(crate) drawn: Drawn,
    pub(crate) findings: Findings,
    /// Faults that were made, by kind.
    pub(crate) made: BTreeMap<Mark, u64>,
    /// One number for everything that happened.
    pub(crate) hash: u64,
    pub(crate) simulated: Duration,
    /// From the heal to the end of the last update.
    pub(crate) recovery: Duration,
    pub(crate) total: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Run {
    pub(crate) fn lost(&self) -> i64 {
        self.drawn.expected().cast_signed() - self.total.cast_signed()
    }
}

/// Updates that each worker knows to be done: kept by the worker across crashes.
type Progress = Arc<Mutex<BTreeMap<Host, u64>>>;

fn counting(drawn: &Drawn, progress: &Progress) -> Job {
    let (drawn, progress) = (Arc::new(drawn.clone()), Arc::clone(progress));
    Arc::new(move |worker| {
        let (drawn, progress) = (Arc::clone(&drawn), Arc::clone(&progress));
        Box::pin(async move { count(worker, &drawn, &progress).await })
    })
}

async fn count(mut worker: Worker, drawn: &Drawn, progress: &Progress) {
    let done = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = done().get(&worker.host).copied().unwrap_or_default();
    for number in begun..drawn.ops {
        while !update(&mut worker, drawn, number).await {
            worker.think(Duration::from_millis(20)).await;
        }
        worker.done(number);
        done().insert(worker.host, number + 1);
    }
    worker.locks.drain(Duration::from_secs(30)).await;
}

/// One try of one update: the same operation at every try.
async fn update(worker: &mut Worker, drawn: &Drawn, number: u64) -> bool {
    let Host::Worker(index) = worker.host else { return true };
    let operation = u128::from(index) << 64 | u128::from(number);
    let resource = format!("counter-{}", (number + u64::from(index)) % u64::from(drawn.resources));
    if drawn.strategy == Strategy::None {
        return worker.add_one(&resource, None, drawn.thinking, operation).await;
    }
    let alone = drawn.holding == Holding::ExtendedAlone;
    let acquire = worker.locks.on(&resource).wait(WAIT).auto_extend(alone);
    let guard = match acquire.acquire().await {
        Ok(guard) => guard,
        Err(error) => {
            worker.log.note(worker.host, format!("not acquired: {error}"));
            return false;
        }
    };
    worker.clock.gate.pass().await;
    if drawn.holding == Holding::ExtendedByHand {
        let _ = guard.extend(drawn.shape.lock.ttl).await;
        worker.clock.gate.pass().await;
    }
    let done = worker.add_one(&resource, Some(&guard), drawn.thinking, operation).await;
    guard.release().await;
    worker.clock.gate.pass().await;
    done
}

/// Does one run.
pub(crate) fn run(drawn: &Drawn) -> Run {
    run_with_world(drawn).0
}

/// Does one run, and leaves the world as it is at its end.
pub(crate) fn run_with_world(drawn: &Drawn) -> (Run, World) {
    let progress = Progress::default();
    let mut world = World::new(drawn.shape, &counting(drawn, &progress));
    let mut trouble = Trouble::new(drawn, &world);
    let all_done = |progress: &Progress| {
        let done = progress.lock().unwrap_or_else(PoisonError::into_inner);
        done.values().sum::<u64>() == drawn.expected()
    };
    world.run_until(drawn.trouble, |world| {
        trouble.tick(world);
        all_done(&progress)
    });
    trouble.heal(&mut world);
    let healed = world.time.now();
    let mut problems = Vec::new();
    world.run_until(drawn.longest + drawn.shape.lock.ttl * 2, |world| trouble.may_readmit(world));
    if drawn.strategy == Strategy::Fenced && !reunite(&mut world) {
        problems.push("the operator could not re-admit all nodes although all is healed".to_owned());
    }
    let limit = SETTLE + drawn.longest * 8 + drawn.shape.lock.ttl * 4 * drawn.expected() as u32;
    if !world.run_until(limit, |_| all_done(&progress)) {
        let done = progress.lock().unwrap_or_else(PoisonError::into_inner);
        problems.push(format!("no progress: {limit:?} after the heal these updates are done: {done:?}"));
    }
    let recovery = Duration::from_micros(world.time.now() - healed);
    // What is left at the nodes ends now.
    world.run_until(drawn.shape.lock.ttl + Duration::from_millis(50), |_| false);
    let (total, hash) = (world.store.total(), world.log.hash());
    if total != drawn.expected() && drawn.strategy == Strategy::Fenced {
        problems.push(format!("the counters show {total}, not {}", drawn.expected()));
    }
    let entries = world.log.take();
    let mut findings = judge::judge(&entries, &world);
    problems.extend(world.log.restless().map(|host| format!("{host} does not come to rest")));
    findings.problems.extend(problems);
    findings.marks.extend(trouble.made.keys());
    let simulated = Duration::from_micros(world.time.now());
    let run =
        Run { drawn: drawn.clone(), findings, made: trouble.made, hash, simulated, recovery, total, entries };
    (run, world)
}

/// Lets the operator work until no node is empty and all have one epoch.
fn reunite(world: &mut World) -> bool {
    for _ in 0..20 {
        let asked = world.time.now();
        world.readmit();
        let answered = world.run_until(Duration::from_secs(10), |world| {
            world
                .log
                .contains(asked, |entry| entry.host == Host::Operator && matches!(entry.what, What::Note(_)))
        });
        // Too few: the nodes were never started, or half-way, and the workers do that. If it were not so, none would finish.
        let fine = |entry: &Entry| match &entry.what {
            What::Note(text) => ["Done", "NotNeeded", "TooFew"].iter().any(|outcome| text.contains(outcome)),
            _ => false,
        };
        if answered && world.log.contains(asked, fine) {
            return true;
        }
    }
    false
}
