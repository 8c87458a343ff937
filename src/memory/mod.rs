//! Memory that a lock's tokens and its own versions guard.
//!
//! A lock alone cannot protect what it is taken for: a holder may be paused for longer than its lease, and a write may be late.
//! So the memory takes part (`R9`): it remembers the largest fencing token it was shown, on **reads and writes**, and refuses
//! smaller ones; it counts versions, so that a writer may say what its write was computed from; and it knows the writes it has
//! done by their operations, so that a write whose answer was lost can be sent again.
//!
//! *Architecture invariant: this room does no IO and reads no clock. Stores keep a [`Guarded`] value, or say the same in their own
//! language.*

mod guarded;
mod operation;

pub use guarded::{Guarded, Read, Written};
pub use operation::{Operation, REMEMBERED};
