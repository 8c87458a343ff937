//! Variants of the token protocol, with no clock at all.

use super::{TOKENS, faults, holds, long, numbers, open, reached, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{AllWin, Confirm, TokenOrder, Win};
use crate::world::{Faults, Hint, Job, Rejoin, Settings, UNLIMITED};

const NONE: Faults = Faults::NONE;
const APART: [u8; 5] = [2, 0, 0, 0, 0];
const STEPS: [u8; 5] = [3, 1, 0, 0, 0];
const NO_HINT: Settings = Settings { hint: Hint::None, ..TOKENS };

pub(super) fn scenarios() -> Vec<Scenario> {
    [numbers_and_nodes(), hints_and_repeats(), lost_data(), starts(), readmissions()].concat()
}

fn numbers_and_nodes() -> Vec<Scenario> {
    let three = Settings { clients: 3, ..NO_HINT };
    let five = Settings { nodes: 5, ..NO_HINT };
    let again = Settings { attempts: 2, ..NO_HINT };
    let safe = |name, states, shows, settings| {
        scenario(name, shows, settings, states, &[holds(TokenOrder), reached(AllWin), reached(Confirm)])
    };
    vec![
        long(safe(
            "v2-numbers-apart",
            2_642_751,
            "numbers start apart: one confirm round brings them together",
            numbers(TOKENS, APART),
        )),
        long(safe("v2-numbers-all-apart", 7_224_643, "the same from 3,1,0", numbers(TOKENS, STEPS))),
        open(safe("v2-three-clients", 0, "three clients", three)),
        open(safe("v2-three-clients-apart", 0, "three clients from 2,0,0", numbers(three, APART))),
        open(safe("v2-three-clients-all-apart", 0, "three clients from 3,1,0", numbers(three, STEPS))),
        open(safe("v2-two-attempts", 0, "two clients, two attempts each, to the end", again)),
        open(safe("v2-two-attempts-apart", 0, "the same from 2,0,0", numbers(again, APART))),
        open(safe("v2-five-nodes", 0, "five nodes", five)),
        open(safe("v2-five-nodes-apart", 0, "five nodes from 2,0,0,0,0", numbers(five, APART))),
        open(safe("v2-five-nodes-all-apart", 0, "five nodes from 3,1,0,0,0", numbers(five, STEPS))),
        open(safe(
            "v2-four-nodes",
            0,
            "an even number of nodes: the quorum is three of four",
            Settings { nodes: 4, ..NO_HINT },
        )),
        safe(
            "v2-two-nodes",
            5924,
            "two nodes: the quorum is both",
            Settings { nodes: 2, abandon: true, ..numbers(TOKENS, APART) },
        ),
    ]
}

fn hints_and_repeats() -> Vec<Scenario> {
    vec![
        long(scenario(
            "v3-any-hint",
            "hints are advice: any value is safe",
            Settings { hint: Hint::Any(3), ..numbers(TOKENS, APART) },
            10_329_776,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        long(scenario(
            "v2-repeated-request",
            "a grant or a confirm that is sent twice and done twice, at any later moment",
            faults(NO_HINT, Faults { repeat: 1, ..NONE }),
            4_938_223,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        open(scenario(
            "v2-repeated-requests-apart",
            "two of them, numbers apart",
            faults(numbers(NO_HINT, APART), Faults { repeat: 2, ..NONE }),
            0,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        open(scenario(
            "v2-lossy-numbers-apart",
            "any number of losses and late arrivals, numbers apart",
            faults(numbers(NO_HINT, APART), Faults { loss: UNLIMITED, ..NONE }),
            0,
            &[holds(TokenOrder), reached(AllWin)],
        )),
    ]
}

fn lost_data() -> Vec<Scenario> {
    let wipe = Faults { wipe: 1, ..NONE };
    vec![
        scenario(
            "v4a-wiped-node-votes",
            "a wiped node votes as if new, from 2,0,0",
            Settings { rejoin: Rejoin::AsIfNew, ..faults(numbers(NO_HINT, APART), wipe) },
            0,
            &[violated(TokenOrder, 13)],
        ),
        scenario(
            "v4b-empty-node-never-votes",
            "a wiped node stays empty",
            faults(NO_HINT, wipe),
            638_993,
            &[holds(TokenOrder), reached(AllWin)],
        ),
        long(scenario(
            "v4b-two-empty-nodes",
            "the same with two wipes",
            faults(NO_HINT, Faults { wipe: 2, ..NONE }),
            1_606_302,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        scenario(
            "v6-lost-tail",
            "a node loses its last writes but keeps its epoch: unsafe, and nobody can see it",
            faults(NO_HINT, Faults { rollback: 1, ..NONE }),
            0,
            &[violated(TokenOrder, 11)],
        ),
    ]
}

fn starts() -> Vec<Scenario> {
    let with = |operators| Settings { operators, overlap: true, ..NO_HINT };
    vec![
        scenario(
            "v5a-automatic-start",
            "two start fresh nodes at once, from different numbers, while a client asks already",
            Settings { clients: 1, ..with(&[Job::Start { floor: 0 }, Job::Start { floor: 2 }]) },
            22_848,
            &[holds(TokenOrder), reached(Win)],
        ),
        long(scenario(
            "v5a-automatic-start-two-clients",
            "one starts fresh nodes, may die half-way, and two clients ask already",
            faults(with(&[Job::Start { floor: 1 }]), Faults { operator_crash: 1, ..NONE }),
            325_397,
            &[holds(TokenOrder), reached(AllWin)],
        )),
        long(scenario(
            "v5a-automatic-start-late",
            "a start decided on before a grant arrives at a node that was wiped after it: a token repeats",
            faults(with(&[Job::Start { floor: 0 }, Job::Start { floor: 0 }]), Faults { wipe: 1, ..NONE }),
            0,
            &[violated(TokenOrder, 23)],
        )),
        long(scenario(
            "v5-two-inits",
            "two operators start the nodes at the same time into different epochs",
            Settings {
                clients: 1,
                attempts: 2,
                ..with(&[Job::Init { epoch: 2, floor: 0 }, Job::Init { epoch: 3, floor: 1 }])
            },
            543_214,
            &[holds(TokenOrder), reached(Win)],
        )),
    ]
}

fn readmissions() -> Vec<Scenario> {
    let one: &'static [Job] = &[Job::Readmit { draw: 1 }];
    let rising: &'static [Job] = &[Job::Readmit { draw: 1 }, Job::Readmit { draw: 2 }];
    let falling: &'static [Job] = &[Job::Readmit { draw: 2 }, Job::Readmit { draw: 1 }];
    let healed = |operators, wipe| Settings { operators, ..faults(NO_HINT, Faults { wipe, ..NONE }) };
    let lone = |settings| Settings { clients: 1, attempts: 2, ..settings };
    let dying =
        |operators| Settings { operators, ..faults(NO_HINT, Faults { wipe: 2, operator_crash: 1, ..NONE }) };
    let safe = |name, states, shows, settings| {
        scenario(name, shows, settings, states, &[holds(TokenOrder), reached(AllWin)])
    };
    vec![
        safe(
            "v4c-readmission-one-client",
            25_422,
            "a wiped node is brought back into a new epoch, above every number, between and during two attempts of one client",
            lone(healed(one, 1)),
        ),
        long(safe(
            "v4c-readmission-lossy-one-client",
            2_795_347,
            "the same when two answers or requests are lost or late",
            lone(Settings { faults: Faults { wipe: 1, loss: 2, ..NONE }, ..healed(one, 1) }),
        )),
        safe(
            "v4c-readmission-other-resource-one-client",
            515_695,
            "the same while another resource's numbers rise: resources meet in the node record alone",
            lone(Settings { faults: Faults { wipe: 1, neighbour: 2, ..NONE }, ..healed(one, 1) }),
        ),
        long(safe(
            "v4c-two-readmissions-one-client",
            2_588_564,
            "two wipes; the first run may die half-way",
            lone(dying(rising)),
        )),
        long(safe(
            "v4c-two-readmissions-falling-one-client",
            2_588_564,
            "the same, the second run draws the smaller number",
            lone(dying(falling)),
        )),
        long(safe(
            "v4c-overlapping-readmissions-one-client",
            19_516_829,
            "two runs at the same time on three nodes: within these bounds no harm",
            lone(Settings { overlap: true, ..healed(rising, 2) }),
        )),
        open(safe(
            "v4c-readmission",
            0,
            "a wiped node is brought back into a new epoch, above every number",
            healed(one, 1),
        )),
        open(safe("v4c-readmission-apart", 0, "the same from 2,0,0", numbers(healed(one, 1), APART))),
        open(safe(
            "v4c-readmission-other-resource",
            0,
            "the same while another resource's numbers rise: resources meet in the node record alone",
            Settings { faults: Faults { wipe: 1, neighbour: 1, ..NONE }, ..healed(one, 1) },
        )),
        open(safe("v4c-two-readmissions", 0, "two wipes; the first run may die half-way", dying(rising))),
        open(safe(
            "v4c-two-readmissions-falling",
            0,
            "the same, the second run draws the smaller number",
            dying(falling),
        )),
        open(safe(
            "v4c-overlapping-readmissions",
            0,
            "two runs at the same time on three nodes: within these bounds no harm",
            Settings { overlap: true, ..healed(rising, 2) },
        )),
    ]
}
