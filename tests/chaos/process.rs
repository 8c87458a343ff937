//! A worker process as the test sees it: what it has told, and the signals it gets.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use redfence::invariants::Acquisition;
use redfence::proto::{FencingToken, Owner, Timestamp};

use crate::support::{Mortal, wait_until};
use crate::worker::{Job, WORKER};

/// What a worker and its successors have told so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) holds: Vec<Acquisition>,
    pub(crate) done: u64,
    /// The lease had ended when it looked.
    pub(crate) lost: u64,
    /// The counter refused the token.
    pub(crate) fenced: u64,
    /// Requests to the counter that had no answer.
    pub(crate) unanswered: u64,
    /// Acquisitions given up for a while: no quorum, or held by another for long.
    pub(crate) refused: u64,
    pub(crate) pauses: u64,
    pub(crate) lingers: u64,
    /// Operations found done by those who took over.
    pub(crate) taken_over: Vec<u64>,
    pub(crate) finished: bool,
}

type Shared = Arc<Mutex<Told>>;

/// One worker: a process, and after a crash the next one in its place.
pub(crate) struct Process {
    job: Job,
    told: Shared,
    running: Option<Running>,
}

struct Running {
    process: Mortal,
    orders: ChildStdin,
    reader: JoinHandle<()>,
}

impl Process {
    pub(crate) fn new(job: Job) -> Self {
        Self { job, told: Shared::default(), running: None }
    }

    /// Starts the process, or one that takes the place of a dead one.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same, with orders that it knows before it begins to work.
    pub(crate) fn start_with(&mut self, orders: &[&str]) {
        self.spawn();
        orders.iter().chain(&["start"]).for_each(|order| self.order(order));
    }

    fn spawn(&mut self) {
        let this = std::env::current_exe().expect("a path");
        let mut process = Mortal::spawn(
            Command::new(this).env(WORKER, self.job.to_text()).stdin(Stdio::piped()).stdout(Stdio::piped()),
        )
        .expect("it starts");
        let orders = process.child().stdin.take().expect("piped");
        let lines = BufReader::new(process.child().stdout.take().expect("piped")).lines();
        let told = Arc::clone(&self.told);
        let reader = std::thread::spawn(move || {
            // A process that is killed may leave half a line.
            lines.map_while(Result::ok).for_each(|line| note(&mut lock(&told), &line));
        });
        self.running = Some(Running { process, orders, reader });
    }

    /// SIGKILL. What it had told before is known then.
    pub(crate) fn kill(&mut self) {
        let Some(Running { process, orders, reader }) = self.running.take() else { return };
        drop((process, orders));
        reader.join().expect("lines are understood");
        // It believes nothing any more; when it stopped to is not known.
        if let Some(last) = lock(&self.told).holds.last_mut() {
            last.until = last.until.min(now());
        }
    }

    pub(crate) fn freeze(&self) {
        self.process().freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process().thaw();
    }

    /// Waits until the process stands still.
    pub(crate) fn wait_frozen(&self) {
        wait_until(Duration::from_secs(10), || self.is_frozen());
    }

    /// Whether the process stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.process.is_frozen())
    }

    /// Whether the process has failed: ended without having finished.
    pub(crate) fn has_failed(&mut self) -> bool {
        let ended = self.running.as_mut().is_some_and(|running| running.process.has_ended());
        // What it told last may still be on its way.
        ended
            && self.running.as_ref().is_some_and(|running| running.reader.is_finished())
            && !self.told().finished
    }

    pub(crate) fn order(&mut self, order: &str) {
        let running = self.running.as_mut().expect("a worker");
        // One that has finished hears nothing any more.
        let _ = writeln!(running.orders, "{order}");
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        lock(&self.told)
    }

    fn process(&self) -> &Mortal {
        &self.running.as_ref().expect("a worker").process
    }
}

fn lock(told: &Shared) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the clock on which workers tell their times: one for all processes of this machine.
fn now() -> Timestamp {
    use redfence::lock::clock::{Clock, SystemClock};
    SystemClock::default().now()
}

fn note(told: &mut Told, line: &str) {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let numbers: Vec<u128> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    let time = |place: usize| Timestamp::from_micros(numbers.get(place).map_or(0, |&micros| micros as u64));
    match what {
        "won" if numbers.len() == 5 => told.holds.push(Acquisition {
            owner: Owner(numbers[0]),
            token: (numbers[1] > 0).then_some(FencingToken(numbers[1] as u64)),
            begun: time(2),
            won: time(3),
            until: time(4),
        }),
        "end" if numbers.len() == 1 => {
            if let Some(hold) = told.holds.last_mut() {
                hold.until = hold.until.min(time(0));
            }
        }
        "from" => told.taken_over.extend(numbers.first().map(|&first| first as u64)),
        "did" => told.done += 1,
        "lost" => told.lost += 1,
        "fenced" => told.fenced += 1,
        "unanswered" => told.unanswered += 1,
        "refused" => told.refused += 1,
        "pauses" => told.pauses += 1,
        "lingers" => told.lingers += 1,
        "finished" => told.finished = true,
        _ => {}
    }
}
