//! One request as a Redis command, and one answer as a reply.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::scripts::{Keys, NODE_RECORD, Script};
use crate::lock::report::{NodeAnswer, NodeError};
use crate::proto::message::Record;
use crate::proto::{Reply, Request, Stand};

/// What a node answered: for the state machine, and for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) answer: NodeAnswer,
}

impl Answer {
    pub(crate) fn failed(error: NodeError) -> Self {
        let reply = match error {
            NodeError::NoAnswer(_) => Reply::Unknown,
            _ => Reply::Refused,
        };
        Self { reply, answer: NodeAnswer::Failed(error) }
    }
}

/// What a node knows of a lock and of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// The value that signs the lock key, if it exists.
    pub holder: Option<String>,
    /// How long the key lives still; `None` if there is no key, or no TTL.
    pub remaining: Option<Duration>,
    /// The counter of the resource.
    pub counter: Option<u64>,
    /// The node record.
    pub record: Record,
}

/// One request, worded once for all nodes.
#[derive(Debug)]
pub(crate) struct Question {
    request: Request,
    keys: Arc<Keys>,
    command: Cmd,
    /// The script behind an EVALSHA.
    script: Option<Script>,
}

impl Question {
    pub(crate) fn new(keys: &Arc<Keys>, request: Request) -> Self {
        let script = script(&request);
        let command = match script {
            Some(script) => call("EVALSHA", digest(script), keys, &request),
            None => set(keys, &request),
        };
        Self { request, keys: Arc::clone(keys), command, script }
    }

    /// Asks it on an open connection.
    pub(crate) async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Answer, RedisError> {
        let value = match self.send(connection).await {
            Err(error) if is_wrong_type(&error) => {
                return Ok(Answer::failed(which_key(connection, &self.keys, &error).await));
            }
            answer => answer?,
        };
        if self.script.is_none() && value == Value::Nil {
            return why_taken(connection, &self.keys).await;
        }
        Ok(read(&self.request, &value).unwrap_or_else(|| Answer::failed(strange(&value))))
    }

    /// EVALSHA, and EVAL where the node does not know the script (B74: caches are flushed, nodes are restarted).
    async fn send(&self, connection: &mut MultiplexedConnection) -> Result<Value, RedisError> {
        match (send(connection, &self.command).await, self.script) {
            (Err(error), Some(script)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                send(connection, &call("EVAL", script.text(), &self.keys, &self.request)).await
            }
            (answer, _) => answer,
        }
    }
}

/// Asks what a node knows of a lock.
pub(crate) async fn inspect(
    connection: &mut MultiplexedConnection,
    keys: &Arc<Keys>,
) -> Result<Result<Inspection, NodeError>, RedisError> {
    match Question::new(keys, Request::Inspect).send(connection).await {
        Err(error) if is_wrong_type(&error) => Ok(Err(which_key(connection, keys, &error).await)),
        answer => {
            let value = answer?;
            Ok(inspection(&value).ok_or_else(|| strange(&value)))
        }
    }
}

/// The script that a request runs; classic Redlock sets its key with a plain command.
fn script(request: &Request) -> Option<Script> {
    match request {
        Request::AcquireClassic { .. } => None,
        Request::Acquire { .. } => Some(Script::Acquire),
        Request::Confirm { .. } => Some(Script::Confirm),
        Request::Extend { .. } => Some(Script::Extend),
        Request::Release { .. } => Some(Script::Release),
        Request::Inspect => Some(Script::Inspect),
        Request::Init { .. } => Some(Script::Init),
        Request::Claim { .. } | Request::Raise { .. } | Request::Admit { .. } => Some(Script::Readmit),
    }
}

/// The key and its TTL in one step (`R2`).
fn set(keys: &Keys, request: &Request) -> Cmd {
    let mut cmd = redis::cmd("SET");
    if let Request::AcquireClassic { owner, ttl } = request {
        cmd.arg(&keys.lock).arg(owner.to_string()).arg("NX").arg("PX").arg(ttl.as_millis());
    }
    cmd
}

