//! F1 to F6: tokens and fences that do not fence.

use super::{TOKENS, faults, guard, holds, reached, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{Damage, FenceRefuses, LockOrder, TokenOrder};
use crate::world::{Economy, Faults, Guard, Hint, Rejoin, Settings};

const NONE: Faults = Faults::NONE;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "f1-no-token",
            "no token is checked at all: the stale write reaches the resource",
            guard(Settings::BASIC, Guard::Open),
            0,
            &[violated(Damage, 16)],
        ),
        scenario(
            "f2-one-counter",
            "a counter on one node that falls back to an old copy: tokens repeat",
            Settings { nodes: 1, ..faults(TOKENS, Faults { rollback: 1, ..NONE }) },
            0,
            &[violated(TokenOrder, 7)],
        ),
        scenario(
            "f4-lost-counter",
            "a counter lost on restart, the node votes on: tokens repeat",
            Settings { rejoin: Rejoin::AsIfNew, ..faults(TOKENS, Faults { wipe: 1, ..NONE }) },
            0,
            &[violated(TokenOrder, 11)],
        ),
        scenario(
            "f4-lost-counter-repaired",
            "the empty node does not vote: tokens hold",
            Settings { abandon: true, ..faults(TOKENS, Faults { wipe: 1, ..NONE }) },
            767_696,
            &[holds(TokenOrder)],
        ),
        scenario(
            "f5-fence-on-writes",
            "old holder reads, newer one reads, old one writes: accepted, and overwritten",
            guard(Settings::BASIC, Guard::Writes),
            0,
            &[violated(Damage, 16)],
        ),
        scenario(
            "f6-claim-without-order",
            "compare-and-set by a random value: no update is lost, but an older holder can come last",
            Settings {
                economy: Economy::LoseReleases,
                abandon: false,
                hint: Hint::None,
                ..guard(Settings::BASIC, Guard::Claim)
            },
            538_346,
            &[holds(Damage), violated(LockOrder, 15), reached(FenceRefuses)],
        ),
    ]
}
