//! The world around the shipped machines: clients, connections, nodes, a guarded resource, and what can go wrong.
//!
//! Nothing of the protocol is written here. A client *is* a [`redfence::proto::Session`], a node answers by
//! [`redfence::proto::node::execute`], and what is safe is said by [`redfence::invariants`].

mod action;
mod canon;
mod describe;
mod hear;
mod link;
mod operator;
mod property;
mod settings;
mod state;
mod step;
mod takeover;

pub use action::Action;
pub(crate) use canon::{each_order, mix};
pub use describe::{asked, client_words, doing, heard, name, node_words, operator_name, sentence};
pub use link::{Answer, Ask, Link, Packet, Slot};
pub use operator::{Job, Operator};
pub use property::{Kind, Property};
pub use settings::{
    Economy, FAULTS, Fault, Faults, Guard, Hint, MAX_NODES, Owners, Rejoin, Settings, Time, Wiring, Work,
};
pub use state::{App, Client, Node, Pace, Resource, Signer, State, Wrongs};
pub use step::UNLIMITED;
pub use takeover::Takeovers;

use redfence::proto::session::Config;

/// A world of `N` nodes and `C` clients.
#[derive(Clone, Debug)]
pub struct World<const N: usize, const C: usize> {
    settings: Settings,
    config: Config,
}

impl<const N: usize, const C: usize> World<N, C> {
    /// Builds a world.
    ///
    /// # Panics
    /// If the settings are for another number of nodes or clients.
    pub fn new(settings: Settings) -> Self {
        assert_eq!((settings.nodes, settings.clients), (N, C), "a world of another size");
        Self { settings, config: settings.config() }
    }

    /// What it is built from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where it begins.
    pub fn start(&self) -> State<N, C> {
        State::new(&self.settings)
    }

    /// What may happen, in a fixed order.
    pub fn enabled(&self, state: &State<N, C>, actions: &mut Vec<Action>) {
        action::enabled(&self.settings, &self.config, state, actions);
    }

    /// What comes of it.
    pub fn step(&self, state: &State<N, C>, action: Action) -> State<N, C> {
        let mut next = state.clone();
        step::Stepper { settings: &self.settings, config: &self.config, state: &mut next }.take(action);
        next
    }
}

impl<const N: usize, const C: usize> crate::check::System for World<N, C> {
    type State = State<N, C>;
    type Action = Action;

    fn start(&self) -> State<N, C> {
        self.start()
    }

    fn enabled(&self, state: &State<N, C>, actions: &mut Vec<Action>) {
        self.enabled(state, actions);
    }

    fn step(&self, state: &State<N, C>, action: Action) -> State<N, C> {
        self.step(state, action)
    }
}
