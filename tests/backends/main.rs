//! The locks on real etcd and ZooKeeper: one suite of cases, run against both.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cli")]
mod cli;
mod config;
mod connections;
mod exclusion;
mod frozen;
mod holding;
mod queue;
mod service;
mod victim;

fn main() {
    victim::play();
    let subjects = [
        config::tests(),
        exclusion::tests(),
        queue::tests(),
        holding::tests(),
        frozen::tests(),
        connections::tests(),
        #[cfg(feature = "cli")]
        cli::tests(),
    ];
    support::run_live_at_once(subjects.into_iter().flatten().collect(), 4);
}
