//! The order of tokens with clients that do anything: verdicts, exact numbers of states, exact lengths of shortest traces.
//!
//! Long searches: `cargo test -p redfence-model --test general -- --ignored --test-threads 1`.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use redfence_model::check::{Control, Search, System, search};
use redfence_model::general::{Action, Clock, General, Property, Rejoin, Rule, Settings, Twice};
use redfence_model::mutants;
use redfence_model::world::Job;

const ONE_RUN: &[Job] = &[Job::Readmit { draw: 1 }];
const RISING: &[Job] = &[Job::Readmit { draw: 1 }, Job::Readmit { draw: 2 }];
const FALLING: &[Job] = &[Job::Readmit { draw: 2 }, Job::Readmit { draw: 1 }];

const fn numbers_to(most: u8) -> Settings {
    Settings { most, ..Settings::BASIC }
}

const fn wiped(wipes: u8, rejoin: Rejoin, most: u8) -> Settings {
    Settings { wipes, rejoin, ..numbers_to(most) }
}

const fn readmitted(wipes: u8, most: u8, jobs: &'static [Job], twice: Twice) -> Settings {
    wiped(wipes, Rejoin::Readmitted { jobs, twice }, most)
}

const fn clock(wipes: u8, clock: Clock, most: u8) -> Settings {
    wiped(wipes, Rejoin::Clock(clock), most)
}

/// Searches all states of the shipped protocol: tokens are in order in each, and there are this many.
fn holds<const N: usize, const A: usize>(settings: Settings, states: u64) {
    let _shipped = mutants::apply(None);
    let system = Arc::new(General::<N, A>::new(settings));
    let harm = |system: &General<N, A>, state: &_| {
        let order = [Property::TokenOrder, Property::TakeoverOrder];
        !order.into_iter().all(|property| system.is_true(property, state))
    };
    let found = search(&system, Search::Verdict(1), &Control::default(), harm);
    println!("{N} nodes, {A} attempts, {settings:?}: {} states, {} steps", found.states, found.depth);
    assert!(found.path.is_none(), "{:?}", found.path);
    assert!(!found.cut);
    assert_eq!(found.states, states, "{settings:?}");
    assert!(document().contains(&spaced(states)), "docs/proof.md does not say {}", spaced(states));
}

/// The shortest path to where a property is seen: broken, or reached.
fn shortest<const N: usize, const A: usize>(
    edit: Option<&str>,
    settings: Settings,
    property: Property,
) -> Option<Vec<Action>> {
    let _edit = mutants::apply(edit);
    let always = matches!(property, Property::TokenOrder | Property::TakeoverOrder);
    let seen = move |system: &General<N, A>, state: &_| system.is_true(property, state) != always;
    let system = Arc::new(General::<N, A>::new(settings));
    let found = search(&system, Search::Shortest, &Control::default(), seen);
    found.path.map(|path| path.steps.into_iter().map(|(action, _)| action).collect())
}

/// The same on three nodes with two attempts, by its length.
fn steps(edit: &str, settings: Settings, property: Property) -> Option<usize> {
    shortest::<3, 2>(Some(edit), settings, property).map(|path| path.len())
}

fn document() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/proof.md");
    std::fs::read_to_string(path).expect("the document can be read")
}

/// As the document writes it: 1 067 085.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(" ")
}

#[test]
fn tokens_are_in_order_with_any_client() {
    holds::<3, 2>(numbers_to(4), 88_802);
    holds::<3, 3>(numbers_to(3), 23_541);
    holds::<4, 2>(numbers_to(3), 18_672);
    holds::<5, 2>(numbers_to(3), 144_447);
}

#[test]
#[ignore = "long: 2 380 200 states"]
fn tokens_are_in_order_with_any_client_and_numbers_to_five() {
    holds::<3, 2>(numbers_to(5), 2_380_200);
}

#[test]
#[ignore = "long: 1 715 594 states"]
fn tokens_are_in_order_with_any_client_and_three_attempts() {
    holds::<3, 3>(numbers_to(4), 1_715_594);
}

#[test]
fn tokens_are_in_order_with_any_client_while_nodes_stay_empty() {
    holds::<3, 2>(wiped(2, Rejoin::Never, 3), 22_000);
}

#[test]
fn tokens_are_in_order_with_any_client_while_a_node_is_brought_back() {
    holds::<3, 2>(readmitted(2, 2, ONE_RUN, Twice::Never), 61_607);
    holds::<3, 2>(readmitted(2, 2, ONE_RUN, Twice::RaisesAndAdmissions), 343_106);
    holds::<3, 2>(readmitted(1, 3, ONE_RUN, Twice::Never), 1_067_085);
}

