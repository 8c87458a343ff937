//! A state of the model as a moment of a trace, and what is different between two.

use redfence::proto::Session;

use super::{Client, Key, Moment, Node, Operator, Resource};
use crate::scenario::Scenario;
use crate::world::{
    Client as Actor, Kind, Node as Keeper, Pace, State, Time, Work, client_words, doing, name, node_words,
    operator_name,
};

/// The lane of a client.
pub(super) fn client_lane(client: u8) -> String {
    name(client).to_string()
}

/// The lane of a node.
pub(super) fn node_lane(node: usize) -> String {
    format!("node {node}")
}

/// What there is, `at` so much time after the beginning.
pub(super) fn moment<const N: usize, const C: usize>(
    scenario: &Scenario,
    state: &State<N, C>,
    at: u64,
) -> Moment {
    let settings = &scenario.settings;
    let timed = matches!(settings.time, Time::Timed { .. });
    let asked = scenario.expect.iter().map(|expect| expect.property);
    let violated = asked
        .filter(|asked| asked.kind() == Kind::Always && !asked.is_true(settings, state))
        .map(|p| p.name());
    Moment {
        at,
        clients: (0u8..).zip(&state.clients).map(|(id, actor)| client(id, actor, timed)).collect(),
        nodes: state.nodes.iter().enumerate().map(|(at, keeper)| node(at, keeper, timed)).collect(),
        operators: (0u8..)
            .zip(&state.operators)
            .map(|(id, operator)| Operator {
                lane: operator_name(state, id),
                does: match (operator.has_begun(), operator.is_over()) {
                    (false, _) => "waiting",
                    (true, false) => "at work",
                    (true, true) => "done",
                }
                .into(),
            })
            .collect(),
        resource: (settings.work != Work::Nothing).then(|| Resource { mark: u64::from(state.resource.mark) }),
        violated: violated.collect(),
    }
}

fn client<const N: usize>(id: u8, actor: &Actor<N>, timed: bool) -> Client {
    let until = actor.session.as_ref().and_then(Session::held).map(|(_, until)| until);
    let believes = actor.believes();
    Client {
        lane: client_lane(id),
        words: client_words(actor),
        does: doing(actor.app).into(),
        attempt: u64::from(actor.attempt),
        token: (actor.token > 0).then_some(u64::from(actor.token)),
        clock: i64::from(actor.clock),
        pace: match actor.pace {
            Pace::Running => "running",
            Pace::Paused => "paused",
            Pace::Stopped => "stopped",
        }
        .into(),
        holds: actor.holds(),
        believes,
        belief_left: until
            .filter(|_| believes && timed)
            .map(|until| u64::try_from(until.since(actor.now()).as_millis()).unwrap_or(u64::MAX)),
        outdated: actor.outdated,
    }
}

fn node(at: usize, keeper: &Keeper, timed: bool) -> Node {
    let left = (timed && keeper.has_ttl()).then_some(u64::from(keeper.left));
    Node {
        lane: node_lane(at),
        words: node_words(keeper),
        key: keeper.signer.client().map(|client| Key {
            client: client_lane(client),
            attempt: u64::from(keeper.signer.attempt()),
            left,
        }),
        number: u64::from(keeper.counter.unwrap_or(keeper.floor)),
        largest: u64::from(keeper.high),
        epoch: (keeper.epoch > 0).then_some(u64::from(keeper.epoch)),
        joining: (keeper.joining > 0).then_some(u64::from(keeper.joining)),
        silent: u64::from(keeper.silent),
    }
}
