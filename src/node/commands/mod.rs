//! The command table, and the way a request takes through it.

mod connection;
mod hashes;
mod keys;
mod lists;
mod pubsub;
mod scripting;
mod server;
mod sets;
mod strings;
mod transactions;

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;

use super::keyspace::Keyspace;
use super::reply::{Fault, Reply, Resp};
use super::session::Session;
use super::state::State;

/// What may be done with a command, as bits.
pub(crate) mod flag {
    /// Changes keys.
    pub(crate) const WRITE: u8 = 1;
    /// Not from a script.
    pub(crate) const NO_SCRIPT: u8 = 2;
    /// Before a password was given.
    pub(crate) const NO_AUTH: u8 = 4;
    /// While a RESP2 connection is subscribed.
    pub(crate) const SUBSCRIBED: u8 = 8;
    /// At once, even after MULTI.
    pub(crate) const AT_ONCE: u8 = 16;
}

/// One command, or one subcommand.
#[derive(Debug)]
pub(crate) struct Command {
    name: &'static str,
    /// How many words, the name included; at least that many if negative.
    arity: i64,
    flags: u8,
    /// First key, last key (negative: from the end), step; zeros if it takes none.
    keys: (i64, i64, i64),
    run: fn(&mut Call<'_>) -> Result<Reply, Fault>,
    subcommands: &'static [Command],
}

impl Command {
    const fn new(name: &'static str, arity: i64, run: fn(&mut Call<'_>) -> Result<Reply, Fault>) -> Self {
        Self { name, arity, flags: 0, keys: (0, 0, 0), run, subcommands: &[] }
    }

    /// A command whose second word says what to do.
    const fn family(name: &'static str, subcommands: &'static [Self]) -> Self {
        let mut command = Self::new(name, -2, |_| Err(Fault::SYNTAX));
        command.subcommands = subcommands;
        command
    }

    const fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    const fn keys(mut self, first: i64, last: i64, step: i64) -> Self {
        self.keys = (first, last, step);
        self
    }

    /// One key, the first argument.
    const fn key(self) -> Self {
        self.keys(1, 1, 1)
    }

    const fn writes(mut self) -> Self {
        self.flags |= flag::WRITE;
        self
    }

    const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn accepts(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }
}

/// A command being run: the node, the connection, and the words of the request.
pub(crate) struct Call<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) session: &'a mut Session,
    /// The name first.
    pub(crate) args: &'a [Bytes],
}

impl<'a> Call<'a> {
    fn space(&mut self) -> &mut Keyspace {
        &mut self.state.space
    }

    fn now(&self) -> u64 {
        self.state.space.now()
    }

    /// An argument as an integer, written as Redis wants integers written.
    fn integer(&self, at: usize) -> Result<i64, Fault> {
        self.args.get(at).and_then(|arg| integer(arg)).ok_or(Fault::NOT_AN_INTEGER)
    }

    /// An argument in lower case, for comparison with keywords.
    fn word(&self, at: usize) -> String {
        self.args.get(at).map(|arg| lower(arg)).unwrap_or_default()
    }
}

/// An integer without sign or zeros that it does not need.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

static TABLE: LazyLock<HashMap<&'static str, &'static Command>> = LazyLock::new(|| {
    [
        strings::COMMANDS,
        keys::COMMANDS,
        hashes::COMMANDS,
        lists::COMMANDS,
        sets::COMMANDS,
        pubsub::COMMANDS,
        scripting::COMMANDS,
        transactions::COMMANDS,
        connection::COMMANDS,
        server::COMMANDS,
    ]
    .into_iter()
    .flatten()
    .map(|command| (command.name, command))
    .collect()
});

fn unknown(args: &[Bytes]) -> Fault {
    let show = |arg: &Bytes| String::from_utf8_lossy(&arg[..arg.len().min(128)]).into_owned();
    let name = args.first().map(show).unwrap_or_default();
    let shown: String = args.iter().skip(1).take(20).map(|arg| format!("'{}' ", show(arg))).collect();
    format!("ERR unknown command '{name}', with args beginning with: {shown}").into()
}

/// The command that a request names, with the full name of a subcommand.
fn find(args: &[Bytes]) -> Result<(&'static Command, String), Fault> {
    let name = args.first().map(|name| lower(name)).unwrap_or_default();
    let command = *TABLE.get(name.as_str()).ok_or_else(|| unknown(args))?;
    let (command, name) = match args.get(1) {
        Some(word) if !command.subcommands.is_empty() => {
            let second = lower(word);
            let found = command.subcommands.iter().find(|sub| sub.name == second);
            let refusal = || {
                let (word, family) = (String::from_utf8_lossy(word), name.to_ascii_uppercase());
                format!("ERR unknown subcommand '{word}'. Try {family} HELP.")
            };
            (found.ok_or_else(refusal)?, format!("{name}|{second}"))
        }
        _ => (command, name),
    };
    if command.accepts(args.len()) {
        Ok((command, name))
    } else {
        Err(format!("ERR wrong number of arguments for '{name}' command").into())
    }
}

const NO_AUTH: Fault = Fault::new("NOAUTH Authentication required.");

/// Whether the command may run on this connection now.
fn admit(session: &Session, command: &Command, name: &str) -> Result<(), Fault> {
    if !session.trusted && !command.is(flag::NO_AUTH) {
        return Err(NO_AUTH);
    }
    if session.resp == Resp::V2 && session.subscriptions() > 0 && !command.is(flag::SUBSCRIBED) {
        return Err(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
        .into());
    }
    Ok(())
}

/// Does one request of a connection.
pub(crate) fn dispatch(state: &mut State, session: &mut Session, args: &[Bytes]) -> Reply {
    state.commands_done += 1;
    let found = find(args).and_then(|(command, name)| admit(session, command, &name).map(|()| command));
    let command = match found {
        Ok(command) => command,
        Err(fault) => {
            if let Some(transaction) = &mut session.transaction {
                transaction.broken = true;
            }
            return Reply::Error(fault);
        }
    };
    if let Some(transaction) = &mut session.transaction
        && !command.is(flag::AT_ONCE)
    {
        transaction.commands.push(args.to_vec());
        return Reply::Status("QUEUED".into());
    }
    (command.run)(&mut Call { state, session, args }).into()
}

/// Does one request of a script. Errors are worded as Redis words them there.
pub(crate) fn dispatch_from_script(
    state: &mut State,
    session: &mut Session,
    args: &[Bytes],
    read_only: bool,
) -> Result<Reply, Fault> {
    let name = args.first().map(|name| lower(name)).unwrap_or_default();
    let Some(known) = TABLE.get(name.as_str()) else {
        return Err(Fault::new("ERR Unknown Redis command called from script"));
    };
    let arity = |_| Fault::new("ERR Wrong number of args calling Redis command from script");
    let command = find(args).map_err(arity)?.0;
    if known.is(flag::NO_SCRIPT) || command.is(flag::NO_SCRIPT) {
        return Err(Fault::new("ERR This Redis command is not allowed from script"));
    }
    if command.is(flag::WRITE) && read_only {
        return Err(Fault::new("ERR Write commands are not allowed from read-only scripts."));
    }
    (command.run)(&mut Call { state, session, args })
}
