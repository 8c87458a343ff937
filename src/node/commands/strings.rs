//! Strings and numbers.

use bytes::Bytes;

use super::{Call, Command, integer};
use crate::node::reply::{Fault, Reply};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("get", 2, get).key(),
    Command::new("set", -3, set).key().writes(),
    Command::new("setnx", 3, setnx).key().writes(),
    Command::new("setex", 4, |call| set_with_life(call, 1000, "setex")).key().writes(),
    Command::new("psetex", 4, |call| set_with_life(call, 1, "psetex")).key().writes(),
    Command::new("getset", 3, getset).key().writes(),
    Command::new("getdel", 2, getdel).key().writes(),
    Command::new("mget", -2, mget).keys(1, -1, 1),
    Command::new("mset", -3, mset).keys(1, -1, 2).writes(),
    Command::new("strlen", 2, strlen).key(),
    Command::new("append", 3, append).key().writes(),
    Command::new("incr", 2, |call| add(call, 1)).key().writes(),
    Command::new("decr", 2, |call| add(call, -1)).key().writes(),
    Command::new("incrby", 3, incrby).key().writes(),
    Command::new("decrby", 3, decrby).key().writes(),
];

fn get(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let key = &call.args[1];
    Ok(Reply::bulk_or_null(call.state.space.string(key)?))
}

/// The options of SET.
#[derive(Default)]
struct SetOptions {
    /// `Some(true)`: only if the key exists; `Some(false)`: only if it does not.
    if_exists: Option<bool>,
    get: bool,
    keep_life: bool,
    ends: Option<u64>,
}

/// Milliseconds since the epoch at which a life ends: `amount` in units of `unit` milliseconds, from now or absolute.
pub(super) fn end_of_life(amount: i64, unit: i64, from: u64, command: &str) -> Result<u64, Fault> {
    let invalid = || Fault::from(format!("ERR invalid expire time in '{command}' command"));
    let millis = amount.checked_mul(unit).filter(|&millis| millis > 0).ok_or_else(invalid)?;
    let end = millis.checked_add(i64::try_from(from).unwrap_or(i64::MAX)).ok_or_else(invalid)?;
    Ok(end.unsigned_abs())
}

impl SetOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Fault> {
        let mut options = Self::default();
        let mut life = None;
        let mut at = 3;
        while at < call.args.len() {
            let word = call.word(at);
            match word.as_str() {
                "nx" | "xx" if options.if_exists.is_none_or(|xx| xx == (word == "xx")) => {
                    options.if_exists = Some(word == "xx");
                }
                "get" => options.get = true,
                "keepttl" if life.is_none() => options.keep_life = true,
                "ex" | "px" | "exat" | "pxat"
                    if life.is_none() && !options.keep_life && at + 1 < call.args.len() =>
                {
                    at += 1;
                    life = Some((word, at));
                }
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        // What the words say is judged before what the numbers say.
        if let Some((word, at)) = life {
            let unit = if word.starts_with('e') { 1000 } else { 1 };
            let from = if word.ends_with("at") { 0 } else { call.now() };
            options.ends = Some(end_of_life(call.integer(at)?, unit, from, "set")?);
        }
        Ok(options)
    }
}

fn set(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let options = SetOptions::parse(call)?;
    let (key, data) = (&call.args[1], &call.args[2]);
    let space = &mut call.state.space;
    let old = if options.get { Some(Reply::bulk_or_null(space.string(key)?)) } else { None };
    if options.if_exists.is_some_and(|wanted| space.contains(key) != wanted) {
        return Ok(old.unwrap_or(Reply::Null));
    }
    let kept = space.end(key).flatten().filter(|_| options.keep_life);
    space.put_string(key, data, options.ends.or(kept));
    Ok(old.unwrap_or(Reply::OK))
}

fn setnx(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let absent = !call.space().contains(&args[1]);
    if absent {
        call.space().put_string(&args[1], &args[2], None);
    }
    Ok(Reply::flag(absent))
}

fn set_with_life(call: &mut Call<'_>, unit: i64, name: &str) -> Result<Reply, Fault> {
    let ends = end_of_life(call.integer(2)?, unit, call.now(), name)?;
    let args = call.args;
    call.space().put_string(&args[1], &args[3], Some(ends));
    Ok(Reply::OK)
}

fn getset(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let old = get(call)?;
    call.space().put_string(&args[1], &args[2], None);
    Ok(old)
}

fn getdel(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    let old = get(call)?;
    call.space().remove(&args[1]);
    Ok(old)
}

fn mget(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let space = &call.state.space;
    // Another type is no error here, but no string either.
    let value = |key: &Bytes| Reply::bulk_or_null(space.string(key).ok().flatten());
    Ok(Reply::Array(call.args[1..].iter().map(value).collect()))
}

fn mset(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let args = call.args;
    if args.len().is_multiple_of(2) {
        return Err(Fault::new("ERR wrong number of arguments for 'mset' command"));
    }
    for pair in args[1..].chunks_exact(2) {
        call.space().put_string(&pair[0], &pair[1], None);
    }
    Ok(Reply::OK)
}

fn strlen(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let key = &call.args[1];
    Ok(Reply::count(call.state.space.string(key)?.map_or(0, Bytes::len)))
}

fn append(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (key, tail) = (&call.args[1], &call.args[2]);
    let space = &mut call.state.space;
    let mut data = space.string(key)?.map(|data| data.to_vec()).unwrap_or_default();
    data.extend_from_slice(tail);
    let ends = space.end(key).flatten();
    space.put_string(key, &data, ends);
    Ok(Reply::count(data.len()))
}

fn incrby(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let step = call.integer(2)?;
    add(call, step)
}

fn decrby(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let step = call.integer(2)?.checked_neg().ok_or(Fault::new("ERR decrement would overflow"))?;
    add(call, step)
}

fn add(call: &mut Call<'_>, step: i64) -> Result<Reply, Fault> {
    let key = &call.args[1];
    let space = &mut call.state.space;
    let old = match space.string(key)? {
        Some(data) => integer(data).ok_or(Fault::NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = old.checked_add(step).ok_or(Fault::new("ERR increment or decrement would overflow"))?;
    let ends = space.end(key).flatten();
    space.put_string(key, sum.to_string().as_bytes(), ends);
    Ok(Reply::Int(sum))
}
