//! One value, and everything that guards it.

use super::operation::{Applied, Operation};
use crate::proto::FencingToken;

/// One guarded value: what a store keeps under one key. It begins without a value, at version 0.
///
/// ```
/// use redfence::memory::{Guarded, Operation, Read, Written};
/// use redfence::proto::FencingToken;
///
/// let mut document = Guarded::default();
/// let (old, new) = (Some(FencingToken(1)), Some(FencingToken(2)));
/// assert_eq!(document.read(old), Read::Missing { version: 0 });
/// // The lease of token 1 has ended; another holder reads, and that alone shuts the old one out.
/// assert_eq!(document.read(new), Read::Missing { version: 0 });
/// let late = document.write("from the past", old, None, Operation(7));
/// assert_eq!(late, Written::Fenced { seen: FencingToken(2) });
/// assert_eq!(document.write("now", new, None, Operation(8)), Written::Applied { version: 1 });
/// // The answer was lost: the writer sends the same operation again.
/// assert_eq!(document.write("now", new, None, Operation(8)), Written::Applied { version: 1 });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guarded<V> {
    value: Option<V>,
    version: u64,
    seen: Option<FencingToken>,
    applied: Applied,
}

/// What a read is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read<V> {
    /// The value, and its version.
    Value {
        /// What it holds.
        value: V,
        /// How often it has been written.
        version: u64,
    },
    /// Nothing is there: never written (version 0), or removed.
    Missing {
        /// How often it has been written or removed.
        version: u64,
    },
    /// A larger token has been seen: whoever shows this one has lost its lease to another.
    Fenced {
        /// The largest token seen.
        seen: FencingToken,
    },
}

/// What a write is told. None of these is "unknown": that is what a store says that did not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written<V> {
    /// It is done: now, or earlier under the same operation.
    Applied {
        /// The version that it made.
        version: u64,
    },
    /// Not done: somebody else has written since the version it was computed from.
    Conflict {
        /// What is there now.
        value: V,
        /// Its version.
        version: u64,
    },
    /// Not done: it was computed from another version, and nothing is there now.
    Missing {
        /// How often it has been written or removed.
        version: u64,
    },
    /// Not done, and never will be: a larger token has been seen.
    Fenced {
        /// The largest token seen.
        seen: FencingToken,
    },
}

impl<V> Default for Guarded<V> {
    fn default() -> Self {
        Self { value: None, version: 0, seen: None, applied: Applied::default() }
    }
}

impl<V: Clone> Guarded<V> {
    /// A value that is there from the beginning, as version 0.
    pub fn starting_at(value: V) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    /// Reads. A token raises the mark: what was read under a larger token is not changed any more under a smaller one.
    ///
    /// Without a token nothing is checked: for those who update by [`compare_and_set`](Self::compare_and_set).
    pub fn read(&mut self, token: Option<FencingToken>) -> Read<V> {
        if let Err(seen) = self.admit(token) {
            return Read::Fenced { seen };
        }
        let version = self.version;
        self.value.clone().map_or(Read::Missing { version }, |value| Read::Value { value, version })
    }

    /// Writes, if the token is not smaller than any seen, and the version is the expected one.
    ///
    /// Either may be left out: without a token only the version decides, without a version only the token, and without both
    /// every write is done. An operation that was applied is answered so again, whatever has happened since.
    pub fn write(
        &mut self,
        value: V,
        token: Option<FencingToken>,
        expected: Option<u64>,
        operation: Operation,
    ) -> Written<V> {
        self.put(Some(value), token, expected, operation)
    }

    /// Removes the value, under the same rules as a [`write`](Self::write). The version goes on counting and the mark stays:
    /// a value that is written again later is not one that starts anew.
    pub fn remove(
        &mut self,
        token: Option<FencingToken>,
        expected: Option<u64>,
        operation: Operation,
    ) -> Written<V> {
        self.put(None, token, expected, operation)
    }

    fn put(
        &mut self,
        value: Option<V>,
        token: Option<FencingToken>,
        expected: Option<u64>,
        operation: Operation,
    ) -> Written<V> {
        // Before the token: a write that is done stays done, also when its holder has been shut out meanwhile.
        if let Some(version) = self.applied.version(operation) {
            return Written::Applied { version };
        }
        if let Err(seen) = self.admit(token) {
            return Written::Fenced { seen };
        }
        if expected.is_some_and(|expected| expected != self.version) {
            let version = self.version;
            let missing = Written::Missing { version };
            return self.value.clone().map_or(missing, |value| Written::Conflict { value, version });
        }
        self.value = value;
        self.version += 1;
        self.applied.note(operation, self.version);
        Written::Applied { version: self.version }
    }

    /// The optimistic path: writes if nobody has written since `expected`; version 0 is a value that was never written.
    pub fn compare_and_set(&mut self, expected: u64, value: V, operation: Operation) -> Written<V> {
        self.write(value, None, Some(expected), operation)
    }

