//! The model of the redfence lock: the shipped state machine under a model checker.
//!
//! ```text
//! world      clients (shipped sessions), connections, nodes (the shipped reference), a resource, faults
//! check      sound use of stateright
//! scenario   named worlds with what is expected of them
//! ```

pub mod check;
pub mod mutants;
pub mod report;
pub mod scenario;
pub mod walk;
pub mod world;
