//! What may happen next.

use redfence::proto::node::execute;
use redfence::proto::session::Config;
use redfence::proto::{Owner, Reply, Request, Session, Ttl};
use serde::{Deserialize, Serialize};

use super::hear::Hearing;
use super::link::{Ask, Slot};
use super::operator::Operator;
use super::settings::{Economy, Fault, Hint, Settings, Time, Work};
use super::state::{App, Client, ETERNAL, Node, Pace, State};

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A client begins an attempt.
    Begin {
        /// Which.
        client: u8,
        /// With this hint.
        hint: u8,
        /// Its clock will miss this many ticks.
        slow: u8,
    },
    /// A request arrives at its node and is done there.
    Execute {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
        /// The key it sets ends this many ticks early.
        early: u8,
    },
    /// A key ends, and a request arrives at its node and is done there. Only where keys end when a request meets them.
    ExecuteEnded {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
    },
    /// A request of an attempt that is over gets lost. Only where refusals are not heard.
    Lose {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
    },
    /// A silent node refuses the connection.
    Refuse {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
    },
    /// An answer arrives at its client.
    Deliver {
        /// Whose.
        client: u8,
        /// From where.
        node: u8,
    },
    /// Answers arrive at their client, and the last of them makes it act. Only where hearing that tells nobody anything takes no step.
    Hear {
        /// Whose.
        client: u8,
        /// From where: one bit for each node.
        nodes: u8,
        /// In which order, where that makes a difference: the first, the second.
        order: u8,
    },
    /// A client gives up waiting for a node and connects anew.
    GiveUp {
        /// Who.
        client: u8,
        /// Which node.
        node: u8,
    },
    /// A request given up arrives after all.
    Late {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
    },
    /// The caller gives up the attempt.
    Abandon(u8),
    /// The holder asks for more time.
    Extend(u8),
    /// The holder reads the guarded value.
    Read(u8),
    /// The holder looks at its validity, about to write.
    Check(u8),
    /// The holder writes.
    Write(u8),
    /// The holder writes, and the write is delayed.
    Delay(u8),
    /// A delayed write arrives.
    Arrive(u8),
    /// The holder releases.
    Release(u8),
    /// A key ends.
    Expire(u8),
    /// Time passes.
    Tick,
    /// A node's clock jumps forward.
    Jump(u8),
    /// A node's clock jumps back.
    JumpBack(u8),
    /// A node's lock key is evicted.
    Evict(u8),
    /// A node restarts with its data.
    Restart(u8),
    /// A node restarts empty.
    Wipe(u8),
    /// A node's data is saved.
    Save(u8),
    /// A node falls back to what was saved.
    Rollback(u8),
    /// A client pauses.
    Pause(u8),
    /// A client pauses and its clock stops.
    Stop(u8),
    /// A paused client goes on.
    Resume(u8),
    /// An operator begins.
    OperatorBegins(u8),
    /// An operator's request arrives at a node, and the answer comes back.
    OperatorAsks {
        /// Whose.
        operator: u8,
        /// Where.
        node: u8,
    },
    /// An operator's request arrives and the answer comes back, and a copy of the request may arrive once more.
    OperatorAsksTwice {
        /// Whose.
        operator: u8,
        /// Where.
        node: u8,
    },
    /// An operator gives up waiting for a node; its request may still arrive.
    OperatorGivesUp {
        /// Whose.
        operator: u8,
        /// Where.
        node: u8,
    },
    /// A request that an operator has given up, or sent twice, arrives.
    OperatorLate {
        /// Whose.
        operator: u8,
        /// Where.
        node: u8,
    },
    /// Another resource's number at a node rises.
    Neighbour(u8),
    /// An operator dies.
    OperatorDies(u8),
    /// A request is sent a second time.
    Repeat {
        /// Whose.
        client: u8,
        /// Where.
        node: u8,
    },
    /// A client dies.
    Die(u8),
    /// A client's clock is set back.
    SetBack(u8),
    /// A key that was set without a TTL gets it.
    Arm(u8),
}

fn ids(count: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..count).zip(0u8..)
}

