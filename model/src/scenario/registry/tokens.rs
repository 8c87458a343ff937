//! Variants of the token protocol, with no clock at all.

use super::{TERSE, faults, holds, long, numbers, open, reached, scenario, violated};
use crate::scenario::Scenario;
use crate::world::Property::{AllWin, Confirm, FalseAlarm, SecondWin, Startable, TakeoverOrder, TokenOrder};
use crate::world::{Faults, Hint, Job, Owners, Rejoin, Settings, UNLIMITED};

const NONE: Faults = Faults::NONE;
const APART: [u8; 5] = [2, 0, 0, 0, 0];
const STEPS: [u8; 5] = [3, 1, 0, 0, 0];
const NO_HINT: Settings = Settings { hint: Hint::None, ..TERSE };

pub(super) fn scenarios() -> Vec<Scenario> {
    [
        numbers_and_nodes(),
        hints_and_repeats(),
        takeovers(),
        lost_data(),
        starts(),
        readmissions(),
        sent_twice(),
    ]
    .concat()
}

fn numbers_and_nodes() -> Vec<Scenario> {
    let three = Settings { clients: 3, ..NO_HINT };
    let five = Settings { nodes: 5, ..NO_HINT };
    let again = Settings { attempts: 2, ..NO_HINT };
    let safe = |name, states, shows, settings| {
        scenario(
            name,
            shows,
            settings,
            states,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin), reached(Confirm)],
        )
    };
    vec![
        safe(
            "v2-numbers-apart",
            213_733,
            "numbers start apart: one confirm round brings them together",
            numbers(TERSE, APART),
        ),
        long(safe("v2-numbers-all-apart", 552_363, "the same from 3,1,0", numbers(TERSE, STEPS))),
        open(safe("v2-three-clients", 0, "three clients", three)),
        open(safe("v2-three-clients-apart", 0, "three clients from 2,0,0", numbers(three, APART))),
        open(safe("v2-three-clients-all-apart", 0, "three clients from 3,1,0", numbers(three, STEPS))),
        open(safe("v2-two-attempts", 0, "two clients, two attempts each, to the end", again)),
        open(safe("v2-two-attempts-apart", 0, "the same from 2,0,0", numbers(again, APART))),
        open(safe("v2-five-nodes", 0, "five nodes", five)),
        open(safe("v2-five-nodes-apart", 0, "five nodes from 2,0,0,0,0", numbers(five, APART))),
        open(safe("v2-five-nodes-all-apart", 0, "five nodes from 3,1,0,0,0", numbers(five, STEPS))),
        long(safe(
            "v2-four-nodes",
            2_048_783,
            "an even number of nodes: the quorum is three of four",
            Settings { nodes: 4, ..NO_HINT },
        )),
        safe(
            "v2-two-nodes",
            563,
            "two nodes: the quorum is both",
            Settings { nodes: 2, abandon: true, ..numbers(TERSE, APART) },
        ),
    ]
}

fn hints_and_repeats() -> Vec<Scenario> {
    vec![
        long(scenario(
            "v3-any-hint",
            "hints are advice: any value is safe",
            Settings { hint: Hint::Any(3), ..numbers(TERSE, APART) },
            573_486,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        )),
        scenario(
            "v2-repeated-request",
            "a grant or a confirm that is sent twice and done twice, at any later moment",
            faults(NO_HINT, Faults { repeat: 1, ..NONE }),
            352_885,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        ),
        open(scenario(
            "v2-repeated-requests-apart",
            "two of them, numbers apart",
            faults(numbers(NO_HINT, APART), Faults { repeat: 2, ..NONE }),
            0,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        )),
        long(scenario(
            "v2-lossy-numbers-apart",
            "any number of losses and late arrivals, numbers apart",
            faults(numbers(NO_HINT, APART), Faults { loss: UNLIMITED, ..NONE }),
            6_141_966,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        )),
    ]
}

/// The order of tokens by who took over from whom.
fn takeovers() -> Vec<Scenario> {
    let watched = Settings { takeovers: true, ..NO_HINT };
    let again = Settings { attempts: 2, ..watched };
    let safe = |name, states, shows, settings| {
        scenario(name, shows, settings, states, &[holds(TakeoverOrder), reached(AllWin), reached(SecondWin)])
    };
    vec![
        safe(
            "v7-takeover",
            8_694,
            "who took over at every node that two share has the larger token",
            watched,
        ),
        safe("v7-takeover-apart", 214_872, "the same from 2,0,0", numbers(watched, APART)),
        safe("v7-takeover-two-attempts", 215, "two attempts of one client", Settings { clients: 1, ..again }),
        scenario(
            "v7-owner-reused",
            "one owner value for all attempts of a client: its new attempt wins with its old key",
            Settings { owners: Owners::PerClient, ..again },
            0,
            &[violated(TakeoverOrder, 11)],
        ),
    ]
}

