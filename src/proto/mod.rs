//! The lock protocol as a state machine: no network, no clock, no dice.
//!
//! ```text
//!  host                                   Session                                    host
//!  Input::Reply{node, round, reply}  ->   Acquiring -> Held -> Lost           ->   Output::Send{to, round, request}
//!  Input::Wake (the time has come)   ->        \        |       |             ->   Output::Event(Acquired, Lost, ..)
//!  Input::Extend, Input::Release     ->         `-> Releasing <-'  -> Done    ->   poll_timeout: wake me then
//! ```
//!
//! One [`session::Session`] is one attempt's life on one resource: ask every node, count, confirm if need be, believe for a
//! while, extend, release, and clear up after answers that come late. [`ready::GetReady`] says before the first
//! attempt whether one can be sent, [`first_start::FirstStart`] gives fresh nodes their epoch, [`readmit::Readmit`] brings back a
//! node that lost its data. Three hosts run them unchanged: the model checker, the simulation and the live driver
//! (`src/backend/redlock/driver.rs`).
//!
//! **The rule for hosts.** After `handle`, do every `Output` in order, then ask `poll_timeout` for the next wake-up. Requests
//! to one node are delivered in the order given, each after the one before has been answered or given up.
//!
//! **What is absent here.** No IO, no clock, no randomness, no resource name, no allocation but the output list: owner
//! values, hints and the time come in as arguments. Time that runs backwards is the host's to prevent.

pub mod first_start;
pub mod message;
pub mod mutant;
pub mod node;
pub mod readmit;
pub mod ready;
pub mod retry;
pub mod session;
pub mod symmetry;
pub mod tally;
pub mod time;
pub mod validity;
mod wording;

pub use first_start::FirstStart;
pub use message::{FencingToken, Owner, Reply, Request, Stand};
pub use readmit::Readmit;
pub use ready::GetReady;
pub use session::{Event, Input, Output, Round, Session};
pub use symmetry::ByNode;
pub use tally::{NodeId, NodeSet, Quorum, Verdict};
pub use time::Timestamp;
pub use validity::{Drift, Ttl};
