//! The node about itself.

use bytes::Bytes;

use super::{Call, Command, TABLE, flag};
use crate::node::glob;
use crate::node::reply::{Fault, Reply};
use crate::node::state::{REDIS_VERSION, State};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("info", -1, info),
    Command::new("time", 1, time),
    Command::new("wait", 3, wait).flags(flag::NO_SCRIPT),
    Command::new("lastsave", 1, |call| Ok(Reply::count(usize::try_from(call.now() / 1000).unwrap_or(0)))),
    Command::new("role", 1, role),
    Command::new("command", -1, command),
    Command::family("config", CONFIG),
    Command::family("acl", ACL),
];

const CONFIG: &[Command] = &[
    Command::new("get", -3, config_get).flags(flag::NO_SCRIPT),
    Command::new("set", -4, config_set).flags(flag::NO_SCRIPT),
    Command::new("resetstat", 2, |_| Ok(Reply::OK)).flags(flag::NO_SCRIPT),
];

const ACL: &[Command] = &[Command::new("whoami", 2, |_| Ok(Reply::bulk("default"))).flags(flag::NO_SCRIPT)];

/// Settings as Redis names them.
fn settings(state: &State) -> Vec<(&'static str, String)> {
    vec![
        ("appendfsync", "always".to_owned()),
        ("appendonly", if state.identity.durable { "yes" } else { "no" }.to_owned()),
        ("cluster-enabled", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", state.port.to_string()),
        ("replicaof", String::new()),
        ("save", String::new()),
    ]
}

fn config_get(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let patterns: Vec<String> = (2..call.args.len()).map(|at| call.word(at)).collect();
    let wanted =
        |name: &str| patterns.iter().any(|pattern| glob::matches(pattern.as_bytes(), name.as_bytes()));
    let found = settings(call.state).into_iter().filter(|(name, _)| wanted(name));
    Ok(Reply::Map(found.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect()))
}

fn config_set(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let name = call.word(2);
    let refusal = if settings(call.state).iter().any(|(known, _)| *known == name) {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config")
    } else {
        format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
    };
    Err(refusal.into())
}

type Section = (&'static str, fn(&State) -> Vec<(&'static str, String)>);

const SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", |_| vec![("cluster_enabled", "0".to_owned())]),
    ("Keyspace", keyspace),
];

