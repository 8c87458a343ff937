//! Which counterexamples, and where the shipped lock differs from the one in the model.

use std::path::{Path, PathBuf};

use redfence::invariants::Violation;
use redfence::trace::{Moment, SCHEMA, Trace};

use crate::guarded::Fence;
use crate::stage::{Play, Shown, play};
use crate::support::{Live, live_tests, require_own_clock};

pub(crate) fn tests() -> Vec<Live> {
    let mut tests = live_tests![
        sync:
            s3_a_node_restarts_empty_two_believe,
            s8_a_clients_clock_stops_with_it_two_believe,
            s8p_the_shipped_clock_counts_the_pause_never_two_believe,
            s10_a_pause_after_the_check_loses_an_update_although_never_two_believe,
            s12_a_plain_delete_ends_anothers_key,
            s12_the_shipped_release_leaves_anothers_key,
            fact6_an_empty_node_that_votes_mints_a_token_twice,
            fact6_the_shipped_node_does_not_vote_when_empty
    ];
    let clocks = live_tests![
        sync:
            s1_a_clock_jumps_two_believe,
            fact4_a_fence_on_writes_only_loses_an_update,
            fact5_a_fence_on_reads_and_writes_refuses_the_same_schedule,
            fact5_the_older_holder_may_not_even_read
    ];
    tests.extend(clocks.into_iter().map(|test| test.needing(require_own_clock)));
    tests
}

fn s1_a_clock_jumps_two_believe() {
    let shown = replay("s1-clock-jump-belief", "s1", Play::as_in_the_model("belief"));
    two_believe(&shown);
}

fn s3_a_node_restarts_empty_two_believe() {
    let shown = replay("s3-empty-restart-belief", "s3", Play::as_in_the_model("belief"));
    two_believe(&shown);
}

/// With a clock as most clients have it: one that stands still while the machine is suspended.
fn s8_a_clients_clock_stops_with_it_two_believe() {
    let model = Play::as_in_the_model("belief");
    let shown = replay("s8-stopped-clock-belief", "s8", Play { clock_stops: true, ..model });
    two_believe(&shown);
}

/// The same schedule with the clock that is shipped: the frozen holder's validity is over before its keys are.
fn s8p_the_shipped_clock_counts_the_pause_never_two_believe() {
    let otherwise = |step: usize, moment: &mut Moment| {
        // Two ticks are its validity: they are over after step 8.
        if step >= 8 {
            moment.clients[0].believes = false;
        }
        moment.violated.clear();
    };
    let model = Play::as_in_the_model("belief");
    let shown = replay("s8-stopped-clock-belief", "s8p", Play { otherwise, ..model });
    assert_eq!(shown.violations, []);
    let last = shown.trace.steps.last().expect("steps");
    assert!(last.after.clients[1].believes, "the other one has got the lock: the schedule went to its end");
    never_two_believe(&shown);
}

fn s10_a_pause_after_the_check_loses_an_update_although_never_two_believe() {
    let shown = replay("s10-pause-after-check-damage", "s10", Play::as_in_the_model("damage"));
    assert!(matches!(shown.violations[..], [Violation::LostUpdate { .. }]), "{:?}", shown.violations);
    assert_eq!((shown.writes, shown.value), (2, 1), "two writes were accepted, and one is gone");
    never_two_believe(&shown);
}

fn s12_a_plain_delete_ends_anothers_key() {
    let model = Play::as_in_the_model("release-safety");
    let shown = replay("s12-plain-delete-release-safety", "s12", Play { plain_delete: true, ..model });
    assert!(matches!(shown.violations[..], [Violation::ForeignKeyEnded { .. }]), "{:?}", shown.violations);
}

fn s12_the_shipped_release_leaves_anothers_key() {
    let otherwise = |step: usize, moment: &mut Moment| {
        if step == 7 {
            let left = redfence::trace::Key { client: "A".into(), attempt: 1, left: None };
            moment.nodes[0].key = Some(left);
        }
        moment.violated.clear();
    };
    let model = Play::as_in_the_model("release-safety");
    let shown = replay("s12-plain-delete-release-safety", "s12-shipped", Play { otherwise, ..model });
    assert_eq!(shown.violations, []);
}

fn fact4_a_fence_on_writes_only_loses_an_update() {
    let shown = replay("fact4-fence-on-writes-damage", "fact4", Play::as_in_the_model("damage"));
    let lost = |violation: &Violation| matches!(violation, Violation::LostUpdate { .. });
    assert!(shown.violations.iter().any(lost), "{:?}", shown.violations);
    assert_eq!((shown.writes, shown.value, shown.refusals), (2, 1, 0));
}

