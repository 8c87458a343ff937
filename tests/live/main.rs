//! The lock on real Redis nodes: killed, frozen, cut off, emptied.

#[path = "../support/mod.rs"]
mod support;

mod acquire;
mod config;
mod connections;
mod exclusion;
mod extend;
mod faults;
mod judge;
mod nodes;
mod nodes_restart;
mod orphans;
mod recorded;
mod release;
mod setup;
mod tokens;
mod ttl;
mod victim;
mod waiting;
mod watchdog;

fn main() {
    victim::play();
    let subjects = [
        nodes::tests(),
        faults::tests(),
        exclusion::tests(),
        acquire::tests(),
        ttl::tests(),
        extend::tests(),
        watchdog::tests(),
        release::tests(),
        orphans::tests(),
        waiting::tests(),
        nodes_restart::tests(),
        tokens::tests(),
        config::tests(),
        connections::tests(),
        recorded::tests(),
    ];
    support::run_live(subjects.into_iter().flatten().collect());
}
