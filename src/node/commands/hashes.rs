//! Hashes.

use bytes::Bytes;

use super::{Call, Command, integer};
use crate::node::reply::{Fault, Reply};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hset", -4, hset).key().writes(),
    Command::new("hsetnx", 4, hsetnx).key().writes(),
    Command::new("hmset", -4, hmset).key().writes(),
    Command::new("hget", 3, hget).key(),
    Command::new("hmget", -3, hmget).key(),
    Command::new("hgetall", 2, hgetall).key(),
    Command::new("hkeys", 2, hkeys).key(),
    Command::new("hvals", 2, hvals).key(),
    Command::new("hlen", 2, hlen).key(),
    Command::new("hexists", 3, hexists).key(),
    Command::new("hdel", -3, hdel).key().writes(),
    Command::new("hincrby", 4, hincrby).key().writes(),
];

fn put_pairs(call: &mut Call<'_>, name: &str) -> Result<i64, Fault> {
    let args = call.args;
    if !args.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let mut new = 0;
    for pair in args[2..].chunks_exact(2) {
        new += i64::from(call.space().put_field(&args[1], &pair[0], &pair[1])?);
    }
    Ok(new)
}

fn hset(call: &mut Call<'_>) -> Result<Reply, Fault> {
    put_pairs(call, "hset").map(Reply::Int)
}

fn hmset(call: &mut Call<'_>) -> Result<Reply, Fault> {
    put_pairs(call, "hmset").map(|_| Reply::OK)
}

fn hsetnx(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let absent = field(call, &args[2])?.is_none();
    if absent {
        call.space().put_field(&args[1], &args[2], &args[3])?;
    }
    Ok(Reply::flag(absent))
}

fn field<'a>(call: &'a Call<'_>, field: &Bytes) -> Result<Option<&'a Bytes>, Fault> {
    Ok(call.state.space.hash(&call.args[1])?.and_then(|fields| fields.get(field)))
}

fn hget(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::bulk_or_null(field(call, &call.args[2])?))
}

fn hmget(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let fields = call.state.space.hash(&call.args[1])?;
    let value = |field: &Bytes| Reply::bulk_or_null(fields.and_then(|fields| fields.get(field)));
    Ok(Reply::Array(call.args[2..].iter().map(value).collect()))
}

fn hgetall(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let fields = call.state.space.hash(&call.args[1])?.into_iter().flatten();
    let pair = |(field, data): (&Bytes, &Bytes)| (Reply::Bulk(field.clone()), Reply::Bulk(data.clone()));
    Ok(Reply::Map(fields.map(pair).collect()))
}

fn hkeys(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::Array(Reply::bulks(
        call.state.space.hash(&call.args[1])?.into_iter().flat_map(|fields| fields.keys()),
    )))
}

fn hvals(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::Array(Reply::bulks(
        call.state.space.hash(&call.args[1])?.into_iter().flat_map(|fields| fields.values()),
    )))
}

fn hlen(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::count(call.state.space.hash(&call.args[1])?.map_or(0, |fields| fields.len())))
}

fn hexists(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::flag(field(call, &call.args[2])?.is_some()))
}

fn hdel(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let mut gone = 0;
    for field in &args[2..] {
        gone += i64::from(call.space().remove_field(&args[1], field)?);
    }
    Ok(Reply::Int(gone))
}

fn hincrby(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let step = call.integer(3)?;
    let old = match field(call, &args[2])? {
        Some(data) => integer(data).ok_or(Fault::new("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = old.checked_add(step).ok_or(Fault::new("ERR increment or decrement would overflow"))?;
    call.space().put_field(&args[1], &args[2], sum.to_string().as_bytes())?;
    Ok(Reply::Int(sum))
}