#[test]
#[ignore = "long: 4 414 083 states"]
fn tokens_are_in_order_with_any_client_while_a_node_of_two_wiped_ones_is_brought_back() {
    holds::<3, 2>(readmitted(2, 3, ONE_RUN, Twice::Never), 4_414_083);
}

#[test]
#[ignore = "long: 7 486 686 states"]
fn tokens_are_in_order_with_any_client_while_admissions_arrive_twice() {
    holds::<3, 2>(readmitted(2, 3, ONE_RUN, Twice::Admissions), 7_486_686);
}

#[test]
#[ignore = "long: 7 114 875 states"]
fn tokens_are_in_order_with_any_client_while_raises_arrive_twice() {
    holds::<3, 2>(readmitted(1, 3, ONE_RUN, Twice::RaisesAndAdmissions), 7_114_875);
}

#[test]
#[ignore = "long: 11 297 306 states"]
fn tokens_are_in_order_with_any_client_and_three_attempts_while_a_node_is_brought_back() {
    holds::<3, 3>(readmitted(1, 3, ONE_RUN, Twice::Never), 11_297_306);
}

#[test]
#[ignore = "long: 2 033 088 states"]
fn tokens_are_in_order_with_any_client_while_one_of_five_nodes_is_brought_back() {
    holds::<5, 2>(readmitted(1, 2, ONE_RUN, Twice::Admissions), 2_033_088);
}

#[test]
#[ignore = "long: 11 226 918 states"]
fn tokens_are_in_order_with_any_client_while_one_of_two_wiped_ones_of_five_nodes_is_brought_back() {
    holds::<5, 2>(readmitted(2, 2, ONE_RUN, Twice::Never), 11_226_918);
}

#[test]
#[ignore = "long: twice 1 319 690 states"]
fn tokens_are_in_order_with_any_client_while_one_operator_follows_another() {
    holds::<3, 2>(readmitted(2, 2, RISING, Twice::Never), 1_319_690);
    holds::<3, 2>(readmitted(2, 2, FALLING, Twice::Never), 1_319_690);
}

#[test]
fn numbers_from_a_clock_above_every_number_are_in_order() {
    holds::<3, 2>(clock(1, Clock::EveryNumber, 3), 42_013);
    holds::<3, 2>(clock(2, Clock::EveryNumber, 3), 223_596);
    holds::<3, 3>(clock(1, Clock::EveryNumber, 3), 298_420);
}

#[test]
#[ignore = "long: 1 399 364 and 8 901 311 states"]
fn numbers_from_a_clock_above_every_number_are_in_order_to_four() {
    holds::<3, 2>(clock(1, Clock::EveryNumber, 4), 1_399_364);
    holds::<3, 2>(clock(2, Clock::EveryNumber, 4), 8_901_311);
}

/// The node had told a number with which nobody had won yet.
#[test]
fn numbers_from_a_clock_above_every_token_repeat() {
    let settings = clock(1, Clock::EveryToken, 3);
    let path = shortest::<3, 2>(None, settings, Property::TokenOrder).expect("a token is won twice");
    assert_eq!(path.len(), 6, "{path:?}");
    let node = path.iter().find_map(|action| match action {
        Action::Wipe(node) => Some(*node),
        _ => None,
    });
    let told = |action: &Action| matches!(action, Action::Grant { node: at, .. } if Some(*at) == node);
    assert_eq!(path.iter().filter(|action| told(action)).count(), 2, "before and after: {path:?}");
}

#[test]
fn what_is_interesting_happens() {
    let length = |settings, property| shortest::<3, 2>(None, settings, property).map(|path| path.len());
    assert_eq!(length(numbers_to(3), Property::Win), Some(2));
    assert_eq!(length(numbers_to(3), Property::AllWin), Some(4));
    assert_eq!(length(numbers_to(3), Property::WipedNodeCounts), None, "no node is wiped");
    let readmitted = readmitted(1, 3, ONE_RUN, Twice::Never);
    assert_eq!(length(readmitted, Property::WipedNodeCounts), Some(7));
    assert_eq!(length(readmitted, Property::AllWin), Some(4));
    assert_eq!(length(clock(1, Clock::EveryNumber, 3), Property::WipedNodeCounts), Some(5));
    assert_eq!(length(wiped(1, Rejoin::Never, 3), Property::WipedNodeCounts), None, "it stays empty");
}

