//! The most general client: everything that clients may do, and no policy.
//!
//! An attempt has any node do any request at any moment: a grant with any hint, also a second one, and a confirm of any number. It
//! counts every answer it ever got, and wins each number that a quorum has answered with one epoch. A client that follows
//! the winning rule can only do less of this, or later; so where the order of tokens holds here, it holds for every such client,
//! those included that nobody has written yet. Nodes are the shipped reference, and nodes that lost their data are brought back
//! by the shipped re-admission.
//!
//! What takes no step, because the worst moment for it is known:
//!
//! | what | when it happens here | why none is worse |
//! |---|---|---|
//! | an answer is heard, an attempt wins | when the node answers | a later win is before the start of fewer attempts |
//! | an attempt starts | with its first grant | an earlier start is after fewer wins |
//! | a key ends or is released | with the next grant there ([`Settings::ends`]: any time) | a key that has ended only refuses confirms |
//! | an operator hears an answer | when the node answers | it only waits for all of them, and what it asks next may take any time |
//! | an operator that works alone begins, looks and claims, once no node can lose its data any more | at once | no client can tell |
//!
//! A request that changes nothing and tells nothing new takes no step either.

mod order;
mod state;

use redfence::proto::node::execute;
use redfence::proto::{Quorum, Reply, Request, Stand, Ttl};

use crate::check::System;
use crate::world::{Job, Node, Operator, Signer, Time};

pub use order::Property;
pub use state::State;

/// The largest number a request may lead to, in any world: answers are kept as bits.
pub const MOST: u8 = 7;

/// What a world of general clients is built from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The largest number a request may lead to.
    pub most: u8,
    /// How often a node may lose its data.
    pub wipes: u8,
    /// What becomes of a node that lost its data.
    pub rejoin: Rejoin,
    /// What wins.
    pub rule: Rule,
    /// Keys also end when nobody asks for one.
    pub ends: bool,
    /// Count states once that differ only in the numbering of nodes and attempts.
    pub symmetric: bool,
}

/// What wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A quorum of nodes has answered one number and one epoch.
    Shipped,
    /// A wrong edit: epochs are not compared.
    EpochIgnored,
    /// A wrong edit: one node fewer.
    Minority,
}

/// What becomes of a node that lost its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejoin {
    /// It stays empty.
    Never,
    /// Operators, one after the other, bring it back; all but the last may die half-way.
    Readmitted {
        /// What each of them is to do.
        jobs: &'static [Job],
        /// What of theirs may arrive a second time, at any later moment.
        twice: Twice,
    },
    /// It starts again by itself, in the epoch it had, from a number that it takes from a clock.
    Clock(Clock),
}

/// What an operator asks of a node twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Twice {
    /// Nothing.
    Never,
    /// An admission.
    Admissions,
    /// A raise, too.
    RaisesAndAdmissions,
}

impl Twice {
    fn includes(self, request: Request) -> bool {
        match request {
            Request::Admit { .. } => self >= Self::Admissions,
            Request::Raise { .. } => self >= Self::RaisesAndAdmissions,
            _ => false,
        }
    }
}

/// What a clock is known to be at or above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Every number that any node has ever had.
    EveryNumber,
    /// Every token that has been won.
    EveryToken,
}

impl Settings {
    /// Nothing goes wrong.
    pub const BASIC: Self =
        Self { most: 4, wipes: 0, rejoin: Rejoin::Never, rule: Rule::Shipped, ends: false, symmetric: true };
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A node grants.
    Grant {
        /// To which attempt.
        attempt: u8,
        /// Which node.
        node: u8,
        /// What it is told of other nodes' numbers.
        hint: u8,
    },
    /// A node confirms.
    Confirm {
        /// To which attempt.
        attempt: u8,
        /// Which node.
        node: u8,
        /// The number it is asked to rise to.
        number: u8,
    },
    /// The key of a node ends.
    End(u8),
    /// A node loses its data.
    Wipe(u8),
    /// A node that lost its data starts again, by its clock.
    Restart(u8),
    /// An operator begins.
    OperatorBegins(u8),
    /// An operator's request arrives, and the answer comes back.
    OperatorAsks {
        /// Which operator.
        operator: u8,
        /// Which node.
        node: u8,
    },
    /// The same, and a copy of the request may arrive once more.
    OperatorAsksTwice {
        /// Which operator.
        operator: u8,
        /// Which node.
        node: u8,
    },
    /// The copy arrives.
    OperatorLate {
        /// Which operator.
        operator: u8,
        /// Which node.
        node: u8,
    },
    /// An operator that is not the last dies; its connections are closed.
    OperatorDies(u8),
}

