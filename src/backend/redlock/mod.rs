//! Redlock with fencing tokens, on a quorum of independent Redis nodes.
//!
//! `node` carries one request to one node, `wire` words it, `driver` runs one attempt's state machine over all nodes, `bells`
//! wakes waiters, `start` gives fresh nodes their epoch, `cluster` puts attempts together: hints, errors.

#[cfg(feature = "redis")]
mod bells;
#[cfg(feature = "redis")]
mod driver;
#[cfg(feature = "redis")]
pub(crate) mod node;
pub mod scripts;
#[cfg(feature = "redis")]
mod start;
#[cfg(feature = "redis")]
pub(crate) mod wire;

#[cfg(feature = "redis")]
pub(crate) use bells::{Bell, Mark};
#[cfg(feature = "redis")]
pub(crate) use cluster::{Redlock, Settings};
#[cfg(feature = "redis")]
mod cluster;
