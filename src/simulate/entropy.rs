//! Jitter from a seed.

use std::sync::{Mutex, PoisonError};

use crate::lock::clock::{Entropy, SystemEntropy};
use crate::proto::Owner;

/// Jitter comes from the seed. Owner values do not: they must differ from those of every other process at the same nodes.
#[derive(Debug)]
pub(super) struct Seeded {
    dice: Mutex<fastrand::Rng>,
    system: SystemEntropy,
}

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Mutex::new(fastrand::Rng::with_seed(seed)), system: SystemEntropy::default() }
    }
}

impl Entropy for Seeded {
    fn owner(&self) -> Owner {
        self.system.owner()
    }

    fn chance(&self) -> f64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }
}
