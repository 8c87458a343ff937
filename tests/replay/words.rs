//! What went over the wire, as requests and replies of `proto`.

use redfence::backend::redlock::scripts::Script;
use redfence::proto::{Owner, Reply, Request, Stand, Ttl};
use redis_protocol::resp3::types::BytesFrame;

/// The script of this digest.
fn script(digest: &str) -> Option<Script> {
    Script::ALL.into_iter().find(|script| redis::Script::new(script.text()).get_hash() == digest)
}

/// Whether this command is a step of a trace: not a greeting, not a look at the node record.
pub(crate) fn is_lock_request(words: &[String]) -> bool {
    request(words).is_some()
}

/// The request that a command is.
pub(crate) fn request(words: &[String]) -> Option<Request> {
    let owner = |at: usize| words.get(at)?.parse::<Owner>().ok();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let ttl = |at: usize| Ttl::from_millis(number(at)?);
    match words.first()?.as_str() {
        "SET" => Some(Request::AcquireClassic { owner: owner(2)?, ttl: ttl(5)? }),
        "EVALSHA" => match script(words.get(1)?)? {
            Script::Acquire => Some(Request::Acquire { owner: owner(6)?, ttl: ttl(7)?, hint: number(8)? }),
            Script::Confirm => Some(Request::Confirm { owner: owner(6)?, number: number(7)? }),
            Script::Extend => Some(Request::Extend { owner: owner(4)?, ttl: ttl(5)? }),
            Script::Release => Some(Request::Release { owner: owner(4)? }),
            Script::Inspect | Script::Init | Script::Readmit => None,
        },
        _ => None,
    }
}

/// What a node's answer to it says.
pub(crate) fn reply(request: Request, answer: &BytesFrame) -> Result<Reply, String> {
    let strange = || format!("{request:?} was answered with {answer:?}");
    let numbers = || match answer {
        BytesFrame::Array { data, .. } => {
            let number = |frame: &BytesFrame| match frame {
                BytesFrame::Number { data, .. } => Some(*data),
                _ => None,
            };
            data.iter().map(number).collect::<Option<Vec<i64>>>().ok_or_else(strange)
        }
        _ => Err(strange()),
    };
    let natural = |number: i64| u64::try_from(number).map_err(|_| strange());
    match (request, answer) {
        (Request::AcquireClassic { .. }, BytesFrame::Null) => Ok(Reply::Taken { number: 0 }),
        (Request::AcquireClassic { .. }, BytesFrame::SimpleString { data, .. }) if data.as_ref() == b"OK" => {
            Ok(Reply::Mine(Stand::CLASSIC))
        }
        (Request::Acquire { .. } | Request::Confirm { .. }, _) => match numbers()?.as_slice() {
            [1, number, epoch] => {
                Ok(Reply::Mine(Stand { number: natural(*number)?, epoch: natural(*epoch)? }))
            }
            [0, number, _] => Ok(Reply::Taken { number: natural(*number)? }),
            [0] => Ok(Reply::NotMine),
            [-1] => Ok(Reply::Empty),
            _ => Err(strange()),
        },
        (Request::Extend { .. }, BytesFrame::Number { data: 1, .. }) => Ok(Reply::Extended),
        (Request::Release { .. }, BytesFrame::Number { data: 1, .. }) => Ok(Reply::Released),
        (Request::Extend { .. } | Request::Release { .. }, BytesFrame::Number { data: 0, .. }) => {
            Ok(Reply::NotMine)
        }
        _ => Err(strange()),
    }
}

/// A request in a word or two, as in traces of the model.
pub(crate) fn asked(request: Request) -> &'static str {
    match request {
        Request::Acquire { .. } | Request::AcquireClassic { .. } => "lock?",
        Request::Confirm { .. } => "confirm?",
        Request::Extend { .. } => "extend?",
        Request::Release { .. } => "release",
        _ => "look",
    }
}

/// A reply in a word or two.
pub(crate) fn answered(reply: Reply) -> String {
    match reply {
        Reply::Mine(Stand::CLASSIC) => "granted".into(),
        Reply::Mine(stand) => format!("granted, number {}", stand.number),
        Reply::Taken { .. } => "taken".into(),
        Reply::NotMine => "not mine".into(),
        Reply::Empty => "empty".into(),
        Reply::Released => "released".into(),
        Reply::Extended => "extended".into(),
        other => format!("{other:?}"),
    }
}