/// Everything that may happen in this state, in a fixed order. Every action changes something: none is ever ignored.
pub(super) fn enabled<const N: usize, const C: usize>(
    settings: &Settings,
    config: &Config,
    state: &State<N, C>,
    actions: &mut Vec<Action>,
) {
    let done = |client: &Client<N>| client.attempt == settings.attempts && client.session.is_none();
    if settings.economy >= Economy::Terse && state.clients.iter().all(done) {
        return;
    }
    if settings.economy >= Economy::Terse
        && let Some(action) = undisturbed(settings, state)
    {
        return actions.push(action);
    }
    for (index, id) in ids(C) {
        let client = &state.clients[index];
        if client.pace == Pace::Running && client.app != App::Dead {
            client_steps(settings, state, client, id, actions);
        }
        if settings.economy >= Economy::Terse {
            let hearing = Hearing::new(config, client, &state.links[index]);
            actions.extend(hearing.choices().map(|(nodes, order)| Action::Hear { client: id, nodes, order }));
        }
        for (at, node) in ids(N) {
            link_steps(settings, state, (index, id), (at, node), actions);
        }
        client_faults(state, client, id, actions);
    }
    for (index, id) in ids(state.operators.len()) {
        let free = settings.overlap || state.operators[..index].iter().all(Operator::is_over);
        operator_steps(state, &state.operators[index], id, free, actions);
    }
    for (at, id) in ids(N) {
        node_faults(settings, state, at, id, actions);
    }
    if matches!(settings.time, Time::Timed { .. }) && time_may_pass(state) {
        actions.push(Action::Tick);
    }
}

fn left<const N: usize, const C: usize>(state: &State<N, C>, fault: Fault) -> bool {
    state.budget[fault as usize] > 0
}

fn client_steps<const N: usize, const C: usize>(
    settings: &Settings,
    state: &State<N, C>,
    client: &Client<N>,
    id: u8,
    actions: &mut Vec<Action>,
) {
    let timed = matches!(settings.time, Time::Timed { .. });
    let sure = !timed || client.believes();
    let pauses = settings.faults.pause > 0 || settings.faults.stop > 0;
    let ends = settings.release && client.holds();
    match client.app {
        App::Idle if settings.look_first && !state.operators[usize::from(id)].is_ready() => {}
        _ if (client.is_idle() || settings.economy >= Economy::Terse)
            && client.attempt < settings.attempts =>
        {
            let slowest = match settings.time {
                Time::Timed { slow, .. } => slow,
                Time::Untimed => 0,
            };
            for hint in hints(settings, client) {
                actions.extend((0..=slowest).map(|slow| Action::Begin { client: id, hint, slow }));
            }
        }
        App::Waiting if settings.abandon => actions.push(Action::Abandon(id)),
        App::Holding if settings.work == Work::Nothing && ends => actions.push(Action::Release(id)),
        App::Holding if settings.work != Work::Nothing && sure => actions.push(Action::Read(id)),
        App::Read if sure => {
            actions.push(if timed && pauses { Action::Check(id) } else { Action::Write(id) });
            if left(state, Fault::Delay) {
                actions.push(Action::Delay(id));
            }
        }
        App::Checked => actions.push(Action::Write(id)),
        App::Wrote | App::Fenced if ends => actions.push(Action::Release(id)),
        _ => {}
    }
    if left(state, Fault::Extend) && sure && client.session.as_ref().is_some_and(may_extend) {
        actions.push(Action::Extend(id));
    }
}

fn may_extend<const N: usize>(session: &Session<N>) -> bool {
    session.held().is_some() && session.extending().is_none()
}

fn hints<const N: usize>(settings: &Settings, client: &Client<N>) -> std::ops::RangeInclusive<u8> {
    match settings.hint {
        Hint::None => 0..=0,
        Hint::Any(most) => 0..=most,
        Hint::Best => {
            let seen = client.session.as_ref().map_or(0, |session| super::link::small(session.best()));
            let best = client.best.max(seen);
            let hint = if best == 0 { 0 } else { best + 1 };
            hint..=hint
        }
    }
}

