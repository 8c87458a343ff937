//! A connection that hides nothing: words out, the answer in as it was sent.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use redis_protocol::resp2::{decode as resp2, types::OwnedFrame as Frame2};
use redis_protocol::resp3::decode::complete as resp3;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer, in either version of the protocol.
#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    /// Text for people (RESP3).
    Text(String),
    Null,
    Array(Vec<Answer>),
    Set(Vec<Answer>),
    Push(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
    Other(String),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Text(text) => write!(f, "text {text:?}"),
            Self::Null => f.write_str("null"),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Set(items) => f.debug_set().entries(items).finish(),
            Self::Push(items) => write!(f, "push {items:?}"),
            Self::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(k, v)| (k, v))).finish(),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Answer {
    /// The order of sets, maps and key lists is the server's own business.
    pub(crate) fn sorted(mut self) -> Self {
        let key = |answer: &Self| format!("{answer:?}");
        match &mut self {
            Self::Array(items) | Self::Set(items) => items.sort_by_key(key),
            Self::Map(pairs) => pairs.sort_by_key(|(name, _)| key(name)),
            _ => {}
        }
        self
    }
}

impl From<Frame2> for Answer {
    fn from(frame: Frame2) -> Self {
        match frame {
            Frame2::SimpleString(text) => Self::Status(String::from_utf8_lossy(&text).into_owned()),
            Frame2::Error(text) => Self::Error(text),
            Frame2::Integer(number) => Self::Int(number),
            Frame2::BulkString(bytes) => Self::Bulk(bytes),
            Frame2::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Frame2::Null => Self::Null,
        }
    }
}

impl From<Frame3> for Answer {
    fn from(frame: Frame3) -> Self {
        let all = |items: Vec<Frame3>| items.into_iter().map(Self::from).collect();
        match frame {
            Frame3::SimpleString { data, .. } => Self::Status(String::from_utf8_lossy(&data).into_owned()),
            Frame3::SimpleError { data, .. } => Self::Error(data),
            Frame3::Number { data, .. } => Self::Int(data),
            Frame3::BlobString { data, .. } => Self::Bulk(data),
            Frame3::VerbatimString { data, .. } => Self::Text(String::from_utf8_lossy(&data).into_owned()),
            Frame3::Null => Self::Null,
            Frame3::Array { data, .. } => Self::Array(all(data)),
            Frame3::Push { data, .. } => Self::Push(all(data)),
            Frame3::Set { data, .. } => Self::Set(data.into_iter().map(Self::from).collect()),
            Frame3::Map { data, .. } => {
                Self::Map(data.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
            other => Self::Other(format!("{other:?}")),
        }
    }
}

/// The version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resp {
    V2,
    V3,
}

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    pub(crate) resp: Resp,
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self { stream, buffer: Vec::new(), resp: Resp::V2 }
    }

    /// Says HELLO for RESP3.
    pub(crate) fn upgrade(mut self, resp: Resp) -> Self {
        if resp == Resp::V3 {
            self.send(&["HELLO", "3"]);
            self.resp = Resp::V3;
            assert!(matches!(self.read(), Answer::Map(_)), "HELLO 3 is understood");
        }
        self
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("bytes can be sent");
    }

    pub(crate) fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        self.send_bytes(&bytes);
    }

    /// The next answer.
    pub(crate) fn read(&mut self) -> Answer {
        loop {
            if let Some((answer, used)) = self.decode() {
                self.buffer.drain(..used);
                return answer;
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    return Answer::Other(format!(
                        "closed after {:?}",
                        String::from_utf8_lossy(&self.buffer)
                    ));
                }
                Ok(got) => self.buffer.extend(&chunk[..got]),
                Err(error) => {
                    return Answer::Other(format!(
                        "no answer: {error}, after {:?}",
                        String::from_utf8_lossy(&self.buffer)
                    ));
                }
            }
        }
    }

    fn decode(&self) -> Option<(Answer, usize)> {
        match self.resp {
            Resp::V2 => {
                resp2::decode(&self.buffer).expect("an answer").map(|(frame, used)| (frame.into(), used))
            }
            Resp::V3 => {
                resp3::decode(&self.buffer).expect("an answer").map(|(frame, used)| (frame.into(), used))
            }
        }
    }

    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Answer {
        self.send(words);
        self.read()
    }

    /// Everything that comes until the peer closes or is silent for a while, as it came.
    pub(crate) fn drain(&mut self, silence: Duration) -> String {
        self.stream.set_read_timeout(Some(silence)).expect("a socket option");
        let mut chunk = [0; 4096];
        let end = loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break "<end>",
                Ok(got) => self.buffer.extend(&chunk[..got]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break "<end>",
                Err(_) => break "",
            }
        };
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned() + end
    }
}
