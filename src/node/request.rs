//! Requests as they come off the wire: an array of bulk strings, or a line typed by a person.
//!
//! The elements are decoded by `redis-protocol`. The array is unrolled here, one element at a time: a request is flat by
//! definition, so a nested one is refused before it can cost a stack, and a long one is never parsed twice.

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::types::BytesFrame;

/// Elements of one request, and bytes of one element: what Redis accepts by default.
const MAX_ELEMENTS: i64 = 1024 * 1024;
const MAX_ELEMENT: i64 = 512 * 1024 * 1024;
/// Longest line that is not an element.
const MAX_LINE: usize = 64 * 1024;

/// The bytes are not a request. The connection cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProtocolError(pub(crate) String);

fn refuse<T>(text: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(text.into()))
}

/// The request being read.
#[derive(Default, Debug)]
pub(crate) struct Requests {
    done: Vec<Bytes>,
    missing: usize,
}

impl Requests {
    /// Takes the next whole request out of `input`; `None` if more bytes are needed.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            if self.missing > 0 {
                return self.elements(input);
            }
            let Some(line) = line(input)? else {
                return Ok(None);
            };
            let Some(count) = line.strip_prefix(b"*") else {
                let words = words(&line)?;
                if words.is_empty() {
                    continue;
                }
                return Ok(Some(words));
            };
            match number(count) {
                Some(count @ ..=MAX_ELEMENTS) => self.missing = usize::try_from(count).unwrap_or(0),
                _ => return refuse("invalid multibulk length"),
            }
        }
    }

    fn elements(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        while self.missing > 0 {
            let Some(element) = element(input)? else {
                return Ok(None);
            };
            self.done.push(element);
            self.missing -= 1;
        }
        Ok(Some(std::mem::take(&mut self.done)))
    }
}

/// One bulk string.
fn element(input: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
    let Some(&first) = input.first() else {
        return Ok(None);
    };
    if first != b'$' {
        return refuse(format!("expected '$', got '{}'", char::from(first)));
    }
    let head = &input[1..input.len().min(32)];
    let Some(end) = head.iter().position(|&byte| byte == b'\r') else {
        return if head.len() < 31 { Ok(None) } else { refuse("invalid bulk length") };
    };
    if !number(&head[..end]).is_some_and(|length| (0..=MAX_ELEMENT).contains(&length)) {
        return refuse("invalid bulk length");
    }
    match decode_bytes_mut(input) {
        Ok(None) => Ok(None),
        Ok(Some((BytesFrame::BulkString(data), ..))) => Ok(Some(data)),
        Ok(Some(_)) | Err(_) => refuse("invalid bulk length"),
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Takes a line off the input, without its line break.
fn line(input: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        let mbulk = input.first() == Some(&b'*');
        return match input.len() {
            ..=MAX_LINE => Ok(None),
            _ if mbulk => refuse("too big mbulk count string"),
            _ => refuse("too big inline request"),
        };
    };
    let mut line = input.split_to(end).freeze();
    input.advance(1);
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    Ok(Some(line))
}

/// Cuts a typed line into words; quotes keep spaces together, and inside double quotes a backslash escapes.
fn words(line: &[u8]) -> Result<Vec<Bytes>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

fn word(text: &[u8]) -> Result<(Bytes, &[u8]), ProtocolError> {
    let mut word = Vec::new();
    let mut quote = None;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, byte) if byte.is_ascii_whitespace() => break,
            (Some(b'"'), b'\\') if at < text.len() => {
                let (escaped, used) = unescape(&text[at..]);
                word.push(escaped);
                at += used;
            }
            (Some(b'\''), b'\\') if text.get(at) == Some(&b'\'') => {
                word.push(b'\'');
                at += 1;
            }
            (Some(open), byte) if open == byte => {
                if text.get(at).is_some_and(|next| !next.is_ascii_whitespace()) {
                    return refuse("unbalanced quotes in request");
                }
                quote = None;
            }
            (_, byte) => word.push(byte),
        }
    }
    if quote.is_some() {
        return refuse("unbalanced quotes in request");
    }
    Ok((word.into(), &text[at..]))
}

/// The byte that the text behind a backslash stands for, and how much of the text that is.
fn unescape(text: &[u8]) -> (u8, usize) {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    match text {
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex(&[*high, *low]).unwrap_or_default(), 3)
        }
        [b'n', ..] => (b'\n', 1),
        [b'r', ..] => (b'\r', 1),
        [b't', ..] => (b'\t', 1),
        [b'b', ..] => (0x08, 1),
        [b'a', ..] => (0x07, 1),
        [other, ..] => (*other, 1),
        [] => (b'\\', 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests in `bytes`, then what stopped the reading, if anything.
    fn read(bytes: &[u8], step: usize) -> (Vec<Vec<String>>, Option<String>) {
        let (mut requests, mut input, mut found) = (Requests::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            input.extend_from_slice(piece);
            loop {
                match requests.next(&mut input) {
                    Ok(None) => break,
                    Ok(Some(args)) => {
                        found
                            .push(args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect());
                    }
                    Err(ProtocolError(text)) => return (found, Some(text)),
                }
            }
        }
        (found, None)
    }

    fn check(bytes: &[u8], requests: &[&[&str]], error: Option<&str>) {
        for step in [1, 2, 7, bytes.len()] {
            let (found, stopped) = read(bytes, step);
            assert_eq!(
                (found, stopped.as_deref()),
                (requests.iter().map(|r| r.iter().map(|s| (*s).to_owned()).collect()).collect(), error),
                "pieces of {step}"
            );
        }
    }

    #[test]
    fn pipelined_requests_come_out_one_by_one_however_the_bytes_are_cut() {
        check(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["PING"], &["GET", ""]], None);
        check(b"*-1\r\n*0\r\nPING\r\n\r\nget a\n", &[&["PING"], &["get", "a"]], None);
    }

    #[test]
    fn typed_lines_may_quote() {
        check(b"set \"a b\" 'c\\'d' \"\\n\"\r\n", &[&["set", "a b", "c'd", "\n"]], None);
        check(b"set \"a\r\n", &[], Some("unbalanced quotes in request"));
        check(b"set \"a\"b\r\n", &[], Some("unbalanced quotes in request"));
    }

    #[test]
    fn what_is_no_request_is_refused_in_the_words_of_redis() {
        check(b"*1\r\n*1\r\n", &[], Some("expected '$', got '*'"));
        check(b"*x\r\n", &[], Some("invalid multibulk length"));
        check(b"*9999999\r\n", &[], Some("invalid multibulk length"));
        check(b"*1\r\n$-1\r\n", &[], Some("invalid bulk length"));
        check(b"*1\r\n$x\r\n", &[], Some("invalid bulk length"));
        check(b"*1\r\n$999999999999\r\n", &[], Some("invalid bulk length"));
    }
}
