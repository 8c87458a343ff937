//! The experiment on real servers, under real faults: three worker processes, five nodes, one counter, 3 x 1000 increments.
//!
//! Rules R8, R9, R10 of `docs/safety.md`: whatever happens to nodes, links, clocks and workers, fenced Redlock ends at exactly
//! 3000. Where classic Redlock must lose, it is made to, and the figures are told. A fault that did not happen fails its test.
//!
//! `REDFENCE_CHAOS_SECONDS` is how long the random mix goes on (default 15), `REDFENCE_CHAOS_SEED` feeds it,
//! `REDFENCE_CHAOS_JSON` names a file for the table, `REDFENCE_CHAOS_CLASSIC=1` runs every fault for classic Redlock as well.

#[path = "../support/mod.rs"]
mod support;

mod cables;
mod contrast;
mod faults;
mod limits;
mod links;
mod mix;
mod nodes;
mod process;
mod run;
mod store;
mod table;
mod worker;
mod workers;

fn main() {
    worker::play();
    cables::play();
    // The mix takes longest: begun last it would go on alone.
    let tests = [mix::tests(), faults::tests(), cables::tests(), contrast::tests(), limits::tests()];
    let conclusion = support::conclude_live(tests.into_iter().flatten().collect());
    table::print();
    conclusion.exit();
}