fn link_steps<const N: usize, const C: usize>(
    settings: &Settings,
    state: &State<N, C>,
    (index, client): (usize, u8),
    (at, node): (usize, u8),
    actions: &mut Vec<Action>,
) {
    let link = &state.links[index][at];
    let silent = state.nodes[at].silent > 0;
    let runs = state.clients[index].pace == Pace::Running && state.clients[index].app != App::Dead;
    match link.slot {
        Slot::Idle => {}
        Slot::Asked(_) if silent => actions.push(Action::Refuse { client, node }),
        Slot::Asked(packet) if settings.economy >= Economy::Terse => {
            let late = state.clients[index].attempt != packet.attempt;
            terse_steps(&state.nodes[at], (packet.ask, late), (client, node), actions);
        }
        Slot::Asked(_) => {
            let fastest = match settings.time {
                Time::Timed { fast, .. } => fast,
                Time::Untimed => 0,
            };
            actions.extend((0..=fastest).map(|early| Action::Execute { client, node, early }));
        }
        Slot::Answered(..) if runs && settings.economy < Economy::Terse => {
            actions.push(Action::Deliver { client, node });
        }
        Slot::Answered(..) => {}
    }
    if link.slot != Slot::Idle && runs && left(state, Fault::Loss) {
        actions.push(Action::GiveUp { client, node });
    }
    if matches!(link.slot, Slot::Answered(..)) && link.stale.is_none() && left(state, Fault::Repeat) {
        actions.push(Action::Repeat { client, node });
    }
    if link.stale.is_some() && !silent {
        actions.push(Action::Late { client, node });
    }
}

/// What an operator does that neither disturbs anybody nor can be disturbed.
fn undisturbed<const N: usize, const C: usize>(settings: &Settings, state: &State<N, C>) -> Option<Action> {
    let disturbs = [Fault::Wipe, Fault::Rollback, Fault::OperatorLoss, Fault::OperatorRepeat];
    let alone = state.operators.len() == 1 || !settings.overlap;
    if !alone || disturbs.iter().any(|fault| left(state, *fault)) {
        return None;
    }
    let (operator, id) = state.operators.iter().zip(0u8..).find(|(operator, _)| !operator.is_over())?;
    if operator.job().starts() {
        return None;
    }
    if !operator.has_begun() {
        return is_needed(state).then_some(Action::OperatorBegins(id));
    }
    // One that dies may leave a claim unsent.
    let claims = !left(state, Fault::OperatorCrash);
    let asked = ids(N).filter(|(at, _)| match operator.call(*at) {
        Some(Request::Inspect) => true,
        Some(Request::Claim { .. }) => claims,
        _ => false,
    });
    // By what the node is, not by its number: states that are counted once must go on alike.
    let (_, node) = asked.min_by_key(|(at, _)| state.column(*at))?;
    Some(Action::OperatorAsks { operator: id, node })
}

/// Whether there is something to bring back: where no node is empty and all have one epoch, the shipped run would end at once.
fn is_needed<const N: usize, const C: usize>(state: &State<N, C>) -> bool {
    let one = state.nodes[0].epoch;
    state.nodes.iter().any(|node| node.epoch == 0 || node.epoch != one)
}

/// Whether this node grants when no key is there: asked of the shipped node, so that a wrong edit of it is seen.
fn grants(at: &Node) -> bool {
    let mut reference = at.reference();
    reference.expire();
    let request = Request::Acquire { owner: Owner(u128::MAX), ttl: Ttl::MAX, hint: 0 };
    matches!(execute(&mut reference, request), Ok(Reply::Mine(_)))
}

/// What becomes of a request where refusals are not heard.
fn terse_steps(at: &Node, (ask, late): (Ask, bool), (client, node): (u8, u8), actions: &mut Vec<Action>) {
    let now = Action::Execute { client, node, early: 0 };
    match ask {
        Ask::Grant if at.epoch == 0 && !grants(at) => {}
        Ask::Grant if at.signer.is_somebody() => actions.push(Action::ExecuteEnded { client, node }),
        Ask::Confirm if at.signer.client() == Some(client) => {
            actions.extend([now, Action::ExecuteEnded { client, node }]);
        }
        _ => actions.push(now),
    }
    if late {
        actions.push(Action::Lose { client, node });
    }
}

