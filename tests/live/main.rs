//! The lock on real Redis nodes: killed, frozen, cut off, emptied.

#[path = "../support/mod.rs"]
mod support;

mod nodes;

fn main() {
    support::run_live(nodes::tests());
}
