//! The connection itself: greeting, password, names.

use bytes::Bytes;

use super::{Call, Command, flag};
use crate::node::reply::{Fault, Reply, Resp};
use crate::node::state::{Client, REDIS_VERSION};

const FIRST: u8 = flag::NO_SCRIPT | flag::NO_AUTH;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hello", -1, hello).flags(FIRST),
    Command::new("auth", -2, auth).flags(FIRST),
    Command::new("quit", -1, quit).flags(FIRST | flag::SUBSCRIBED | flag::AT_ONCE),
    Command::new("reset", 1, reset).flags(FIRST | flag::SUBSCRIBED | flag::AT_ONCE),
    Command::new("ping", -1, ping).flags(flag::SUBSCRIBED),
    Command::new("echo", 2, |call| Ok(Reply::Bulk(call.args[1].clone()))),
    Command::new("select", 2, select),
    Command::family("client", CLIENT),
];

const CLIENT: &[Command] = &[
    Command::new("id", 2, |call| Ok(Reply::count(usize::try_from(call.session.id).unwrap_or(0))))
        .flags(flag::NO_SCRIPT),
    Command::new("setname", 3, set_name).flags(flag::NO_SCRIPT),
    Command::new("getname", 2, get_name).flags(flag::NO_SCRIPT),
    Command::new("setinfo", 4, |_| Ok(Reply::OK)).flags(flag::NO_SCRIPT),
    Command::new("no-evict", 3, |_| Ok(Reply::OK)).flags(flag::NO_SCRIPT),
    Command::new("info", 2, info).flags(flag::NO_SCRIPT),
    Command::new("list", -2, list).flags(flag::NO_SCRIPT),
    Command::new("kill", -3, kill).flags(flag::NO_SCRIPT),
];

const WRONG_PASSWORD: Fault = Fault::new("WRONGPASS invalid username-password pair or user is disabled.");

/// Whether this user and password open the node.
fn check_password(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), Fault> {
    let right = match &call.state.identity.password {
        // Without a password, the default user may give any.
        None => true,
        Some(expected) => expected.as_bytes() == password,
    };
    if user != b"default" || !right {
        return Err(WRONG_PASSWORD);
    }
    call.session.trusted = true;
    Ok(())
}

fn auth(call: &mut Call<'_>) -> Result<Reply, Fault> {
    match call.args {
        [_, password] if call.state.identity.password.is_some() => {
            check_password(call, b"default", password)?
        }
        [_, _] => {
            return Err(Fault::new(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ));
        }
        [_, user, password] => check_password(call, user, password)?,
        _ => return Err(Fault::SYNTAX),
    }
    Ok(Reply::OK)
}

fn hello(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let version = match call.args.get(1) {
        None => call.session.resp,
        Some(_) => match call.integer(1) {
            Ok(2) => Resp::V2,
            Ok(3) => Resp::V3,
            Ok(_) => return Err(Fault::new("NOPROTO unsupported protocol version")),
            Err(_) => return Err(Fault::new("ERR Protocol version is not an integer or out of range")),
        },
    };
    let mut rest = call.args.get(2..).unwrap_or_default();
    let mut name = None;
    while let [word, tail @ ..] = rest {
        rest = match (super::lower(word).as_str(), tail) {
            ("auth", [user, password, tail @ ..]) => {
                check_password(call, user, password)?;
                tail
            }
            ("setname", [wanted, tail @ ..]) => {
                name = Some(valid_name(wanted)?);
                tail
            }
            _ => {
                return Err(
                    format!("ERR Syntax error in HELLO option '{}'", String::from_utf8_lossy(word)).into()
                );
            }
        };
    }
    if !call.session.trusted {
        return Err(Fault::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    call.session.resp = version;
    if let Some(client) = call.state.client_of(call.session) {
        client.resp = version;
        client.name = name.unwrap_or_else(|| std::mem::take(&mut client.name));
    }
    Ok(greeting(call))
}

fn greeting(call: &Call<'_>) -> Reply {
    let version = if call.session.resp == Resp::V2 { 2 } else { 3 };
    let id = i64::try_from(call.session.id).unwrap_or(0);
    let pairs = [
        ("server", Reply::bulk("redis")),
        ("version", Reply::bulk(REDIS_VERSION)),
        ("proto", Reply::Int(version)),
        ("id", Reply::Int(id)),
        ("mode", Reply::bulk("standalone")),
        ("role", Reply::bulk("master")),
        ("modules", Reply::Array(Vec::new())),
    ];
    Reply::Map(pairs.map(|(key, value)| (Reply::bulk(key), value)).into())
}

fn quit(call: &mut Call<'_>) -> Result<Reply, Fault> {
    call.session.closing = true;
    Ok(Reply::OK)
}

fn reset(call: &mut Call<'_>) -> Result<Reply, Fault> {
    call.state.silence(call.session);
    call.session.transaction = None;
    for (key, seen) in std::mem::take(&mut call.session.watched) {
        call.state.space.unwatch(&key, seen);
    }
    call.session.resp = Resp::V2;
    call.session.trusted = call.state.identity.password.is_none();
    if let Some(client) = call.state.client_of(call.session) {
        client.name.clear();
        (client.resp, client.channels, client.patterns) = (Resp::V2, 0, 0);
    }
    Ok(Reply::Status("RESET".into()))
}

fn ping(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let subscriber = call.session.resp == Resp::V2 && call.session.subscriptions() > 0;
    match call.args {
        [_] if subscriber => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk("")])),
        [_, text] if subscriber => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::Bulk(text.clone())])),
        [_] => Ok(Reply::Status("PONG".into())),
        [_, text] => Ok(Reply::Bulk(text.clone())),
        _ => Err(Fault::new("ERR wrong number of arguments for 'ping' command")),
    }
}

