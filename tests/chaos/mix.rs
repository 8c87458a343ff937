//! All faults, at random, for a while: round after round of 3 x 1000, each ending at exactly 3000.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use redfence::simulate::Strategy;

use crate::run::{NODES, Plan, Run, ms};
use crate::support::{Live, Stopwatch, require_own_clock};
use crate::{links, nodes, workers};

type Strike = fn(&Run, &mut Rng);

/// What strikes nodes and links, one at a time.
const OUTSIDE: [Strike; 20] = [
    nodes::killed,
    nodes::all_killed,
    nodes::emptied,
    nodes::flushed,
    nodes::frozen,
    nodes::majority_frozen,
    nodes::clock_jumps_mildly,
    nodes::clock_drifts,
    nodes::clients_killed,
    nodes::scripts_flushed,
    links::minority_cut,
    links::majority_cut,
    links::one_worker_cut,
    links::one_way,
    links::replies_dropped,
    links::counter_replies_dropped,
    links::black_hole,
    links::half_open,
    links::delayed,
    links::reset,
];

/// What strikes workers, at the same time.
const WORKERS: [Strike; 4] =
    [workers::paused_at_the_brink, workers::frozen, workers::frozen_anywhere, workers::killed];

pub(crate) fn tests() -> Vec<Live> {
    let limit = Duration::from_secs(seconds() + 240);
    vec![Live::sync("fenced::a_random_mix", a_random_mix).needing(require_own_clock).within(limit)]
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is expected")))
}

fn seconds() -> u64 {
    number("REDFENCE_CHAOS_SECONDS").unwrap_or(15)
}

fn a_random_mix() {
    let seed = number("REDFENCE_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let seconds = seconds();
    eprintln!("a random mix for {seconds} s: REDFENCE_CHAOS_SEED={seed} REDFENCE_CHAOS_SECONDS={seconds}");
    let mut dice = Rng::with_seed(seed);
    // All of them in turn, in an order of their own each time: so none is missing in a long mix.
    let mut order = Vec::new();
    let (watch, mut rounds, mut injected) = (Stopwatch::start(), 0, BTreeMap::new());
    while rounds == 0 || watch.elapsed() < Duration::from_secs(seconds) {
        let end = round(&mut dice, &mut order);
        for (what, times) in end.row.injected.clone() {
            *injected.entry(what).or_insert(0) += times;
        }
        end.assert_exact();
        assert!(end.row.injected.len() >= 3, "hardly anything happened: {:?}", end.row);
        rounds += 1;
    }
    eprintln!("a random mix: {rounds} rounds of 3 x 1000 in {:.1?}, {injected:?}", watch.elapsed());
}

fn round(dice: &mut Rng, order: &mut Vec<Strike>) -> crate::run::Finished {
    let mut plan = Plan::new("a_random_mix", Strategy::Fenced);
    (plan.links, plan.store_link, plan.clocks) = (NODES, true, true);
    let run = Run::start(plan);
    let (over, mut own_dice) = (AtomicBool::new(false), dice.fork());
    std::thread::scope(|scope| {
        let at_workers = scope.spawn(|| {
            while !over.load(Ordering::Acquire) && !run.all_finished() {
                std::thread::sleep(ms(own_dice.u64(50..400)));
                let strike = WORKERS[own_dice.usize(..WORKERS.len())];
                strike(&run, &mut own_dice);
            }
        });
        while !run.all_finished() {
            if order.is_empty() {
                order.extend(OUTSIDE);
                dice.shuffle(order);
            }
            let strike = order.pop().expect("just filled");
            strike(&run, dice);
            std::thread::sleep(ms(dice.u64(0..100)));
        }
        over.store(true, Ordering::Release);
        at_workers.join().expect("the strikes at workers succeed");
    });
    run.finish()
}
