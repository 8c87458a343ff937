//! Wrong edits of the protocol, for builds that have them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What is in force, and how many rely on it: the switch is one for the whole process.
static TURN: Mutex<Turn> = Mutex::new(Turn { edit: None, users: 0 });

/// Told when nobody relies on what is in force any more.
static FREE: Condvar = Condvar::new();

/// Long enough for any search: who has no patience limit waits this long.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

#[derive(Debug)]
struct Turn {
    edit: Option<String>,
    users: usize,
}

/// Keeps the named edit in force, and every other out of it, until dropped.
#[derive(Debug)]
#[must_use = "ends when dropped"]
pub struct Applied(());

/// Makes the named wrong edit, until the value is dropped; waits while another is in force.
///
/// # Panics
/// If there is no such edit in this build.
pub fn apply(name: Option<&str>) -> Applied {
    match apply_within(name, FOR_EVER) {
        Some(applied) => applied,
        None => unreachable!("nothing is in force for a hundred years"),
    }
}

/// The same, but gives up when another stays in force for longer than this. Those who want the same one never wait for each
/// other.
///
/// # Panics
/// If there is no such edit in this build.
pub fn apply_within(name: Option<&str>, patience: Duration) -> Option<Applied> {
    assert!(cfg!(feature = "mutants") || name.is_none(), "this build has no wrong edits");
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let in_use = |turn: &mut Turn| turn.users > 0 && turn.edit.as_deref() != name;
    let waited = FREE.wait_timeout_while(turn, patience, in_use).unwrap_or_else(PoisonError::into_inner);
    let (mut turn, timeout) = waited;
    if timeout.timed_out() {
        return None;
    }
    if turn.users == 0 {
        activate(name);
        turn.edit = name.map(str::to_owned);
    }
    turn.users += 1;
    Some(Applied(()))
}

impl Drop for Applied {
    fn drop(&mut self) {
        let mut turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        turn.users -= 1;
        if turn.users == 0 {
            turn.edit = None;
            activate(None);
            FREE.notify_all();
        }
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
