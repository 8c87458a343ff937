//! Wrong edits of the protocol: each must be caught, with its shortest trace.

use super::{
    FENCED, TERSE, TOKENS, drift, faults, holds, long, numbers, reached, reached_in, scenario, violated,
};
use crate::scenario::Scenario;
use crate::world::Property::{
    AllWin, Belief, FalseAlarm, HollowWin, KeyLeftBehind, NobodyWins, Orphan, ReleaseSafety, TokenOrder,
    WakesEnd,
};
use crate::world::{Economy, Faults, Hint, Job, Owners, Settings, Time, Wiring, Work};

const CLASSIC: Settings = Settings::CLASSIC;
const NONE: Faults = Faults::NONE;

/// Two of the three addresses are one node's.
const CLASSIC_TWICE: Settings = Settings { wiring: Wiring::OneTwice, ..CLASSIC };

/// With this wrong edit in force.
fn with(mutant: &'static str, scenario: Scenario) -> Scenario {
    Scenario { mutant: Some(mutant), ..scenario }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    [classic(), extensions(), tokens(), harmless()].concat()
}

/// Edits that change nothing that matters: what the checker must not complain about.
fn harmless() -> Vec<Scenario> {
    vec![
        with(
            "never-confirms",
            scenario(
                "h-never-confirms",
                "grants that differ are never brought together: attempts only fail more often",
                Settings { hint: Hint::None, abandon: true, ..TOKENS },
                9050,
                &[holds(TokenOrder), reached(AllWin)],
            ),
        ),
        with(
            "plain-delete",
            scenario(
                "h-plain-delete-tokens",
                "a release that deletes any key ends exclusion, but for tokens it is one more way in which keys end",
                Settings { economy: Economy::Leave, hint: Hint::None, release: true, ..TOKENS },
                559_708,
                &[holds(TokenOrder), reached(AllWin)],
            ),
        ),
    ]
}

fn classic() -> Vec<Scenario> {
    let late = Faults { loss: 1, ..NONE };
    let pairs = Settings { work: Work::Nothing, ..CLASSIC };
    let retried = Settings {
        attempts: 2,
        time: Time::Timed { ttl: 2, margin: 0, fast: 0, slow: 0 },
        abandon: true,
        ..faults(pairs, late)
    };
    vec![
        with(
            "plain-delete",
            scenario(
                "s12-plain-delete",
                "a release deletes whatever key is there",
                CLASSIC,
                0,
                &[violated(ReleaseSafety, 7)],
            ),
        ),
        scenario(
            "s12-plain-delete-repaired",
            "compare and delete: a release finds another's key, and leaves it",
            CLASSIC,
            20_510,
            &[holds(ReleaseSafety), holds(Belief)],
        ),
        with(
            "set-overwrites",
            scenario(
                "s12-set-overwrites",
                "a grant overwrites another's key",
                CLASSIC,
                0,
                &[violated(ReleaseSafety, 4), violated(Belief, 10)],
            ),
        ),
        long(scenario(
            "s13-owner-reused",
            "one owner value for all attempts of a client: a late release frees the next attempt's key",
            Settings { owners: Owners::PerClient, ..retried },
            0,
            &[violated(Belief, 13)],
        )),
        scenario(
            "s13-owner-reused-one-node",
            "the same on one node",
            Settings { nodes: 1, owners: Owners::PerClient, ..retried },
            0,
            &[violated(Belief, 9)],
        ),
        scenario(
            "s13-owner-reused-repaired",
            "a fresh owner value for each attempt, on one node: the late release finds another's key, and leaves it",
            Settings { nodes: 1, ..retried },
            22_686,
            &[holds(Belief), holds(ReleaseSafety)],
        ),
        with(
            "validity-from-end",
            scenario(
                "s14-validity-from-end",
                "validity counted from the end of the acquisition",
                CLASSIC,
                0,
                &[violated(Belief, 13)],
            ),
        ),
        scenario(
            "s14-validity-from-end-repaired",
            "validity counted from the beginning of the attempt",
            CLASSIC,
            20_510,
            &[holds(Belief), holds(HollowWin)],
        ),
        with(
            "no-drift",
            scenario(
                "s15-no-margin",
                "no drift taken off, and a node's clock runs fast",
                drift(CLASSIC, 1, 1, 0),
                0,
                &[violated(Belief, 12)],
            ),
        ),
        with(
            "no-elapsed-check",
            scenario(
                "s15-no-elapsed-check",
                "whether any validity is left is not looked at",
                CLASSIC,
                0,
                &[violated(HollowWin, 7)],
            ),
        ),
        with(
            "fast-path-minority",
            scenario("s16-minority", "quorum off by one", CLASSIC, 0, &[violated(Belief, 6)]),
        ),
        with(
            "majority-of-answers",
            scenario(
                "s16-majority-of-answers",
                "a majority of the answers instead of all nodes",
                CLASSIC,
                0,
                &[violated(Belief, 6)],
            ),
        ),
        with(
            "unknown-is-grant",
            scenario(
                "s16-unknown-is-grant",
                "no answer counts as a grant",
                faults(CLASSIC, late),
                0,
                &[violated(Belief, 9)],
            ),
        ),
        with(
            "fast-path-minority",
            scenario(
                "s16-half",
                "half of an even number of nodes",
                Settings { nodes: 4, ..pairs },
                0,
                &[violated(Belief, 10)],
            ),
        ),
        scenario(
            "s16-one-node-twice",
            "two addresses of one node counted as two: its key is refused the second time, so it stays safe",
            CLASSIC_TWICE.plain(),
            105_446,
            &[holds(Belief), reached(AllWin), reached(NobodyWins)],
        ),
        scenario(
            "s16-two-lists",
            "two clients with different node lists: majorities that do not meet",
            Settings { nodes: 5, wiring: Wiring::OwnLists, ..pairs }.plain(),
            0,
            &[violated(Belief, 10)],
        ),
        scenario(
            "s18-two-steps",
            "key first, TTL in a second step: a crash between leaves the key for ever",
            Settings { two_steps: true, ..faults(CLASSIC, Faults { crash: 1, ..NONE }) },
            0,
            &[violated(Orphan, 3)],
        ),
        scenario(
            "s18-two-steps-repaired",
            "key and TTL in one step: a crash leaves the key for a TTL and no longer",
            faults(CLASSIC, Faults { crash: 1, ..NONE }),
            31_872,
            &[holds(Orphan), holds(Belief)],
        ),
        with(
            "release-only-signed",
            scenario(
                "l3-release-only-signed",
                "a failed attempt releases only where it knows of a key",
                super::liveness::TIDY,
                0,
                &[reached_in(KeyLeftBehind, 7)],
            ),
        ),
    ]
}

