//! Keys as such: whether they exist, how long they live.

use bytes::Bytes;

use super::{Call, Command};
use crate::node::glob;
use crate::node::reply::{Fault, Reply};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("del", -2, del).keys(1, -1, 1).writes(),
    Command::new("unlink", -2, del).keys(1, -1, 1).writes(),
    Command::new("exists", -2, exists).keys(1, -1, 1),
    Command::new("touch", -2, exists).keys(1, -1, 1),
    Command::new("type", 2, type_of).key(),
    Command::new("pttl", 2, pttl).key(),
    Command::new("ttl", 2, ttl).key(),
    Command::new("pexpiretime", 2, |call| expire_time(call, 1)).key(),
    Command::new("expiretime", 2, |call| expire_time(call, 1000)).key(),
    Command::new("pexpire", -3, |call| expire(call, 1, true)).key().writes(),
    Command::new("expire", -3, |call| expire(call, 1000, true)).key().writes(),
    Command::new("pexpireat", -3, |call| expire(call, 1, false)).key().writes(),
    Command::new("expireat", -3, |call| expire(call, 1000, false)).key().writes(),
    Command::new("persist", 2, persist).key().writes(),
    Command::new("keys", 2, keys),
    Command::new("scan", -2, scan),
    Command::new("dbsize", 1, dbsize),
    Command::new("flushall", -1, flush).writes(),
    Command::new("flushdb", -1, flush).writes(),
];

fn del(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let space = &mut call.state.space;
    Ok(Reply::count(call.args[1..].iter().filter(|key| space.remove(key)).count()))
}

fn exists(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let space = &call.state.space;
    Ok(Reply::count(call.args[1..].iter().filter(|key| space.contains(key)).count()))
}

fn type_of(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let name = call.state.space.value(&call.args[1]).map_or("none", |value| value.type_name());
    Ok(Reply::Status(name.into()))
}

fn pttl(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::Int(call.state.space.left(&call.args[1])))
}

fn ttl(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let left = call.state.space.left(&call.args[1]);
    Ok(Reply::Int(if left < 0 { left } else { (left + 500) / 1000 }))
}

fn expire_time(call: &mut Call<'_>, unit: u64) -> Result<Reply, Fault> {
    Ok(Reply::Int(match call.state.space.end(&call.args[1]) {
        None => -2,
        Some(None) => -1,
        Some(Some(end)) => i64::try_from(end / unit).unwrap_or(i64::MAX),
    }))
}

/// The conditions of EXPIRE and its like.
#[derive(Default)]
struct Conditions {
    none_yet: bool,
    some_already: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(call: &Call<'_>) -> Result<Self, Fault> {
        let mut conditions = Self::default();
        for at in 3..call.args.len() {
            match call.word(at).as_str() {
                "nx" => conditions.none_yet = true,
                "xx" => conditions.some_already = true,
                "gt" => conditions.later = true,
                "lt" => conditions.earlier = true,
                _ => {
                    let word = String::from_utf8_lossy(&call.args[at]);
                    return Err(format!("ERR Unsupported option {word}").into());
                }
            }
        }
        if conditions.none_yet && (conditions.some_already || conditions.later || conditions.earlier) {
            return Err(Fault::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.later && conditions.earlier {
            return Err(Fault::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether a key that ends at `old` may be made to end at `new`. A key without end outlives every other.
    fn allow(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|end| i64::try_from(end).unwrap_or(i64::MAX));
        !(self.none_yet && old.is_some()
            || self.some_already && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

fn expire(call: &mut Call<'_>, unit: i64, from_now: bool) -> Result<Reply, Fault> {
    // Redis looks at the conditions before it looks at the number.
    let conditions = Conditions::parse(call)?;
    let amount = call.integer(2)?;
    let name = call.word(0);
    let invalid = || Fault::from(format!("ERR invalid expire time in '{name}' command"));
    let now = i64::try_from(call.now()).unwrap_or(i64::MAX);
    let from = if from_now { now } else { 0 };
    let end = amount.checked_mul(unit).and_then(|millis| millis.checked_add(from)).ok_or_else(invalid)?;
    let (key, space) = (&call.args[1], &mut call.state.space);
    let Some(old) = space.end(key) else {
        return Ok(Reply::Int(0));
    };
    if !conditions.allow(old, end) {
        return Ok(Reply::Int(0));
    }
    if end <= now {
        space.remove(key);
    } else {
        space.end_at(key, Some(end.unsigned_abs()));
    }
    Ok(Reply::Int(1))
}

fn persist(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (key, space) = (&call.args[1], &mut call.state.space);
    let has_end = space.end(key).flatten().is_some();
    Ok(Reply::flag(has_end && space.end_at(key, None)))
}

fn keys(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let pattern = &call.args[1];
    let found = call.state.space.keys().map(|(key, _)| key).filter(|key| glob::matches(pattern, key));
    Ok(Reply::Array(Reply::bulks(found)))
}

/// The whole keyspace in one answer: COUNT is a hint, and a cursor that never has to come back cannot lose a key.
fn scan(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let cursor: Option<u64> = std::str::from_utf8(&call.args[1]).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(Fault::new("ERR invalid cursor"))?;
    let (mut pattern, mut kind) = (Bytes::from_static(b"*"), None);
    let mut at = 2;
    while at < call.args.len() {
        let value = call.args.get(at + 1).ok_or(Fault::SYNTAX)?;
        match call.word(at).as_str() {
            "match" => pattern = value.clone(),
            "count" if call.integer(at + 1)? >= 1 => {}
            "type" => kind = Some(call.word(at + 1)),
            _ => return Err(Fault::SYNTAX),
        }
        at += 2;
    }
    let wanted = |(key, value): &(&Bytes, &crate::node::keyspace::Value)| {
        cursor == 0
            && glob::matches(&pattern, key)
            && kind.as_ref().is_none_or(|kind| value.type_name() == kind)
    };
    let found = call.state.space.keys().filter(wanted).map(|(key, _)| key);
    Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(Reply::bulks(found))]))
}

fn dbsize(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::count(call.state.space.counts().0))
}

fn flush(call: &mut Call<'_>) -> Result<Reply, Fault> {
    match (call.args.len(), call.word(1).as_str()) {
        (1, _) | (2, "sync" | "async") => {}
        _ => return Err(Fault::SYNTAX),
    }
    call.space().clear();
    Ok(Reply::OK)
}
