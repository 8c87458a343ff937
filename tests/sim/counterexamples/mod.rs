//! Counterexamples of the model, done again step by step with the real lock on simulated hosts.
//!
//! A file in `tests/counterexamples` tells what the model did: `docs/traces.md`. Here all links between workers and nodes are held,
//! and each step lets through exactly the request or the answer that the model moved. After every step both worlds must agree:
//! on who believes, on whose keys live at which node, on the numbers, and on whether the property is broken.
//!
//! What is different, and does not matter for any of them:
//!
//! * A message that takes no time in the model takes some milliseconds here, a tick is a second. So a key ends a little after its
//!   tick, never before, and all steps of one moment together take less than a tick.
//! * Where the model has no time and a key may end at any moment, the node's clock steps past its end.
//! * A request that is sent anew over a connection that has just been opened, or with its script's text, counts as one.

mod compare;
mod stage;
mod worker;

use redfence::lock::Mode;

use compare::Replayed;
#[cfg(feature = "mutants")]
use stage::Action;
use stage::{Replay, Variant};
use worker::Guard;

use crate::moments::BELIEF;
use crate::mutants;
use crate::world::log::Entry;
use crate::world::{Host, World};

/// What is locked.
pub(crate) const RESOURCE: &str = "r";

fn replay(name: &str, property: &str, variant: Variant) -> Replayed {
    Replay::new(&format!("{name}-{property}.json"), variant).finish(property, &[])
}

/// A file done again: what happened, and the world in which it did.
pub(crate) fn done_again(file: &str) -> (Vec<Entry>, World) {
    let mut replay = Replay::new(file, Variant::default());
    replay.take_all();
    (replay.world.log.take(), replay.world)
}

/// S1: a node's clock jumps, and two believe.
#[test]
fn a_clock_jump_makes_two_believers() {
    let _alone = mutants::nobody();
    replay("s1-clock-jump", BELIEF, Variant::default()).assert_same(true);
}

/// S3: a node restarts empty, and two believe.
#[test]
fn an_empty_restart_makes_two_believers_of_classic_redlock() {
    let _alone = mutants::nobody();
    replay("s3-empty-restart", BELIEF, Variant::default()).assert_same(true);
}

/// The same schedule against the fenced protocol: the empty node does not vote.
#[test]
fn the_same_empty_restart_makes_no_two_believers_of_the_fenced_protocol() {
    let _alone = mutants::nobody();
    let fenced = Variant { mode: Some(Mode::Fenced), ..Variant::default() };
    let replayed = replay("s3-empty-restart", BELIEF, fenced);
    assert!(!replayed.is_violated() && replayed.problems.is_empty(), "{}", replayed.tell());
    assert!(replayed.won(1).is_none(), "{}", replayed.tell());
}

/// S8: a process is suspended and its clock with it: its lease looks good when another has the lock.
#[test]
fn a_stopped_clock_makes_two_believers() {
    let _alone = mutants::nobody();
    replay("s8-stopped-clock", BELIEF, Variant::default()).assert_same(true);
}

/// S8': the shipped clock counts suspension. The schedule is the same, and the sleeper's lease ends in its sleep, at the second tick.
#[test]
fn a_clock_that_counts_suspension_averts_it() {
    let _alone = mutants::nobody();
    let honest = Variant { honest_clock: true, ..Variant::default() };
    replay("s8-stopped-clock", BELIEF, honest).assert_averted_at(8);
}

/// S10: stopped between check and write. Never two believe, and an update is lost.
#[test]
fn a_pause_after_the_check_loses_an_update() {
    let _alone = mutants::nobody();
    let replayed = replay("s10-pause-after-check", "damage", Variant::default());
    replayed.assert_same(true);
    assert!(replayed.steps.iter().all(|step| step.here.believes != [true, true]), "{}", replayed.tell());
}

/// F3 of the fence: it looks at writes alone, and an update is lost.
#[test]
fn a_fence_on_writes_alone_loses_an_update() {
    let _alone = mutants::nobody();
    replay("fact4-fence-on-writes", "damage", Variant::default()).assert_same(true);
}

/// F5: the very same schedule with reads fenced as well. The second reader's token shuts the first one out.
#[test]
fn a_fence_on_reads_and_writes_refuses_the_same_write() {
    let _alone = mutants::nobody();
    let fenced = Variant { guard: Some(Guard::ReadsAndWrites), ..Variant::default() };
    let replayed = replay("fact4-fence-on-writes", "damage", fenced);
    replayed.assert_averted_at(16);
    assert_eq!(replayed.fenced(), [(Host::Worker(0), false)], "{}", replayed.tell());
}

/// F5: two believe, and the memory refuses the read of the one with the smaller token.
#[test]
fn where_two_believe_the_fence_refuses_one_of_them() {
    let _alone = mutants::nobody();
    let replayed = replay("fact5-fence", "fence-refuses", Variant::default());
    replayed.assert_same(false);
    assert_eq!(replayed.fenced(), [(Host::Worker(0), true)], "{}", replayed.tell());
    assert_eq!(replayed.steps.last().map(|step| &step.here.believes[..]), Some(&[true, true][..]));
}

/// Amnesia: in the model a node that lost its data votes at once. The shipped one answers that it is empty, at the step at which the
/// model's grants.
#[test]
fn an_empty_node_does_not_vote() {
    let _alone = mutants::nobody();
    let replayed = replay("fact6-empty-node-votes", "token-order", Variant::default());
    replayed.assert_averted_at(10);
    assert!(replayed.won(1).is_none(), "{}", replayed.tell());
}

/// Amnesia with a node that votes although it is empty. One thing is not as in the model: there all numbers begin at zero, here at
/// the time of the first start, and those of a node that lost its data at zero. So the two grants differ, and a confirm round brings
/// them together: the same token is won two messages later.
#[cfg(feature = "mutants")]
#[test]
fn an_empty_node_that_votes_repeats_a_token() {
    use redfence::proto::mutant::Mutant;
    let _in_force = mutants::in_force(Mutant::EmptyVotes);
    let confirm = |node| [Action::Execute { client: 1, node }, Action::Deliver { client: 1, node }];
    let replay = Replay::new("fact6-empty-node-votes-token-order.json", Variant::default());
    let replayed = replay.finish("token-order", &[confirm(2), confirm(0)].concat());
    assert!(replayed.is_violated(), "{}", replayed.tell());
    assert!(replayed.won(0).is_some() && replayed.won(0) == replayed.won(1), "{}", replayed.tell());
}

/// S12: a release that deletes whatever key is there. The release of the second client arrives at the node after the refusal, which
/// nobody waits for any more, has arrived at the client: the driver sends nothing to a node that owes it an answer.
#[cfg(feature = "mutants")]
#[test]
fn a_plain_delete_ends_a_foreign_key() {
    use redfence::proto::mutant::Mutant;
    let _in_force = mutants::in_force(Mutant::PlainDelete);
    replay("s12-plain-delete", "release-safety", Variant::default()).assert_same(true);
}

/// S12 with the shipped release, which compares: the foreign key stays.
#[test]
fn a_release_that_compares_leaves_a_foreign_key() {
    let _alone = mutants::nobody();
    replay("s12-plain-delete", "release-safety", Variant::default()).assert_averted_at(7);
}
