//! Patterns as KEYS, PSUBSCRIBE and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before any of these.

/// Whether `text` matches `pattern`. Takes at most the product of their lengths, whatever the pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut at) = (pattern, text);
    // Where to go on when a match fails: behind the last star, which then takes in one byte more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', after @ ..] = rest {
            retry = Some((after, at));
            rest = after;
            continue;
        }
        let step = match (at, rest) {
            ([], []) => return true,
            ([byte, later @ ..], [_, ..]) => single(rest, *byte).map(|after| (after, later)),
            _ => None,
        };
        (rest, at) = match (step, retry) {
            (Some(next), _) => next,
            (None, Some((after, [_, later @ ..]))) => {
                retry = Some((after, later));
                (after, later)
            }
            (None, _) => return false,
        };
    }
}

/// The pattern behind its first element, if that element matches `byte`.
fn single(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', after @ ..] => Some(after),
        [b'[', class @ ..] => {
            let (found, after) = in_class(class, byte);
            found.then_some(after)
        }
        [b'\\', escaped, after @ ..] => (*escaped == byte).then_some(after),
        [literal, after @ ..] => (*literal == byte).then_some(after),
        [] => None,
    }
}

fn in_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', escaped, after @ ..] => {
                found |= *escaped == byte;
                after
            }
            [low, b'-', high, after @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                found |= *literal == byte;
                after
            }
        };
    }
    (found != negated, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("*/*:x", "a/b/c:y:x", true),
            ("[]a", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(2000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
