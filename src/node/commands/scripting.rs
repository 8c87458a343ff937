//! Scripts.

use bytes::Bytes;

use super::{Call, Command, flag};
use crate::node::lock_scripts;
use crate::node::lua::{self, Job};
use crate::node::reply::{Fault, Reply};

const FLAGS: u8 = flag::NO_SCRIPT;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("eval", -3, |call| eval(call, false)).flags(FLAGS),
    Command::new("eval_ro", -3, |call| eval(call, true)).flags(FLAGS),
    Command::new("evalsha", -3, |call| evalsha(call, false)).flags(FLAGS),
    Command::new("evalsha_ro", -3, |call| evalsha(call, true)).flags(FLAGS),
    Command::family("script", SCRIPT),
];

const SCRIPT: &[Command] = &[
    Command::new("load", 3, load).flags(FLAGS),
    Command::new("exists", -3, exists).flags(FLAGS),
    Command::new("flush", -2, flush).flags(FLAGS),
    Command::new("kill", 2, |_| Err(Fault::new("NOTBUSY No scripts in execution right now."))).flags(FLAGS),
];

/// How many of the arguments are keys.
fn key_count(call: &Call<'_>) -> Result<usize, Fault> {
    let count = call.integer(2)?;
    let count = usize::try_from(count).map_err(|_| Fault::new("ERR Number of keys can't be negative"))?;
    if count > call.args.len() - 3 {
        return Err(Fault::new("ERR Number of keys can't be greater than number of args"));
    }
    Ok(count)
}

fn eval(call: &mut Call<'_>, read_only: bool) -> Result<Reply, Fault> {
    let count = key_count(call)?;
    let text = &call.args[1];
    let digest = call.state.scripts.keep(text, lua::check)?;
    run(call, &digest, text, count, read_only)
}

fn evalsha(call: &mut Call<'_>, read_only: bool) -> Result<Reply, Fault> {
    let count = key_count(call)?;
    let digest = call.word(1);
    let missing = Fault::new("NOSCRIPT No matching script. Please use EVAL.");
    let text = call.state.scripts.text(&digest).ok_or(missing)?;
    run(call, &digest, &text, count, read_only)
}

fn run(
    call: &mut Call<'_>,
    digest: &str,
    text: &Bytes,
    count: usize,
    read_only: bool,
) -> Result<Reply, Fault> {
    let (keys, argv) = call.args[3..].split_at(count);
    if !read_only && let Some(outcome) = lock_scripts::run(call.state, digest, keys, argv) {
        return outcome;
    }
    lua::run(call.state, call.session, &Job { digest, text, keys, argv, read_only })
}

fn load(call: &mut Call<'_>) -> Result<Reply, Fault> {
    call.state.scripts.keep(&call.args[2], lua::check).map(Reply::bulk)
}

fn exists(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let known = |at: usize| Reply::flag(call.state.scripts.text(&call.word(at)).is_some());
    Ok(Reply::Array((2..call.args.len()).map(known).collect()))
}

fn flush(call: &mut Call<'_>) -> Result<Reply, Fault> {
    match (call.args.len(), call.word(2).as_str()) {
        (2, _) | (3, "sync" | "async") => {}
        _ => return Err(Fault::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
    }
    call.state.scripts.clear();
    Ok(Reply::OK)
}