fn server(state: &State) -> Vec<(&'static str, String)> {
    let uptime = state.space.now().saturating_sub(state.identity.started) / 1000;
    vec![
        ("redis_version", REDIS_VERSION.to_owned()),
        ("redfence_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("run_id", state.identity.run_id.clone()),
        ("tcp_port", state.port.to_string()),
        ("server_time_usec", (state.space.now() * 1000).to_string()),
        ("uptime_in_seconds", uptime.to_string()),
        ("uptime_in_days", (uptime / 86_400).to_string()),
    ]
}

fn clients(state: &State) -> Vec<(&'static str, String)> {
    let listening = state.clients.values().filter(|client| client.channels + client.patterns > 0).count();
    vec![("connected_clients", state.clients.len().to_string()), ("pubsub_clients", listening.to_string())]
}

fn memory(_: &State) -> Vec<(&'static str, String)> {
    vec![("maxmemory", "0".to_owned()), ("maxmemory_policy", "noeviction".to_owned())]
}

fn persistence(state: &State) -> Vec<(&'static str, String)> {
    vec![
        ("loading", "0".to_owned()),
        ("rdb_changes_since_last_save", "0".to_owned()),
        ("rdb_bgsave_in_progress", "0".to_owned()),
        ("rdb_last_bgsave_status", "ok".to_owned()),
        ("aof_enabled", u8::from(state.identity.durable).to_string()),
        ("aof_rewrite_in_progress", "0".to_owned()),
        ("aof_last_bgrewrite_status", "ok".to_owned()),
        ("aof_last_write_status", "ok".to_owned()),
    ]
}

fn stats(state: &State) -> Vec<(&'static str, String)> {
    vec![
        ("total_connections_received", state.connections_seen.to_string()),
        ("total_commands_processed", state.commands_done.to_string()),
        ("evicted_keys", "0".to_owned()),
        ("pubsub_channels", state.bus.channels().count().to_string()),
        ("pubsub_patterns", state.bus.patterns().to_string()),
    ]
}

fn replication(_: &State) -> Vec<(&'static str, String)> {
    vec![
        ("role", "master".to_owned()),
        ("connected_slaves", "0".to_owned()),
        ("master_repl_offset", "0".to_owned()),
    ]
}

fn keyspace(state: &State) -> Vec<(&'static str, String)> {
    match state.space.counts() {
        (0, _) => Vec::new(),
        (keys, expires) => vec![("db0", format!("keys={keys},expires={expires},avg_ttl=0"))],
    }
}

fn info(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let asked: Vec<String> = (1..call.args.len()).map(|at| call.word(at)).collect();
    let everything = asked.is_empty()
        || asked.iter().any(|word| matches!(word.as_str(), "all" | "default" | "everything"));
    let mut text = String::new();
    for (name, fields) in SECTIONS {
        if everything || asked.contains(&name.to_ascii_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {name}\r\n"));
            for (field, value) in fields(call.state) {
                text.push_str(&format!("{field}:{value}\r\n"));
            }
        }
    }
    Ok(Reply::Verbatim(text))
}

fn time(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let now = call.now();
    Ok(Reply::Array(vec![
        Reply::bulk((now / 1000).to_string()),
        Reply::bulk((now % 1000 * 1000).to_string()),
    ]))
}

/// There are no replicas, so none of them has anything, and waiting will not change it.
fn wait(call: &mut Call<'_>) -> Result<Reply, Fault> {
    call.integer(1)?;
    call.integer(2)?;
    Ok(Reply::Int(0))
}

fn role(_: &mut Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), Reply::Array(Vec::new())]))
}

/// COMMAND takes its subcommand or nothing, so it is no family.
fn command(call: &mut Call<'_>) -> Result<Reply, Fault> {
    match (call.word(1).as_str(), call.args.len()) {
        ("", 1) => Ok(Reply::Array(sorted().into_iter().map(describe).collect())),
        ("count", 2) => Ok(Reply::count(TABLE.len())),
        ("list", 2) => Ok(Reply::Array(sorted().into_iter().map(|known| Reply::bulk(known.name)).collect())),
        // Help texts are not kept here; an empty answer is a valid one.
        ("docs", _) => Ok(Reply::Map(Vec::new())),
        ("info", 2) => Ok(Reply::Array(sorted().into_iter().map(describe).collect())),
        ("info", _) => {
            let one = |name: &Bytes| {
                TABLE.get(super::lower(name).as_str()).map_or(Reply::NullArray, |known| describe(known))
            };
            Ok(Reply::Array(call.args[2..].iter().map(one).collect()))
        }
        _ => {
            let word = String::from_utf8_lossy(&call.args[1]);
            Err(format!("ERR unknown subcommand '{word}'. Try COMMAND HELP.").into())
        }
    }
}

fn sorted() -> Vec<&'static Command> {
    let mut all: Vec<_> = TABLE.values().copied().collect();
    all.sort_by_key(|command| command.name);
    all
}

fn describe(command: &Command) -> Reply {
    let (first, last, step) = command.keys;
    let kinds: [(u8, &str); 2] = [(flag::WRITE, "write"), (flag::NO_SCRIPT, "noscript")];
    let flags =
        kinds.into_iter().filter(|(bit, _)| command.is(*bit)).map(|(_, name)| Reply::Status(name.into()));
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Int(command.arity),
        Reply::Set(flags.collect()),
        Reply::Int(first),
        Reply::Int(last),
        Reply::Int(step),
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(command.subcommands.iter().map(describe).collect()),
    ])
}
