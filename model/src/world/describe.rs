//! Steps, messages and moments in words.

use redfence::proto::{Request, Session};

use super::action::Action;
use super::link::{Answer, Ask, Link, Packet, Slot};
use super::operator::Job;
use super::state::{App, Client, Node, Pace, Signer, State};

/// The client's name.
pub fn name(client: u8) -> char {
    char::from(b'A' + client)
}

fn whose(signer: Signer) -> String {
    match signer.client() {
        None => "nobody".into(),
        Some(client) if signer.attempt() <= 1 => name(client).to_string(),
        Some(client) => format!("{} (attempt {})", name(client), signer.attempt()),
    }
}

/// One step, in words.
pub fn sentence<const N: usize, const C: usize>(
    before: &State<N, C>,
    action: Action,
    after: &State<N, C>,
) -> String {
    let link = |client: u8, node: u8| &before.links[usize::from(client)][usize::from(node)];
    let simple =
        |client: u8, does: &str| format!("{} {does}{}", name(client), outcome(before, after, client));
    match action {
        Action::Begin { client, hint, slow } => {
            let attempt = after.clients[usize::from(client)].attempt;
            let hint = if hint > 0 { format!(", hint {hint}") } else { String::new() };
            let slow = if slow > 0 { format!("; its clock will miss {slow} ticks") } else { String::new() };
            let try_ = if attempt > 1 { format!("attempt {attempt}: ") } else { String::new() };
            format!("{} starts: {try_}asks every node for the lock{hint}{slow}", name(client))
        }
        Action::Execute { client, node, early } => {
            let Slot::Asked(packet) = link(client, node).slot else { return String::new() };
            let early = match early {
                0 => String::new(),
                ticks => format!("; its clock is fast, the key will end {ticks} early"),
            };
            format!("{}{early}", done_at(before, after, client, node, packet))
        }
        Action::ExecuteEnded { client, node } => {
            let Slot::Asked(packet) = link(client, node).slot else { return String::new() };
            format!("the key at node {node} has ended: {}", done_at(before, after, client, node, packet))
        }
        Action::Lose { client, node } => {
            format!("a request of {} to node {node} gets lost: its attempt was given up", name(client))
        }
        Action::Refuse { client, node } => format!("node {node} is silent and refuses {}", name(client)),
        Action::Deliver { client, node } => {
            let Slot::Answered(packet, answer) = link(client, node).slot else { return String::new() };
            let told = heard(packet, answer);
            format!("{} hears from node {node}: {told}{}", name(client), outcome(before, after, client))
        }
        Action::Hear { client, nodes, .. } => {
            let told = (0u8..8).filter(|node| nodes >> node & 1 == 1).filter_map(|node| {
                let Slot::Answered(packet, answer) = link(client, node).slot else { return None };
                Some(format!("from node {node}: {}", heard(packet, answer)))
            });
            let told: Vec<_> = told.collect();
            format!("{} hears {}{}", name(client), told.join("; "), outcome(before, after, client))
        }
        Action::GiveUp { client, node } => {
            let what = match link(client, node).slot {
                Slot::Answered(..) => "whose answer is lost",
                _ => "whose request may still arrive",
            };
            let rest = outcome(before, after, client);
            format!("{} gives up waiting for node {node}, {what}, and connects anew{rest}", name(client))
        }
        Action::Late { client, node } => {
            let Some(packet) = link(client, node).stale else { return String::new() };
            format!("late, over the old connection: {}", done_at(before, after, client, node, packet))
        }
        Action::Abandon(client) => simple(client, "gives up the attempt; releases sent to all"),
        Action::Extend(client) => simple(client, "asks every node to extend"),
        Action::Read(client) => match after.clients[usize::from(client)].app {
            App::Fenced => format!("the resource refuses to be read by {}: its token is old", name(client)),
            _ => simple(client, "reads the guarded value"),
        },
        Action::Check(client) => simple(client, "looks at its validity: still good; it is about to write"),
        Action::Write(client) | Action::Arrive(client) => write(before, action, after, client),
        Action::Delay(client) => simple(client, "sends its write, which is delayed in the network"),
        Action::Release(client) => simple(client, "releases; releases sent to all"),
        Action::Expire(node) => {
            format!("key ends at node {node} (was {}'s)", whose(before.nodes[usize::from(node)].signer))
        }
        Action::Tick => format!("one tick passes{}", ticked(before, after)),
        Action::Jump(node) => {
            format!("CLOCK JUMP: node {node}'s clock jumps forward past the end of its key")
        }
        Action::JumpBack(node) => format!("CLOCK JUMP: node {node}'s clock jumps back; its key lives longer"),
        Action::Evict(node) => format!("EVICTION: node {node} loses its lock key"),
        Action::Restart(node) => {
            format!("RESTART: node {node} restarts with all its data; connections break")
        }
        Action::Wipe(node) => format!("WIPE {node}: node {node} restarts and has lost its data"),
        Action::Save(node) => format!("node {node}'s data is saved"),
        Action::Rollback(node) => format!("OLD COPY: node {node} falls back to what was saved"),
        Action::Pause(client) => simple(client, "PAUSES"),
        Action::Stop(client) => simple(client, "PAUSES, and its clock stops"),
        Action::Resume(client) => simple(client, "goes on"),
        Action::OperatorBegins(operator) => {
            format!("{} asks every node what it is", operator_name(before, operator))
        }
        Action::OperatorAsks { operator, node } => {
            let call = before.operators[usize::from(operator)].call(usize::from(node));
            operator_asks(before, after, (operator, node), call) + &operator_then(before, after, operator)
        }
        Action::OperatorAsksTwice { operator, node } => {
            let call = before.operators[usize::from(operator)].call(usize::from(node));
            let done = operator_asks(before, after, (operator, node), call);
            format!("{done}; the request may arrive once more{}", operator_then(before, after, operator))
        }
        Action::OperatorGivesUp { operator, node } => {
            let (who, then) = (operator_name(before, operator), operator_then(before, after, operator));
            format!("{who} gives up waiting for node {node}, whose request may still arrive{then}")
        }
        Action::OperatorLate { operator, node } => {
            let stale = before.operators[usize::from(operator)].stale(usize::from(node));
            format!("late: {}", operator_asks(before, after, (operator, node), stale))
        }
        Action::Neighbour(node) => {
            format!("another resource at node {node} gets number {}", after.nodes[usize::from(node)].high)
        }
        Action::OperatorDies(operator) => format!("{} DIES", operator_name(before, operator)),
        Action::Repeat { client, node } => {
            format!("{}'s request to node {node} is sent a second time", name(client))
        }
        Action::Die(client) => simple(client, "DIES"),
        Action::SetBack(client) => simple(client, "'s clock is set back by a TTL"),
        Action::Arm(node) => format!("the key at node {node} gets its TTL"),
    }
}

