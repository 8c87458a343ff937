//! The lock on real Redis nodes: killed, frozen, cut off, emptied.

#[path = "../support/mod.rs"]
mod support;

mod acquire;
mod exclusion;
mod extend;
mod faults;
mod judge;
mod nodes;
mod setup;
mod ttl;
mod victim;
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
    ];
    support::run_live(subjects.into_iter().flatten().collect());
}
