//! Counting states that differ only in the numbering of nodes and clients once changes no verdict.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use redfence_model::check::Control;
use redfence_model::scenario::{self, Outcome, Scenario};
use redfence_model::world::{Action, Economy, Property, Settings, State, World};

fn found(scenario: &Scenario) -> Outcome {
    scenario::check(scenario, 2, &Control::default())
}

/// Scenarios small enough to be searched without symmetry, and of every kind: time, faults, tokens, violated, holding.
const COMPARED: [&str; 3] = ["fact7-classic", "s16-minority", "v2-two-nodes"];

#[test]
fn symmetric_and_plain_searches_agree() {
    for name in COMPARED {
        let symmetric = scenario::find(name).expect("a scenario of that name");
        let plain = Scenario { settings: symmetric.settings.plain(), states: None, ..symmetric.clone() };
        let (one, other) = (found(&symmetric), found(&plain));
        let verdicts = |outcome: &Outcome| -> Vec<_> {
            outcome.properties.iter().map(|p| (p.expect.property, p.found, p.steps)).collect()
        };
        assert_eq!(verdicts(&one), verdicts(&other), "{name}");
        let (nodes, clients) = (symmetric.settings.nodes as u64, symmetric.settings.clients as u64);
        let most = (1..=nodes).product::<u64>() * (1..=clients).product::<u64>();
        println!("{name}: {} states, {} without symmetry", one.states, other.states);
        assert!(one.states < other.states && other.states <= one.states * most, "{name}");
    }
}

#[test]
fn what_is_left_out_changes_no_verdict() {
    for name in ["s1-clock-jump", "s3-empty-restart", "s7-eviction", "s16-minority"] {
        let short = scenario::find(name).expect("a scenario of that name");
        let mut full = Scenario { states: None, ..short.clone() };
        full.settings.economy = Economy::Full;
        full.expect.retain(|expect| expect.property == Property::Belief);
        for property in found(&full).properties {
            assert!(property.is_ok(), "{name}: {property:?}");
        }
    }
}

/// With as few steps as possible the same is found as with every step: nothing wrong in the shipped protocol, and every wrong
/// edit of the token protocol that the longer search finds.
#[test]
fn fewer_steps_find_what_all_steps_find() {
    for name in ["v2-two-nodes", "v2-repeated-request", "v4b-empty-node-never-votes", "v7-takeover"] {
        let terse = scenario::find(name).expect("a scenario of that name");
        assert_eq!(terse.settings.economy, Economy::Terse, "{name}");
        let mut long = Scenario { states: None, ..terse.clone() };
        long.settings.economy = Economy::LoseReleases;
        long.settings.nodes = 2;
        let mut terse = Scenario { states: None, ..terse };
        terse.settings.nodes = 2;
        let verdicts = |found: Outcome| {
            found.properties.iter().map(|p| (p.expect.property, p.found)).collect::<Vec<_>>()
        };
        let (one, other) = (found(&terse), found(&long));
        println!("{name} on two nodes: {} states, {} with every step", one.states, other.states);
        assert!(one.states < other.states, "{name}");
        assert_eq!(verdicts(one), verdicts(other), "{name}");
    }
    let edits = scenario::all().into_iter().filter(|scenario| {
        let wrong = |expect: &scenario::Expect| {
            (expect.property, expect.verdict) == (Property::TokenOrder, scenario::Verdict::Violated)
        };
        let Settings { economy, .. } = scenario.settings;
        scenario.mutant.is_some()
            && economy == Economy::LoseReleases
            && scenario.size == scenario::Size::Quick
            && scenario.expect.iter().any(wrong)
    });
    let mut compared = 0;
    for edit in edits {
        let mut terse = edit.clone();
        terse.settings.economy = Economy::Terse;
        terse.expect.retain(|expect| expect.property == Property::TokenOrder);
        let found = found(&terse);
        let steps = found.properties[0].steps.expect(edit.name);
        assert!(Some(steps) <= edit.expect[0].steps, "{}: {steps} steps", edit.name);
        compared += 1;
    }
    assert!(compared >= 12, "{compared} wrong edits");
}

