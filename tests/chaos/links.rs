//! Faults of links between workers and nodes, and before the counter: one strike each, from the blow to the healing.

use fastrand::Rng;

use crate::nodes::expect_standstill;
use crate::run::{Run, ms};
use crate::support::{Proxy, Restart, Stopwatch, wait_until};

/// Longer than a lock waits before it takes a silent connection for dead.
const SILENCE: std::time::Duration = ms(1_300);

/// Some nodes whose links can fail, at random.
fn some(run: &Run, dice: &mut Rng, number: usize) -> Vec<usize> {
    dice.choose_multiple(0..run.plan.links, number)
}

/// One of them or two: a minority of five.
fn minority(run: &Run, dice: &mut Rng) -> Vec<usize> {
    let number = dice.usize(1..=2);
    some(run, dice, number)
}

/// Does something to the links of all workers to these nodes.
fn each(run: &Run, nodes: &[usize], order: impl Fn(&Proxy)) {
    run.links.iter().for_each(|links| nodes.iter().for_each(|&node| order(&links[node])));
}

fn heal(run: &Run, nodes: &[usize]) {
    each(run, nodes, Proxy::pass);
}

/// Nobody reaches one or two of five.
pub(crate) fn minority_cut(run: &Run, dice: &mut Rng) {
    let which = minority(run, dice);
    each(run, &which, Proxy::cut);
    run.count("partitions of a minority", 1);
    run.expect_progress(20);
    heal(run, &which);
}

/// Nobody reaches three of five: nothing moves until they are back.
pub(crate) fn majority_cut(run: &Run, dice: &mut Rng) {
    let which = some(run, dice, 3);
    each(run, &which, Proxy::cut);
    run.count("partitions of a majority", 1);
    expect_standstill(run);
    heal(run, &which);
    run.expect_progress(5);
}

/// One worker reaches three of five, then two; the others reach all.
pub(crate) fn one_worker_cut(run: &Run, dice: &mut Rng) {
    let worker = dice.usize(..run.plan.workers);
    let which = some(run, dice, 3);
    let cut = |node: usize| run.links[worker][node].cut();
    which[..2].iter().for_each(|&node| cut(node));
    run.count("partitions of one worker", 1);
    let before = run.told(worker, |told| told.done);
    wait_until(ms(30_000), || run.told(worker, |told| told.done) > before + 2 || run.has_finished(worker));
    cut(which[2]);
    std::thread::sleep(ms(250));
    let (before, others) = (run.told(worker, |told| told.done), run.done_by_others(worker));
    // One that was stopped beside this may be waiting for the very worker that is cut off, when the third has finished.
    let idle = |other: usize| run.has_finished(other) || run.worker(other).is_frozen();
    wait_until(ms(30_000), || {
        run.done_by_others(worker) >= others + 20
            || (0..run.plan.workers).all(|other| other == worker || idle(other))
    });
    assert!(run.told(worker, |told| told.done) <= before + 1, "the lock was acquired from two of five nodes");
    which.iter().for_each(|&node| run.links[worker][node].pass());
}

/// Requests to some nodes, answers from others are on their way for long: of a minority, then of a majority.
pub(crate) fn one_way(run: &Run, dice: &mut Rng) {
    let which = some(run, dice, 3);
    each(run, &which[..1], Proxy::hold_requests);
    each(run, &which[1..2], Proxy::hold_replies);
    run.count("one-way cuts", 2);
    run.expect_progress(20);
    each(run, &which, if dice.bool() { Proxy::hold_replies } else { Proxy::hold_requests });
    run.count("one-way cuts", 3);
    expect_standstill(run);
    heal(run, &which);
    run.expect_progress(5);
}

/// Nodes do what they are asked, and their answers are lost; the connections end with it.
pub(crate) fn replies_dropped(run: &Run, dice: &mut Rng) {
    for number in [2, 3] {
        let which = some(run, dice, number);
        each(run, &which, Proxy::drop_replies);
        run.count("nodes whose answers were lost", number as u64);
        if number == 2 {
            run.expect_progress(20);
        } else {
            expect_standstill(run);
        }
        heal(run, &which);
    }
    run.expect_progress(5);
}

/// The counter does what it is asked, and its answers are lost: workers must not count twice.
pub(crate) fn counter_replies_dropped(run: &Run, _: &mut Rng) {
    let unanswered =
        || (0..run.plan.workers).map(|worker| run.told(worker, |told| told.unanswered)).sum::<u64>();
    let before = unanswered();
    let link = run.store_link.as_ref().expect("a run with links");
    link.drop_replies();
    // Not for a fixed time: whoever has the lock may stand still, and nobody asks the counter until the key has ended.
    wait_until(ms(30_000), || unanswered() > before || run.all_finished());
    link.pass();
    run.count("answers of the counter lost", unanswered() - before);
    run.expect_progress(5);
}

/// Connections are accepted, and nothing is ever heard.
pub(crate) fn black_hole(run: &Run, dice: &mut Rng) {
    let which = minority(run, dice);
    let watch = Stopwatch::start();
    each(run, &which, Proxy::black_hole);
    run.count("black holes", which.len() as u64);
    run.expect_progress(20);
    while watch.elapsed() < SILENCE {
        run.expect_progress(1);
        std::thread::sleep(ms(10));
    }
    heal(run, &which);
}

/// A node is gone and comes back, and its clients' connections stay open all the time, with nobody at the other end.
pub(crate) fn half_open(run: &Run, dice: &mut Rng) {
    let node = dice.usize(..run.plan.links);
    let watch = Stopwatch::start();
    each(run, &[node], Proxy::black_hole);
    run.nodes[node].restart(Restart::KeepData);
    run.count("half-open nodes", 1);
    run.expect_progress(20);
    while watch.elapsed() < SILENCE {
        run.expect_progress(1);
        std::thread::sleep(ms(10));
    }
    heal(run, &[node]);
}

/// Requests and answers take longer, each node by its own time, so that no quorum is quick.
pub(crate) fn delayed(run: &Run, dice: &mut Rng) {
    let all: Vec<_> = (0..run.plan.links).collect();
    let before = requests(run);
    for &node in &all {
        let (there, back) = (ms(dice.u64(0..40)), ms(dice.u64(0..40)));
        each(run, &[node], |link| link.delay(there, back));
    }
    let watch = Stopwatch::start();
    run.expect_progress(3);
    while watch.elapsed() < ms(500) {
        std::thread::sleep(ms(10));
    }
    run.count("requests delayed", (requests(run) - before) as u64);
    heal(run, &all);
}

fn requests(run: &Run) -> usize {
    run.links.iter().flatten().map(Proxy::carried).sum()
}

/// Every connection ends under what is on it.
pub(crate) fn reset(run: &Run, dice: &mut Rng) {
    let number = dice.usize(1..=run.plan.links);
    each(run, &some(run, dice, number), Proxy::reset);
    run.count("nodes whose connections were reset", number as u64);
    run.expect_progress(10);
}
