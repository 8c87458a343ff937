//! Known ways to go wrong, step by step: each trace runs on the shipped code, every step is possible, and the last one does the harm.

use redfence::proto::Request;
use redfence::proto::node::{Obstacle, execute};
use redfence_model::mutants;
use redfence_model::world::Economy;
use redfence_model::world::{Action, Faults, Hint, Job, Property, Rejoin, Settings, State, Work, World};

const TOKENS: Settings = Settings {
    work: Work::Nothing,
    economy: Economy::LoseReleases,
    release: false,
    abandon: false,
    hint: Hint::None,
    ..Settings::BASIC
};

const A: u8 = 0;
const B: u8 = 1;

/// A trace being told.
struct Tale<const N: usize> {
    _edit: mutants::Applied,
    world: World<N, 2>,
    state: State<N, 2>,
}

impl<const N: usize> Tale<N> {
    fn new(settings: Settings) -> Self {
        Self::edited(None, settings)
    }

    /// With this wrong edit in force, and without any other.
    fn edited(edit: Option<&str>, settings: Settings) -> Self {
        let edit = mutants::apply(edit);
        let world = World::new(settings);
        let state = world.start();
        Self { _edit: edit, world, state }
    }

    fn step(&mut self, action: Action) -> &mut Self {
        let mut enabled = Vec::new();
        self.world.enabled(&self.state, &mut enabled);
        assert!(enabled.contains(&action), "{action:?} is not possible here: {enabled:?}");
        assert!(self.holds(), "harm was done before {action:?}");
        self.state = self.world.step(&self.state, action);
        self
    }

    fn starts(&mut self, client: u8) -> &mut Self {
        self.step(Action::Begin { client, hint: 0, slow: 0 })
    }

    /// The node does what the client asks; the answer is on its way.
    fn does(&mut self, client: u8, node: u8) -> &mut Self {
        self.step(Action::Execute { client, node, early: 0 })
    }

    fn hears(&mut self, client: u8, node: u8) -> &mut Self {
        self.step(Action::Deliver { client, node })
    }

    /// The node grants, the client hears it, and the number is this one.
    fn grants(&mut self, node: u8, client: u8, number: u8) -> &mut Self {
        self.does(client, node);
        assert_eq!(self.state.nodes[usize::from(node)].counter, Some(number), "node {node}");
        self.hears(client, node)
    }

    fn ends(&mut self, node: u8) -> &mut Self {
        self.step(Action::Expire(node))
    }

    fn operator(&mut self, operator: u8, nodes: &[u8]) -> &mut Self {
        nodes.iter().for_each(|&node| {
            self.step(Action::OperatorAsks { operator, node });
        });
        self
    }

    fn holds(&self) -> bool {
        Property::TokenOrder.is_true(self.world.settings(), &self.state)
    }

    fn epochs(&self) -> [u8; N] {
        self.state.nodes.map(|node| node.epoch)
    }

    fn token(&self, client: u8) -> u8 {
        self.state.clients[usize::from(client)].token
    }

    /// The harm is done, and these are the tokens.
    fn breaks(&self, tokens: [u8; 2]) {
        assert_eq!([self.token(A), self.token(B)], tokens);
        assert!(!self.holds(), "no harm was done: {:?}", self.state);
    }
}

fn faults(faults: Faults) -> Settings {
    Settings { faults, ..TOKENS }
}

#[test]
fn the_largest_of_a_quorum_that_is_not_written_back_repeats() {
    let mut tale = Tale::<3>::edited(Some("no-write-back"), TOKENS);
    tale.starts(A).grants(0, A, 1).ends(0).starts(B).grants(0, B, 2).does(B, 1).ends(1).grants(1, A, 2);
    assert_eq!(tale.token(A), 2);
    tale.hears(B, 1).breaks([2, 2]);
}

#[test]
fn a_wiped_node_that_votes_repeats_a_token() {
    let settings = faults(Faults { wipe: 1, ..Faults::NONE });
    let mut tale = Tale::<3>::new(Settings { rejoin: Rejoin::AsIfNew, ..settings });
    tale.starts(A).grants(0, A, 1).step(Action::Wipe(0)).grants(1, A, 1);
    tale.starts(B).grants(0, B, 1).grants(2, B, 1).breaks([1, 1]);
}

