//! Beyond the exhaustive bounds: five nodes, three clients, three attempts each.

use redfence_model::walk::walk;
use redfence_model::world::Property::{Belief, Damage, ReleaseSafety, TokenOrder, WakesEnd};
use redfence_model::world::{Economy, Faults, Job, Property, Settings, Time, World};

const LARGE: Settings = Settings {
    nodes: 5,
    clients: 3,
    attempts: 3,
    economy: Economy::Full,
    release_rounds: 2,
    ..Settings::BASIC
};

const TIMED: Settings =
    Settings { time: Time::Timed { ttl: 8, margin: 2, fast: 1, slow: 1 }, abandon: false, ..LARGE };

fn safe(settings: Settings, properties: &[Property]) {
    let seen = walk(&World::<5, 3>::new(settings), 0..3_000, 400, properties);
    println!("{seen:?}");
    assert_eq!(seen.wrong, None, "a seed to walk again");
    assert!(seen.contended > 100, "two clients often win in one walk: {seen:?}");
}

#[test]
fn tokens_and_data_are_safe_without_any_clock() {
    let faults = Faults { loss: 12, crash: 1, wipe: 1, ..Faults::NONE };
    safe(Settings { faults, ..LARGE }, &[TokenOrder, Damage, ReleaseSafety]);
}

#[test]
fn tokens_are_safe_while_nodes_lose_their_data_and_are_brought_back() {
    let faults = Faults { loss: 6, wipe: 3, operator_crash: 1, neighbour: 2, ..Faults::NONE };
    let operators = &[Job::Readmit { draw: 1 }, Job::Readmit { draw: 3 }, Job::Readmit { draw: 2 }];
    safe(Settings { faults, operators, ..LARGE }, &[TokenOrder, Damage, ReleaseSafety]);
}

#[test]
fn exclusion_holds_with_clocks_within_their_drift() {
    let faults = Faults { loss: 6, extend: 4, crash: 1, ..Faults::NONE };
    safe(Settings { faults, ..TIMED }, &[Belief, TokenOrder, Damage, ReleaseSafety, WakesEnd]);
}

#[test]
fn data_is_safe_when_clocks_are_not() {
    let faults =
        Faults { loss: 6, jump: 2, pause: 2, stop: 2, delay: 2, evict: 1, extend: 2, ..Faults::NONE };
    safe(Settings { faults, ..TIMED }, &[TokenOrder, Damage, ReleaseSafety]);
}

#[test]
fn walks_find_what_is_easy_to_find() {
    let faults = Faults { jump: 2, ..Faults::NONE };
    let seen = walk(&World::<5, 3>::new(Settings { faults, ..TIMED }), 0..3_000, 400, &[Belief]);
    let wrong = seen.wrong.expect("clock jumps make two believers");
    let again =
        walk(&World::<5, 3>::new(Settings { faults, ..TIMED }), wrong.seed..wrong.seed + 1, 400, &[Belief]);
    assert_eq!(again.wrong, Some(wrong), "a seed is one walk for ever");
}
