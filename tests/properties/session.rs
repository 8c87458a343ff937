//! One session, told anything at all.

use std::time::Duration;

use proptest::prelude::*;
use redfence::proto::message::{Record, Stand};
use redfence::proto::retry::Backoff;
use redfence::proto::session::{AutoExtend, Config, Event, Mode};
use redfence::proto::{Drift, Input, NodeId, Output, Owner, Quorum, Reply, Request, Round, Timestamp, Ttl};

use super::rules::Watched;
use super::twin::{Story, Twin};

const OWNER: Owner = Owner(0xA);

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn ttls(below: u64) -> impl Strategy<Value = Ttl> {
    (1..below).prop_filter_map("a TTL", Ttl::from_millis)
}

prop_compose! {
    fn configs()(
        nodes in prop_oneof![2 => 1usize..=3, 1 => 1usize..=7],
        classic in prop::bool::weighted(0.2),
        ttl in ttls(60),
        drift in prop_oneof![Just(Drift::default()), Just(Drift::NONE)],
        patience in millis(1..80),
        extend in prop::option::weighted(0.4, (millis(0..30), millis(0..200))),
        (first, most) in (millis(0..10), millis(0..30)),
        release_rounds in 0u8..5,
    ) -> Config {
        Config {
            quorum: Quorum::of(nodes),
            mode: if classic { Mode::Classic } else { Mode::Fenced },
            ttl,
            drift,
            patience,
            extend: extend.map(|(every, max_hold)| AutoExtend { every, max_hold }),
            release_backoff: Backoff { first, most },
            release_rounds,
        }
    }
}

fn grants() -> impl Strategy<Value = Reply> {
    let stand = (prop_oneof![4 => Just(1u64), 1 => 2u64..4], prop_oneof![9 => Just(1u64), 1 => Just(2u64)]);
    prop_oneof![
        8 => stand.prop_map(|(number, epoch)| Reply::Mine(Stand { number, epoch })),
        1 => (0u64..4).prop_map(|number| Reply::Taken { number }),
        1 => failures(),
    ]
}

fn failures() -> impl Strategy<Value = Reply> {
    prop_oneof![Just(Reply::NotMine), Just(Reply::Empty), Just(Reply::Refused), Just(Reply::Unknown)]
}

/// An answer that fits its question, mostly.
fn answers() -> impl Strategy<Value = (Round, Reply)> {
    let extend = prop_oneof![4 => Just(1u32), 1 => 2u32..4].prop_map(Round::Extend);
    let extended = prop_oneof![3 => Just(Reply::Extended), 1 => failures()];
    let released = prop_oneof![2 => Just(Reply::Released), 1 => failures()];
    let round =
        prop_oneof![Just(Round::Grant), Just(Round::Confirm), Just(Round::Extend(1)), Just(Round::Release)];
    let absurd = prop_oneof![
        grants(),
        Just(Reply::Extended),
        Just(Reply::Released),
        Just(Reply::Record(Record::default())),
    ];
    prop_oneof![
        6 => (Just(Round::Grant), grants()),
        3 => (Just(Round::Confirm), grants()),
        8 => (extend, extended),
        3 => (Just(Round::Release), released),
        1 => (round, absurd),
    ]
}

fn inputs() -> impl Strategy<Value = Input> {
    // A node that is not of the cluster now and then.
    let nodes = prop_oneof![15 => 0usize..3, 15 => 0usize..7, 1 => 7usize..16].prop_map(NodeId::new);
    prop_oneof![
        20 => (nodes, answers()).prop_map(|(node, (round, reply))| Input::Reply { node, round, reply }),
        2 => Just(Input::Wake),
        2 => ttls(80).prop_map(|ttl| Input::Extend { ttl }),
        1 => Just(Input::Release),
    ]
}

/// Inputs and how long after the one before each comes, in microseconds.
fn sequences() -> impl Strategy<Value = Vec<(u64, Input)>> {
    // Whole milliseconds meet deadlines exactly.
    let whole = (1u64..6).prop_map(|millis| millis * 1_000);
    let pause = prop_oneof![9 => Just(0u64), 4 => whole, 3 => 1u64..3_000, 1 => 3_000u64..40_000];
    prop::collection::vec((pause, inputs()), 0..60)
}

/// Nodes in classic mode tell no numbers.
fn spoken(config: &Config, input: Input) -> Input {
    match input {
        Input::Reply { node, round, reply: Reply::Mine(_) } if config.mode == Mode::Classic => {
            Input::Reply { node, round, reply: Reply::Mine(Stand::CLASSIC) }
        }
        other => other,
    }
}

fn play(config: Config, sequence: &[(u64, Input)]) -> (Watched, Timestamp) {
    let mut now = Timestamp::from_millis(5);
    let mut watched = Watched::start(config, OWNER, 0, now);
    for &(pause, input) in sequence {
        now = Timestamp::from_micros(now.as_micros() + pause);
        watched.handle(now, spoken(&config, input));
    }
    (watched, now)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_session_agrees_with_its_naive_twin(config in configs(), sequence in sequences()) {
        let config = Config { extend: None, ..config };
        let (watched, _) = play(config, &sequence);
        let twin = Twin { config: &config, start: watched.start, inputs: &watched.inputs };
        let told = |event: &Event| !matches!(event, Event::Released(_));
        let confirm = |(_, output): &(Timestamp, Output)| match *output {
            Output::Send { request: Request::Confirm { number, .. }, .. } => Some(number),
            _ => None,
        };
        let story = Story {
            events: watched.events().into_iter().filter(told).collect(),
            confirms: watched.outputs.iter().filter_map(confirm).collect(),
            held: watched.session.held(),
        };
        prop_assert_eq!(story, twin.story());
    }

    /// The rules are checked at each step by `Watched`; then silence: the host only wakes it when asked to.
    #[test]
    fn a_session_keeps_the_rules_and_left_alone_it_ends(config in configs(), sequence in sequences()) {
        let (mut watched, now) = play(config, &sequence);
        let mut wakes = 0;
        while watched.wake(now).is_some() {
            wakes += 1;
            prop_assert!(wakes < 1_000, "no end: {:?}", watched.session);
        }
        if !watched.session.is_done() {
            let lost = watched.events().iter().any(|event| matches!(event, Event::Lost(_)));
            prop_assert!(lost, "it waits for nothing: {:?}", watched.session);
            let now = watched.inputs.last().map_or(now, |&(at, _)| at);
            watched.handle(now, Input::Release);
            for _ in 0..20 {
                watched.wake(now);
            }
        }
        prop_assert!(watched.session.is_done());
        let lost_or_held = watched.events().iter().any(|event| matches!(event, Event::Acquired { .. }));
        let released = watched.events().iter().any(|event| matches!(event, Event::Released(_)));
        prop_assert_eq!(lost_or_held, released, "who asks for a release is told what became of it");
    }

    /// But that a session with nothing left to do may notice it.
    #[test]
    fn waking_early_changes_nothing(config in configs(), sequence in sequences()) {
        let mut now = Timestamp::from_millis(5);
        let mut watched = Watched::start(config, OWNER, 0, now);
        for (pause, input) in sequence {
            now = Timestamp::from_micros(now.as_micros() + pause);
            if watched.session.poll_timeout(&config).is_none_or(|at| now < at) {
                let before = watched.session.clone();
                prop_assert_eq!(watched.handle(now, Input::Wake), []);
                prop_assert!(watched.session == before || watched.session.is_done());
            }
            watched.handle(now, spoken(&config, input));
        }
    }
}
