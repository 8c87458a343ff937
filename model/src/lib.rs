//! The model of the redfence lock: the shipped state machine under a model checker.
//!
//! ```text
//! world      clients (shipped sessions), connections, nodes (the shipped reference), a resource, faults
//! check      sound use of stateright
//! scenario   named worlds with what is expected of them
//! trace      one run as data: messages, beliefs, keys; a shortest one, or one chosen step by step
//! draw       a trace as a picture
//! general    clients without any policy, around the same nodes
//! ```

pub mod check;
pub mod draw;
pub mod general;
pub mod mutants;
pub mod report;
pub mod scenario;
pub mod trace;
pub mod walk;
pub mod world;
