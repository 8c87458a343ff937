//! From a resource to the place where its queue is kept.

use std::fmt::Write as _;

/// Where all queues are kept.
pub(crate) const ROOT: &str = "redfence";

/// One step of a path, whatever is in `name`: letters, digits, `-` and `_` stay, every other byte becomes `%` and two digits.
///
/// A slash must not survive: as a prefix, the queue of `a` would hold that of `a/b` too. Nor may a dot: `.` and `..` are
/// no names in ZooKeeper.
pub(crate) fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => text.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => write!(text, "%{byte:02X}").unwrap_or_default(),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_is_another_or_within_another() {
        // B92: names that another client's name matching took for one another.
        let names = ["a", "a/b", "a-b", "a__lock__", "a%2Fb", "a.b", "..", ".", "A", "ä", "a b", "a\0", "%"];
        let encoded: HashSet<_> = names.iter().map(|name| encoded(name)).collect();
        assert_eq!(encoded.len(), names.len());
        assert!(encoded.iter().all(|name| !name.contains(['/', '.', '\0'])), "{encoded:?}");
        assert_eq!(super::encoded("invoices/42"), "invoices%2F42");
    }
}
