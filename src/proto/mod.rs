//! The lock protocol as a state machine: no network, no clock, no dice.

pub mod message;
pub mod node;
pub mod retry;
pub mod tally;
pub mod time;
pub mod validity;
