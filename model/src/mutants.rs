//! Wrong edits of the protocol, for builds that have them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One search at a time while a wrong edit may be in force: the switch is one for the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Ends the wrong edit when dropped.
#[derive(Debug)]
pub struct Applied(#[expect(dead_code, reason = "held until dropped")] Option<MutexGuard<'static, ()>>);

/// Makes the named wrong edit, until the value is dropped.
///
/// # Panics
/// If there is no such edit in this build.
pub fn apply(name: Option<&str>) -> Applied {
    if !cfg!(feature = "mutants") {
        assert!(name.is_none(), "this build has no wrong edits");
        return Applied(None);
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    activate(name);
    Applied(Some(turn))
}

#[cfg(feature = "mutants")]
impl Drop for Applied {
    fn drop(&mut self) {
        activate(None);
    }
}

#[cfg(feature = "mutants")]
fn activate(name: Option<&str>) {
    use redfence::proto::mutant::{self, Mutant};

    let found = name.map(|name| Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name));
    let mutant = found.map_or(Some(Mutant::None), |found| found);
    mutant::activate(mutant.expect("a wrong edit that exists"));
}

#[cfg(not(feature = "mutants"))]
fn activate(_: Option<&str>) {}
