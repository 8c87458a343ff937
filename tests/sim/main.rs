//! The deterministic simulation: the real driver and the real Redis client, on simulated hosts, links and clocks.
//!
//! `world` is what can be made to fail, and keeps a log of everything; it knows nothing of chance or of right and wrong.
//! `swarm` draws a whole run from one seed and does it. `judge` looks at the log afterwards: the same rules that judge the
//! model, and whether the machine and the nodes did what `proto` says. `sweep` does many seeds and adds up. `scripted` has
//! runs that are written. `docs/testing.md` tells how to run and to replay.

#[cfg(feature = "trace")]
mod counterexamples;
mod judge;
#[cfg(feature = "trace")]
mod moments;
mod mutants;
mod scripted;
mod swarm;
mod sweep;
mod world;

use std::collections::BTreeMap;
use std::env;
use std::str::FromStr;
use std::time::Duration;

use swarm::draw::{Clocks, Drawn, Holding, Strategy};
use sweep::{Sweep, report};

/// Seeds of the sweep that every test run does.
const QUICK: u64 = 150;

/// Seeds that once failed, each with what was found. They are run for ever.
const PINNED: &[(u64, &str)] = &[
    (14, "a dead connection was kept for ever by attempts that ended sooner than it counted as dead"),
    (46, "the operator of the simulation was hasty without saying so"),
];

fn number<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn strategy() -> Strategy {
    match env::var("REDFENCE_SIM_STRATEGY").as_deref() {
        Err(_) | Ok("fenced") => Strategy::Fenced,
        Ok("classic") => Strategy::Classic,
        Ok("none") => Strategy::None,
        Ok(other) => panic!("REDFENCE_SIM_STRATEGY={other}: it is none, classic or fenced"),
    }
}

/// Replays one run and prints its end: `REDFENCE_SIM_SEED`, and if wanted `REDFENCE_SIM_STRATEGY` and `REDFENCE_SIM_LAST` events.
/// Without a seed it has nothing to replay, and does the first one.
#[test]
fn one_seed() {
    let _alone = mutants::nobody();
    let asked = number("REDFENCE_SIM_SEED");
    let seed = asked.unwrap_or(0);
    let run = swarm::run(&Drawn::new(seed, strategy()));
    if asked.is_some() {
        eprintln!("{}", report(seed, &run, number("REDFENCE_SIM_LAST").unwrap_or(200)));
    }
    assert_eq!(sweep::unexcused(&run), Vec::<String>::new(), "seed {seed}");
}

#[test]
fn seeds_that_once_failed() {
    let _alone = mutants::nobody();
    for (seed, found) in PINNED {
        let run = swarm::run(&Drawn::new(*seed, Strategy::Fenced));
        assert!(sweep::unexcused(&run).is_empty(), "{found}\n{}", report(*seed, &run, 60));
    }
}

/// No update is lost or doubled, no token repeats, all make progress after the heal, in any run; and everything worth meeting was
/// met. `REDFENCE_SIM_SEEDS` makes it longer, `REDFENCE_SIM_FROM` begins elsewhere.
#[test]
fn a_sweep_finds_nothing_wrong_and_meets_every_mark() {
    let _alone = mutants::nobody();
    let from = number("REDFENCE_SIM_FROM").unwrap_or(0);
    let asked: Option<u64> = number("REDFENCE_SIM_SEEDS");
    let sweep = Sweep::new(Strategy::Fenced, from..from + asked.unwrap_or(QUICK));
    let summary = if asked.is_some() { sweep.with_progress() } else { sweep }.run();
    eprintln!("{summary}");
    summary.assert_clean();
    assert!(summary.missing().is_empty(), "never met: {:?}", summary.missing());
}

/// The same faults, with nothing at the memory that checks a token: this is what the fence is for.
#[test]
fn without_a_fence_the_same_faults_lose_updates() {
    let _alone = mutants::nobody();
    let seeds = number("REDFENCE_SIM_CONTRAST").unwrap_or(60);
    let classic = Sweep::new(Strategy::Classic, 0..seeds).run();
    let none = Sweep::new(Strategy::None, 0..seeds.min(60)).run();
    eprintln!("{classic}\n{none}");
    classic.assert_clean();
    assert!(classic.losing_runs > 0 && classic.lost > 0, "classic Redlock lost nothing in {seeds} runs");
    assert!(
        none.losing_runs > classic.losing_runs * none.seeds / classic.seeds,
        "no lock at all lost less than Redlock"
    );
}

#[test]
fn the_same_seed_is_the_same_run_to_the_last_event() {
    let _alone = mutants::nobody();
    for seed in 0..8 {
        let run = || swarm::run(&Drawn::new(seed, Strategy::Fenced));
        let (one, other) = (run(), run());
        let first = one.entries.iter().zip(&other.entries).find(|(one, other)| one != other);
        assert!(one.hash == other.hash && one.entries.len() == other.entries.len(), "seed {seed}: {first:?}");
    }
}

/// Three workers, a thousand updates each, under injected partitions: exactly 3000.
#[test]
fn three_thousand_updates_under_partitions_are_three_thousand() {
    use redfence::marks::Mark;
    let _alone = mutants::nobody();
    let mut drawn = Drawn::new(3_000, Strategy::Fenced);
    (drawn.shape.nodes, drawn.shape.workers, drawn.ops, drawn.resources) = (5, 3, 1_000, 1);
    (drawn.shape.tick, drawn.shape.latency) = (Duration::from_millis(2), Duration::from_millis(4));
    drawn.shape.lock.ttl = Duration::from_millis(500);
    drawn.shape.lock.patience = Duration::from_millis(120);
    drawn.thinking = Duration::from_millis(2);
    (drawn.holding, drawn.clocks, drawn.ppm, drawn.odds) =
        (Holding::Plain, Clocks::WithinDrift, 4_000, Default::default());
    (drawn.trouble, drawn.longest) = (Duration::from_secs(600), Duration::from_millis(800));
    drawn.faults =
        BTreeMap::from([Mark::LinkCut, Mark::LinkCutOneWay, Mark::LinkHeld].map(|fault| (fault, 0.5)));
    let run = swarm::run(&drawn);
    let (won, cuts) = (run.findings.won, run.made.values().sum::<u64>());
    eprintln!(
        "{} updates, {won} locks won, {cuts} partitions and clocks, {:?} simulated",
        run.total, run.simulated
    );
    assert_eq!(sweep::unexcused(&run), Vec::<String>::new());
    assert!(run.total == 3_000 && cuts > 30, "{} updates, {cuts} partitions", run.total);
}