/// Numbers to 2 are enough to find them, in the same number of steps.
#[test]
fn wrong_edits_of_nodes_are_found() {
    for most in [2, 3] {
        let found = |edit| steps(edit, numbers_to(most), Property::TokenOrder);
        assert_eq!(found("grant-does-not-raise"), Some(4));
        assert_eq!(found("hint-assigned"), Some(4));
        assert_eq!(found("hint-not-above"), Some(4));
        assert_eq!(found("number-ends-with-key"), Some(4));
        assert_eq!(found("confirm-any-key"), Some(4));
        assert_eq!(found("confirm-lowers"), Some(5));
        assert_eq!(found("confirm-does-not-raise"), Some(5));
        assert_eq!(found("set-overwrites"), None, "a key may end at any moment");
        let ends = Settings { ends: true, ..numbers_to(most) };
        assert_eq!(steps("confirm-absent-key", ends, Property::TokenOrder), Some(4));
        let empty = wiped(1, Rejoin::Never, most);
        assert_eq!(steps("empty-votes", empty, Property::TokenOrder), Some(5));
    }
}

#[test]
fn wrong_edits_of_nodes_are_found_by_who_took_over() {
    let found = |edit| steps(edit, numbers_to(3), Property::TakeoverOrder);
    assert_eq!(found("confirm-any-key"), Some(5));
    assert_eq!(found("confirm-lowers"), Some(5));
    assert_eq!(found("grant-does-not-raise"), Some(4));
}

#[test]
fn wrong_edits_of_readmission_are_found() {
    for most in [2, 3] {
        let once = readmitted(1, most, ONE_RUN, Twice::Never);
        assert_eq!(steps("readmit-minority", once, Property::TokenOrder), Some(7));
        assert_eq!(steps("readmit-keeps-epoch", once, Property::TokenOrder), Some(8));
    }
    let again = readmitted(2, 2, ONE_RUN, Twice::Never);
    assert_eq!(steps("admit-unclaimed", again, Property::TokenOrder), Some(14));
}

#[test]
fn wrong_rules_of_winning_are_found() {
    let found = |settings| shortest::<3, 2>(None, settings, Property::TokenOrder).map(|path| path.len());
    for most in [2, 3] {
        assert_eq!(found(Settings { rule: Rule::Minority, ..numbers_to(most) }), Some(2));
        let readmitted = readmitted(1, most, ONE_RUN, Twice::Never);
        assert_eq!(found(Settings { rule: Rule::EpochIgnored, ..readmitted }), Some(8));
    }
}

/// A key that ends of itself adds states and nothing else.
#[test]
fn when_a_key_ends_makes_no_difference() {
    let ends = Settings { ends: true, ..numbers_to(3) };
    holds::<3, 2>(ends, 24_442);
    for edit in ["grant-does-not-raise", "hint-assigned", "confirm-any-key", "confirm-lowers"] {
        let here = |settings| steps(edit, settings, Property::TokenOrder).is_some();
        assert!(here(numbers_to(3)) && here(ends), "{edit}");
    }
}

/// Walks every state as it is, and compares: states counted once are led by their steps to states counted once.
#[test]
fn states_counted_once_have_the_same_future() {
    let _shipped = mutants::apply(None);
    let worlds =
        [numbers_to(3), readmitted(1, 2, ONE_RUN, Twice::Admissions), clock(2, Clock::EveryNumber, 2)];
    for settings in worlds {
        let symmetric = Arc::new(General::<3, 2>::new(settings));
        let counted = search(&symmetric, Search::Verdict(1), &Control::default(), |_, _| false).states;
        let plain = General::<3, 2>::new(Settings { symmetric: false, ..settings });
        let (mut waiting, mut seen) = (vec![plain.start()], BTreeSet::from([plain.start().plain()]));
        let mut futures: HashMap<u64, BTreeSet<u64>> = HashMap::new();
        while let Some(state) = waiting.pop() {
            let mut actions = Vec::new();
            plain.enabled(&state, &mut actions);
            let next: Vec<_> = actions.into_iter().map(|action| plain.step(&state, action)).collect();
            let future: BTreeSet<u64> = next.iter().map(|state| state.canonical()).collect();
            let known = futures.entry(state.canonical()).or_insert_with(|| future.clone());
            assert_eq!(*known, future, "{state:?}");
            waiting.extend(next.into_iter().filter(|state| seen.insert(state.plain())));
        }
        println!("{settings:?}: {} states, {} counted", seen.len(), futures.len());
        assert_eq!(futures.len() as u64, counted);
        assert!(seen.len() > 5 * futures.len(), "up to twelve alike");
    }
}
