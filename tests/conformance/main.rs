//! The embedded node, the reference behind it, and a real Redis must answer the same.
//!
//! Each test asks an embedded node and a `redis-server` the same things and compares the answers, bytes and all; where
//! the reference can express the question, `proto::node::execute` on a `NodeState` is asked as well. Sequences are drawn
//! from a seed. `REDFENCE_CONFORMANCE_RUNS` sets how many (a few seconds' worth by default), `REDFENCE_CONFORMANCE_SEED`
//! where to begin; a failure names its own seed and is cut down to the steps that it needs.

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod expiry;
mod locks;
mod lua;
mod pair;
mod protocol;
mod redis_cli;
mod sequence;
mod wire;

fn main() {
    let tests = [
        locks::tests(),
        commands::tests(),
        lua::tests(),
        protocol::tests(),
        expiry::tests(),
        redis_cli::tests(),
    ];
    support::run_live(tests.into_iter().flatten().collect());
}