/// What re-admission rests on: each request is sent once, and runs follow one another.
fn sent_twice() -> Vec<Scenario> {
    let lone = Settings { clients: 1, attempts: 2, ..NO_HINT };
    let one: &'static [Job] = &[Job::Readmit { draw: 1 }];
    let alike: &'static [Job] = &[Job::Readmit { draw: 1 }; 2];
    let wipes = Faults { wipe: 2, ..NONE };
    vec![
        scenario(
            "v4c-readmission-late-requests",
            "the operator gives up waiting for a node, and what it asked arrives at any later moment",
            Settings { operators: one, ..faults(lone, Faults { operator_loss: 1, ..wipes }) },
            407_183,
            &[holds(TokenOrder), reached(SecondWin)],
        ),
        long(scenario(
            "v4c-claim-twice",
            "claim and admission arrive a second time, at a node that was admitted, granted and was wiped once more",
            Settings { operators: one, ..faults(lone, Faults { operator_repeat: 2, ..wipes }) },
            0,
            &[violated(TokenOrder, 21)],
        )),
        open(scenario(
            "v4c-two-runs-one-epoch",
            "two runs at the same time that draw one epoch: a node rises to it once, so one of them stops",
            Settings { operators: alike, overlap: true, ..faults(lone, wipes) },
            0,
            &[holds(TokenOrder), reached(SecondWin)],
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
            &[violated(TokenOrder, 11)],
        ),
        scenario(
            "v4b-empty-node-never-votes",
            "a wiped node stays empty",
            faults(NO_HINT, wipe),
            51_726,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        ),
        scenario(
            "v4b-two-empty-nodes",
            "the same with two wipes",
            faults(NO_HINT, Faults { wipe: 2, ..NONE }),
            168_872,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        ),
        scenario(
            "v6-lost-tail",
            "a node loses its last writes but keeps its epoch: unsafe, and nobody can see it",
            faults(NO_HINT, Faults { rollback: 1, ..NONE }),
            0,
            &[violated(TokenOrder, 9)],
        ),
    ]
}

fn starts() -> Vec<Scenario> {
    let with = |operators| Settings { operators, overlap: true, ..NO_HINT };
    let lone = |settings| Settings { clients: 1, attempts: 2, ..settings };
    let pair: &'static [Job] = &[Job::Start { floor: 1 }, Job::Start { floor: 1 }];
    let trio: &'static [Job] = &[Job::Start { floor: 1 }; 3];
    let failing = Faults { operator_crash: 1, operator_loss: 1, ..NONE };
    let looking = faults(Settings { look_first: true, ..with(pair) }, failing);
    vec![
        scenario(
            "v5a-automatic-start",
            "two start fresh nodes at once, from different numbers, while a client asks already",
            lone(with(&[Job::Start { floor: 0 }, Job::Start { floor: 2 }])),
            70_772,
            &[holds(TokenOrder), reached(SecondWin)],
        ),
        scenario(
            "v5a-automatic-start-two-clients",
            "one starts fresh nodes, may die half-way, and two clients ask already",
            faults(with(&[Job::Start { floor: 1 }]), Faults { operator_crash: 1, ..NONE }),
            8_852,
            &[holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        ),
        long(scenario(
            "v5a-automatic-start-late",
            "a start decided on before a grant arrives at a node that was wiped after it: a token repeats",
            faults(with(&[Job::Start { floor: 0 }, Job::Start { floor: 0 }]), Faults { wipe: 1, ..NONE }),
            0,
            &[violated(TokenOrder, 21)],
        )),
        scenario(
            "v5b-look-first",
            "each client looks before its first attempt; one may die half-way through the first start, one message may be late",
            looking,
            120_776,
            &[holds(Startable), holds(FalseAlarm), holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        ),
        open(scenario(
            "v5b-look-first-three-clients",
            "the same with three",
            Settings { clients: 3, operators: trio, ..looking },
            1,
            &[holds(Startable), holds(FalseAlarm), holds(TokenOrder), reached(AllWin), reached(SecondWin)],
        )),
        scenario(
            "v5b-attempt-unlooked",
            "without that look: an attempt meets a first start that died half-way, and the rest of the nodes can never be started",
            Settings { look_first: false, ..looking },
            0,
            &[violated(Startable, 7)],
        ),
        scenario(
            "v5-two-inits",
            "two operators start the nodes at the same time into different epochs",
            lone(with(&[Job::Init { epoch: 2, floor: 0 }, Job::Init { epoch: 3, floor: 1 }])),
            68_300,
            &[holds(TokenOrder), reached(SecondWin)],
        ),
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
        scenario(name, shows, settings, states, &[holds(TokenOrder), reached(AllWin), reached(SecondWin)])
    };
    vec![
        safe(
            "v4c-readmission-one-client",
            30_053,
            "a wiped node is brought back into a new epoch, above every number, between and during two attempts of one client",
            lone(healed(one, 1)),
        ),
        long(safe(
            "v4c-readmission-lossy-one-client",
            714_052,
            "the same when two answers or requests are lost or late",
            lone(Settings { faults: Faults { wipe: 1, loss: 2, ..NONE }, ..healed(one, 1) }),
        )),
        safe(
            "v4c-readmission-other-resource-one-client",
            566_846,
            "the same while another resource's numbers rise: resources meet in the node record alone",
            lone(Settings { faults: Faults { wipe: 1, neighbour: 2, ..NONE }, ..healed(one, 1) }),
        ),
        long(safe(
            "v4c-two-readmissions-one-client",
            3_014_382,
            "two wipes; the first run may die half-way",
            lone(dying(rising)),
        )),
        long(safe(
            "v4c-two-readmissions-falling-one-client",
            3_014_660,
            "the same, the second run draws the smaller number",
            lone(dying(falling)),
        )),
        long(safe(
            "v4c-overlapping-readmissions-one-client",
            25_410_094,
            "two runs at the same time on three nodes: within these bounds no harm",
            lone(Settings { overlap: true, ..healed(rising, 2) }),
        )),
        long(safe(
            "v4c-readmission",
            7_144_530,
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