/// The operator's name.
pub fn operator_name<const N: usize, const C: usize>(state: &State<N, C>, operator: u8) -> String {
    match state.operators[usize::from(operator)].job() {
        Job::Start { .. } | Job::Init { .. } => format!("starter {operator}"),
        Job::Readmit { .. } => format!("healer {operator}"),
    }
}

fn operator_asks<const N: usize, const C: usize>(
    before: &State<N, C>,
    after: &State<N, C>,
    (operator, node): (u8, u8),
    call: Option<Request>,
) -> String {
    let at = usize::from(node);
    let who = operator_name(before, operator);
    let changed = before.nodes[at] != after.nodes[at];
    let Some(request) = call else { return String::new() };
    match (request, changed) {
        (Request::Init { epoch, floor }, true) => {
            format!("node {node} takes epoch {epoch} from {who}, numbers from {floor}")
        }
        (Request::Init { .. }, false) => format!("node {node} has an epoch, {who} changes nothing"),
        (Request::Claim { epoch }, true) => format!("{who} claims node {node} for epoch {epoch}"),
        (Request::Claim { .. }, false) => format!("node {node} is not to be claimed by {who}"),
        (Request::Raise { epoch }, true) => {
            format!("node {node} rises to epoch {epoch} for {who}, largest number {}", after.nodes[at].high)
        }
        (Request::Raise { .. }, false) => format!("node {node} refuses to rise for {who}"),
        (Request::Admit { epoch, floor }, true) => {
            format!("{who} admits node {node} into epoch {epoch}, numbers from {floor}")
        }
        (Request::Admit { .. }, false) => format!("node {node} is not admitted by {who}"),
        _ if before.nodes[at].epoch == 0 => format!("node {node} tells {who} that it is empty"),
        _ => format!("node {node} tells {who} what it is"),
    }
}