#[test]
fn a_wiped_node_that_is_refilled_without_a_new_epoch_repeats_a_token() {
    let settings = faults(Faults { wipe: 1, ..Faults::NONE });
    let settings = Settings { operators: &[Job::Readmit { draw: 1 }], ..settings };
    let mut tale = Tale::<3>::edited(Some("readmit-keeps-epoch"), settings);
    tale.starts(A).grants(0, A, 1).step(Action::Wipe(0)).step(Action::OperatorBegins(0));
    tale.operator(0, &[0, 1, 2]).operator(0, &[0]).operator(0, &[1, 2]).operator(0, &[0]);
    tale.grants(1, A, 1).starts(B).grants(0, B, 1).grants(2, B, 1).breaks([1, 1]);
}

#[test]
fn the_same_with_a_new_epoch_is_harmless() {
    let settings = faults(Faults { wipe: 1, ..Faults::NONE });
    let mut tale = Tale::<3>::new(Settings { operators: &[Job::Readmit { draw: 1 }], ..settings });
    tale.starts(A).grants(0, A, 1).step(Action::Wipe(0)).step(Action::OperatorBegins(0));
    tale.operator(0, &[0, 1, 2]).operator(0, &[0]).operator(0, &[1, 2]).operator(0, &[0]);
    tale.grants(1, A, 1);
    assert_eq!(tale.token(A), 0, "stands of two epochs are no quorum");
    tale.starts(B).grants(0, B, 1).grants(2, B, 1);
    assert_eq!(tale.token(B), 1);
    assert!(tale.holds());
}

#[test]
fn a_number_above_the_one_asked_for_is_no_confirmation() {
    let mut tale = Tale::<3>::edited(Some("larger-confirms"), TOKENS);
    tale.starts(A).does(A, 0).ends(0).grants(1, A, 1).starts(B).grants(0, B, 2).does(B, 2).ends(2);
    // A asks all to rise to 2.
    tale.grants(2, A, 2).does(A, 1).ends(1).hears(A, 1);
    assert_eq!(tale.token(A), 2);
    // B asks all to rise to 2, and then hears of 3.
    tale.hears(B, 2).grants(1, B, 3).breaks([2, 2]);
}

#[test]
fn two_healers_at_the_same_time_break_the_order_on_five_nodes() {
    let settings = Settings {
        nodes: 5,
        numbers: [2, 0, 0, 0, 0],
        operators: &[Job::Readmit { draw: 2 }, Job::Readmit { draw: 1 }],
        overlap: true,
        ..faults(Faults { wipe: 3, ..Faults::NONE })
    };
    let mut tale = Tale::<5>::new(settings);
    let (h3, h2) = (0, 1);
    tale.step(Action::Wipe(4)).step(Action::OperatorBegins(h3)).operator(h3, &[0, 1, 2, 3, 4, 4]);
    tale.step(Action::Wipe(4)).operator(h3, &[0]).starts(A).grants(0, A, 3).step(Action::Wipe(0));
    tale.step(Action::OperatorBegins(h2)).operator(h2, &[0, 1, 2, 3, 4]);
    tale.operator(h2, &[0, 4]).operator(h2, &[1, 2, 3]).operator(h2, &[0, 4]);
    tale.operator(h3, &[1, 2]).grants(1, A, 1).grants(2, A, 1);
    tale.grants(1, A, 3).grants(2, A, 3);
    assert_eq!(tale.token(A), 3);
    tale.starts(B).grants(0, B, 1).grants(3, B, 1).grants(4, B, 1).breaks([3, 1]);
}

#[test]
fn one_healer_after_the_other_keeps_the_order_there() {
    let settings = Settings {
        nodes: 5,
        numbers: [2, 0, 0, 0, 0],
        operators: &[Job::Readmit { draw: 2 }, Job::Readmit { draw: 1 }],
        ..faults(Faults { wipe: 3, ..Faults::NONE })
    };
    let mut tale = Tale::<5>::new(settings);
    tale.step(Action::Wipe(4)).step(Action::OperatorBegins(0)).operator(0, &[0, 1, 2, 3, 4, 4]);
    tale.step(Action::Wipe(4)).operator(0, &[0]).starts(A).grants(0, A, 3).step(Action::Wipe(0));
    let mut enabled = Vec::new();
    tale.world.enabled(&tale.state, &mut enabled);
    assert!(!enabled.contains(&Action::OperatorBegins(1)), "the first has not ended");
}