/// There is one database.
fn select(call: &mut Call<'_>) -> Result<Reply, Fault> {
    match call.integer(1)? {
        0 => Ok(Reply::OK),
        _ => Err(Fault::new("ERR DB index is out of range")),
    }
}

fn valid_name(name: &Bytes) -> Result<String, Fault> {
    let printable = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    let refusal = Fault::new("ERR Client names cannot contain spaces, newlines or special characters.");
    if printable { Ok(String::from_utf8_lossy(name).into_owned()) } else { Err(refusal) }
}

fn set_name(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let name = valid_name(&call.args[2])?;
    if let Some(client) = call.state.client_of(call.session) {
        client.name = name;
    }
    Ok(Reply::OK)
}

fn get_name(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let name = call.state.client_of(call.session).map(|client| client.name.clone()).unwrap_or_default();
    Ok(if name.is_empty() { Reply::Null } else { Reply::bulk(name) })
}

fn describe(id: u64, client: &Client, now: u64) -> String {
    let flags = if kind(client) == "pubsub" { "P" } else { "N" };
    let resp = if client.resp == Resp::V2 { 2 } else { 3 };
    let Client { address, name, channels, patterns, .. } = client;
    let age = now.saturating_sub(client.since) / 1000;
    format!(
        "id={id} addr={address} name={name} age={age} flags={flags} db=0 sub={channels} psub={patterns} user=default resp={resp}\n"
    )
}

fn kind(client: &Client) -> &'static str {
    if client.channels + client.patterns > 0 { "pubsub" } else { "normal" }
}

fn info(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let (id, now) = (call.session.id, call.now());
    let text = call.state.client_of(call.session).map(|client| describe(id, client, now));
    Ok(Reply::Verbatim(text.unwrap_or_default()))
}

fn list(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let now = call.now();
    let wanted = match (call.word(2).as_str(), call.args.len()) {
        ("", 2) => None,
        ("type", 4) => Some(client_type(call, 3)?),
        _ => return Err(Fault::SYNTAX),
    };
    let shown = call
        .state
        .clients
        .iter()
        .filter(|(_, client)| wanted.as_ref().is_none_or(|wanted| wanted == kind(client)));
    Ok(Reply::Verbatim(shown.map(|(id, client)| describe(*id, client, now)).collect()))
}

fn client_type(call: &Call<'_>, at: usize) -> Result<String, Fault> {
    let word = call.word(at);
    match word.as_str() {
        "normal" | "pubsub" | "master" | "replica" | "slave" => Ok(word),
        _ => Err(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(&call.args[at])).into()),
    }
}

/// Which connections CLIENT KILL means.
#[derive(Default)]
struct Victims {
    id: Option<u64>,
    address: Option<String>,
    kind: Option<String>,
    spare_me: bool,
}

impl Victims {
    fn parse(call: &Call<'_>) -> Result<Self, Fault> {
        let mut victims = Self { spare_me: true, ..Self::default() };
        for at in (2..call.args.len()).step_by(2) {
            let value = call.word(at + 1);
            match call.word(at).as_str() {
                _ if at + 1 >= call.args.len() => return Err(Fault::SYNTAX),
                "id" => {
                    let refusal = Fault::new("ERR client-id should be greater than 0");
                    let id = call.integer(at + 1).ok().filter(|id| *id > 0).ok_or(refusal)?;
                    victims.id = Some(id.unsigned_abs());
                }
                "addr" => victims.address = Some(value),
                "type" => victims.kind = Some(client_type(call, at + 1)?),
                "user" if value == "default" => {}
                "skipme" if value == "yes" || value == "no" => victims.spare_me = value == "yes",
                _ => return Err(Fault::SYNTAX),
            }
        }
        Ok(victims)
    }

    fn include(&self, me: u64, id: u64, client: &Client) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.address.as_ref().is_none_or(|wanted| *wanted == client.address)
            && self.kind.as_ref().is_none_or(|wanted| wanted == kind(client))
            && !(self.spare_me && id == me)
    }
}

fn kill(call: &mut Call<'_>) -> Result<Reply, Fault> {
    if let [_, _, address] = call.args {
        let address = String::from_utf8_lossy(address);
        let victim = call.state.clients.values().find(|client| client.address == address);
        victim.ok_or(Fault::new("ERR No such client"))?.kill.cancel();
        return Ok(Reply::OK);
    }
    let victims = Victims::parse(call)?;
    let me = call.session.id;
    let mut killed = 0;
    for (id, client) in &call.state.clients {
        if victims.include(me, *id, client) {
            killed += 1;
            // Its own connection still gets the answer.
            if *id == me {
                call.session.closing = true;
            } else {
                client.kill.cancel();
            }
        }
    }
    Ok(Reply::Int(killed))
}
