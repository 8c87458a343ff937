//! L1 to L6: the lock is not to be had.
//!
//! Stateright cannot decide "eventually" on graphs with cycles or joins, so these are shown as what can be reached within the
//! bounds; that a healed system makes progress again is left to the simulation.

use super::{faults, reached_in, scenario, unreached, violated};
use crate::scenario::Scenario;
use crate::world::Property::{
    DeadHolder, Failure, KeyLeftBehind, MajoritySilent, NobodyWins, Orphan, Outlasts, SplitVote, Win,
};
use crate::world::{Economy, Faults, Rejoin, Settings, Time};

const CLASSIC: Settings = Settings::CLASSIC;
const NONE: Faults = Faults::NONE;

/// One client, and all that it does, to the last straggler. Without time, so that no session stops caring because a request
/// has been under way for longer than a TTL.
pub(super) const TIDY: Settings =
    Settings { clients: 1, economy: Economy::Full, time: Time::Untimed, abandon: true, ..CLASSIC };

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "l1-jump-back",
            "a node's clock jumps back: its key outlives its TTL",
            faults(CLASSIC, Faults { jump_back: 1, ..NONE }),
            0,
            &[violated(Orphan, 3)],
        ),
        scenario(
            "l2-majority-crash",
            "a majority restarts and is silent for a TTL: nobody gets the lock meanwhile",
            Settings { rejoin: Rejoin::AfterSilence(3), ..faults(CLASSIC, Faults { wipe: 2, ..NONE }) },
            0,
            &[reached_in(MajoritySilent, 2), reached_in(Failure, 3)],
        ),
        scenario(
            "l3-late-grant",
            "a grant arrives after its release: the key stays for a TTL though nobody wants it",
            faults(TIDY, Faults { loss: 2, ..NONE }),
            0,
            &[reached_in(KeyLeftBehind, 12)],
        ),
        scenario(
            "l3-late-grant-repaired",
            "with answers late but not lost, no key is left when a session is done",
            TIDY,
            677,
            &[unreached(KeyLeftBehind)],
        ),
        scenario(
            "l4-split-vote",
            "each client gets too few nodes: nobody wins, without any fault",
            Settings { clients: 3, ..CLASSIC },
            0,
            &[reached_in(SplitVote, 6), reached_in(NobodyWins, 5), reached_in(Win, 5)],
        ),
        scenario(
            "l5-dead-holder",
            "the holder dies: a TTL of nobody",
            faults(CLASSIC, Faults { crash: 1, ..NONE }),
            0,
            &[reached_in(DeadHolder, 4), reached_in(Failure, 3)],
        ),
        scenario(
            "l6-endless-extension",
            "a holder that extends outlasts its TTL while another fails: extensions need a cap",
            faults(CLASSIC, Faults { extend: 2, ..NONE }),
            0,
            &[reached_in(Outlasts, 19)],
        ),
    ]
}
