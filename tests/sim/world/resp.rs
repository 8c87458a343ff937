//! The Redis protocol as it passes by: enough to tell frames apart.

/// One frame, of a request or an answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Frame {
    Bulk(Vec<u8>),
    Int(i64),
    Simple(String),
    Error(String),
    Null,
    /// An array, a set, or the keys and values of a map.
    Array(Vec<Frame>),
    /// Out of order: a message, or the answer to a subscription.
    Push(Vec<Frame>),
}

impl Frame {
    /// The first frame of these bytes and its length; `None` while it is not whole.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[1..end]).ok()?;
        let rest = end + 2;
        let number = || line.parse::<i64>().ok();
        let count = || number().and_then(|number| usize::try_from(number).ok());
        let frame = match bytes[0] {
            b'+' | b',' | b'#' | b'(' => Self::Simple(line.to_owned()),
            b'-' => Self::Error(line.to_owned()),
            b':' => Self::Int(number()?),
            b'_' => Self::Null,
            b'$' | b'*' if line == "-1" => Self::Null,
            b'$' | b'=' | b'!' => {
                let length = count()?;
                let data = bytes.get(rest..rest + length)?.to_vec();
                bytes.get(rest + length..rest + length + 2)?;
                return Some((Self::Bulk(data), rest + length + 2));
            }
            kind @ (b'*' | b'~' | b'>' | b'%') => {
                let items = if kind == b'%' { count()? * 2 } else { count()? };
                let (items, used) = Self::several(bytes, rest, items)?;
                let frame = if kind == b'>' { Self::Push(items) } else { Self::Array(items) };
                return Some((frame, used));
            }
            other => panic!("a frame that begins with {other:#x}"),
        };
        Some((frame, rest))
    }

    fn several(bytes: &[u8], mut from: usize, number: usize) -> Option<(Vec<Self>, usize)> {
        let mut items = Vec::with_capacity(number);
        for _ in 0..number {
            let (item, used) = Self::parse(bytes.get(from..)?)?;
            items.push(item);
            from += used;
        }
        Some((items, from))
    }

    /// The words of a request.
    pub(crate) fn words(self) -> Vec<String> {
        let Self::Array(items) = self else { return Vec::new() };
        let word = |item| match item {
            Self::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => format!("{other:?}"),
        };
        items.into_iter().map(word).collect()
    }
}

/// Bytes on their way, cut into frames.
#[derive(Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.0.extend_from_slice(bytes);
        let (mut frames, mut used) = (Vec::new(), 0);
        while used < self.0.len()
            && let Some((frame, length)) = Frame::parse(&self.0[used..])
        {
            frames.push(frame);
            used += length;
        }
        self.0.drain(..used);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_however_the_bytes_are_cut() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n>2\r\n+a\r\n:7\r\n%1\r\n+x\r\n_\r\n$-1\r\n-ERR no\r\n";
        let mut whole = Frames::default();
        let expected = whole.feed(bytes);
        assert_eq!(expected.len(), 5);
        assert_eq!(expected[0].clone().words(), ["GET", "k"]);
        for cut in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut got = frames.feed(&bytes[..cut]);
            got.extend(frames.feed(&bytes[cut..]));
            assert_eq!(got, expected, "cut at {cut}");
        }
    }
}
