//! Wrong edits of the protocol, which sweeps must find; with the feature `mutants` only.
//!
//! The switch is one for the whole process: while a wrong edit is in force, no other test may run.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

static IN_FORCE: RwLock<()> = RwLock::new(());

/// While this is held, no wrong edit is in force.
pub(crate) fn nobody() -> RwLockReadGuard<'static, ()> {
    IN_FORCE.read().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(feature = "mutants")]
pub(crate) use switched::in_force;

#[cfg(feature = "mutants")]
mod switched {
    use std::sync::{PoisonError, RwLockWriteGuard};

    use redfence::proto::mutant::{Mutant, activate};

    use super::IN_FORCE;
    use crate::swarm::draw::Strategy;
    use crate::sweep::Sweep;

    /// Found within a few seeds.
    const QUICK: [Mutant; 4] =
        [Mutant::PlainDelete, Mutant::GrantDoesNotRaise, Mutant::SetOverwrites, Mutant::NoWriteBack];

    /// A wrong edit in force, alone; until this is dropped.
    pub(crate) struct InForce(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>);

    pub(crate) fn in_force(mutant: Mutant) -> InForce {
        let alone = IN_FORCE.write().unwrap_or_else(PoisonError::into_inner);
        activate(mutant);
        InForce(alone)
    }

    impl Drop for InForce {
        fn drop(&mut self) {
            activate(Mutant::None);
        }
    }

    /// Seeds until it is found, and what was found; `None` if it is not within `most`.
    fn find(mutant: Mutant, most: u64) -> Option<(u64, String)> {
        let _alone = in_force(mutant);
        let summary = Sweep::new(Strategy::Fenced, 0..most).until_it_fails().run();
        let (seed, text) = summary.failures.into_iter().next()?;
        let wrong = text.lines().find(|line| line.starts_with("WRONG") || line.starts_with("panicked"));
        Some((seed + 1, wrong.unwrap_or_default().chars().take(100).collect()))
    }

    #[test]
    fn a_sweep_finds_wrong_edits() {
        for mutant in QUICK {
            let found = find(mutant, 60);
            assert!(found.is_some(), "{} was not found in 60 seeds", mutant.name());
        }
    }

    /// The table of all of them: `REDFENCE_SIM_MUTANTS` seeds for each.
    #[test]
    fn the_table_of_wrong_edits() {
        let Some(most) = crate::number("REDFENCE_SIM_MUTANTS") else { return };
        for mutant in Mutant::ALL {
            match find(*mutant, most) {
                Some((seeds, wrong)) => eprintln!("{:<24} {seeds:>5} seeds  {wrong}", mutant.name()),
                None => eprintln!("{:<24} not in {most} seeds", mutant.name()),
            }
        }
    }
}
