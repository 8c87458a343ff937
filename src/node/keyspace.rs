//! Keys and what they hold, with lives in milliseconds.
//!
//! Time stands still while a command runs: [`Keyspace::begin`] is told the time, and everything until the next call
//! happens then. A key dies when the time has passed its end, as in Redis, and is removed when it is next touched or
//! swept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::reply::Fault;

/// Dead keys removed at the start of one command, so that a mass death does not stall one client.
const SWEEP: usize = 64;

/// What a key holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    String(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    List(VecDeque<Bytes>),
    Set(BTreeSet<Bytes>),
}

impl Value {
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Set(_) => "set",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Set(members) => members.is_empty(),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// The last millisecond of its life.
    ends: Option<u64>,
}

/// One thing that was changed, as the command that does it again.
pub(crate) type Effect = Vec<Bytes>;

/// All keys of a node.
#[derive(Default, Debug)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Bytes, Entry>,
    ends: BTreeSet<(u64, Bytes)>,
    now: u64,
    /// What was changed since it was last taken; `None` if nobody asks.
    effects: Option<Vec<Effect>>,
    /// How often each watched key has changed, and how many watch it.
    watched: BTreeMap<Bytes, (u64, usize)>,
}

impl Keyspace {
    /// Sets the time, and sweeps a few dead keys.
    pub(crate) fn begin(&mut self, now: u64) {
        self.now = now;
        for _ in 0..SWEEP {
            match self.ends.first() {
                Some((end, key)) if *end < now => {
                    let key = key.clone();
                    self.remove(&key);
                }
                _ => break,
            }
        }
    }