/// A world of `A` attempts at `N` nodes.
#[derive(Clone, Copy, Debug)]
pub struct General<const N: usize, const A: usize> {
    settings: Settings,
}

impl<const N: usize, const A: usize> General<N, A> {
    /// Builds one.
    ///
    /// # Panics
    /// If numbers may exceed [`MOST`].
    pub const fn new(settings: Settings) -> Self {
        assert!(settings.most <= MOST, "answers are kept as bits");
        Self { settings }
    }

    /// What it is built from.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many equal answers win.
    fn needed(&self) -> usize {
        let needed = Quorum::of(N).needed();
        if self.settings.rule == Rule::Minority { needed - 1 } else { needed }
    }

    /// What a node becomes by a request of an attempt, and where it says it stands.
    fn asked(&self, node: &Node, attempt: u8, action: Action) -> Option<(Node, Stand)> {
        let owner = Signer::new(attempt, 0).owner();
        let mut reference = node.reference();
        let request = match action {
            Action::Grant { hint, .. } => {
                if !self.settings.ends {
                    reference.expire();
                }
                Request::Acquire { owner, ttl: Ttl::MAX, hint: u64::from(hint) }
            }
            Action::Confirm { number, .. } => Request::Confirm { owner, number: u64::from(number) },
            _ => return None,
        };
        let Ok(Reply::Mine(stand)) = execute(&mut reference, request) else { return None };
        let mut after = *node;
        after.take(&reference, Time::Untimed);
        (stand.number <= u64::from(self.settings.most)).then_some((after, stand))
    }

    /// Requests of an attempt that change a node or tell something new.
    fn requests(&self, state: &State<N, A>, attempt: u8, node: u8, actions: &mut Vec<Action>) {
        let at = usize::from(node);
        let numbers = 0..=self.settings.most;
        let grants = numbers.clone().map(|hint| Action::Grant { attempt, node, hint });
        let confirms = numbers.map(|number| Action::Confirm { attempt, node, number });
        let mut known: [Option<(Node, Stand)>; 2 * MOST as usize + 2] = [None; _];
        for (action, place) in grants.chain(confirms).zip(0..) {
            let Some(outcome) = self.asked(&state.nodes[at], attempt, action) else { continue };
            let (after, stand) = outcome;
            let nothing_new = after == state.nodes[at] && state.has_heard(attempt, node, stand);
            // Other hints and numbers that come to the same.
            if nothing_new || known[..place].contains(&Some(outcome)) {
                continue;
            }
            known[place] = Some(outcome);
            actions.push(action);
        }
    }

    /// What happens to nodes whatever anybody asks of them.
    fn mishaps(&self, state: &State<N, A>, actions: &mut Vec<Action>) {
        for (at, node) in state.nodes.iter().zip(0u8..) {
            if self.settings.ends && at.signer.is_somebody() {
                actions.push(Action::End(node));
            }
            if state.wipes > 0 && *at != Node::default() {
                actions.push(Action::Wipe(node));
            }
            if matches!(self.settings.rejoin, Rejoin::Clock(_)) && at.epoch == 0 {
                actions.push(Action::Restart(node));
            }
        }
    }

    fn operator_steps(&self, state: &State<N, A>, actions: &mut Vec<Action>) {
        let Rejoin::Readmitted { twice, .. } = self.settings.rejoin else { return };
        if let Some(operator) = state.next_to_begin() {
            actions.push(Action::OperatorBegins(operator));
        }
        for (at, operator) in state.operators.iter().zip(0u8..) {
            let is_last = usize::from(operator) + 1 == state.operators.len();
            if at.has_begun() && !at.is_over() && !is_last {
                actions.push(Action::OperatorDies(operator));
            }
            for (index, node) in (0..N).zip(0u8..) {
                if let Some(request) = at.call(index) {
                    actions.push(Action::OperatorAsks { operator, node });
                    if twice.includes(request) && at.has_room(index) {
                        actions.push(Action::OperatorAsksTwice { operator, node });
                    }
                }
                if at.stale(index).is_some() {
                    actions.push(Action::OperatorLate { operator, node });
                }
            }
        }
    }