    /// The value as it is, without a token: for whoever keeps the store.
    pub const fn value(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// How often it has been written or removed.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The largest token seen.
    pub const fn seen(&self) -> Option<FencingToken> {
        self.seen
    }

    /// Forgets the largest token seen: for a store that is moved to a lock with other numbers.
    pub fn forget_tokens(&mut self) {
        self.seen = None;
    }

    /// Whether this operation was applied, as far as is remembered; see [`REMEMBERED`](super::REMEMBERED).
    pub fn has_applied(&self, operation: Operation) -> bool {
        self.applied.version(operation).is_some()
    }

    fn admit(&mut self, token: Option<FencingToken>) -> Result<(), FencingToken> {
        let Some(token) = token else { return Ok(()) };
        match self.seen {
            Some(seen) if token < seen => Err(seen),
            _ => {
                self.seen = Some(token);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::operation::REMEMBERED;
    use super::*;

    fn token(number: u64) -> Option<FencingToken> {
        Some(FencingToken(number))
    }

    fn at(value: u64, version: u64) -> Read<u64> {
        Read::Value { value, version }
    }

    const fn applied(version: u64) -> Written<u64> {
        Written::Applied { version }
    }

    const FENCED: Written<u64> = Written::Fenced { seen: FencingToken(2) };

    #[test]
    fn a_read_raises_the_mark_so_an_older_holders_write_is_refused() {
        let mut counter = Guarded::starting_at(0);
        assert_eq!((counter.read(token(1)), counter.read(token(2))), (at(0, 0), at(0, 0)));
        assert_eq!(counter.write(1, token(1), None, Operation(1)), FENCED);
        assert_eq!(counter.write(1, token(2), None, Operation(1)), applied(1));
        assert_eq!(counter.read(token(1)), Read::Fenced { seen: FencingToken(2) });
    }

    #[test]
    fn a_write_sent_again_is_no_second_one_whatever_has_happened_since() {
        let mut counter = Guarded::starting_at(0);
        assert_eq!(counter.write(1, token(1), None, Operation(1)), applied(1));
        assert_eq!(counter.write(2, token(2), None, Operation(2)), applied(2));
        for again in [token(1), token(3), None] {
            assert_eq!(counter.write(9, again, Some(7), Operation(1)), applied(1));
        }
        assert_eq!((counter.value(), counter.seen()), (Some(&2), token(2)));
    }

    #[test]
    fn a_write_from_a_version_that_has_passed_is_a_conflict() {
        let mut counter = Guarded::default();
        assert_eq!(counter.compare_and_set(1, 5, Operation(1)), Written::Missing { version: 0 });
        assert_eq!(counter.compare_and_set(0, 5, Operation(2)), applied(1));
        assert_eq!(counter.compare_and_set(0, 6, Operation(3)), Written::Conflict { value: 5, version: 1 });
        // A refused operation may be tried again, from what is there now.
        assert_eq!(counter.compare_and_set(1, 6, Operation(3)), applied(2));
    }

    #[test]
    fn a_forgotten_operation_is_not_done_twice_if_it_says_what_it_was_computed_from() {
        let mut counter = Guarded::starting_at(0);
        assert_eq!(counter.compare_and_set(0, 1, Operation(0)), applied(1));
        for number in 1..=REMEMBERED as u64 {
            assert!(number < REMEMBERED as u64 || counter.has_applied(Operation(0)));
            assert_eq!(counter.write(number, None, None, Operation(number.into())), applied(number + 1));
        }
        assert!(!counter.has_applied(Operation(0)) && counter.has_applied(Operation(1)));
        let late = counter.compare_and_set(0, 1, Operation(0));
        assert!(matches!(late, Written::Conflict { .. }), "{late:?}");
    }

    /// What a history of accesses must look like, said without any state but the history itself.
    #[derive(Default)]
    struct Twin {
        writes: Vec<(Operation, Option<u64>)>,
        shown: Vec<u64>,
    }

    impl Twin {
        fn fences(&mut self, token: Option<u64>) -> Option<FencingToken> {
            let largest = self.shown.iter().copied().max().unwrap_or(0);
            let token = token?;
            if token < largest {
                return Some(FencingToken(largest));
            }
            self.shown.push(token);
            None
        }

        fn read(&mut self, token: Option<u64>) -> Read<u64> {
            let version = self.writes.len() as u64;
            match (self.fences(token), self.writes.last()) {
                (Some(seen), _) => Read::Fenced { seen },
                (None, Some((_, Some(value)))) => at(*value, version),
                (None, _) => Read::Missing { version },
            }
        }

        fn write(
            &mut self,
            value: Option<u64>,
            token: Option<u64>,
            expected: Option<u64>,
            operation: Operation,
        ) -> Written<u64> {
            if let Some(before) = self.writes.iter().position(|(done, _)| *done == operation) {
                return applied(before as u64 + 1);
            }
            if let Some(seen) = self.fences(token) {
                return Written::Fenced { seen };
            }
            let version = self.writes.len() as u64;
            match (expected, self.writes.last()) {
                (Some(expected), Some((_, Some(value)))) if expected != version => {
                    Written::Conflict { value: *value, version }
                }
                (Some(expected), _) if expected != version => Written::Missing { version },
                _ => {
                    self.writes.push((operation, value));
                    applied(version + 1)
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_accesses_are_answered_as_their_history_says(
            accesses in prop::collection::vec(
                (0..3, prop::option::of(1_u64..6), prop::option::of(0_u64..5), 0_u128..12),
                0..60,
            )
        ) {
            let (mut guarded, mut twin) = (Guarded::default(), Twin::default());
            for (number, (what, shown, expected, operation)) in accesses.into_iter().enumerate() {
                let (value, token, operation) = (number as u64, shown.map(FencingToken), Operation(operation));
                match what {
                    0 => prop_assert_eq!(guarded.read(token), twin.read(shown)),
                    1 => prop_assert_eq!(
                        guarded.write(value, token, expected, operation),
                        twin.write(Some(value), shown, expected, operation)
                    ),
                    _ => prop_assert_eq!(
                        guarded.remove(token, expected, operation),
                        twin.write(None, shown, expected, operation)
                    ),
                }
            }
        }
    }
}
