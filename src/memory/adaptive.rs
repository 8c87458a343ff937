//! When a key is worth a lock.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The rule of [`Strategy::Adaptive`](super::Strategy::Adaptive), for each key and each handle by itself:
///
/// * It begins optimistic. An update that meets `persist` conflicts in a row takes the lock, and so do the updates after it.
/// * An update under the lock is calm if nobody else held the lock when it came, and its write met no conflict. After `calm`
///   calm updates in a row the key is updated optimistically again.
///
/// Both kinds of writer compare versions, so it harms no update if others are in the other phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveRule {
    /// Conflicts in a row after which the lock is taken; at least one.
    pub persist: u32,
    /// Calm updates in a row after which it is left.
    pub calm: u32,
}

impl Default for AdaptiveRule {
    fn default() -> Self {
        Self { persist: 3, calm: 16 }
    }
}

/// Keys that are remembered as locked. One forgotten begins optimistic again, which costs some conflicts and no update.
const MOST_KEYS: usize = 10_000;

/// The keys that are updated under the lock now, with the calm updates in a row so far.
#[derive(Debug, Default)]
pub(super) struct Phases(Mutex<HashMap<String, u32>>);

impl Phases {
    pub(super) fn is_locked(&self, key: &str) -> bool {
        self.keys().contains_key(key)
    }

    /// Conflicts have persisted.
    pub(super) fn lock(&self, key: &str) {
        let mut keys = self.keys();
        if keys.len() >= MOST_KEYS
            && let Some(any) = keys.keys().next().cloned()
        {
            keys.remove(&any);
        }
        keys.insert(key.to_owned(), 0);
    }

    /// An update under the lock has ended.
    pub(super) fn note(&self, key: &str, calm: bool, rule: AdaptiveRule) {
        let mut keys = self.keys();
        let Some(streak) = keys.get_mut(key) else { return };
        *streak = if calm { *streak + 1 } else { 0 };
        if *streak >= rule.calm {
            keys.remove(key);
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_locked_until_it_has_been_calm_in_a_row() {
        let (phases, rule) = (Phases::default(), AdaptiveRule { persist: 1, calm: 2 });
        phases.note("k", true, rule);
        assert!(!phases.is_locked("k"), "it begins optimistic");
        phases.lock("k");
        assert!(phases.is_locked("k") && !phases.is_locked("other"));
        for calm in [true, false, true] {
            phases.note("k", calm, rule);
            assert!(phases.is_locked("k"), "not yet two in a row");
        }
        phases.note("k", true, rule);
        assert!(!phases.is_locked("k"));
    }

    #[test]
    fn no_more_keys_are_remembered_than_the_bound() {
        let phases = Phases::default();
        for number in 0..=MOST_KEYS {
            phases.lock(&number.to_string());
        }
        assert_eq!(phases.keys().len(), MOST_KEYS);
        assert!(phases.is_locked(&MOST_KEYS.to_string()), "the newest is among them");
    }
}
