//! Taking a path of the model step by step, and writing down what happens.

use redfence::proto::Session;

use super::RESOURCE;
use super::messages::{Change, Post};
use super::moment::{client_lane, moment, node_lane};
use super::{Assumption, Clock, Lane, LaneKind, Mark, MarkKind, Moment, SCHEMA, Step, Trace, Unit};
use crate::scenario::{Scenario, assumptions};
use crate::world::{Action, App, Client, Fault, Kind, State, Time, Work, World, operator_name, sentence};

/// A run under way.
pub(super) struct Recorder<'a, const N: usize, const C: usize> {
    scenario: &'a Scenario,
    world: &'a World<N, C>,
    /// Where it is.
    pub(super) state: State<N, C>,
    post: Post<N, C>,
    trace: Trace,
    reached: Vec<String>,
}

impl<'a, const N: usize, const C: usize> Recorder<'a, N, C> {
    /// At the beginning.
    pub(super) fn new(scenario: &'a Scenario, world: &'a World<N, C>) -> Self {
        let state = world.start();
        let (unit, ttl, margin) = match scenario.settings.time {
            Time::Untimed => (Unit::None, None, None),
            Time::Timed { ttl, margin, .. } => (Unit::Tick, Some(u64::from(ttl)), Some(u64::from(margin))),
        };
        let assumed = assumptions(&scenario.settings);
        let trace = Trace {
            schema: SCHEMA.into(),
            scenario: scenario.name.into(),
            shows: scenario.shows.into(),
            edit: scenario.mutant.map(Into::into),
            assumptions: assumed
                .into_iter()
                .map(|(name, value)| Assumption { name: name.into(), value })
                .collect(),
            clock: Clock { unit, ttl, margin },
            lanes: lanes(scenario, &state),
            start: moment(scenario, &state, 0),
            steps: Vec::new(),
            messages: Vec::new(),
        };
        Self { scenario, world, post: Post::new(&state), state, trace, reached: Vec::new() }
    }

    /// Steps taken.
    pub(super) fn steps(&self) -> usize {
        self.trace.steps.len()
    }

    /// What is possible here.
    pub(super) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.world.enabled(&self.state, &mut actions);
        actions
    }

    /// What would come of this action, in words, and where.
    pub(super) fn preview(&self, action: Action) -> (String, State<N, C>) {
        let after = self.world.step(&self.state, action);
        (sentence(&self.state, action, &after), after)
    }

    /// Takes a step.
    pub(super) fn take(&mut self, index: usize, action: Action) {
        let number = self.trace.steps.len() + 1;
        let (sentence, after) = self.preview(action);
        let change = Change { number, before: &self.state, action, after: &after };
        self.post.note(&change);
        let before = self.trace.moment(number - 1);
        let at = before.at + u64::from(action == Action::Tick);
        let now = moment(self.scenario, &after, at);
        let settings = &self.scenario.settings;
        let some = self.scenario.expect.iter().map(|expect| expect.property);
        let reached: Vec<String> = some
            .filter(|property| property.kind() == Kind::Sometimes && property.is_true(settings, &after))
            .map(|property| property.name())
            .filter(|name| !self.reached.contains(name))
            .collect();
        self.reached.extend(reached.iter().cloned());
        self.trace.steps.push(Step {
            number,
            action: Some(index),
            does: serde_json::to_value(action).ok(),
            sentence,
            fault: fault(action).is_some(),
            marks: marks(&change, before, &now),
            changes: before.changes(&now),
            reached,
            after: now,
        });
        self.state = after;
    }

    /// What was written down.
    pub(super) fn finish(self) -> Trace {
        Trace { messages: self.post.into_messages(), ..self.trace }
    }
}

fn lanes<const N: usize, const C: usize>(scenario: &Scenario, state: &State<N, C>) -> Vec<Lane> {
    let clients = (0u8..).take(C).map(client_lane).map(|id| Lane { id, kind: LaneKind::Client });
    let nodes = (0..N).map(node_lane).map(|id| Lane { id, kind: LaneKind::Node });
    let operators = (0u8..).take(state.operators.len()).map(|operator| operator_name(state, operator));
    let operators = operators.map(|id| Lane { id, kind: LaneKind::Operator });
    let resource = (scenario.settings.work != Work::Nothing)
        .then(|| Lane { id: RESOURCE.into(), kind: LaneKind::Resource });
    clients.chain(nodes).chain(operators).chain(resource).collect()
}

