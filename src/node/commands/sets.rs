//! Sets.

use super::{Call, Command};
use crate::node::reply::{Fault, Reply};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, |call| change(call, true)).key().writes(),
    Command::new("srem", -3, |call| change(call, false)).key().writes(),
    Command::new("smembers", 2, smembers).key(),
    Command::new("sismember", 3, sismember).key(),
    Command::new("scard", 2, scard).key(),
];

fn change(call: &mut Call<'_>, present: bool) -> Result<Reply, Fault> {
    let args = call.args;
    let mut changed = 0;
    for member in &args[2..] {
        changed += i64::from(call.space().set_member(&args[1], member, present)?);
    }
    Ok(Reply::Int(changed))
}

fn smembers(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::Set(Reply::bulks(call.state.space.set(&call.args[1])?.into_iter().flatten())))
}

fn sismember(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::flag(
        call.state.space.set(&call.args[1])?.is_some_and(|members| members.contains(&call.args[2])),
    ))
}

fn scard(call: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::count(call.state.space.set(&call.args[1])?.map_or(0, |members| members.len())))
}