    /// Milliseconds since the Unix epoch, as [`Keyspace::begin`] was told.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Starts to note what is changed.
    pub(crate) fn note_effects(&mut self) {
        self.effects.get_or_insert_default();
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        self.effects.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.ends.is_none_or(|end| end >= self.now))
    }

    pub(crate) fn value(&self, key: &[u8]) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.entry(key).is_some()
    }

    /// When the key's life ends: `None` if there is no key, `Some(None)` if it lives on.
    pub(crate) fn end(&self, key: &[u8]) -> Option<Option<u64>> {
        self.entry(key).map(|entry| entry.ends)
    }

    /// Remaining life in milliseconds, -1 without end, -2 without key: as PTTL tells it.
    pub(crate) fn left(&self, key: &[u8]) -> i64 {
        match self.end(key) {
            None => -2,
            Some(None) => -1,
            Some(Some(end)) => i64::try_from(end - self.now).unwrap_or(i64::MAX),
        }
    }

    /// All living keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Bytes, &Value)> {
        let alive = |(_, entry): &(&Bytes, &Entry)| entry.ends.is_none_or(|end| end >= self.now);
        self.entries.iter().filter(alive).map(|(key, entry)| (key, &entry.value))
    }

    /// How many keys live, and how many of them have an end.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let dead = self.ends.iter().take_while(|(end, _)| *end < self.now).count();
        (self.entries.len() - dead, self.ends.len() - dead)
    }

    pub(crate) fn string(&self, key: &[u8]) -> Result<Option<&Bytes>, Fault> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(data)) => Ok(Some(data)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> Result<Option<&BTreeMap<Bytes, Bytes>>, Fault> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Hash(fields)) => Ok(Some(fields)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    pub(crate) fn list(&self, key: &[u8]) -> Result<Option<&VecDeque<Bytes>>, Fault> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    pub(crate) fn set(&self, key: &[u8]) -> Result<Option<&BTreeSet<Bytes>>, Fault> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Set(members)) => Ok(Some(members)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    /// Sets the key to a string, whatever it was.
    pub(crate) fn put_string(&mut self, key: &[u8], data: &[u8], ends: Option<u64>) {
        // A copy: a slice of the request would keep the whole read buffer alive for as long as the key.
        let (key, data) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(data));
        self.note(|| {
            let mut effect = vec![Bytes::from_static(b"SET"), key.clone(), data.clone()];
            if let Some(end) = ends {
                effect.extend([Bytes::from_static(b"PXAT"), end.to_string().into()]);
            }
            effect
        });
        self.replace(key, Entry { value: Value::String(data), ends });
    }

    /// Removes the key. Whether it was alive.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let alive = self.contains(key);
        let Some((key, entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        if let Some(end) = entry.ends {
            self.ends.remove(&(end, key.clone()));
        }
        self.touch(&key);
        self.note(|| vec![Bytes::from_static(b"DEL"), key]);
        alive
    }

    /// Lets a living key end at `end`. Whether there was one.
    pub(crate) fn end_at(&mut self, key: &[u8], end: Option<u64>) -> bool {
        if !self.contains(key) {
            return false;
        }
        let Some((key, mut entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        if let Some(old) = entry.ends {
            self.ends.remove(&(old, key.clone()));
        }
        entry.ends = end;
        self.note(|| match end {
            Some(end) => vec![Bytes::from_static(b"PEXPIREAT"), key.clone(), end.to_string().into()],
            None => vec![Bytes::from_static(b"PERSIST"), key.clone()],
        });
        self.replace(key, entry);
        true
    }

    /// Sets a field of a hash. Whether the field is new.
    pub(crate) fn put_field(&mut self, key: &[u8], field: &[u8], data: &[u8]) -> Result<bool, Fault> {
        let (field, data) = (Bytes::copy_from_slice(field), Bytes::copy_from_slice(data));
        self.note_checked(key, b"HSET", &[&field, &data], |value| matches!(value, Value::Hash(_)))?;
        let value = self.value_mut(key, || Value::Hash(BTreeMap::new()));
        let Value::Hash(fields) = value else {
            return Err(Fault::WRONG_TYPE);
        };
        Ok(fields.insert(field, data).is_none())
    }

    /// Removes a field of a hash. Whether it was there.
    pub(crate) fn remove_field(&mut self, key: &[u8], field: &[u8]) -> Result<bool, Fault> {
        if !self.hash(key)?.is_some_and(|fields| fields.contains_key(field)) {
            return Ok(false);
        }
        self.note_checked(key, b"HDEL", &[field], |_| true)?;
        if let Value::Hash(fields) = self.value_mut(key, || Value::Hash(BTreeMap::new())) {
            fields.remove(field);
        }
        self.drop_if_empty(key);
        Ok(true)
    }

    /// Puts items at an end of a list. The new length.
    pub(crate) fn push(&mut self, key: &[u8], items: &[Bytes], front: bool) -> Result<usize, Fault> {
        let items: Vec<Bytes> = items.iter().map(|item| Bytes::copy_from_slice(item)).collect();
        let parts: Vec<&[u8]> = items.iter().map(|item| &item[..]).collect();
        let name: &'static [u8] = if front { b"LPUSH" } else { b"RPUSH" };
        self.note_checked(key, name, &parts, |value| matches!(value, Value::List(_)))?;
        let Value::List(list) = self.value_mut(key, || Value::List(VecDeque::new())) else {
            return Err(Fault::WRONG_TYPE);
        };
        for item in items {
            if front { list.push_front(item) } else { list.push_back(item) }
        }
        Ok(list.len())
    }

    /// Takes an item from an end of a list.
    pub(crate) fn pop(&mut self, key: &[u8], front: bool) -> Result<Option<Bytes>, Fault> {
        if self.list(key)?.is_none() {
            return Ok(None);
        }
        let name: &'static [u8] = if front { b"LPOP" } else { b"RPOP" };
        self.note_checked(key, name, &[], |_| true)?;
        let Value::List(list) = self.value_mut(key, || Value::List(VecDeque::new())) else {
            return Err(Fault::WRONG_TYPE);
        };
        let item = if front { list.pop_front() } else { list.pop_back() };
        self.drop_if_empty(key);
        Ok(item)
    }

    /// Puts a member into a set, or takes it out. Whether that changed anything.
    pub(crate) fn set_member(&mut self, key: &[u8], member: &[u8], present: bool) -> Result<bool, Fault> {
        if self.set(key)?.is_some_and(|members| members.contains(member)) == present {
            return Ok(false);
        }
        let name: &'static [u8] = if present { b"SADD" } else { b"SREM" };
        self.note_checked(key, name, &[member], |_| true)?;
        let Value::Set(members) = self.value_mut(key, || Value::Set(BTreeSet::new())) else {
            return Err(Fault::WRONG_TYPE);
        };
        if present {
            members.insert(Bytes::copy_from_slice(member));
        } else {
            members.remove(member);
        }
        self.drop_if_empty(key);
        Ok(true)
    }

    /// Removes every key.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ends.clear();
        for (changes, _) in self.watched.values_mut() {
            *changes += 1;
        }
        self.note(|| vec![Bytes::from_static(b"FLUSHALL")]);
    }

    /// Starts to count the changes of a key; the count so far.
    pub(crate) fn watch(&mut self, key: &[u8]) -> u64 {
        self.forget_if_dead(key);
        let (changes, watchers) = self.watched.entry(Bytes::copy_from_slice(key)).or_default();
        *watchers += 1;
        *changes
    }

    /// Ends what [`Keyspace::watch`] began; whether the key has changed, or died, since it counted `seen` changes.
    pub(crate) fn unwatch(&mut self, key: &[u8], seen: u64) -> bool {
        self.forget_if_dead(key);
        let Some((changes, watchers)) = self.watched.get_mut(key) else {
            return true;
        };
        let changed = *changes != seen;
        *watchers -= 1;
        if *watchers == 0 {
            self.watched.remove(key);
        }
        changed
    }

    fn touch(&mut self, key: &[u8]) {
        if let Some((changes, _)) = self.watched.get_mut(key) {
            *changes += 1;
        }
    }

    fn note(&mut self, effect: impl FnOnce() -> Effect) {
        if let Some(effects) = &mut self.effects {
            effects.push(effect());
        }
    }

    /// Notes a change of a part of a value, unless the key holds a value that is not `fitting`.
    fn note_checked(
        &mut self,
        key: &[u8],
        name: &'static [u8],
        parts: &[&[u8]],
        fitting: impl FnOnce(&Value) -> bool,
    ) -> Result<(), Fault> {
        self.forget_if_dead(key);
        if self.value(key).is_some_and(|value| !fitting(value)) {
            return Err(Fault::WRONG_TYPE);
        }
        self.note(|| {
            let parts = parts.iter().map(|part| Bytes::copy_from_slice(part));
            [Bytes::from_static(name), Bytes::copy_from_slice(key)].into_iter().chain(parts).collect()
        });
        self.touch(key);
        Ok(())
    }

    fn forget_if_dead(&mut self, key: &[u8]) {
        if self.entries.contains_key(key) && !self.contains(key) {
            self.remove(key);
        }
    }

    fn value_mut(&mut self, key: &[u8], empty: impl FnOnce() -> Value) -> &mut Value {
        let fresh = || Entry { value: empty(), ends: None };
        &mut self.entries.entry(Bytes::copy_from_slice(key)).or_insert_with(fresh).value
    }

    fn drop_if_empty(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.get(key).filter(|entry| entry.value.is_empty()) {
            if let Some(end) = entry.ends {
                self.ends.remove(&(end, Bytes::copy_from_slice(key)));
            }
            self.entries.remove(key);
        }
    }

    fn replace(&mut self, key: Bytes, entry: Entry) {
        self.touch(&key);
        if let Some(end) = entry.ends {
            self.ends.insert((end, key.clone()));
        }
        let new_end = entry.ends;
        if let Some(old) = self.entries.insert(key.clone(), entry)
            && let Some(end) = old.ends
            && new_end != Some(end)
        {
            self.ends.remove(&(end, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: u64) -> Keyspace {
        let mut space = Keyspace::default();
        space.begin(now);
        space
    }

    /// What was changed, a command a line.
    fn changes(space: &mut Keyspace) -> Vec<String> {
        let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
        space
            .take_effects()
            .iter()
            .map(|words| words.iter().map(text).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn a_key_lives_through_its_last_millisecond() {
        let mut space = at(1000);
        space.put_string(b"k", b"v", Some(1500));
        space.begin(1500);
        assert_eq!((space.contains(b"k"), space.left(b"k")), (true, 0));
        space.begin(1501);
        assert_eq!((space.contains(b"k"), space.left(b"k")), (false, -2));
        assert!(!space.remove(b"k"), "the dead are not removed a second time");
    }

    #[test]
    fn a_clock_that_falls_back_lengthens_lives() {
        let mut space = at(1000);
        space.put_string(b"k", b"v", Some(1500));
        space.begin(400);
        assert_eq!(space.left(b"k"), 1100);
    }

    #[test]
    fn a_mass_death_is_swept_in_parts_and_never_seen() {
        let mut space = at(0);
        for number in 0..3 * SWEEP {
            space.put_string(number.to_string().as_bytes(), b"v", Some(10));
        }
        space.put_string(b"alive", b"v", Some(100));
        space.put_string(b"for ever", b"v", None);
        space.begin(11);
        assert_eq!(space.entries.len(), 2 * SWEEP + 2);
        assert_eq!(space.counts(), (2, 1));
        assert_eq!(space.keys().count(), 2);
        space.begin(11);
        space.begin(11);
        assert_eq!((space.entries.len(), space.ends.len()), (2, 1));
    }

    #[test]
    fn a_new_value_has_its_own_life() {
        let mut space = at(0);
        space.put_string(b"k", b"v", Some(10));
        space.put_string(b"k", b"w", None);
        assert_eq!((space.left(b"k"), space.ends.len()), (-1, 0));
        space.end_at(b"k", Some(20));
        space.end_at(b"k", Some(30));
        assert_eq!((space.left(b"k"), space.ends.len()), (30, 1));
        space.put_string(b"k", b"x", Some(30));
        assert_eq!(space.ends.len(), 1);
        space.begin(31);
        space.push(b"k", &[Bytes::from_static(b"item")], false).unwrap();
        assert_eq!(space.left(b"k"), -1, "a list in the place of a dead string");
    }

    #[test]
    fn what_changed_is_noted_as_commands_with_absolute_times() {
        let mut space = at(1000);
        space.note_effects();
        space.put_string(b"k", b"v", Some(1500));
        space.put_string(b"k", b"v", None);
        space.end_at(b"k", Some(1200));
        space.end_at(b"k", None);
        space.put_field(b"h", b"f", b"1").unwrap();
        space.remove_field(b"h", b"f").unwrap();
        space.push(b"l", &[Bytes::from_static(b"a"), Bytes::from_static(b"b")], true).unwrap();
        space.pop(b"l", false).unwrap();
        space.set_member(b"s", b"m", true).unwrap();
        space.set_member(b"s", b"m", true).unwrap();
        space.remove(b"k");
        space.clear();
        let told = [
            "SET k v PXAT 1500",
            "SET k v",
            "PEXPIREAT k 1200",
            "PERSIST k",
            "HSET h f 1",
            "HDEL h f",
            "LPUSH l a b",
            "RPOP l",
            "SADD s m",
            "DEL k",
            "FLUSHALL",
        ];
        assert_eq!(changes(&mut space), told);
    }

    #[test]
    fn what_was_refused_or_changed_nothing_is_not_noted() {
        let mut space = at(0);
        space.put_string(b"k", b"v", None);
        space.note_effects();
        assert!(space.put_field(b"k", b"f", b"1").is_err());
        assert!(space.push(b"k", &[Bytes::from_static(b"a")], true).is_err());
        assert!(space.set_member(b"k", b"m", true).is_err());
        assert_eq!(space.remove_field(b"absent", b"f"), Ok(false));
        assert_eq!(space.pop(b"absent", true), Ok(None));
        assert!(!space.remove(b"absent") && !space.end_at(b"absent", None));
        assert_eq!(changes(&mut space), [""; 0]);
    }

    #[test]
    fn a_watch_sees_changes_and_deaths_and_nothing_else() {
        let mut space = at(0);
        space.put_string(b"k", b"v", Some(10));
        let seen = space.watch(b"k");
        space.put_string(b"other", b"v", None);
        assert!(!space.unwatch(b"k", seen));
        let seen = space.watch(b"k");
        space.remove(b"k");
        space.put_string(b"k", b"v", Some(10));
        assert!(space.unwatch(b"k", seen), "gone and back is a change");
        let seen = space.watch(b"k");
        space.begin(11);
        assert!(space.unwatch(b"k", seen), "so is death");
        assert!(space.watched.is_empty());
    }
}