/// Of two states that are counted once only one is gone on from; what the other leads to must be found all the same.
#[test]
fn states_with_one_fingerprint_lead_to_the_same() {
    let most =
        std::env::var("REDFENCE_SYMMETRY_STATES").map_or(6_000, |most| most.parse().expect("a number"));
    let mut compared = 0;
    // Not under wrong edits: they may be partial to a node.
    for scenario in scenario::all().into_iter().filter(|scenario| scenario.mutant.is_none()) {
        let settings = scenario.settings;
        // The switch is one for the whole process: keep out the wrong edits of other tests.
        let _shipped = redfence_model::mutants::apply(None);
        compared += match (settings.nodes, settings.clients) {
            (2, 2) => compare_futures(scenario.name, &World::<2, 2>::new(settings), most),
            (3, 1) => compare_futures(scenario.name, &World::<3, 1>::new(settings), most),
            (3, 2) => compare_futures(scenario.name, &World::<3, 2>::new(settings), most),
            (3, 3) => compare_futures(scenario.name, &World::<3, 3>::new(settings), most),
            (4, 2) => compare_futures(scenario.name, &World::<4, 2>::new(settings), most),
            _ => 0,
        };
    }
    println!("{compared} states have the future of another");
    assert!(compared > 100_000, "{compared} states were met under two numberings");
}

/// Goes on from any state met, in no order: near the beginning all is alike.
fn compare_futures<const N: usize, const C: usize>(name: &str, world: &World<N, C>, most: usize) -> usize {
    let concrete = |state: &State<N, C>| State { symmetric: false, ..state.clone() }.fingerprint();
    let mut futures: HashMap<u64, (State<N, C>, BTreeSet<u64>)> = HashMap::new();
    let (mut seen, mut open) = (HashSet::new(), vec![world.start()]);
    let (mut random, mut compared) = (42, 0);
    while seen.len() < most && !open.is_empty() {
        let state = open.swap_remove(draw(&mut random) % open.len());
        if !seen.insert(concrete(&state)) {
            continue;
        }
        let mut actions = Vec::new();
        world.enabled(&state, &mut actions);
        let next: Vec<_> = actions.iter().map(|&action| world.step(&state, action)).collect();
        let future: BTreeSet<u64> = next.iter().map(State::fingerprint).collect();
        match futures.entry(state.fingerprint()) {
            Entry::Vacant(empty) => _ = empty.insert((state, future)),
            Entry::Occupied(other) => {
                let (twin, known) = other.get();
                let differ: Vec<_> = known.symmetric_difference(&future).collect();
                assert!(differ.is_empty(), "{name}: {differ:?}\n{state:#?}\nand its twin\n{twin:#?}");
                compared += 1;
            }
        }
        open.extend(next);
    }
    compared
}

fn draw(random: &mut u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as usize
}

fn hash(state: &State<3, 2>) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn renumbered_paths_lead_to_states_with_one_fingerprint() {
    let _shipped = redfence_model::mutants::apply(None);
    let scenario = scenario::find("fact5-fence").expect("a scenario of that name");
    let world = World::<3, 2>::new(scenario.settings);
    let nodes = [2, 0, 1];
    let clients = [1, 0];
    let renumbered = |action: Action| match action {
        Action::Begin { client, hint, slow } => {
            Action::Begin { client: clients[usize::from(client)], hint, slow }
        }
        Action::Execute { client, node, early } => {
            Action::Execute { client: clients[usize::from(client)], node: nodes[usize::from(node)], early }
        }
        Action::Deliver { client, node } => {
            Action::Deliver { client: clients[usize::from(client)], node: nodes[usize::from(node)] }
        }
        Action::Expire(node) => Action::Expire(nodes[usize::from(node)]),
        Action::Abandon(client) => Action::Abandon(clients[usize::from(client)]),
        Action::Read(client) => Action::Read(clients[usize::from(client)]),
        Action::Write(client) => Action::Write(clients[usize::from(client)]),
        Action::Release(client) => Action::Release(clients[usize::from(client)]),
        other => panic!("{other:?} does not happen here"),
    };
    let mut random = 42u64;
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let (mut path, mut state, mut other) = (Vec::new(), world.start(), world.start());
        for _ in 0..40 {
            let mut actions = Vec::new();
            world.enabled(&state, &mut actions);
            if actions.is_empty() {
                break;
            }
            let action = actions[draw(&mut random) % actions.len()];
            state = world.step(&state, action);
            other = world.step(&other, renumbered(action));
            path.push(action);
            assert_eq!(hash(&other), hash(&state), "{path:?}");
            seen.insert(hash(&state));
        }
    }
    assert!(seen.len() > 1_000, "walks lead to many different states: {}", seen.len());
}
