//! Faults of workers: one strike each.

use fastrand::Rng;

use crate::nodes::jump;
use crate::run::{Run, ms};
use crate::support::{Stopwatch, wait_until};

const LIMIT: std::time::Duration = ms(60_000);

/// A worker that has work left.
fn busy(run: &Run, dice: &mut Rng) -> Option<usize> {
    let busy: Vec<_> = (0..run.plan.workers).filter(|&worker| !run.has_finished(worker)).collect();
    dice.choice(busy)
}

/// Has a worker stop itself (SIGSTOP) between its last look at the lease and its write. False if its work ended before.
fn stop_at_the_brink(run: &Run, worker: usize) -> bool {
    let before = run.told(worker, |told| told.pauses);
    run.worker(worker).order("pause");
    wait_until(LIMIT, || run.told(worker, |told| told.pauses) > before || run.has_finished(worker));
    if run.told(worker, |told| told.pauses) == before {
        return false;
    }
    run.worker(worker).wait_frozen();
    true
}

/// Has a worker take its time between the read and its last look at the lease, until it is told to go on. False if its work
/// ended before.
fn take_time(run: &Run, worker: usize) -> bool {
    let before = run.told(worker, |told| told.lingers);
    run.worker(worker).order("linger");
    wait_until(LIMIT, || run.told(worker, |told| told.lingers) > before || run.has_finished(worker));
    run.told(worker, |told| told.lingers) > before
}

/// Waits until the others have done something, if they have anything left to do.
fn others_go_on(run: &Run, worker: usize, operations: u64) {
    let goal = run.done_by_others(worker) + operations;
    let others_finished = || (0..run.plan.workers).all(|other| other == worker || run.has_finished(other));
    wait_until(LIMIT, || run.done_by_others(worker) >= goal || others_finished());
}

fn goes_on(run: &Run, worker: usize) {
    let before = run.told(worker, |told| told.done);
    wait_until(LIMIT, || run.told(worker, |told| told.done) > before || run.has_finished(worker));
}

/// A true pause between check and write, longer than the lease: others have written when the worker wakes up.
pub(crate) fn paused_at_the_brink(run: &Run, dice: &mut Rng) {
    let Some(worker) = busy(run, dice) else { return };
    if !stop_at_the_brink(run, worker) {
        return;
    }
    let watch = Stopwatch::start();
    others_go_on(run, worker, 3);
    while watch.elapsed() < run.plan.ttl + ms(100) {
        std::thread::sleep(ms(5));
    }
    run.count("pauses between check and write", 1);
    run.worker(worker).thaw();
    goes_on(run, worker);
}

/// SIGSTOP of a worker that has the lock, for longer than its lease, then SIGCONT: it looks at its lease, and sees the loss.
pub(crate) fn frozen(run: &Run, dice: &mut Rng) {
    let Some(worker) = busy(run, dice) else { return };
    if !take_time(run, worker) {
        return;
    }
    run.worker(worker).freeze();
    run.count("worker freezes", 1);
    std::thread::sleep(run.plan.ttl + ms(50));
    run.worker(worker).thaw();
    run.worker(worker).order("go");
    goes_on(run, worker);
}

/// SIGSTOP of a worker wherever it is, for up to two leases, then SIGCONT.
pub(crate) fn frozen_anywhere(run: &Run, dice: &mut Rng) {
    let Some(worker) = busy(run, dice) else { return };
    run.worker(worker).freeze();
    run.count("worker freezes", 1);
    std::thread::sleep(run.plan.ttl.mul_f64(dice.f64() * 2.0));
    run.worker(worker).thaw();
}

/// SIGKILL; another process takes its place, and asks the counter where to go on. Half of them die between check and write.
pub(crate) fn killed(run: &Run, dice: &mut Rng) {
    let Some(worker) = busy(run, dice) else { return };
    if dice.bool() && stop_at_the_brink(run, worker) {
        run.count("worker kills with the lock", 1);
    } else {
        run.count("worker kills", 1);
    }
    let mut process = run.worker(worker);
    process.kill();
    process.start();
    drop(process);
    goes_on(run, worker);
}

/// While a worker takes its time with the lock, the clocks of a majority jump past its TTL: others get the lock beside it.
pub(crate) fn clocks_jump_under_a_holder(run: &Run, dice: &mut Rng) {
    let Some(worker) = busy(run, dice) else { return };
    if !take_time(run, worker) {
        return;
    }
    let past = i64::try_from(run.plan.ttl.as_millis()).expect("a TTL") + 1_000;
    for node in crate::nodes::some(dice, 3) {
        jump(run, node, past);
    }
    others_go_on(run, worker, 3);
    run.worker(worker).order("go");
    goes_on(run, worker);
    run.count("holders whose keys ended early", 1);
}
