//! Variants of the token protocol, with no clock at all.

use super::{TOKENS, faults, holds, long, numbers, reached, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{AllWin, Confirm, TokenOrder};
use crate::world::{Faults, Hint, Rejoin, Settings, UNLIMITED};

const NONE: Faults = Faults::NONE;

pub(super) fn scenarios() -> Vec<Scenario> {
    let apart = [2, 0, 0, 0, 0];
    let steps = [3, 1, 0, 0, 0];
    let no_hint = Settings { hint: Hint::None, ..TOKENS };
    let again = Settings { attempts: 2, abandon: true, release: true, ..TOKENS };
    let wipe = Faults { wipe: 1, ..NONE };
    let five = Settings { nodes: 5, ..TOKENS };
    vec![
        scenario(
            "v2-numbers-apart",
            "numbers start apart: one confirm round brings them together",
            numbers(TOKENS, apart),
            1,
            &[holds(TokenOrder), reached(AllWin), reached(Confirm)],
        ),
        scenario(
            "v2-numbers-all-apart",
            "the same from 3,1,0",
            numbers(TOKENS, steps),
            1,
            &[holds(TokenOrder), reached(AllWin), reached(Confirm)],
        ),
        long(scenario(
            "v2-two-attempts",
            "two clients, two attempts each, to the end",
            Settings { hint: Hint::None, ..again },
            1,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        long(scenario(
            "v2-three-clients",
            "three clients",
            Settings { clients: 3, ..no_hint },
            1,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        long(scenario("v2-five-nodes", "five nodes", five, 1, &[holds(TokenOrder), reached(AllWin)])),
        scenario(
            "v2-four-nodes",
            "an even number of nodes: the quorum is three of four",
            Settings { nodes: 4, ..TOKENS },
            1,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "v2-two-nodes",
            "two nodes: the quorum is both",
            Settings { nodes: 2, abandon: true, ..numbers(TOKENS, apart) },
            5924,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "v3-any-hint",
            "hints are advice: any value is safe",
            Settings { hint: Hint::Any(3), ..numbers(TOKENS, apart) },
            1,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "v4a-wiped-node-votes",
            "a wiped node votes as if new, from 2,0,0",
            Settings { rejoin: Rejoin::AsIfNew, ..faults(numbers(TOKENS, apart), wipe) },
            0,
            &[violated(TokenOrder, 13)],
        ),
        scenario(
            "v4b-empty-node-never-votes",
            "a wiped node stays empty; two wipes",
            faults(TOKENS, Faults { wipe: 2, ..NONE }),
            1,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "v6-lost-tail",
            "a node loses its last writes but keeps its epoch: unsafe, and nobody can see it",
            faults(TOKENS, Faults { rollback: 1, ..NONE }),
            0,
            &[violated(TokenOrder, 11)],
        ),
        scenario(
            "v5a-automatic-start",
            "two start fresh nodes at once, from different numbers, while clients ask already",
            Settings { starters: Some([0, 2]), abandon: false, hint: Hint::None, ..TOKENS },
            1,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        scenario(
            "v5a-automatic-start-late",
            "a start decided on before a grant arrives at a node that was wiped after it: a token repeats",
            Settings { starters: Some([0, 0]), abandon: false, hint: Hint::None, ..faults(TOKENS, wipe) },
            0,
            &[violated(TokenOrder, 1)],
        ),
        long(scenario(
            "v2-lossy-numbers-apart",
            "any number of losses and late arrivals, numbers apart",
            faults(numbers(TOKENS, apart), Faults { loss: UNLIMITED, ..NONE }),
            1,
            &[holds(TokenOrder), reached(AllWin)],
        )),
    ]
}