/// Two healers on five nodes, node 4 wiped, and one of them cannot reach it: the other's raise at node 0 is done twice if `again`
/// says so, once before node 0 was wiped too and brought back by the first, once after.
fn a_raise_before_and_after_a_wipe(again: bool) -> Tale<5> {
    let settings = Settings {
        nodes: 5,
        operators: &[Job::Readmit { draw: 2 }, Job::Readmit { draw: 1 }],
        overlap: true,
        ..faults(Faults { wipe: 2, operator_loss: 1, operator_repeat: 1, ..Faults::NONE })
    };
    let mut tale = Tale::<5>::new(settings);
    let (h3, h2) = (0, 1);
    tale.step(Action::Wipe(4)).step(Action::OperatorBegins(h3)).operator(h3, &[0, 1, 2, 3, 4, 4]);
    tale.step(Action::OperatorBegins(h2)).step(Action::OperatorGivesUp { operator: h2, node: 4 });
    tale.operator(h2, &[1, 2, 3]);
    // Node 0 stands in h3's epoch, grants there, and forgets it. Only then h2 looks at it.
    tale.step(Action::OperatorAsksTwice { operator: h3, node: 0 });
    tale.starts(A).grants(0, A, 1).step(Action::Wipe(0)).operator(h2, &[0, 0]);
    tale.operator(h2, &[1, 2, 3]).operator(h2, &[0]).operator(h3, &[1, 2, 3]).operator(h3, &[4]);
    assert_eq!(tale.epochs(), [2, 3, 3, 3, 3]);
    if again {
        tale.step(Action::OperatorLate { operator: h3, node: 0 });
        assert_eq!(tale.epochs(), [3; 5], "the node cannot know that it stood in this epoch before");
    }
    tale.grants(1, A, 1).grants(2, A, 1);
    assert_eq!(tale.token(A), 1, "node 0 told it before it was wiped");
    tale.starts(B).grants(0, B, 1).grants(3, B, 1).grants(4, B, 1);
    tale
}

#[test]
fn a_raise_done_again_after_a_wipe_repeats_a_token_where_two_healers_work() {
    a_raise_before_and_after_a_wipe(true).breaks([1, 1]);
}

#[test]
fn a_raise_done_once_is_harmless_there() {
    let tale = a_raise_before_and_after_a_wipe(false);
    assert_eq!(tale.token(B), 0, "stands of two epochs are no quorum");
    assert!(tale.holds());
}

#[test]
fn a_raise_done_again_is_refused_as_long_as_the_node_keeps_its_epoch() {
    let settings = Settings {
        operators: &[Job::Readmit { draw: 1 }],
        ..faults(Faults { wipe: 1, operator_repeat: 1, ..Faults::NONE })
    };
    let mut tale = Tale::<3>::new(settings);
    tale.step(Action::Wipe(2)).step(Action::OperatorBegins(0)).operator(0, &[0, 1, 2, 2]);
    tale.step(Action::OperatorAsksTwice { operator: 0, node: 0 }).starts(A).grants(0, A, 1);
    let before = tale.state.nodes;
    let late = tale.state.operators[0].stale(0);
    assert_eq!(late, Some(Request::Raise { epoch: 2 }));
    let again = execute(&mut before[0].reference(), Request::Raise { epoch: 2 });
    assert_eq!(again, Err(Obstacle::NotRaised));
    tale.step(Action::OperatorLate { operator: 0, node: 0 });
    assert_eq!(tale.state.nodes, before, "nothing was changed");
}

#[test]
fn a_healer_that_died_raises_nothing_any_more() {
    let settings = Settings {
        operators: &[Job::Readmit { draw: 1 }],
        ..faults(Faults { wipe: 1, operator_repeat: 1, operator_crash: 1, ..Faults::NONE })
    };
    let mut tale = Tale::<3>::new(settings);
    tale.step(Action::Wipe(2)).step(Action::OperatorBegins(0)).operator(0, &[0, 1, 2, 2]);
    tale.step(Action::OperatorAsksTwice { operator: 0, node: 0 }).step(Action::OperatorDies(0));
    let mut enabled = Vec::new();
    tale.world.enabled(&tale.state, &mut enabled);
    let late = |action: &Action| matches!(action, Action::OperatorLate { .. } | Action::OperatorAsks { .. });
    assert!(!enabled.iter().any(late), "its connections are closed: {enabled:?}");
}

#[test]
fn an_automatic_start_that_arrives_after_its_node_was_wiped_repeats_a_token() {
    let settings = Settings {
        operators: &[Job::Start { floor: 0 }, Job::Start { floor: 0 }],
        overlap: true,
        ..faults(Faults { wipe: 1, ..Faults::NONE })
    };
    let mut tale = Tale::<3>::new(settings);
    tale.step(Action::OperatorBegins(0)).step(Action::OperatorBegins(1));
    tale.operator(0, &[0, 1, 2]).operator(1, &[0, 1, 2]).operator(0, &[0, 1, 2]);
    tale.starts(A).grants(0, A, 1).step(Action::Wipe(0)).operator(1, &[0]).grants(1, A, 1);
    tale.starts(B).grants(0, B, 1).grants(2, B, 1).breaks([1, 1]);
}
