//! Lists.

use std::collections::VecDeque;

use super::{Call, Command};
use crate::node::reply::{Fault, Reply};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("rpush", -3, |call| push(call, false)).key().writes(),
    Command::new("lpush", -3, |call| push(call, true)).key().writes(),
    Command::new("rpop", -2, |call| pop(call, false)).key().writes(),
    Command::new("lpop", -2, |call| pop(call, true)).key().writes(),
    Command::new("lrange", 4, lrange).key(),
    Command::new("llen", 2, llen).key(),
];

fn push(call: &mut Call<'_>, front: bool) -> Result<Reply, Fault> {
    let args = call.args;
    call.space().push(&args[1], &args[2..], front).map(Reply::count)
}

fn pop(call: &mut Call<'_>, front: bool) -> Result<Reply, Fault> {
    let args = call.args;
    match args.len() {
        2 => call.space().pop(&args[1], front).map(|item| Reply::bulk_or_null(item.as_ref())),
        3 => pop_many(call, front),
        _ => Err(format!("ERR wrong number of arguments for '{}' command", call.word(0)).into()),
    }
}

fn pop_many(call: &mut Call<'_>, front: bool) -> Result<Reply, Fault> {
    let args = call.args;
    let refusal = Fault::new("ERR value is out of range, must be positive");
    let count = call.integer(2).ok().and_then(|count| usize::try_from(count).ok()).ok_or(refusal)?;
    let Some(length) = call.space().list(&args[1])?.map(VecDeque::len) else {
        return Ok(Reply::NullArray);
    };
    let mut items = Vec::new();
    for _ in 0..count.min(length) {
        items.extend(call.space().pop(&args[1], front)?);
    }
    Ok(Reply::Array(Reply::bulks(&items)))
}

/// The part of `length` items from `start` to `stop`, both included, negative ones counted from the end.
fn bounds(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { length.saturating_add(at) } else { at };
    let start = from_end(start).clamp(0, length);
    let stop = from_end(stop).saturating_add(1).clamp(start, length);
    (usize::try_from(start).unwrap_or(0), usize::try_from(stop).unwrap_or(0))
}

fn lrange(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let Some(items) = call.state.space.list(&call.args[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let (start, stop) = bounds(start, stop, items.len());
    Ok(Reply::Array(Reply::bulks(items.range(start..stop))))
}

fn llen(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::count(call.state.space.list(&call.args[1])?.map_or(0, VecDeque::len)))
}
