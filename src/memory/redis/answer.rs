//! What the scripts answer.

use redis::Value;

use crate::memory::BackendId;
use crate::proto::FencingToken;

/// One answer of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The value and its version, as they are.
    At {
        version: u64,
        value: Option<Vec<u8>>,
    },
    Applied {
        version: u64,
    },
    Fenced {
        seen: FencingToken,
    },
    Other {
        stored: BackendId,
    },
    Done,
}

impl Answer {
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let Value::Array(parts) = value else { return None };
        let mut parts = parts.iter();
        let answer = match text(parts.next()?)? {
            "at" => Self::At { version: number(parts.next()?)?, value: optional_bytes(parts.next())? },
            "applied" => Self::Applied { version: number(parts.next()?)? },
            "fenced" => Self::Fenced { seen: FencingToken(number(parts.next()?)?) },
            "other" => Self::Other { stored: BackendId::new(text(parts.next()?)?) },
            "done" => Self::Done,
            _ => return None,
        };
        Some(answer)
    }
}

/// Tokens as texts that are ordered as they are: Lua's numbers are exact up to 2^53 only.
pub(super) fn token(token: FencingToken) -> String {
    format!("{:020}", token.0)
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

/// The outer `None`: what is there is no text at all.
fn optional_bytes(value: Option<&Value>) -> Option<Option<Vec<u8>>> {
    match value {
        // An answer ends where a script's table has its first nothing.
        None | Some(Value::Nil) => Some(None),
        Some(Value::BulkString(bytes)) => Some(Some(bytes.clone())),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ordered_as_their_texts() {
        let tokens = [0, 1, 9, 10, 99, 1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX].map(FencingToken);
        assert!(tokens.map(token).is_sorted());
        assert_eq!(token(tokens[8]).parse(), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_answer_is_not_taken_for_one() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let parse = |parts| Answer::parse(&Value::Array(parts));
        let at = Answer::At { version: 3, value: None };
        assert_eq!(parse(vec![bulk("at"), bulk("3"), Value::Nil]), Some(at.clone()));
        assert_eq!(parse(vec![bulk("at"), bulk("3")]), Some(at));
        assert_eq!(parse(vec![bulk("at"), bulk("3"), Value::Int(1)]), None);
        assert_eq!(parse(vec![bulk("applied"), bulk("-1")]), None);
        assert_eq!(
            (parse(vec![bulk("granted")]), parse(vec![]), Answer::parse(&Value::Nil)),
            (None, None, None)
        );
    }
}
