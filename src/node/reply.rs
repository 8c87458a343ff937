//! What a command answers, and how either version of the protocol writes it.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2::encode as resp2;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3::encode::complete as resp3;
use redis_protocol::resp3::types::{BytesFrame as Frame3, FrameMap, FrameSet, VerbatimStringFormat};

/// An answer that says no: its first word is the code that clients tell errors apart by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) Cow<'static, str>);

impl Fault {
    pub(crate) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(crate) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");

    pub(crate) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resp {
    V2,
    V3,
}

/// What a command answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Status(Cow<'static, str>),
    Error(Fault),
    Int(i64),
    Bulk(Bytes),
    Null,
    /// The null that stands for an array: a transaction that was not executed.
    NullArray,
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    /// Out of band where the protocol can say so, else an array.
    Push(Vec<Reply>),
    /// Text for people.
    Verbatim(String),
    /// Several answers to one command, one after the other.
    Sequence(Vec<Reply>),
}

impl Reply {
    pub(crate) const OK: Self = Self::Status(Cow::Borrowed("OK"));

    pub(crate) fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Bytes::copy_from_slice(text.as_ref()))
    }

    /// A count, which always fits.
    pub(crate) fn count(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn flag(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    pub(crate) fn bulk_or_null(value: Option<&Bytes>) -> Self {
        value.map_or(Self::Null, |value| Self::Bulk(value.clone()))
    }

    pub(crate) fn bulks<'a>(values: impl IntoIterator<Item = &'a Bytes>) -> Vec<Self> {
        values.into_iter().map(|value| Self::Bulk(value.clone())).collect()
    }

    /// Appends the reply to `out`.
    pub(crate) fn encode(self, resp: Resp, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
        match (self, resp) {
            (Self::Sequence(replies), _) => replies.into_iter().try_for_each(|reply| reply.encode(resp, out)),
            (Self::NullArray, Resp::V2) => {
                out.extend_from_slice(b"*-1\r\n");
                Ok(())
            }
            (reply, Resp::V2) => resp2::extend_encode(out, &frame2(reply), false).map(drop),
            (reply, Resp::V3) => resp3::extend_encode(out, &frame3(reply), false).map(drop),
        }
    }
}

impl From<Result<Reply, Fault>> for Reply {
    fn from(outcome: Result<Reply, Fault>) -> Self {
        outcome.unwrap_or_else(Reply::Error)
    }
}

/// Status and error lines end at the first line break, so there must be none inside.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn flatten(pairs: Vec<(Reply, Reply)>) -> Vec<Reply> {
    pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()
}

fn frame2(reply: Reply) -> Frame2 {
    let array = |items: Vec<Reply>| Frame2::Array(items.into_iter().map(frame2).collect());
    match reply {
        Reply::Status(text) => Frame2::SimpleString(one_line(&text).into()),
        Reply::Error(Fault(text)) => Frame2::Error(one_line(&text).into()),
        Reply::Int(number) => Frame2::Integer(number),
        Reply::Bulk(data) => Frame2::BulkString(data),
        Reply::Null | Reply::NullArray => Frame2::Null,
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Sequence(items) => array(items),
        Reply::Map(pairs) => array(flatten(pairs)),
        Reply::Verbatim(text) => Frame2::BulkString(text.into()),
    }
}

fn frame3(reply: Reply) -> Frame3 {
    let frames = |items: Vec<Reply>| items.into_iter().map(frame3).collect::<Vec<_>>();
    let attributes = None;
    match reply {
        Reply::Status(text) => Frame3::SimpleString { data: one_line(&text).into(), attributes },
        Reply::Error(Fault(text)) => Frame3::SimpleError { data: one_line(&text).into(), attributes },
        Reply::Int(data) => Frame3::Number { data, attributes },
        Reply::Bulk(data) => Frame3::BlobString { data, attributes },
        Reply::Null | Reply::NullArray => Frame3::Null,
        Reply::Array(items) | Reply::Sequence(items) => Frame3::Array { data: frames(items), attributes },
        Reply::Set(items) => {
            Frame3::Set { data: items.into_iter().map(frame3).collect::<FrameSet<_>>(), attributes }
        }
        Reply::Push(items) => Frame3::Push { data: frames(items), attributes },
        Reply::Map(pairs) => {
            let data = pairs
                .into_iter()
                .map(|(key, value)| (frame3(key), frame3(value)))
                .collect::<FrameMap<_, _>>();
            Frame3::Map { data, attributes }
        }
        Reply::Verbatim(text) => {
            Frame3::VerbatimString { data: text.into(), format: VerbatimStringFormat::Text, attributes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: Reply, v2: &str, v3: &str) {
        for (resp, expected) in [(Resp::V2, v2), (Resp::V3, v3)] {
            let mut out = BytesMut::new();
            reply.clone().encode(resp, &mut out).unwrap();
            assert_eq!(String::from_utf8_lossy(&out), expected, "{resp:?}");
        }
    }

    #[test]
    fn each_version_writes_what_redis_writes() {
        check(Reply::OK, "+OK\r\n", "+OK\r\n");
        check(Reply::Null, "$-1\r\n", "_\r\n");
        check(Reply::NullArray, "*-1\r\n", "_\r\n");
        check(
            Reply::Map(vec![(Reply::bulk("a"), Reply::Int(-1))]),
            "*2\r\n$1\r\na\r\n:-1\r\n",
            "%1\r\n$1\r\na\r\n:-1\r\n",
        );
        check(Reply::Push(vec![Reply::Int(1)]), "*1\r\n:1\r\n", ">1\r\n:1\r\n");
        check(Reply::Set(vec![]), "*0\r\n", "~0\r\n");
        check(Reply::Verbatim("hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
        check(Reply::Sequence(vec![Reply::Int(1), Reply::Int(2)]), ":1\r\n:2\r\n", ":1\r\n:2\r\n");
    }

    #[test]
    fn a_line_break_in_an_error_does_not_end_it() {
        check(Reply::Error(Fault::new("ERR a\r\nb")), "-ERR a  b\r\n", "-ERR a  b\r\n");
    }
}
