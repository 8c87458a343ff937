//! One run: nodes, links, the counter's server, worker processes; and at the end the judgement.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redfence::invariants::{History, Violation, judge};
use redfence::lock::{Mode, Readmitted};
use redfence::simulate::Strategy;
use redfence::{DistributedLock, LockBuilder};

use crate::process::{Process, Told};
use crate::store;
use crate::support::{Cluster, Condition, Options, Proxy, RedisServer, Stopwatch, wait_until};
use crate::table::{self, Row};
use crate::worker::{Job, RESOURCE};

pub(crate) const NODES: usize = 5;
pub(crate) const WORKERS: usize = 3;
pub(crate) const OPERATIONS: u64 = 1_000;

/// Longer than a busy machine needs for one critical section, shorter than patience with a pause.
pub(crate) const TTL: Duration = Duration::from_millis(800);
const PATIENCE: Duration = Duration::from_millis(250);

/// The bound on everything that must happen in the end.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How a run is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) fault: &'static str,
    pub(crate) strategy: Strategy,
    pub(crate) workers: usize,
    pub(crate) operations: u64,
    pub(crate) ttl: Duration,
    /// So many nodes have a proxy between them and every worker: those whose links can fail. Each costs time.
    pub(crate) links: usize,
    /// A proxy before the counter.
    pub(crate) store_link: bool,
    /// A wall clock of its own for every node.
    pub(crate) clocks: bool,
}

impl Plan {
    pub(crate) fn new(fault: &'static str, strategy: Strategy) -> Self {
        let (workers, operations, ttl) = (WORKERS, OPERATIONS, TTL);
        Self { fault, strategy, workers, operations, ttl, links: 0, store_link: false, clocks: false }
    }

    pub(crate) fn expected(&self) -> u64 {
        self.workers as u64 * self.operations
    }
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) nodes: Cluster,
    /// Of all nodes, without the links.
    urls: Vec<String>,
    pub(crate) store: RedisServer,
    /// By worker and node: of the first nodes, as many as there are to be.
    pub(crate) links: Vec<Vec<Proxy>>,
    pub(crate) store_link: Option<Proxy>,
    workers: Vec<Mutex<Process>>,
    injected: Mutex<BTreeMap<String, u64>>,
    /// How far each node's clock is off, in ms.
    pub(crate) offsets: Mutex<[i64; NODES]>,
    watch: Stopwatch,
}

impl Run {
    /// Everything is up and at work.
    pub(crate) fn start(plan: Plan) -> Self {
        let run = Self::prepare(plan);
        (0..plan.workers).for_each(|worker| run.worker(worker).start());
        run
    }

    /// Everything is up; no worker is started yet.
    pub(crate) fn prepare(plan: Plan) -> Self {
        let options = Options::new().in_memory();
        let nodes =
            Cluster::with(NODES, &if plan.clocks { options.clone().own_clock() } else { options.clone() });
        let urls = nodes.urls();
        Self::assemble(plan, nodes, urls)
    }

    /// On nodes that somebody else keeps: they are known by their URLs only. Everything is up and at work.
    pub(crate) fn at(plan: Plan, urls: Vec<String>) -> Self {
        let run = Self::assemble(plan, Cluster::with(0, &Options::new()), urls);
        (0..plan.workers).for_each(|worker| run.worker(worker).start());
        run
    }

    fn assemble(plan: Plan, nodes: Cluster, urls: Vec<String>) -> Self {
        let store = Options::new().in_memory().start();
        let links: Vec<_> = (0..plan.workers)
            .map(|_| nodes.iter().take(plan.links).map(Proxy::unwatched).collect::<Vec<_>>())
            .collect();
        let store_link = plan.store_link.then(|| Proxy::unwatched(&store));
        let job = |worker: usize| Job {
            worker,
            operations: plan.operations,
            mode: mode(plan.strategy),
            ttl: plan.ttl,
            patience: PATIENCE,
            store: store_link.as_ref().map_or_else(|| store.url(), Proxy::url),
            nodes: links[worker].iter().map(Proxy::url).chain(urls[plan.links..].iter().cloned()).collect(),
        };
        let workers: Vec<_> = (0..plan.workers).map(|worker| Mutex::new(Process::new(job(worker)))).collect();
        let (injected, offsets) = (Mutex::default(), Mutex::default());
        let mut run = Self {
            plan,
            nodes,
            urls,
            store,
            links,
            store_link,
            workers,
            injected,
            offsets,
            watch: Stopwatch::start(),
        };
        run.warm_up();
        run.watch = Stopwatch::start();
        run
    }

