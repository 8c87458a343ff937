//! What the design rests on.

use super::{FENCED, TOKENS, faults, guard, holds, long, open, reached, reached_in, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{
    AllWin, Belief, Confirm, Damage, Failure, FenceRefuses, HollowWin, Orphan, ReleaseSafety, TokenOrder,
    WakesEnd, Win,
};
use crate::world::{Faults, Guard, Rejoin, Settings, Time, UNLIMITED};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "fact3-tokens",
            "tokens are unique and ordered with no clock at all; grants that agree need one round trip",
            Settings { abandon: true, ..TOKENS },
            206_096,
            &[holds(TokenOrder), reached(AllWin), reached_in(Win, 5), reached(Confirm), reached(Failure)],
        ),
        long(scenario(
            "fact3-tokens-lossy",
            "the same when any number of answers is lost and requests arrive late",
            faults(TOKENS, Faults { loss: UNLIMITED, ..Faults::NONE }),
            3_368_883,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        scenario(
            "fact4-fence-on-writes",
            "a fence on writes only does not stop a lost update",
            guard(Settings::BASIC, Guard::Writes),
            1_086_575,
            &[violated(Damage, 16), holds(TokenOrder), holds(ReleaseSafety), reached(FenceRefuses)],
        ),
        scenario(
            "fact5-fence",
            "a fence on reads and writes: no lost update, whenever keys end and however slow clients are",
            Settings::BASIC,
            981_280,
            &[
                holds(Damage),
                holds(TokenOrder),
                holds(ReleaseSafety),
                reached(FenceRefuses),
                reached(AllWin),
                violated(Belief, 12),
            ],
        ),
        open(scenario(
            "fact5-fence-timed",
            "the same under a pause, a delayed write and a clock jump, while exclusion does fail",
            faults(FENCED, Faults { pause: 1, delay: 1, jump: 1, ..Faults::NONE }),
            0,
            &[holds(Damage), holds(TokenOrder), reached(FenceRefuses)],
        )),
        scenario(
            "fact6-empty-node-votes",
            "one node that comes back empty and votes breaks the tokens",
            Settings { rejoin: Rejoin::AsIfNew, ..faults(TOKENS, Faults { wipe: 1, ..Faults::NONE }) },
            0,
            &[violated(TokenOrder, 11)],
        ),
        scenario(
            "fact6-waiting-does-not-help",
            "the same when it is silent for a whole TTL first: numbers do not come back",
            Settings {
                rejoin: Rejoin::AfterSilence(2),
                time: Time::Timed { ttl: 2, margin: 0, fast: 0, slow: 0 },
                work: crate::world::Work::Nothing,
                ..faults(FENCED, Faults { wipe: 1, ..Faults::NONE })
            },
            0,
            &[violated(TokenOrder, 13)],
        ),
        scenario(
            "fact7-classic",
            "classic Redlock with good clocks, check and write in one: exclusion holds",
            Settings::CLASSIC,
            20_510,
            &[
                holds(Belief),
                holds(Damage),
                holds(ReleaseSafety),
                holds(Orphan),
                holds(WakesEnd),
                holds(HollowWin),
                reached(AllWin),
                reached(Failure),
            ],
        ),
        open(scenario(
            "fact7-classic-two-attempts",
            "two attempts each",
            Settings { attempts: 2, ..Settings::CLASSIC },
            0,
            &[
                holds(Belief),
                holds(Damage),
                holds(ReleaseSafety),
                holds(Orphan),
                holds(WakesEnd),
                reached(AllWin),
            ],
        )),
        scenario(
            "fact7-fenced",
            "the fenced protocol with good clocks: exclusion and token order hold together",
            FENCED,
            177_928,
            &[
                holds(Belief),
                holds(Damage),
                holds(TokenOrder),
                holds(ReleaseSafety),
                holds(Orphan),
                holds(WakesEnd),
                holds(HollowWin),
                reached(AllWin),
                reached(Confirm),
            ],
        ),
    ]
}