/// The fault that this action is, if it is one.
pub(super) fn fault(action: Action) -> Option<Fault> {
    Some(match action {
        Action::GiveUp { .. } => Fault::Loss,
        Action::Jump(_) => Fault::Jump,
        Action::JumpBack(_) => Fault::JumpBack,
        Action::Pause(_) => Fault::Pause,
        Action::Stop(_) => Fault::Stop,
        Action::Delay(_) => Fault::Delay,
        Action::Restart(_) => Fault::Restart,
        Action::Wipe(_) => Fault::Wipe,
        Action::Rollback(_) => Fault::Rollback,
        Action::Evict(_) => Fault::Evict,
        Action::Die(_) => Fault::Crash,
        Action::SetBack(_) => Fault::ClockBack,
        Action::Repeat { .. } => Fault::Repeat,
        Action::Neighbour(_) => Fault::Neighbour,
        Action::OperatorDies(_) => Fault::OperatorCrash,
        Action::OperatorGivesUp { .. } => Fault::OperatorLoss,
        Action::OperatorAsksTwice { .. } => Fault::OperatorRepeat,
        _ => return None,
    })
}

/// On whose lane a fault is drawn.
fn struck<const N: usize, const C: usize>(action: Action, state: &State<N, C>) -> String {
    match action {
        Action::Jump(node)
        | Action::JumpBack(node)
        | Action::Restart(node)
        | Action::Wipe(node)
        | Action::Rollback(node)
        | Action::Evict(node)
        | Action::Neighbour(node) => node_lane(usize::from(node)),
        Action::OperatorDies(operator)
        | Action::OperatorGivesUp { operator, .. }
        | Action::OperatorAsksTwice { operator, .. } => operator_name(state, operator),
        Action::GiveUp { client, .. } | Action::Repeat { client, .. } => client_lane(client),
        Action::Pause(client)
        | Action::Stop(client)
        | Action::Delay(client)
        | Action::Die(client)
        | Action::SetBack(client) => client_lane(client),
        _ => RESOURCE.into(),
    }
}

fn marks<const N: usize, const C: usize>(
    change: &Change<'_, N, C>,
    before: &Moment,
    after: &Moment,
) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut add = |lane: &str, kind, text: String| marks.push(Mark { lane: lane.into(), kind, text });
    if let Some(fault) = fault(change.action) {
        add(&struck(change.action, change.before), MarkKind::Fault, fault.name().into());
    }
    for (index, (old, new)) in before.clients.iter().zip(&after.clients).enumerate() {
        let (was, is) = (&change.before.clients[index], &change.after.clients[index]);
        match (held(was), held(is)) {
            (false, true) => {
                let token = new.token.map_or("has the lock".into(), |token| format!("token {token}"));
                add(&new.lane, MarkKind::Wins, token);
            }
            (true, false) => add(&new.lane, MarkKind::Ends, "no longer holds".into()),
            _ if new.attempt > old.attempt => add(&new.lane, MarkKind::Begins, "starts".into()),
            _ if is.app == App::Failed && was.app != App::Failed => {
                add(&new.lane, MarkKind::Fails, "fails".into());
            }
            _ if is.app == App::Fenced && was.app != App::Fenced => {
                add(RESOURCE, MarkKind::Refused, format!("refuses {}", new.lane));
            }
            _ => {}
        }
    }
    for (old, new) in before.nodes.iter().zip(&after.nodes) {
        if let (Some(key), None) = (&old.key, &new.key) {
            add(&new.lane, MarkKind::KeyEnds, format!("{}'s key ends", key.client));
        }
    }
    for name in after.violated.iter().filter(|name| !before.violated.contains(name)) {
        add(scene(name, change.action), MarkKind::Damage, harm(name).into());
    }
    marks
}

fn held<const N: usize>(client: &Client<N>) -> bool {
    client.session.as_ref().is_some_and(|session| Session::held(session).is_some())
}

/// On whose lane a harm is drawn; nothing for the whole picture.
fn scene(property: &str, action: Action) -> &'static str {
    match (property, action) {
        ("damage" | "lock-order", _) => RESOURCE,
        _ => "",
    }
}

/// A violated property as a shout.
fn harm(property: &str) -> &str {
    match property {
        "belief" => "two believe at once",
        "damage" => "an update is lost",
        "token-order" => "a token repeats or falls back",
        "release-safety" => "another owner's key is ended",
        "orphan" => "a key outlives its TTL",
        "lock-order" => "an older holder comes last",
        "hollow-win" => "won with no validity left",
        other => other,
    }
}