    fn hear(&self, state: &mut State<N, A>, attempt: u8, node: u8, action: Action) {
        let at = usize::from(node);
        let Some((after, stand)) = self.asked(&state.nodes[at], attempt, action) else { return };
        if !state.has_begun(attempt) {
            state.before[usize::from(attempt)] = self.largest_token(state);
        }
        state.nodes[at] = after;
        state.answer(attempt, node, stand);
        if matches!(action, Action::Grant { .. }) {
            state.granted(attempt, node);
        }
    }

    /// The number from which a node starts by its clock.
    fn clock(&self, state: &State<N, A>, clock: Clock) -> u8 {
        match clock {
            Clock::EveryNumber => state.nodes.iter().map(|node| node.high).fold(state.lost, u8::max),
            Clock::EveryToken => self.largest_token(state),
        }
    }

    fn wipe(&self, state: &mut State<N, A>, node: u8) {
        let at = &mut state.nodes[usize::from(node)];
        state.wipes -= 1;
        if self.settings.rejoin == Rejoin::Clock(Clock::EveryNumber) {
            state.lost = state.lost.max(at.high);
        }
        at.with(Time::Untimed, |node| node.wipe());
    }

    fn restart(&self, state: &mut State<N, A>, node: u8) {
        let Rejoin::Clock(clock) = self.settings.rejoin else { return };
        let floor = u64::from(self.clock(state, clock));
        state.done_for_operator(node, Request::Init { epoch: 1, floor });
    }

    fn take(&self, state: &mut State<N, A>, action: Action) {
        match action {
            Action::Grant { attempt, node, .. } | Action::Confirm { attempt, node, .. } => {
                self.hear(state, attempt, node, action);
            }
            Action::End(node) => state.nodes[usize::from(node)].with(Time::Untimed, |node| node.expire()),
            Action::Wipe(node) => self.wipe(state, node),
            Action::Restart(node) => self.restart(state, node),
            Action::OperatorBegins(operator) => state.operators[usize::from(operator)].begin(),
            Action::OperatorAsks { operator, node } => state.operate(operator, node),
            Action::OperatorAsksTwice { operator, node } => {
                state.operators[usize::from(operator)].repeat(usize::from(node));
                state.operate(operator, node);
            }
            Action::OperatorDies(operator) => state.operators[usize::from(operator)].die(),
            Action::OperatorLate { operator, node } => {
                if let Some(request) = state.operators[usize::from(operator)].take_stale(usize::from(node)) {
                    state.done_for_operator(node, request);
                }
            }
        }
        if state.wipes == 0 {
            state.hurry();
        }
    }
}

impl<const N: usize, const A: usize> System for General<N, A> {
    type State = State<N, A>;
    type Action = Action;

    fn start(&self) -> State<N, A> {
        let operators = match self.settings.rejoin {
            Rejoin::Readmitted { jobs, .. } => jobs.iter().map(|job| Operator::new(*job)).collect(),
            Rejoin::Never | Rejoin::Clock(_) => Vec::new(),
        };
        State::new(self.settings.wipes, operators, self.settings.symmetric)
    }

    fn enabled(&self, state: &State<N, A>, actions: &mut Vec<Action>) {
        for attempt in (0u8..).take(A) {
            for node in (0u8..).take(N) {
                self.requests(state, attempt, node, actions);
            }
            // Attempts that have not begun are all alike.
            if self.settings.symmetric && !state.has_begun(attempt) {
                break;
            }
        }
        self.mishaps(state, actions);
        self.operator_steps(state, actions);
    }

    fn step(&self, state: &State<N, A>, action: Action) -> State<N, A> {
        let mut next = state.clone();
        self.take(&mut next, action);
        next
    }
}
