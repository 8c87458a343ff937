//! The deterministic simulation: the real driver and the real Redis client, on simulated hosts, links and clocks.
//!
//! `world` is what can be made to fail, and keeps a log of everything; it knows nothing of chance or of right and wrong.
//! `swarm` draws a whole run from one seed and does it. `judge` looks at the log afterwards: the same rules that judge the
//! model, and whether the machine and the nodes did what `proto` says. `sweep` does many seeds and adds up.
//! `docs/testing.md` tells how to run and to replay.

mod judge;
mod swarm;
mod sweep;
mod world;

use std::env;

use swarm::draw::{Drawn, Strategy};
use sweep::{Sweep, report};

/// Seeds of a quick sweep.
const QUICK: u64 = 200;

#[test]
fn one_seed() {
    let Ok(seed) = env::var("REDFENCE_SIM_SEED") else { return };
    let seed = seed.parse().expect("REDFENCE_SIM_SEED is a number");
    let run = swarm::run(&Drawn::new(seed, Strategy::Fenced));
    eprintln!("{}", report(seed, &run, 400));
    assert!(sweep::unexcused(&run).is_empty(), "seed {seed}");
}

#[test]
fn a_quick_sweep() {
    let sweep = Sweep::new(Strategy::Fenced, 0..QUICK).run();
    eprintln!("{sweep}");
    sweep.assert_clean();
}
