//! Publish and subscribe.

use bytes::Bytes;

use super::{Call, Command, flag};
use crate::node::glob;
use crate::node::reply::{Fault, Reply};

const LISTEN: u8 = flag::NO_SCRIPT | flag::SUBSCRIBED;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("publish", 3, publish),
    Command::new("subscribe", -2, |call| subscribe(call, false)).flags(LISTEN),
    Command::new("psubscribe", -2, |call| subscribe(call, true)).flags(LISTEN),
    Command::new("unsubscribe", -1, |call| unsubscribe(call, false)).flags(LISTEN),
    Command::new("punsubscribe", -1, |call| unsubscribe(call, true)).flags(LISTEN),
    Command::family("pubsub", PUBSUB),
];

const PUBSUB: &[Command] = &[
    Command::new("channels", -2, channels),
    Command::new("numsub", -2, numsub),
    Command::new("numpat", 2, |call| Ok(Reply::count(call.state.bus.patterns()))),
];

fn publish(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let copy = |at: usize| Bytes::copy_from_slice(&call.args[at]);
    Ok(Reply::count(call.state.bus.publish(&copy(1), &copy(2))))
}

/// What a change of subscriptions answers: the change, and how many there are now.
fn confirmation(call: &mut Call<'_>, kind: &str, name: Option<&Bytes>) -> Reply {
    let (channels, patterns) = (call.session.channels.len(), call.session.patterns.len());
    if let Some(client) = call.state.client_of(call.session) {
        (client.channels, client.patterns) = (channels, patterns);
    }
    Reply::Push(vec![Reply::bulk(kind), Reply::bulk_or_null(name), Reply::count(channels + patterns)])
}

fn subscribe(call: &mut Call<'_>, pattern: bool) -> Result<Reply, Fault> {
    let kind = if pattern { "psubscribe" } else { "subscribe" };
    let mut replies = Vec::new();
    for name in &call.args[1..] {
        let name = Bytes::copy_from_slice(name);
        call.state.bus.subscribe(&name, pattern, call.session.ear());
        let names = if pattern { &mut call.session.patterns } else { &mut call.session.channels };
        names.insert(name.clone());
        replies.push(confirmation(call, kind, Some(&name)));
    }
    Ok(Reply::Sequence(replies))
}

fn unsubscribe(call: &mut Call<'_>, pattern: bool) -> Result<Reply, Fault> {
    let kind = if pattern { "punsubscribe" } else { "unsubscribe" };
    let mine = if pattern { &call.session.patterns } else { &call.session.channels };
    let names: Vec<Bytes> =
        if call.args.len() > 1 { call.args[1..].to_vec() } else { mine.iter().cloned().collect() };
    let mut replies = Vec::new();
    for name in &names {
        call.state.bus.unsubscribe(name, pattern, call.session.id);
        let mine = if pattern { &mut call.session.patterns } else { &mut call.session.channels };
        mine.remove(name);
        replies.push(confirmation(call, kind, Some(name)));
    }
    if names.is_empty() {
        replies.push(confirmation(call, kind, None));
    }
    Ok(Reply::Sequence(replies))
}

fn channels(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let pattern = call.args.get(2);
    let wanted = |name: &&Bytes| pattern.is_none_or(|pattern| glob::matches(pattern, name));
    Ok(Reply::Array(Reply::bulks(call.state.bus.channels().map(|(name, _)| name).filter(wanted))))
}

fn numsub(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let listeners =
        |name: &Bytes| call.state.bus.channels().find(|(other, _)| *other == name).map_or(0, |(_, n)| n);
    let answer =
        call.args[2..].iter().flat_map(|name| [Reply::Bulk(name.clone()), Reply::count(listeners(name))]);
    Ok(Reply::Array(answer.collect()))
}