fn call(name: &str, script: &str, keys: &Keys, request: &Request) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script);
    match request {
        Request::Acquire { .. } | Request::Confirm { .. } | Request::Inspect => {
            cmd.arg(3).arg(&keys.lock).arg(&keys.counter).arg(NODE_RECORD);
        }
        Request::Extend { .. } | Request::Release { .. } | Request::AcquireClassic { .. } => {
            cmd.arg(1).arg(&keys.lock);
        }
        Request::Init { .. } | Request::Claim { .. } | Request::Raise { .. } | Request::Admit { .. } => {
            cmd.arg(1).arg(NODE_RECORD);
        }
    }
    match *request {
        Request::Acquire { owner, ttl, hint } => cmd.arg(owner.to_string()).arg(ttl.as_millis()).arg(hint),
        Request::Confirm { owner, number } => cmd.arg(owner.to_string()).arg(number),
        Request::Extend { owner, ttl } | Request::AcquireClassic { owner, ttl } => {
            cmd.arg(owner.to_string()).arg(ttl.as_millis())
        }
        Request::Release { owner } => cmd.arg(owner.to_string()).arg(&keys.channel),
        Request::Init { epoch, floor } => cmd.arg(epoch).arg(floor),
        Request::Claim { epoch } => cmd.arg("claim").arg(epoch).arg(0),
        Request::Raise { epoch } => cmd.arg("raise").arg(epoch).arg(0),
        Request::Admit { epoch, floor } => cmd.arg("admit").arg(epoch).arg(floor),
        Request::Inspect => &mut cmd,
    };
    cmd
}

/// One command; an error answer is an error.
async fn send(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<Value, RedisError> {
    connection.send_packed_command(cmd).await?.extract_error()
}

fn digest(script: Script) -> &'static str {
    static DIGESTS: OnceLock<Vec<(Script, String)>> = OnceLock::new();
    let digests = DIGESTS.get_or_init(|| {
        let digest = |script: Script| (script, redis::Script::new(script.text()).get_hash().to_owned());
        Script::ALL.map(digest).to_vec()
    });
    digests.iter().find(|(known, _)| *known == script).map_or("", |(_, digest)| digest)
}

