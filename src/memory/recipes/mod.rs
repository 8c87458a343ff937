//! What agents do with shared memory: spend from one budget, take tasks from one queue, fill one cache.
//!
//! Each is one value or a family of values in a [`SharedMemory`](super::SharedMemory), kept as JSON, and a handful of updates; to be used,
//! and to be read as examples. `docs/agents.md` tells which of them fits where.

mod budget;
mod fill;
mod form;
mod tasks;

pub use budget::{Account, Budget, BudgetError, Reservation};
pub use fill::get_or_fill;
pub use form::FormError;
pub use tasks::{Claim, TaskError, TaskQueue};