fn extensions() -> Vec<Scenario> {
    let once =
        faults(Settings { work: Work::Nothing, ..drift(CLASSIC, 0, 0, 0) }, Faults { extend: 1, ..NONE });
    let edit =
        |mutant, name, shows, steps| with(mutant, scenario(name, shows, once, 0, &[violated(Belief, steps)]));
    vec![
        edit("extend-minority", "s17-minority", "an extension accepted from a minority", 16),
        edit(
            "extend-from-answer",
            "s17-from-answer",
            "validity after an extension counted from the answer",
            18,
        ),
        edit("extend-any-key", "s17-any-key", "an extension that does not look at who signed the key", 20),
        with(
            "extend-creates",
            scenario(
                "s17-creates",
                "an extension that creates a missing key",
                once,
                0,
                &[violated(ReleaseSafety, 10)],
            ),
        ),
        scenario(
            "s17-repaired",
            "an extension with a quorum, counted from its beginning, that never creates a key",
            once,
            237_257,
            &[holds(Belief), holds(ReleaseSafety), holds(WakesEnd), reached(AllWin)],
        ),
    ]
}

fn tokens() -> Vec<Scenario> {
    let late = faults(TOKENS, Faults { loss: 1, ..NONE });
    let order = |mutant, name, shows, settings, steps| {
        with(mutant, scenario(name, shows, settings, 0, &[violated(TokenOrder, steps)]))
    };
    let no_hint = Settings { hint: Hint::None, ..TOKENS };
    let healed = |wipe| Settings {
        operators: &[Job::Readmit { draw: 1 }],
        ..faults(no_hint, Faults { wipe, ..NONE })
    };
    let again = |operators, all| Settings {
        operators,
        overlap: true,
        clients: 1,
        attempts: 2,
        hint: Hint::None,
        ..faults(TERSE, all)
    };
    vec![
        order(
            "no-write-back",
            "f3-no-write-back",
            "the largest of a quorum of grants, not written back: tokens repeat",
            no_hint,
            12,
        ),
        order(
            "no-write-back",
            "f3-no-write-back-behind",
            "the same from 3,0,0: tokens fall back",
            numbers(no_hint, [3, 0, 0, 0, 0]),
            11,
        ),
        order("fast-path-minority", "m-fast-path-minority", "one equal answer too few", no_hint, 6),
        order("confirm-minority", "m-confirm-minority", "a confirm with one answer too few", no_hint, 13),
        order(
            "numbers-may-differ",
            "m-numbers-may-differ",
            "numbers that differ by one count as equal",
            no_hint,
            11,
        ),
        order("larger-confirms", "m-larger-confirms", "a larger number counts as a confirmation", late, 18),
        order(
            "grant-does-not-raise",
            "m-grant-does-not-raise",
            "a grant does not raise the number",
            no_hint,
            11,
        ),
        order(
            "hint-assigned",
            "m-hint-assigned",
            "a hint is taken even if it is smaller",
            Settings { hint: Hint::Any(1), ..TOKENS },
            11,
        ),
        order(
            "hint-not-above",
            "m-hint-not-above",
            "a hint equal to the number counts as a raise",
            Settings { hint: Hint::Any(1), ..TOKENS },
            11,
        ),
        order(
            "confirm-any-key",
            "m-confirm-any-key",
            "a confirm does not look at who signed the key",
            no_hint,
            16,
        ),
        order(
            "confirm-absent-key",
            "m-confirm-absent-key",
            "a confirm takes an absent key for its own",
            no_hint,
            18,
        ),
        order("confirm-lowers", "m-confirm-lowers", "a confirm lowers the number", late, 20),
        order(
            "confirm-does-not-raise",
            "m-confirm-does-not-raise",
            "a confirm answers but does not raise",
            no_hint,
            17,
        ),
        order("number-ends-with-key", "m-number-ends-with-key", "the number ends with the key", no_hint, 11),
        order(
            "smaller-confirms",
            "m-smaller-confirms",
            "an answer to an older, smaller number still counts after the client moved to a larger one",
            no_hint,
            16,
        ),
        long(order(
            "epoch-ignored",
            "m-epoch-ignored",
            "stands of different epochs count as equal while a wiped node is brought back",
            healed(1),
            19,
        )),
        long(order(
            "epoch-ignored",
            "m-epoch-ignored-in-confirm",
            "the same from 2,0,0, in the confirm round",
            numbers(healed(1), [2, 0, 0, 0, 0]),
            21,
        )),
        long(order(
            "readmit-minority",
            "m-readmit-minority",
            "a re-admission is content with the numbers of one intact node",
            healed(1),
            18,
        )),
        long(order(
            "readmit-keeps-epoch",
            "m-readmit-keeps-epoch",
            "a re-admission reads the others' numbers but begins no new epoch",
            healed(1),
            19,
        )),
        long(order(
            "admit-unclaimed",
            "m-admit-unclaimed",
            "a re-admission claims nothing and admits whichever node is empty after the reading",
            healed(2),
            20,
        )),
        long(order(
            "admit-unclaimed",
            "m-claim-in-memory-resent",
            "the claim is in the healer's memory only, and an admission arrives twice",
            again(&[Job::Readmit { draw: 1 }], Faults { wipe: 2, operator_repeat: 1, ..NONE }),
            19,
        )),
        long(order(
            "admit-unclaimed",
            "m-claim-in-memory-two-runs",
            "the claim is in the healer's memory only, and two runs are at work",
            again(&[Job::Readmit { draw: 1 }, Job::Readmit { draw: 2 }], Faults { wipe: 2, ..NONE }),
            19,
        )),
        order(
            "empty-votes",
            "m-empty-votes",
            "an empty node votes",
            faults(no_hint, Faults { wipe: 1, ..NONE }),
            11,
        ),
        with(
            "look-once",
            scenario(
                "m-look-once",
                "a look that another client's first start has overtaken is believed: new nodes are said to have lost their data",
                Settings {
                    operators: &[Job::Start { floor: 1 }, Job::Start { floor: 1 }],
                    overlap: true,
                    look_first: true,
                    ..no_hint
                },
                0,
                &[violated(FalseAlarm, 13)],
            ),
        ),
        with(
            "plain-delete",
            scenario(
                "m-plain-delete-fenced",
                "a release deletes whatever key is there, in the fenced protocol",
                FENCED,
                0,
                &[violated(ReleaseSafety, 7)],
            ),
        ),
    ]
}
