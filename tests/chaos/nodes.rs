//! Faults of nodes: one strike each, from the blow to the healing.

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::run::{NODES, Run, ms};
use crate::support::{RedisServer, Restart, Stopwatch, wait_until};

/// Some nodes, at random.
pub(crate) fn some(dice: &mut Rng, number: usize) -> Vec<usize> {
    dice.choose_multiple(0..NODES, number)
}

/// One node or two: a minority of five.
pub(crate) fn minority(dice: &mut Rng) -> Vec<usize> {
    let number = dice.usize(1..=2);
    some(dice, number)
}

/// Nothing moves while a quorum is missing: at most what was in a critical section ends.
pub(crate) fn expect_standstill(run: &Run) {
    // What was done before is told by then.
    std::thread::sleep(ms(250));
    let before = run.done();
    std::thread::sleep(ms(350));
    let done = run.done() - before;
    assert!(done <= run.plan.workers as u64, "{done} operations without a quorum");
}

/// SIGKILL of a minority; back with data.
pub(crate) fn killed(run: &Run, dice: &mut Rng) {
    let which = minority(dice);
    which.iter().for_each(|&node| run.nodes[node].kill());
    run.count("node kills", which.len() as u64);
    run.expect_progress(20);
    which.iter().for_each(|&node| run.nodes[node].restart(Restart::KeepData));
}

/// SIGKILL of all at once; back with data.
pub(crate) fn all_killed(run: &Run, _: &mut Rng) {
    run.nodes.iter().for_each(RedisServer::kill);
    run.count("kills of all nodes", 1);
    expect_standstill(run);
    run.nodes.iter().for_each(|node| node.restart(Restart::KeepData));
    run.expect_progress(5);
}

/// SIGKILL of a minority; back without data. They do not vote until they are re-admitted, and count again then.
pub(crate) fn emptied(run: &Run, dice: &mut Rng) {
    let which = minority(dice);
    which.iter().for_each(|&node| run.nodes[node].restart(Restart::Empty));
    run.count("nodes emptied", which.len() as u64);
    without_data(run, &which);
}

/// FLUSHALL on one node: as empty as after a restart.
pub(crate) fn flushed(run: &Run, dice: &mut Rng) {
    let which = some(dice, 1);
    run.nodes[which[0]].ask::<()>(&["FLUSHALL"]);
    run.count("FLUSHALL", 1);
    without_data(run, &which);
}

fn without_data(run: &Run, empty: &[usize]) {
    run.expect_progress(20);
    // Classic, they vote at once, as if new.
    for &node in empty.iter().filter(|_| run.plan.strategy == Strategy::Fenced) {
        assert_eq!(run.nodes[node].keys("*"), Vec::<String>::new(), "an empty node voted");
    }
    run.readmit();
    let others: Vec<_> = (0..NODES).filter(|node| !empty.contains(node)).take(2).collect();
    for &node in empty {
        assert!(run.nodes[node].ask::<bool>(&["HEXISTS", "redfence:node", "epoch"]), "not re-admitted");
    }
    // Now it takes them to make a quorum.
    others.iter().for_each(|&node| run.nodes[node].kill());
    run.expect_progress(10);
    others.iter().for_each(|&node| run.nodes[node].restart(Restart::KeepData));
}

/// SIGSTOP of a minority, then SIGCONT: what was asked meanwhile is done late.
pub(crate) fn frozen(run: &Run, dice: &mut Rng) {
    let which = minority(dice);
    which.iter().for_each(|&node| run.nodes[node].stop());
    run.count("node freezes", which.len() as u64);
    run.expect_progress(20);
    which.iter().for_each(|&node| run.nodes[node].cont());
}

/// SIGSTOP of a majority.
pub(crate) fn majority_frozen(run: &Run, dice: &mut Rng) {
    let which = some(dice, 3);
    which.iter().for_each(|&node| run.nodes[node].stop());
    run.count("freezes of a majority", 1);
    expect_standstill(run);
    which.iter().for_each(|&node| run.nodes[node].cont());
    run.expect_progress(5);
}