fn operator_steps<const N: usize, const C: usize>(
    state: &State<N, C>,
    operator: &Operator<N>,
    id: u8,
    free: bool,
    actions: &mut Vec<Action>,
) {
    if !operator.has_begun() {
        if free && (operator.job().starts() || is_needed(state)) {
            actions.push(Action::OperatorBegins(id));
        }
        return;
    }
    for (at, node) in ids(N) {
        if operator.call(at).is_some() {
            actions.push(Action::OperatorAsks { operator: id, node });
            if left(state, Fault::OperatorRepeat) && operator.has_room(at) {
                actions.push(Action::OperatorAsksTwice { operator: id, node });
            }
            if left(state, Fault::OperatorLoss) && operator.has_room(at) {
                actions.push(Action::OperatorGivesUp { operator: id, node });
            }
        }
        if operator.stale(at).is_some() {
            actions.push(Action::OperatorLate { operator: id, node });
        }
    }
    if left(state, Fault::OperatorCrash) && !operator.is_over() {
        actions.push(Action::OperatorDies(id));
    }
}

fn client_faults<const N: usize, const C: usize>(
    state: &State<N, C>,
    client: &Client<N>,
    id: u8,
    actions: &mut Vec<Action>,
) {
    let busy = client.app != App::Dead && !client.is_idle();
    match client.pace {
        Pace::Running if busy => {
            if left(state, Fault::Pause) {
                actions.push(Action::Pause(id));
            }
            if left(state, Fault::Stop) {
                actions.push(Action::Stop(id));
            }
            if left(state, Fault::ClockBack) {
                actions.push(Action::SetBack(id));
            }
        }
        Pace::Running => {}
        Pace::Paused | Pace::Stopped => actions.push(Action::Resume(id)),
    }
    if busy && left(state, Fault::Crash) {
        actions.push(Action::Die(id));
    }
    if client.app == App::Sent {
        actions.push(Action::Arrive(id));
    }
}

fn node_faults<const N: usize, const C: usize>(
    settings: &Settings,
    state: &State<N, C>,
    at: usize,
    id: u8,
    actions: &mut Vec<Action>,
) {
    let node = &state.nodes[at];
    let locked = node.signer.is_somebody();
    if locked && settings.time == Time::Untimed && settings.economy < Economy::Terse {
        actions.push(Action::Expire(id));
    }
    let alive = |client: u8| state.clients[usize::from(client)].app != App::Dead;
    if node.left == ETERNAL && node.signer.client().is_some_and(alive) {
        actions.push(Action::Arm(id));
    }
    if left(state, Fault::Jump) && (locked || node.silent > 0) {
        actions.push(Action::Jump(id));
    }
    if left(state, Fault::JumpBack) && locked {
        actions.push(Action::JumpBack(id));
    }
    if left(state, Fault::Evict) && locked {
        actions.push(Action::Evict(id));
    }
    if left(state, Fault::Restart) && state.links.iter().any(|links| links[at].slot != Slot::Idle) {
        actions.push(Action::Restart(id));
    }
    if left(state, Fault::Neighbour) && node.epoch > 0 {
        actions.push(Action::Neighbour(id));
    }
    if left(state, Fault::Wipe) {
        actions.push(Action::Wipe(id));
    }
    if let Some(saved) = &state.saved
        && saved[at] != *node
        && left(state, Fault::Rollback)
    {
        actions.push(Action::Save(id));
        actions.push(Action::Rollback(id));
    }
}

/// Time passes only when something depends on it, and never while a running client is about to write.
fn time_may_pass<const N: usize, const C: usize>(state: &State<N, C>) -> bool {
    let urgent = |client: &Client<N>| client.pace == Pace::Running && client.app == App::Checked;
    if state.clients.iter().any(urgent) {
        return false;
    }
    let counts = |client: &Client<N>| {
        client.app != App::Dead
            && client.pace != Pace::Stopped
            && client.session.as_ref().is_some_and(|session| !session.is_done())
    };
    state.nodes.iter().any(|node| node.left > 0 || node.silent > 0) || state.clients.iter().any(counts)
}
