//! Two first starts at once.

use proptest::prelude::*;
use redfence::proto::first_start::{FIRST_EPOCH, FirstStart, Outcome, Start, Step};
use redfence::proto::message::Record;
use redfence::proto::node::{NodeState, execute};
use redfence::proto::{NodeId, Owner, Quorum, Reply, Request, Ttl};

type Machine = FirstStart<5>;

/// One start, and what is on its way between it and the nodes.
struct Starter {
    machine: Machine,
    requests: Vec<(usize, Request)>,
    answers: Vec<(usize, Reply)>,
    /// Every record it was told, and the outcome.
    told: Vec<Record>,
    outcome: Option<Outcome>,
}

impl Starter {
    fn new(nodes: usize, start: Start) -> Self {
        let (machine, step) = Machine::new(Quorum::of(nodes), start);
        let mut starter =
            Self { machine, requests: Vec::new(), answers: Vec::new(), told: Vec::new(), outcome: None };
        starter.follow(step, start);
        starter
    }

    fn follow(&mut self, step: Step, start: Start) {
        match step {
            Step::Done(outcome) => self.outcome = Some(outcome),
            Step::Send { to, request } => {
                if matches!(request, Request::Init { .. }) {
                    self.check_fresh(start);
                }
                self.requests.extend(to.iter().map(|node| (node.index(), request)));
            }
        }
    }

    /// It acts only if nothing it was told speaks of a grant.
    fn check_fresh(&self, start: Start) {
        for record in &self.told {
            let untouched = match start {
                Start::Automatic { .. } => record.epoch == Some(FIRST_EPOCH) && record.high == record.floor,
                Start::Operator { .. } => false,
            };
            assert!(record.epoch.is_none() || untouched, "acts beside {record}");
        }
    }

    /// Lets one thing happen, chosen by `choice`. `down`: the node is not reached, or its answer is lost.
    fn step(&mut self, nodes: &mut [NodeState], start: Start, choice: u8, down: bool) {
        let turn = usize::from(choice);
        if !self.requests.is_empty() && (self.answers.is_empty() || choice.is_multiple_of(2)) {
            let (node, request) = self.requests.remove(turn % self.requests.len());
            let done = execute(&mut nodes[node], request).unwrap_or(Reply::Refused);
            self.answers.push((node, if down { Reply::Unknown } else { done }));
        } else if !self.answers.is_empty() {
            let (node, reply) = self.answers.remove(turn % self.answers.len());
            if let Reply::Record(record) = reply {
                self.told.push(record);
            }
            if let Some(step) = self.machine.handle(NodeId::new(node), reply) {
                self.follow(step, start);
            }
        }
    }
}

fn conditions() -> impl Strategy<Value = NodeState> {
    let granted = |epoch, floor, more| {
        let mut node = NodeState::member(epoch, floor);
        node.record.high += more;
        node.counter = Some(node.record.high);
        node
    };
    prop_oneof![
        8 => Just(NodeState::default()),
        3 => (0u64..3).prop_map(|floor| NodeState::member(FIRST_EPOCH, floor)),
        1 => (0u64..3, 1u64..3).prop_map(move |(floor, more)| granted(FIRST_EPOCH, floor, more)),
        1 => Just(NodeState::member(7, 0)),
    ]
}

fn starts() -> impl Strategy<Value = Start> {
    prop_oneof![
        3 => (0u64..100).prop_map(|floor| Start::Automatic { floor }),
        1 => (100u64..110, 0u64..100).prop_map(|(epoch, floor)| Start::Operator { epoch, floor }),
    ]
}

/// What happens next: who acts, which message, whether it is lost; now and then a client takes the lock on a node.
type Choice = (bool, u8, bool, Option<usize>);

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let lost = prop::bool::weighted(0.05);
    prop::collection::vec((any::<bool>(), any::<u8>(), lost, prop::option::weighted(0.05, 0usize..5)), 0..80)
}

/// Runs both to their ends and checks what must hold at every moment.
fn run(nodes: &mut [NodeState], starts: [Start; 2], choices: &[Choice]) -> [Outcome; 2] {
    let mut starters = starts.map(|start| Starter::new(nodes.len(), start));
    let mut choices = choices.iter().copied().chain(std::iter::repeat((false, 0, false, None)));
    while starters.iter().any(|starter| starter.outcome.is_none()) {
        let (second, choice, lost, grant) = choices.next().expect("there is always another");
        let before = nodes.to_vec();
        if let Some(node) = grant.filter(|&node| node < nodes.len()) {
            let owner = Owner(0xA);
            let request = Request::Acquire { owner, ttl: Ttl::MAX, hint: 0 };
            let _ = execute(&mut nodes[node], request);
            continue;
        }
        let turn = usize::from(second != starters[usize::from(second)].outcome.is_some());
        starters[turn].step(nodes, starts[turn], choice, lost);
        for (was, is) in before.iter().zip(nodes.iter()) {
            assert!(was.record.epoch.is_none() || was == is, "a start changed a member: {was} to {is}");
        }
    }
    starters.map(|starter| starter.outcome.expect("both have ended"))
}

fn cluster() -> impl Strategy<Value = Vec<NodeState>> {
    prop::collection::vec(conditions(), 1..=5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn two_starts_never_act_beside_a_grant_and_never_change_a_member(
        mut nodes in cluster(), starts in [starts(), starts()], choices in choices(),
    ) {
        let in_use = |node: &NodeState| node.record.epoch.is_some_and(|epoch| epoch != FIRST_EPOCH)
            || node.record.high > node.record.floor;
        let before = nodes.clone();
        let outcomes = run(&mut nodes, starts, &choices);
        for (start, outcome) in starts.iter().zip(outcomes) {
            let epoch = match start {
                Start::Automatic { .. } => FIRST_EPOCH,
                Start::Operator { epoch, .. } => *epoch,
            };
            let everywhere = nodes.iter().all(|node| node.record.epoch == Some(epoch));
            prop_assert!(outcome != Outcome::Started || everywhere, "started, but not into {}", epoch);
        }
        if before.iter().any(in_use) {
            for (was, is) in before.iter().zip(&nodes) {
                prop_assert_eq!(was.record.epoch, is.record.epoch, "an empty node slipped in");
            }
            prop_assert!(!outcomes.contains(&Outcome::Started), "{:?}", outcomes);
        }
    }

    #[test]
    fn two_automatic_starts_leave_one_epoch_and_the_next_completes_it(
        fresh in prop::collection::vec(prop_oneof![Just(None), (0u64..9).prop_map(Some)], 1..=5),
        floors in [0u64..100, 0u64..100],
        choices in choices(),
    ) {
        let node = |floor: &Option<u64>| floor.map_or(NodeState::default(), |floor| NodeState::member(FIRST_EPOCH, floor));
        let mut nodes: Vec<_> = fresh.iter().map(node).collect();
        let starts = floors.map(|floor| Start::Automatic { floor });
        let calm: Vec<_> = choices.iter().map(|&(second, choice, lost, _)| (second, choice, lost, None)).collect();
        let outcomes = run(&mut nodes, starts, &calm);
        let member = |node: &NodeState| node.record.epoch == Some(FIRST_EPOCH);
        prop_assert!(nodes.iter().all(|node| node.record.epoch.is_none() || member(node)));
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Started | Outcome::NotNeeded)) {
            prop_assert!(nodes.iter().all(member), "{:?} was too early", outcomes);
        }
        run(&mut nodes, starts, &[]);
        prop_assert!(nodes.iter().all(member), "undisturbed, the next start completes it");
    }
}