/// What an operator makes of what it has heard.
fn operator_then<const N: usize, const C: usize>(
    before: &State<N, C>,
    after: &State<N, C>,
    operator: u8,
) -> String {
    let asked = |state: &State<N, C>, at: usize| state.operators[usize::from(operator)].call(at);
    let fresh = (0..N).filter(|&at| asked(after, at).is_some() && asked(before, at) != asked(after, at));
    let nodes: Vec<usize> = fresh.collect();
    let Some(request) = nodes.first().and_then(|&at| asked(after, at)) else { return String::new() };
    let nodes = nodes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("; asks node {nodes}: {request}")
}

fn done_at<const N: usize, const C: usize>(
    before: &State<N, C>,
    after: &State<N, C>,
    client: u8,
    node: u8,
    packet: Packet,
) -> String {
    let at = before.meant(usize::from(client), usize::from(node));
    let (old, new) = (&before.nodes[at], &after.nodes[at]);
    let node = at;
    let who = name(client);
    let mine = new.signer.client() == Some(client);
    let number = new.counter.unwrap_or(new.floor);
    match packet.ask {
        Ask::Grant if mine && old.signer != new.signer => match new.counter {
            Some(_) => format!("node {node} grants {who}:{number}"),
            None => format!("node {node} grants {who}"),
        },
        Ask::Grant if old.signer.is_somebody() => {
            format!("node {node} refuses {who}: the key is {}'s", whose(old.signer))
        }
        Ask::Grant | Ask::Confirm if new.epoch == 0 => {
            format!("node {node} is empty and does not vote for {who}")
        }
        Ask::Grant => format!("node {node} refuses {who}"),
        Ask::Confirm if mine && old == new => format!("node {node} stands at {who}:{number}"),
        Ask::Confirm if mine => format!("node {node} rises to {who}:{number}"),
        Ask::Confirm => format!("node {node} does not confirm {who}: the key is {}'s", whose(new.signer)),
        Ask::Extend if mine => format!("node {node} extends {who}'s key"),
        Ask::Extend => format!("node {node} does not extend: the key is {}'s", whose(new.signer)),
        Ask::Release if old.signer != new.signer => {
            format!("node {node} does {who}'s release: deletes {}'s key", whose(old.signer))
        }
        Ask::Release => format!("node {node} does {who}'s release: not its key"),
    }
}

/// An answer, in words.
pub fn heard(packet: Packet, answer: Answer) -> String {
    match (packet.ask, answer) {
        (Ask::Grant, Answer::Mine(0, _)) => "granted".into(),
        (Ask::Grant, Answer::Mine(number, _)) => format!("granted, number {number}"),
        (_, Answer::Mine(number, _)) => format!("confirmed, number {number}"),
        (_, Answer::Taken(0)) => "taken".into(),
        (_, Answer::Taken(number)) => format!("taken, number {number}"),
        (_, Answer::NotMine) => "not yours".into(),
        (_, Answer::Empty) => "empty".into(),
        (_, Answer::Extended) => "extended".into(),
        (_, Answer::Released) => "released".into(),
        (_, Answer::Refused) => "no connection".into(),
    }
}

/// What a client makes of what it has just heard.
fn outcome<const N: usize, const C: usize>(before: &State<N, C>, after: &State<N, C>, client: u8) -> String {
    let index = usize::from(client);
    let (old, new) = (&before.clients[index], &after.clients[index]);
    let who = name(client);
    let held = |client: &Client<N>| client.session.as_ref().and_then(Session::held);
    let confirms = |links: &[Link; N]| links.iter().map(confirm).max().unwrap_or(0);
    let (was, is) = (confirms(&before.links[index]), confirms(&after.links[index]));
    match (held(old), held(new)) {
        (None, Some((Some(token), _))) => format!("; {who} wins with token {token}"),
        (None, Some((None, _))) => format!("; {who} has the lock"),
        (Some((_, until)), Some((_, later))) if later > until => format!("; {who} holds for longer"),
        (Some(_), None) if new.now() >= held(old).map_or(new.now(), |(_, until)| until) => {
            format!("; {who}'s validity is over")
        }
        _ if new.app == App::Failed && old.app == App::Waiting => {
            format!("; {who} fails, releases sent to all")
        }
        _ if is > was => format!("; {who} asks all nodes to rise to {is}"),
        _ => String::new(),
    }
}

