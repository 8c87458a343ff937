//! A state of the model as a moment of a trace, and what is different between two.

use redfence::proto::Session;

use super::{Change, Client, Key, Moment, Node, Operator, Resource};
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

/// The lane of the guarded resource.
pub(super) const RESOURCE: &str = "resource";

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

impl Moment {
    /// Every field as lane, name and text, in a fixed order.
    pub fn fields(&self) -> Vec<(String, &'static str, String)> {
        let mut fields = Vec::new();
        for client in &self.clients {
            let mut add = |field, value: String| fields.push((client.lane.clone(), field, value));
            add("does", client.does.clone());
            add("believes", believes(client));
            add("token", optional(client.token));
            add("attempt", client.attempt.to_string());
            add("clock", client.clock.to_string());
            add("pace", client.pace.clone());
            add("read is outdated", yes(client.outdated));
        }
        for node in &self.nodes {
            let mut add = |field, value: String| fields.push((node.lane.clone(), field, value));
            add("key", node.key.as_ref().map_or("none".into(), key));
            add("number", node.number.to_string());
            add("largest number", node.largest.to_string());
            add("epoch", node.epoch.map_or("none: empty".into(), |epoch| epoch.to_string()));
            add("claimed for epoch", optional(node.joining));
            add("silent for", node.silent.to_string());
        }
        for operator in &self.operators {
            fields.push((operator.lane.clone(), "does", operator.does.clone()));
        }
        if let Some(resource) = &self.resource {
            fields.push((super::moment::RESOURCE.into(), "largest token seen", resource.mark.to_string()));
        }
        fields
    }

    /// Fields that are different in `after`.
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let pairs = self.fields().into_iter().zip(after.fields());
        let different = pairs.filter(|((_, _, old), (_, _, new))| old != new);
        different
            .map(|((lane, field, before), (_, _, after))| Change { lane, field: field.into(), before, after })
            .collect()
    }
}

impl Moment {
    /// What is different in `after`, one line for each lane.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        self.lines()
            .into_iter()
            .zip(after.lines())
            .filter(|(old, new)| old != new)
            .map(|((lane, old), (_, new))| format!("{lane}: {old} -> {new}"))
            .collect()
    }

    fn lines(&self) -> Vec<(&str, String)> {
        let nodes = self.nodes.iter().map(|node| (node.lane.as_str(), node.words.clone()));
        let clients = self.clients.iter().map(|client| (client.lane.as_str(), client.words.clone()));
        let resource =
            self.resource.iter().map(|resource| (RESOURCE, format!("largest token seen {}", resource.mark)));
        nodes.chain(clients).chain(resource).collect()
    }
}

fn believes(client: &Client) -> String {
    match (client.believes, client.belief_left) {
        (false, _) => "no".into(),
        (true, None) => "yes".into(),
        (true, Some(left)) => format!("yes, for {left}"),
    }
}

fn key(key: &Key) -> String {
    let attempt = if key.attempt > 1 { format!(" (attempt {})", key.attempt) } else { String::new() };
    let left = key.left.map_or(String::new(), |left| format!(" for {left}"));
    format!("{}'s{attempt}{left}", key.client)
}

fn optional(number: Option<u64>) -> String {
    number.map_or("none".into(), |number| number.to_string())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}
