//! Runs as data: paths by number, messages, beliefs and keys.

use redfence_model::check::Control;
use redfence_model::scenario::{self, Scenario};
use redfence_model::trace::{self, Error, MarkKind, SCHEMA, Trace};
use redfence_model::world::Property;

fn named(name: &str) -> Scenario {
    scenario::find(name).expect("a scenario of this name")
}

fn shortest(name: &str, property: Property) -> (Vec<usize>, Trace) {
    let scenario = named(name);
    let path = trace::shortest(&scenario, property, &Control::default()).expect("not ended").expect("a path");
    let trace = trace::record(&scenario, &path).expect("every step of it is possible");
    (path, trace)
}

#[test]
fn the_shortest_path_is_as_long_as_expected_and_ends_with_the_violation() {
    let asked = [
        ("s1-clock-jump", Property::Belief),
        ("s3-empty-restart", Property::Belief),
        ("s6-failover", Property::Damage),
        ("fact4-fence-on-writes", Property::Damage),
        ("f3-no-write-back", Property::TokenOrder),
        ("l1-jump-back", Property::Orphan),
    ];
    for (name, property) in asked {
        let (path, trace) = shortest(name, property);
        let expected =
            named(name).expect.iter().find(|expect| expect.property == property).expect("asked").steps;
        assert_eq!(Some(path.len()), expected, "{name}");
        assert_eq!(trace.path().as_ref(), Some(&path), "{name}");
        let violated = |step: usize| trace.moment(step).violated.contains(&property.name());
        assert!(violated(path.len()) && !violated(path.len() - 1), "{name}");
        let last = trace.steps.last().expect("a step");
        assert!(last.marks.iter().any(|mark| mark.kind == MarkKind::Damage), "{name}: {:?}", last.marks);
    }
}

#[test]
fn what_holds_has_no_path() {
    let none = trace::shortest(&named("fact7-classic"), Property::Belief, &Control::default());
    assert_eq!(none, Ok(None));
}

#[test]
fn a_search_that_is_stopped_says_so() {
    let control = Control::default();
    control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let ended = trace::shortest(&named("fact7-classic"), Property::Belief, &control);
    assert_eq!(ended, Err(Error::Ended));
}

#[test]
fn the_violation_is_two_beliefs_over_the_keys_of_one() {
    let (_, trace) = shortest("s3-empty-restart", Property::Belief);
    let last = trace.moment(trace.steps.len());
    assert!(last.clients.iter().all(|client| client.believes && client.belief_left == Some(2)), "{last:?}");
    let keys = |lane: &str| {
        let of = |node: &&trace::Node| node.key.as_ref().is_some_and(|key| key.client == lane);
        last.nodes.iter().filter(of).count()
    };
    assert_eq!([keys("A"), keys("B")].iter().sum::<usize>(), 3);
    assert_eq!([keys("A"), keys("B")].iter().min(), Some(&1), "one of them believes without a quorum");
}

#[test]
fn messages_go_forward_and_a_grant_is_asked_before_it_is_told() {
    let (_, trace) = shortest("s1-clock-jump", Property::Damage);
    assert!(!trace.messages.is_empty());
    let lanes: Vec<&str> = trace.lanes.iter().map(|lane| lane.id.as_str()).collect();
    for message in &trace.messages {
        assert!(
            lanes.contains(&message.from.as_str()) && lanes.contains(&message.to.as_str()),
            "{message:?}"
        );
        let after = message.arrives.or(message.lost);
        assert!(after.is_none_or(|after| after >= message.sent && after <= trace.steps.len()), "{message:?}");
        if message.answer {
            let asked = |other: &trace::Message| {
                !other.answer
                    && (&other.from, &other.to) == (&message.to, &message.from)
                    && other.arrives == Some(message.sent)
            };
            assert!(trace.messages.iter().any(asked), "nobody asked for {message:?}");
        }
    }
    let writes = trace.messages.iter().filter(|message| message.to == "resource" && message.label == "write");
    assert!(writes.count() >= 1);
}

/// Goes on with the first action whose sentence says this.
fn choose(scenario: &Scenario, path: &mut Vec<usize>, says: &str) {
    let choices = trace::choices(scenario, path).expect("possible");
    let found = choices.iter().find(|choice| choice.sentence.contains(says));
    path.push(found.unwrap_or_else(|| panic!("nothing says {says}: {choices:?}")).action);
}

#[test]
fn a_request_given_up_arrives_late() {
    let scenario = named("l3-late-grant");
    let mut path = Vec::new();
    for says in
        ["A starts", "A gives up waiting for node 0", "late, over the old connection: node 0 grants A"]
    {
        choose(&scenario, &mut path, says);
    }
    let trace = trace::record(&scenario, &path).expect("possible");
    let late: Vec<_> = trace.messages.iter().filter(|message| message.late).collect();
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].sent, late[0].arrives, late[0].lost), (1, Some(3), None));
    assert_eq!(trace.steps.iter().map(|step| step.fault).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_fork_takes_another_action_and_goes_on() {
    let scenario = named("s3-empty-restart");
    let (path, original) = shortest("s3-empty-restart", Property::Belief);
    let choices = trace::choices(&scenario, &path[..8]).expect("possible");
    let other = choices.iter().find(|choice| choice.action != path[8]).expect("more than one choice");
    let fork = [&path[..8], &[other.action]].concat();
    let forked = trace::record(&scenario, &fork).expect("possible");
    assert_eq!(forked.steps[..8], original.steps[..8]);
    assert_eq!(forked.steps[8].sentence, other.sentence);
    let last = trace::choices(&scenario, &path[..10]).expect("possible");
    assert!(last.iter().any(|choice| choice.violates == ["belief"]), "{last:?}");
}

#[test]
fn an_impossible_action_is_an_error_that_says_what_is_possible() {
    let scenario = named("s3-empty-restart");
    let error = trace::record(&scenario, &[0, 999]).expect_err("impossible");
    let Error::Impossible { step: 2, action: 999, choices } = error else { panic!("{error:?}") };
    assert!(choices > 0);
    assert!(error.to_string().contains(&format!("action 999 of {choices}")), "{error}");
    assert_eq!(trace::choices(&scenario, &[999]).map_err(|error| error.to_string().len() > 10), Err(true));
}

#[test]
fn the_repair_is_where_the_failure_cannot_go_on() {
    let (path, _) = shortest("s3-empty-restart", Property::Belief);
    let (failure, repair) = (named("s3-empty-restart"), named("s3-empty-restart-repaired"));
    let followed = trace::follow(&failure, &path, &repair).expect("possible");
    assert!(followed.len() < path.len(), "the repaired world does not go along to the end");
    let trace = trace::record(&repair, &followed).expect("possible");
    assert_eq!(trace.first_violation(), None);
    assert_eq!(trace::follow(&failure, &path, &failure), Ok(path));
}

#[test]
fn a_trace_survives_being_written_and_read() {
    let (_, trace) = shortest("fact4-fence-on-writes", Property::Damage);
    assert_eq!(trace.schema, SCHEMA);
    let text = serde_json::to_string(&trace).expect("text");
    let read: Trace = serde_json::from_str(&text).expect("a trace");
    assert_eq!(read, trace);
}

#[test]
fn every_scenario_can_begin() {
    for scenario in scenario::everything() {
        let choices = trace::choices(&scenario, &[]).expect("possible");
        assert!(!choices.is_empty(), "{}", scenario.name);
        let trace = trace::record(&scenario, &[choices[0].action]).expect("possible");
        assert_eq!(trace.steps.len(), 1, "{}", scenario.name);
    }
}