/// The largest number a confirm on this line asks for.
fn confirm(link: &Link) -> u8 {
    let on_line = match link.slot {
        Slot::Asked(packet) => Some(packet),
        Slot::Idle | Slot::Answered(..) => None,
    };
    let packets = link.waiting().iter().copied().chain(on_line);
    packets.filter(|packet| packet.ask == Ask::Confirm).map(|packet| packet.number).max().unwrap_or(0)
}

fn write<const N: usize, const C: usize>(
    before: &State<N, C>,
    action: Action,
    after: &State<N, C>,
    client: u8,
) -> String {
    let who = name(client);
    let delayed = if matches!(action, Action::Arrive(_)) { "delayed " } else { "" };
    let (old, new) = (&before.clients[usize::from(client)], &after.clients[usize::from(client)]);
    if new.app == App::Fenced || (old.token < before.resource.mark && before.resource == after.resource) {
        return format!("the resource refuses {who}'s {delayed}write: token {} is old", old.token);
    }
    let lost = if old.outdated { ", which rests on an old read: AN UPDATE IS LOST" } else { "" };
    let late = if old.believes() { "" } else { ", although its validity is over" };
    format!("{who}'s {delayed}write is accepted{late}{lost}")
}

fn ticked<const N: usize, const C: usize>(before: &State<N, C>, after: &State<N, C>) -> String {
    let ended = |index: &usize| {
        before.nodes[*index].signer.is_somebody() && !after.nodes[*index].signer.is_somebody()
    };
    let nodes: Vec<String> =
        (0..N).filter(ended).map(|index| format!("; key ends at node {index}")).collect();
    let clients: Vec<String> = (0u8..).take(C).map(|client| outcome(before, after, client)).collect();
    nodes.concat() + &clients.concat()
}

/// A request, in words.
pub fn asked(packet: Packet) -> String {
    match (packet.ask, packet.number) {
        (Ask::Grant, 0) => "lock?".into(),
        (Ask::Grant, hint) => format!("lock? hint {hint}"),
        (Ask::Confirm, number) => format!("rise to {number}"),
        (Ask::Extend, _) => "extend".into(),
        (Ask::Release, _) => "release".into(),
    }
}

/// A node, in words.
pub fn node_words(node: &Node) -> String {
    let number = node.counter.unwrap_or(node.floor);
    let silent = if node.silent > 0 { format!(", silent for {}", node.silent) } else { String::new() };
    let epoch = if node.epoch == 0 {
        ", empty".into()
    } else if node.epoch > 1 {
        format!(", epoch {}", node.epoch)
    } else {
        String::new()
    };
    let key = match node.signer.is_somebody() {
        true => format!("key {}'s for {}", whose(node.signer), node.left),
        false => "no key".into(),
    };
    format!("{key}, number {number}{epoch}{silent}")
}

/// What a client is doing, in words.
pub fn doing(app: App) -> &'static str {
    match app {
        App::Idle => "idle",
        App::Waiting => "waiting for the lock",
        App::Holding => "holding",
        App::Read => "holding, has read",
        App::Checked => "about to write",
        App::Sent => "write under way",
        App::Wrote => "has written",
        App::Fenced => "refused by the resource",
        App::Over => "done",
        App::Failed => "failed",
        App::Dead => "dead",
    }
}

/// A client, in words.
pub fn client_words<const N: usize>(client: &Client<N>) -> String {
    let doing = doing(client.app);
    let token = if client.token > 0 { format!(", token {}", client.token) } else { String::new() };
    let pace = match client.pace {
        Pace::Running => "",
        Pace::Paused => ", paused",
        Pace::Stopped => ", paused with its clock",
    };
    let belief = match client.session.as_ref().and_then(Session::held) {
        Some((_, until)) if client.believes() => {
            format!(", believes for {}ms", until.since(client.now()).as_millis())
        }
        _ => String::new(),
    };
    format!("{doing}{token}{belief}{pace}")
}