/// Step for step the schedule of fact 4. What is otherwise: the old holder's write is refused, so the newer read is not outdated.
fn fact5_a_fence_on_reads_and_writes_refuses_the_same_schedule() {
    let otherwise = |_: usize, moment: &mut Moment| {
        moment.clients[1].outdated = false;
        moment.violated.clear();
    };
    let model = Play::as_in_the_model("damage");
    let fence = Some(Fence::ReadsAndWrites);
    let shown =
        replay("fact4-fence-on-writes-damage", "fact5-same-schedule", Play { fence, otherwise, ..model });
    let lost = |violation: &Violation| matches!(violation, Violation::LostUpdate { .. });
    assert!(!shown.violations.iter().any(lost), "{:?}", shown.violations);
    assert_eq!((shown.writes, shown.value, shown.refusals), (1, 1, 1));
    two_believe(&shown); // exclusion does fail: what holds is the fence
}

fn fact5_the_older_holder_may_not_even_read() {
    let shown = replay("fact5-fence-fence-refuses", "fact5", Play::as_in_the_model("belief"));
    assert_eq!((shown.writes, shown.refusals), (0, 1));
}

/// The node is given its old epoch and number 0 when it comes back, as if it were new.
fn fact6_an_empty_node_that_votes_mints_a_token_twice() {
    let model = Play::as_in_the_model("token-order");
    let shown = replay("fact6-empty-node-votes-token-order", "fact6", Play { wiped_votes: true, ..model });
    let repeated = |violation: &Violation| matches!(violation, Violation::TokenRepeated(_));
    assert!(shown.violations.iter().any(repeated), "{:?}", shown.violations);
}

fn fact6_the_shipped_node_does_not_vote_when_empty() {
    let otherwise = |step: usize, moment: &mut Moment| {
        if step >= 9 {
            let node = &mut moment.nodes[0];
            (node.epoch, node.key, node.number, node.largest) = (None, None, 0, 0);
        }
        let second = &mut moment.clients[1];
        (second.believes, second.token) = (false, None);
        moment.violated.clear();
    };
    let model = Play::as_in_the_model("token-order");
    let shown = replay("fact6-empty-node-votes-token-order", "fact6-shipped", Play { otherwise, ..model });
    assert_eq!(shown.violations, []);
    let failed = shown.clients[1].failed.as_deref();
    assert!(failed.is_some(), "once it has heard every node, the other one has failed");
    never_two_believe(&shown);
}

fn counterexample(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counterexamples");
    let file = folder.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Plays a file, and looks at what was written of it.
fn replay(file: &str, run: &str, how: Play) -> Shown {
    let model = counterexample(file);
    let shown = play(&model, how);
    let text = serde_json::to_string_pretty(&shown.trace).expect("JSON");
    let read: Trace = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(read, shown.trace);
    assert_eq!(read.schema, SCHEMA);
    assert_eq!(read.steps.len(), model.steps.len());
    assert!(
        read.messages.iter().any(|message| message.answer && message.arrives.is_some())
            || run.starts_with("s12")
    );
    let executed = model
        .steps
        .iter()
        .filter(|step| step.does.as_ref().is_some_and(|does| does.get("execute").is_some()));
    let expected = executed.count() - usize::from(how.plain_delete);
    assert_eq!(shown.compared, expected, "answers compared with the reference node's");
    let folder = std::env::var_os("REDFENCE_REPLAY_FOLDER").map(PathBuf::from);
    if let Some(folder) = folder {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{run}.json")), text + "\n").expect("a file");
    }
    shown
}

fn believers(moment: &Moment) -> usize {
    moment.clients.iter().filter(|client| client.believes).count()
}

/// The overlap is in the record as well, and stands on each one's own clock.
fn two_believe(shown: &Shown) {
    let overlap = |violation: &Violation| matches!(violation, Violation::TwoBelievers(..));
    assert!(shown.violations.iter().any(overlap), "{:?}", shown.violations);
    let recorded = shown.trace.moments().find(|moment| believers(moment) == 2).expect("recorded");
    assert!(recorded.clients.iter().all(|client| client.belief_left > Some(0)));
    assert!(recorded.violated.iter().any(|name| name == "belief"));
}

fn never_two_believe(shown: &Shown) {
    assert!(shown.trace.moments().all(|moment| believers(moment) < 2));
}
