//! Which writes were done.

use std::collections::{BTreeMap, VecDeque};

/// Names one update, through all its repetitions: drawn once by whoever wants the update, never used for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation(pub u128);

#[cfg(feature = "memory")]
impl Operation {
    /// A fresh one: 122 random bits.
    #[expect(clippy::disallowed_methods, reason = "simulations name their updates themselves, and so replay")]
    pub fn draw() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

/// Operations that one value remembers.
///
/// The rule: an operation is forgotten once this many later ones have been applied to the same value. So a writer that does not
/// know whether its write was done must ask again before that many others have written. If it comes later, a write with an
/// expected version is still never done twice, since that version has passed, but is answered with a conflict; and a write
/// with a token alone is refused if any later holder has been seen.
pub const REMEMBERED: usize = 1024;

/// The latest operations that were applied, and the versions that they made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Applied {
    versions: BTreeMap<Operation, u64>,
    order: VecDeque<Operation>,
}

impl Applied {
    pub(super) fn version(&self, operation: Operation) -> Option<u64> {
        self.versions.get(&operation).copied()
    }

    pub(super) fn note(&mut self, operation: Operation, version: u64) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.versions.remove(&oldest);
        }
        self.order.push_back(operation);
        self.versions.insert(operation, version);
    }
}
