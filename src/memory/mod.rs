//! Memory that a lock's tokens and its own versions guard.
//!
//! A lock alone cannot protect what it is taken for: a holder may be paused for longer than its lease, and a write may be late.
//! So the memory takes part (`R9`): it remembers the largest fencing token it was shown, on **reads and writes**, and refuses
//! smaller ones; it counts versions, so that a writer may say what its write was computed from; and it knows the writes it has
//! done by their operations, so that a write whose answer was lost can be sent again.
//!
//! `guarded`, `operation` and `fence` say what that means, and do no IO and read no clock. A [`Store`] keeps such values: in this
//! process, in SQLite, in Redis, in PostgreSQL, each saying the same in its own language. [`SharedMemory`] reads, computes and writes
//! for its user, under a lock or by version; [`recipes`] are what agents do with that: budgets, task queues, fills.

#[cfg(feature = "memory")]
mod adaptive;
mod fence;
mod guarded;
#[cfg(feature = "memory")]
mod in_process;
mod operation;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "memory")]
pub mod recipes;
#[cfg(feature = "memory")]
mod redis;
#[cfg(feature = "memory")]
mod shared;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "memory")]
mod store;

#[cfg(feature = "memory")]
pub use self::redis::RedisStore;
#[cfg(feature = "memory")]
pub use adaptive::AdaptiveRule;
pub use fence::{BackendId, Fence};
pub use guarded::{Guarded, Read, Written};
#[cfg(feature = "memory")]
pub use in_process::InProcessStore;
pub use operation::{Operation, REMEMBERED};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "memory")]
pub use shared::{Edit, SharedMemory, Strategy, UpdateError, Updated};
#[cfg(feature = "sqlite")]
pub use sqlite::{MOST_NEIGHBOURS, Neighbour, SqliteStore};
#[cfg(feature = "memory")]
pub use store::{Change, MAX_DIMENSION, MAX_KEY_BYTES, MAX_VALUE_BYTES, Store, StoreError};