/// The wall clock of one node jumps by up to an hour, back and forth.
pub(crate) fn clock_jumps(run: &Run, dice: &mut Rng) {
    let by = [-3_600_000, -1_500, -300, 300, 1_500, 3_600_000];
    jump(run, dice.usize(0..NODES), by[dice.usize(..by.len())]);
    run.expect_progress(10);
}

/// As [`clock_jumps`], but not far back: the key of a dead holder would stay for as long.
pub(crate) fn clock_jumps_mildly(run: &Run, dice: &mut Rng) {
    let by = [-400, 300, 1_500, 3_600_000];
    jump(run, dice.usize(0..NODES), by[dice.usize(..by.len())]);
    run.expect_progress(10);
}

/// Moves a node's clock, and sees that the node follows.
pub(crate) fn jump(run: &Run, node: usize, by: i64) {
    let node_clock = || clock_of(&run.nodes[node]);
    let watch = Stopwatch::start();
    let passed = || watch.elapsed().as_millis() as i64;
    let (before, asked) = (node_clock(), passed());
    shift(run, node, by);
    let (asks, after) = (passed(), node_clock());
    // What passed between the two readings, at least and at most, give or take a tick.
    let expected = by + asks - asked - 50..=by + passed() + 50;
    let seen = after - before;
    assert!(expected.contains(&seen), "the clock went on by {seen} ms, and should by {expected:?}");
    run.count("clock jumps", 1);
}

/// The clock of one node runs a fifth too fast or too slow for a while.
pub(crate) fn clock_drifts(run: &Run, dice: &mut Rng) {
    let (node, step) = (dice.usize(0..NODES), if dice.bool() { 1 } else { -1 });
    let (watch, mut drifted) = (Stopwatch::start(), 0);
    while drifted < 120 {
        // Measured, and not counted: a sleep may take longer than asked for.
        let due = watch.elapsed().as_millis() as i64 / 5;
        shift(run, node, step * (due - drifted));
        drifted = due;
        std::thread::sleep(ms(5));
    }
    run.count("ms of clock drift", drifted.unsigned_abs());
}

fn shift(run: &Run, node: usize, by: i64) {
    let mut offsets = run.offsets.lock().expect("no panic");
    offsets[node] += by;
    run.nodes[node].shift_clock(offsets[node]);
}

fn clock_of(node: &RedisServer) -> i64 {
    let (seconds, micros): (i64, i64) = node.ask(&["TIME"]);
    seconds * 1_000 + micros / 1_000
}

/// CLIENT KILL of all connections at some nodes.
pub(crate) fn clients_killed(run: &Run, dice: &mut Rng) {
    let number = dice.usize(1..=NODES);
    for node in some(dice, number) {
        for kind in ["normal", "pubsub"] {
            let killed = run.nodes[node].ask(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            run.count("connections killed", killed);
        }
    }
    run.expect_progress(10);
}

/// SCRIPT FLUSH at all nodes.
pub(crate) fn scripts_flushed(run: &Run, _: &mut Rng) {
    let refusals = || run.nodes.iter().map(unknown_scripts).sum::<u64>();
    let before = refusals();
    run.nodes.iter().for_each(|node| node.ask::<()>(&["SCRIPT", "FLUSH"]));
    run.count("SCRIPT FLUSH", NODES as u64);
    run.expect_progress(10);
    wait_until(ms(20_000), || refusals() > before || run.all_finished());
    run.count("NOSCRIPT answers", refusals() - before);
}

fn unknown_scripts(node: &RedisServer) -> u64 {
    let stats: String = node.ask(&["INFO", "errorstats"]);
    let count = stats.lines().find_map(|line| line.strip_prefix("errorstat_NOSCRIPT:count="));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
