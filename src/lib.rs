//! A distributed lock on a quorum of independent Redis nodes, with fencing tokens minted by that same quorum.

// The program in the README compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

// So does the one in the guide for agents.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../docs/agents.md")]
struct AgentsGuide;

#[cfg(feature = "agents")]
pub mod agents;
#[cfg(any(feature = "redis", feature = "embedded"))]
pub mod backend;
pub mod invariants;
#[cfg(feature = "redis")]
pub mod lock;
pub mod marks;
pub mod memory;
#[cfg(feature = "embedded")]
pub mod node;
pub mod proto;
#[cfg(feature = "simulate")]
pub mod simulate;

#[cfg(feature = "trace")]
pub mod trace;

#[cfg(feature = "redis")]
pub use lock::{DistributedLock, Lease, LockBuilder, LockGuard};
