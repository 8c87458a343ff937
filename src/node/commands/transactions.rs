//! MULTI and what belongs to it.

use super::{Call, Command, flag};
use crate::node::reply::{Fault, Reply};
use crate::node::session::Transaction;

const FLAGS: u8 = flag::NO_SCRIPT | flag::AT_ONCE;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("multi", 1, multi).flags(FLAGS),
    Command::new("exec", 1, exec).flags(FLAGS),
    Command::new("discard", 1, discard).flags(FLAGS),
    Command::new("watch", -2, watch).flags(FLAGS).keys(1, -1, 1),
    Command::new("unwatch", 1, unwatch).flags(flag::NO_SCRIPT),
];

fn multi(call: &mut Call<'_>) -> Result<Reply, Fault> {
    if call.session.transaction.is_some() {
        return Err(Fault::new("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Transaction::default());
    Ok(Reply::OK)
}

fn exec(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let transaction = call.session.transaction.take().ok_or(Fault::new("ERR EXEC without MULTI"))?;
    let disturbed = end_watches(call);
    if transaction.broken {
        return Err(Fault::new("EXECABORT Transaction discarded because of previous errors."));
    }
    if disturbed {
        return Ok(Reply::NullArray);
    }
    let run = |args: &Vec<_>| super::dispatch(call.state, call.session, args);
    Ok(Reply::Array(transaction.commands.iter().map(run).collect()))
}

fn discard(call: &mut Call<'_>) -> Result<Reply, Fault> {
    call.session.transaction.take().ok_or(Fault::new("ERR DISCARD without MULTI"))?;
    end_watches(call);
    Ok(Reply::OK)
}

fn watch(call: &mut Call<'_>) -> Result<Reply, Fault> {
    if call.session.transaction.is_some() {
        return Err(Fault::new("ERR WATCH inside MULTI is not allowed"));
    }
    for key in &call.args[1..] {
        let seen = call.state.space.watch(key);
        call.session.watched.push((key.clone(), seen));
    }
    Ok(Reply::OK)
}

fn unwatch(call: &mut Call<'_>) -> Result<Reply, Fault> {
    end_watches(call);
    Ok(Reply::OK)
}

/// Whether a watched key has changed.
fn end_watches(call: &mut Call<'_>) -> bool {
    let watched = std::mem::take(&mut call.session.watched);
    let mut changed = false;
    for (key, seen) in watched {
        changed |= call.state.space.unwatch(&key, seen);
    }
    changed
}