    /// All nodes have their epoch.
    fn warm_up(&self) {
        self.on_nodes(|locks| async move {
            let guard = locks.acquire("warm-up", Duration::from_secs(10)).await.expect("all nodes are up");
            guard.release().await;
            locks.drain(Duration::from_secs(10)).await;
        });
    }

    /// Does something with a lock of the test's own, straight at the nodes.
    pub(crate) fn on_nodes<T, F: Future<Output = T>>(&self, work: impl FnOnce(DistributedLock) -> F) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let builder: LockBuilder = DistributedLock::builder().nodes(self.urls.clone());
        runtime
            .block_on(async { work(builder.patience(Duration::from_secs(5)).build().expect("a lock")).await })
    }

    /// Brings empty nodes back, when no key that they have forgotten can still be alive elsewhere.
    pub(crate) fn readmit(&self) {
        std::thread::sleep(self.plan.ttl + ms(50));
        wait_until(Duration::from_secs(20), || {
            let done = self.on_nodes(|locks| async move { locks.readmit().await });
            assert!(!matches!(done, Readmitted::TooFew { .. }), "{done:?}");
            matches!(done, Readmitted::Done { .. } | Readmitted::NotNeeded)
        });
    }

    pub(crate) fn worker(&self, worker: usize) -> MutexGuard<'_, Process> {
        self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a worker has told so far.
    pub(crate) fn told<T>(&self, worker: usize, look: impl FnOnce(&Told) -> T) -> T {
        look(&self.worker(worker).told())
    }

    pub(crate) fn has_finished(&self, worker: usize) -> bool {
        let mut process = self.worker(worker);
        assert!(!process.has_failed(), "worker {worker} has failed: see above; {}", self.plan.fault);
        process.told().finished
    }

    pub(crate) fn all_finished(&self) -> bool {
        (0..self.plan.workers).all(|worker| self.has_finished(worker))
    }

    /// Operations done, over all workers.
    pub(crate) fn done(&self) -> u64 {
        (0..self.plan.workers).map(|worker| self.worker(worker).told().done).sum()
    }

    /// Operations done by others than this worker.
    pub(crate) fn done_by_others(&self, worker: usize) -> u64 {
        (0..self.plan.workers)
            .filter(|&other| other != worker)
            .map(|other| self.worker(other).told().done)
            .sum()
    }

    /// Waits until `more` operations are done, or nothing is left to do.
    #[track_caller]
    pub(crate) fn expect_progress(&self, more: u64) {
        let goal = self.done() + more;
        wait_until(LIMIT, || self.done() >= goal || self.all_finished());
    }

    /// Waits until this share of all operations is done.
    #[track_caller]
    pub(crate) fn wait_for_share(&self, part: u64, of: u64) {
        let goal = self.plan.expected() * part / of;
        wait_until(LIMIT, || self.done() >= goal || self.all_finished());
    }

    /// A fault happened, so often.
    pub(crate) fn count(&self, what: &'static str, times: u64) {
        let mut injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        *injected.entry(what.to_owned()).or_default() += times;
    }

    /// Waits for the end, judges, and writes a row into the table.
    pub(crate) fn finish(self) -> Finished {
        wait_until(LIMIT, || self.all_finished());
        let seconds = self.watch.elapsed().as_secs_f64();
        let told: Vec<_> = (0..self.plan.workers).map(|worker| self.told(worker, Told::clone)).collect();
        let outcome = store::outcome(&self.store, self.plan.workers);
        let history = History {
            acquisitions: told.iter().flat_map(|told| told.holds.iter().copied()).collect(),
            writes: outcome.writes.clone(),
        };
        let violations = judge(&history);
        let sum = |of: fn(&Told) -> u64| told.iter().map(of).sum::<u64>();
        let broken = |property: &str| violations.iter().filter(|v| v.property() == property).count() as u64;
        let row = Row {
            fault: self.plan.fault.to_owned(),
            strategy: self.plan.strategy.name().to_owned(),
            expected: self.plan.expected(),
            last: outcome.value,
            lost_updates: self.plan.expected() as i64 - outcome.value as i64,
            acquisitions: history.acquisitions.len() as u64,
            lock_losses: sum(|told| told.lost),
            fence_rejections: sum(|told| told.fenced),
            unanswered: sum(|told| told.unanswered),
            refused: sum(|told| told.refused),
            two_believers: broken("belief"),
            tokens_out_of_order: broken("token-order"),
            injected: self.injected.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            seconds: (seconds * 10.0).round() / 10.0,
        };
        table::add(row.clone());
        self.assert_no_orphans();
        Finished { row, told, violations, operations: outcome.operations, plan: self.plan }
    }

    /// Every key ends with its TTL: where clocks were let alone, nothing is left a TTL after the end.
    fn assert_no_orphans(&self) {
        if self.plan.clocks {
            return;
        }
        for node in self.nodes.iter().filter(|node| node.condition() == Condition::Running) {
            let left = node.pttl(RESOURCE);
            assert!(left != -1 && left <= self.plan.ttl.as_millis() as i64, "a key lives for {left} ms");
        }
        wait_until(self.plan.ttl + Duration::from_secs(10), || !self.nodes.exists_anywhere(RESOURCE));
    }
}

