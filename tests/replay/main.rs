//! Counterexamples of the model, done again with real redis-server processes, message by message.
//!
//! Rules R3, R6, R9, R10 of `docs/safety.md`. The files in `tests/counterexamples` are the model's own traces, and
//! `model/tests/counterexamples.rs` keeps them so. After every step what the servers and the clients say is compared with the
//! model's moment, and every answer of a node with the reference node's. Each run is written as a trace as well, into
//! `REDFENCE_REPLAY_FOLDER` if that is named.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod compare;
mod gate;
mod guarded;
mod record;
mod scenarios;
mod stage;
mod words;

fn main() {
    support::run_live(scenarios::tests());
}