/// Classic SET NX tells only "no". The reasons that waiting cannot cure are worth one more question.
async fn why_taken(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Answer, RedisError> {
    let mut question = redis::pipe();
    question.cmd("TYPE").arg(&keys.lock).cmd("PTTL").arg(&keys.lock);
    let (kind, left): (String, i64) = question.query_async(connection).await?;
    let not_a_lock = |what: &str| Answer::failed(NodeError::NotALock(what.to_owned()));
    Ok(match (kind.as_str(), left) {
        ("string", -1) => not_a_lock("it has no TTL"),
        ("string" | "none", left) => taken(0, left),
        (other, _) => not_a_lock(&format!("it holds a {other}")),
    })
}

/// By the text as well: inside a script, Redis 6 puts another code in front.
fn is_wrong_type(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE") || error.to_string().contains("WRONGTYPE")
}

/// "Wrong type" does not say of which key, and the next step depends on it: that is worth one more question.
async fn which_key(connection: &mut MultiplexedConnection, keys: &Keys, error: &RedisError) -> NodeError {
    let mut question = redis::pipe();
    for key in [keys.lock.as_str(), &keys.counter, NODE_RECORD] {
        question.cmd("TYPE").arg(key);
    }
    let kinds: Result<(String, String, String), _> = question.query_async(connection).await;
    let holds = |what: &str, kind: &str| format!("{what} holds a {kind}");
    match &kinds {
        Ok((lock, ..)) if !matches!(lock.as_str(), "string" | "none") => {
            NodeError::NotALock(holds("it", lock))
        }
        Ok((_, counter, _)) if !matches!(counter.as_str(), "string" | "none") => {
            NodeError::Damaged(holds(&keys.counter, counter))
        }
        Ok((.., record)) if !matches!(record.as_str(), "hash" | "none") => {
            NodeError::Damaged(holds(NODE_RECORD, record))
        }
        _ => explain(error, true),
    }
}

fn taken(number: u64, left: i64) -> Answer {
    let remaining = u64::try_from(left).ok().map(Duration::from_millis);
    Answer { reply: Reply::Taken { number }, answer: NodeAnswer::Taken { remaining } }
}

fn read(request: &Request, value: &Value) -> Option<Answer> {
    let (reply, answer) = match request {
        Request::AcquireClassic { .. } => match value {
            Value::Okay => (Reply::Mine(Stand::CLASSIC), NodeAnswer::Granted { number: 0 }),
            _ => return None,
        },
        Request::Acquire { .. } | Request::Confirm { .. } => match numbers(value)?.as_slice() {
            &[1, number, epoch] => {
                let (number, epoch) = (u64::try_from(number).ok()?, u64::try_from(epoch).ok()?);
                (Reply::Mine(Stand { number, epoch }), NodeAnswer::Granted { number })
            }
            &[0, number, left] => return Some(taken(u64::try_from(number).ok()?, left)),
            [0] => (Reply::NotMine, NodeAnswer::NotMine),
            [-1] => (Reply::Empty, NodeAnswer::Empty),
            _ => return None,
        },
        Request::Extend { .. } => match value {
            Value::Int(1) => (Reply::Extended, NodeAnswer::Extended),
            Value::Int(0) => (Reply::NotMine, NodeAnswer::NotMine),
            _ => return None,
        },
        Request::Release { .. } => match value {
            Value::Int(1) => (Reply::Released, NodeAnswer::Released),
            Value::Int(0) => (Reply::NotMine, NodeAnswer::NotMine),
            _ => return None,
        },
        Request::Inspect => record_answer(inspection(value)?.record),
        Request::Init { .. } => match numbers(value)?.as_slice() {
            &[epoch, floor, high] => record_answer(record(epoch, floor, high, -1)?),
            _ => return None,
        },
        Request::Claim { .. } | Request::Raise { .. } | Request::Admit { .. } => {
            match numbers(value)?.as_slice() {
                &[epoch, floor, high, claim] => record_answer(record(epoch, floor, high, claim)?),
                _ => return None,
            }
        }
    };
    Some(Answer { reply, answer })
}

fn record_answer(record: Record) -> (Reply, NodeAnswer) {
    let answer = match record.epoch {
        None => NodeAnswer::Empty,
        Some(_) => NodeAnswer::Ready,
    };
    (Reply::Record(record), answer)
}

fn record(epoch: i64, floor: i64, high: i64, claim: i64) -> Option<Record> {
    let (floor, high) = (u64::try_from(floor).ok()?, u64::try_from(high).ok()?);
    Some(Record { epoch: u64::try_from(epoch).ok(), floor, high, joining: u64::try_from(claim).ok() })
}

fn inspection(value: &Value) -> Option<Inspection> {
    let Value::Array(parts) = value else { return None };
    let [holder, rest @ ..] = parts.as_slice() else { return None };
    let holder = match holder {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let rest: Vec<i64> = rest.iter().map(number).collect::<Option<_>>()?;
    let &[left, counter, epoch, floor, high, claim] = rest.as_slice() else { return None };
    let remaining = u64::try_from(left).ok().map(Duration::from_millis);
    let counter = u64::try_from(counter).ok();
    Some(Inspection { holder, remaining, counter, record: record(epoch, floor, high, claim)? })
}

fn numbers(value: &Value) -> Option<Vec<i64>> {
    match value {
        Value::Array(parts) => parts.iter().map(number).collect(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn strange(value: &Value) -> NodeError {
    NodeError::Other(format!("an answer that redfence does not understand: {value:?}"))
}

/// Sorts a client error into what it means for the lock. `sent`: the request may have reached the node.
pub(crate) fn explain(error: &RedisError, sent: bool) -> NodeError {
    // On one line, whatever a server has said.
    let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let code = error.code().unwrap_or_default();
    match (error.kind(), code) {
        (ErrorKind::Parse, _) => {
            let text = format!("it does not speak the Redis protocol: {text}");
            if sent { NodeError::NoAnswer(text) } else { NodeError::Unreachable(text) }
        }
        (ErrorKind::AuthenticationFailed, _) | (_, "NOAUTH" | "WRONGPASS") => NodeError::Authentication(text),
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => NodeError::Denied(text),
        (
            ErrorKind::Server(
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::CrossSlot
                | ServerErrorKind::ClusterDown,
            ),
            _,
        ) => NodeError::ClusterShard(text),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => NodeError::Replica(text),
        (_, "WRONGTYPE" | "NOTTL") => NodeError::NotALock(text),
        (_, "NOTANUMBER") => NodeError::Damaged(text),
        (_, "EXHAUSTED") => NodeError::Exhausted(text),
        // Redis words a denied command inside a script in its own way, by version.
        (ErrorKind::Server(_) | ErrorKind::Extension, _)
            if text.contains("can't run this command") || text.contains("NOPERM") =>
        {
            NodeError::Denied(text)
        }
        (ErrorKind::Server(_) | ErrorKind::Extension, _) if text.contains("WRONGTYPE") => {
            NodeError::NotALock(text)
        }
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => NodeError::Other(text),
        _ if sent => NodeError::NoAnswer(text),
        _ => NodeError::Unreachable(text),
    }
}