/// What fails in the middle of a run is not understood without where everybody is.
impl Drop for Run {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for worker in 0..self.plan.workers {
            let process = self.worker(worker);
            let (told, frozen) = (process.told(), process.is_frozen());
            let Told { done, lost, fenced, unanswered, refused, pauses, lingers, finished, .. } = &*told;
            eprintln!(
                "worker {worker}: done {done}, lost {lost}, fenced {fenced}, unanswered {unanswered}, refused {refused}, \
                 pauses {pauses}, lingers {lingers}, finished {finished}, frozen {frozen}"
            );
        }
        let injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("after {:.1?}: {injected:?}", self.watch.elapsed());
    }
}

/// A run that is over.
pub(crate) struct Finished {
    pub(crate) row: Row,
    pub(crate) told: Vec<Told>,
    pub(crate) violations: Vec<Violation>,
    operations: Vec<u64>,
    plan: Plan,
}

impl Finished {
    /// Every update counts, once.
    #[track_caller]
    pub(crate) fn assert_exact(&self) {
        assert_eq!(self.row.last, self.row.expected, "{:?}", self.row);
        assert_eq!(self.operations, vec![self.plan.operations; self.plan.workers], "{:?}", self.row);
        self.assert_without("damage");
        self.assert_without("token-order");
    }

    #[track_caller]
    pub(crate) fn assert_without(&self, property: &str) {
        let found: Vec<_> = self.violations.iter().filter(|wrong| wrong.property() == property).collect();
        assert!(found.is_empty(), "{property}: {found:?}; {:?}", self.row);
    }

    /// The fault did happen, so often at least.
    #[track_caller]
    pub(crate) fn assert_injected(&self, what: &str, least: u64) {
        let times = self.row.injected.get(what).copied().unwrap_or(0);
        assert!(times >= least, "{what}: {times}, should be {least} at least; {:?}", self.row);
    }
}

fn mode(strategy: Strategy) -> Option<Mode> {
    match strategy {
        Strategy::Classic => Some(Mode::Classic),
        Strategy::Fenced => Some(Mode::Fenced),
        _ => None,
    }
}
