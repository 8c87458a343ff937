//! Our own seven scripts, done by the reference of one node instead of by Lua.
//!
//! The digest of a script decides: whoever sends the text or the digest of one of them gets
//! [`execute`](crate::proto::node::execute) on this node's keys, which is the same code that the model checks. A call
//! that the reference cannot express (an owner that is no 128-bit number, a TTL of zero, a missing argument) is left to
//! the Lua text, so that the answer is Redis' answer in every case.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;

use super::keyspace::Keyspace;
use super::reply::{Fault, Reply};
use super::state::State;
use crate::backend::redlock::scripts::Script;
use crate::proto::message::{self, Owner, Record, Request};
use crate::proto::node::{Obstacle, Store, execute};
use crate::proto::validity::Ttl;

static BY_DIGEST: LazyLock<HashMap<String, Script>> = LazyLock::new(|| {
    Script::ALL
        .into_iter()
        .map(|script| (sha1_smol::Sha1::from(script.text()).digest().to_string(), script))
        .collect()
});

/// Runs a script if it is one of ours and the reference can express the call.
pub(crate) fn run(
    state: &mut State,
    digest: &str,
    keys: &[Bytes],
    argv: &[Bytes],
) -> Option<Result<Reply, Fault>> {
    match (*BY_DIGEST.get(digest)?, keys, argv) {
        (Script::Acquire, [lock, counter, record], [owner, ttl, hint]) => {
            let request =
                Request::Acquire { owner: self::owner(owner)?, ttl: self::ttl(ttl)?, hint: whole(hint)? };
            Some(Resource::new(&mut state.space, lock, counter, record)?.answer(request))
        }
        (Script::Confirm, [lock, counter, record], [owner, number]) => {
            let request = Request::Confirm { owner: self::owner(owner)?, number: whole(number)? };
            Some(Resource::new(&mut state.space, lock, counter, record)?.answer(request))
        }
        (Script::Extend, [lock], [owner, ttl]) => {
            let request = Request::Extend { owner: self::owner(owner)?, ttl: self::ttl(ttl)? };
            Some(Resource::lock_only(&mut state.space, lock).answer(request))
        }
        (Script::Release, [lock], [owner, channel]) => {
            let request = Request::Release { owner: self::owner(owner)? };
            let outcome = Resource::lock_only(&mut state.space, lock).answer(request);
            if outcome == Ok(Reply::Int(1)) {
                state.bus.publish(&Bytes::copy_from_slice(channel), &Bytes::copy_from_slice(lock));
            }
            Some(outcome)
        }
        (Script::Inspect, [lock, counter, record], []) => {
            Some(Resource::new(&mut state.space, lock, counter, record)?.inspect())
        }
        (Script::Init, [record], [epoch, floor]) => {
            let request = Request::Init { epoch: stored(epoch)?, floor: whole(floor)? };
            Some(Resource::record_only(&mut state.space, record).answer(request))
        }
        (Script::Readmit, [record], [step, epoch, floor]) => {
            let (epoch, floor) = (whole(epoch)?, whole(floor)?);
            let request = match &step[..] {
                b"claim" if floor == 0 => Request::Claim { epoch },
                b"raise" if floor == 0 => Request::Raise { epoch },
                b"admit" => Request::Admit { epoch, floor },
                _ => return None,
            };
            Some(Resource::record_only(&mut state.space, record).answer(request))
        }
        _ => None,
    }
}

fn owner(text: &[u8]) -> Option<Owner> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn ttl(text: &[u8]) -> Option<Ttl> {
    Ttl::from_millis(whole(text)?)
}

/// A number as this library writes it.
fn whole(text: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// A number that is kept as it was sent.
fn stored(text: &[u8]) -> Option<u64> {
    whole(text).filter(|&number| number <= message::MAX_NUMBER)
}

/// What the scripts take for a number: up to 16 digits, as a double.
fn natural(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(number as u64)
}

const IN_RECORD: Fault = Fault::new("NOTANUMBER in the node record");
const IN_COUNTER: Fault = Fault::new("NOTANUMBER in the counter");

/// The three keys of one resource in this node's keyspace.
struct Resource<'a> {
    space: &'a mut Keyspace,
    lock: &'a [u8],
    counter: &'a [u8],
    record: &'a [u8],
}

impl<'a> Resource<'a> {
    /// `None` if two of the keys are one.
    fn new(space: &'a mut Keyspace, lock: &'a Bytes, counter: &'a Bytes, record: &'a Bytes) -> Option<Self> {
        let distinct = lock != counter && counter != record && lock != record;
        distinct.then_some(Self { space, lock, counter, record })
    }

    fn lock_only(space: &'a mut Keyspace, lock: &'a Bytes) -> Self {
        Self { space, lock, counter: b"", record: b"" }
    }

    fn record_only(space: &'a mut Keyspace, record: &'a Bytes) -> Self {
        Self { space, lock: b"", counter: b"", record }
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Fault> {
        match execute(self, request) {
            Ok(reply) => Ok(self.spell(request, reply)),
            Err(obstacle) => Err(self.fault(request, obstacle)),
        }
    }

    /// A reply as the script writes it.
    fn spell(&self, request: Request, reply: message::Reply) -> Reply {
        match reply {
            message::Reply::Mine(stand) => numbers(&[1, stand.number, stand.epoch]),
            message::Reply::Taken { number } => {
                Reply::Array(vec![Reply::Int(0), int(number), Reply::Int(self.space.left(self.lock))])
            }
            message::Reply::NotMine if matches!(request, Request::Confirm { .. }) => numbers(&[0]),
            message::Reply::NotMine => Reply::Int(0),
            message::Reply::Empty => Reply::Array(vec![Reply::Int(-1)]),
            message::Reply::Extended | message::Reply::Released => Reply::Int(1),
            message::Reply::Record(Record { epoch, floor, high, joining }) => {
                let or_none = |number: Option<u64>| number.map_or(Reply::Int(-1), int);
                let mut told = vec![or_none(epoch), int(floor), int(high)];
                if !matches!(request, Request::Init { .. }) {
                    told.push(or_none(joining));
                }
                Reply::Array(told)
            }
            // A node's own execution is never in doubt.
            message::Reply::Refused | message::Reply::Unknown => Reply::Null,
        }
    }

    fn fault(&self, request: Request, obstacle: Obstacle) -> Fault {
        match obstacle {
            Obstacle::WrongType => Fault::WRONG_TYPE,
            Obstacle::NoTtl => Fault::new("NOTTL the key has no TTL: it is not a lock"),
            Obstacle::NotANumber if request.is_about_the_node() || Store::record(self).is_err() => IN_RECORD,
            Obstacle::NotANumber => IN_COUNTER,
            Obstacle::Exhausted => Fault::new("EXHAUSTED the numbers end at 2^53 - 1"),
            Obstacle::NotRaised => Fault::new("NOTRAISED empty, or the epoch is not smaller"),
        }
    }

    /// More than the reference tells: also the holder, the life that is left, and the counter.
    fn inspect(&self) -> Result<Reply, Fault> {
        let fields = self.space.hash(self.record)?;
        let field = |name: &[u8]| fields.and_then(|fields| fields.get(name));
        let read = |name: &[u8]| field(name).map_or(Ok(0), |text| natural(text).ok_or(IN_RECORD));
        let (epoch, floor, high) = (read(b"epoch")?, read(b"floor")?, read(b"high")?);
        let claim = read(b"joining")?;
        let told = |name: &[u8], number: u64| field(name).map_or(Reply::Int(-1), |_| int(number));
        let (epoch, claim) = (told(b"epoch", epoch), told(b"joining", claim));
        let counter = match self.space.string(self.counter)? {
            Some(text) => int(natural(text).ok_or(IN_COUNTER)?),
            None => Reply::Int(-1),
        };
        let holder = Reply::bulk_or_null(self.space.string(self.lock)?);
        let left = Reply::Int(self.space.left(self.lock));
        Ok(Reply::Array(vec![holder, left, counter, epoch, int(floor), int(high), claim]))
    }
}

fn int(number: u64) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn numbers(all: &[u64]) -> Reply {
    Reply::Array(all.iter().map(|&number| int(number)).collect())
}

impl Store for Resource<'_> {
    fn record(&self) -> Result<Record, Obstacle> {
        let Some(fields) = self.space.hash(self.record).map_err(|_| Obstacle::WrongType)? else {
            return Ok(Record::default());
        };
        let Some(epoch) = fields.get(&b"epoch"[..]) else {
            // An empty node says so before it reads any number.
            return Ok(Record::default());
        };
        let number =
            |text: Option<&Bytes>| text.map_or(Ok(0), |text| natural(text).ok_or(Obstacle::NotANumber));
        let epoch = number(Some(epoch))?;
        let (floor, high) = (number(fields.get(&b"floor"[..]))?, number(fields.get(&b"high"[..]))?);
        Ok(Record { epoch: Some(epoch), floor, high, joining: None })
    }

    fn set_record(&mut self, record: Record) {
        let old = Store::record(self).unwrap_or_default();
        let fresh = old.epoch.is_none();
        let mut put = |name: &[u8], number: u64| {
            // `execute` has read the record first, so its type is right.
            let _ = self.space.put_field(self.record, name, number.to_string().as_bytes());
        };
        if let Some(epoch) = record.epoch.filter(|_| fresh || old.epoch != record.epoch) {
            put(b"epoch", epoch);
        }
        if fresh || old.floor != record.floor {
            put(b"floor", record.floor);
        }
        if fresh || old.high != record.high {
            put(b"high", record.high);
        }
    }

    fn joining(&self) -> Result<Option<u64>, Obstacle> {
        let fields = self.space.hash(self.record).map_err(|_| Obstacle::WrongType)?;
        let claim = fields.and_then(|fields| fields.get(&b"joining"[..]));
        claim.map(|text| natural(text).ok_or(Obstacle::NotANumber)).transpose()
    }

    fn set_joining(&mut self, joining: Option<u64>) {
        match joining {
            Some(epoch) => {
                // `execute` has read the record first, so its type is right.
                let _ = self.space.put_field(self.record, b"joining", epoch.to_string().as_bytes());
            }
            None => {
                let _ = self.space.remove_field(self.record, b"joining");
            }
        }
    }

    fn counter(&self) -> Result<Option<u64>, Obstacle> {
        match self.space.string(self.counter).map_err(|_| Obstacle::WrongType)? {
            Some(text) => natural(text).map(Some).ok_or(Obstacle::NotANumber),
            None => Ok(None),
        }
    }

    fn set_counter(&mut self, number: u64) {
        self.space.put_string(self.counter, number.to_string().as_bytes(), None);
    }

    fn is_locked(&self) -> bool {
        self.space.contains(self.lock)
    }

    fn lock_obstacle(&self) -> Result<(), Obstacle> {
        self.space.string(self.lock).map_err(|_| Obstacle::WrongType)?;
        if self.space.end(self.lock) == Some(None) { Err(Obstacle::NoTtl) } else { Ok(()) }
    }

    fn is_signed_by(&self, owner: Owner) -> Result<bool, Obstacle> {
        let signed = self.space.string(self.lock).map_err(|_| Obstacle::WrongType)?;
        Ok(signed.is_some_and(|signed| *signed == owner.to_string().as_bytes()))
    }

    fn set_lock(&mut self, owner: Owner, ttl: Ttl) {
        let end = self.space.now() + ttl.as_millis();
        self.space.put_string(self.lock, owner.to_string().as_bytes(), Some(end));
    }

    fn extend_lock(&mut self, ttl: Ttl) {
        let end = self.space.now() + ttl.as_millis();
        if self.space.end(self.lock).flatten().is_none_or(|old| old < end) {
            self.space.end_at(self.lock, Some(end));
        }
    }

    fn delete_lock(&mut self) {
        self.space.remove(self.lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redlock::scripts::{Keys, NODE_RECORD};
    use crate::node::state::Identity;

    const OWNER: &str = "0000000000000000000000000000000a";

    fn state() -> State {
        State::new(Identity { run_id: String::new(), password: None, durable: false, started: 0 })
    }

    fn bytes(words: &[&str]) -> Vec<Bytes> {
        words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    fn ask(state: &mut State, script: Script, keys: &[&str], argv: &[&str]) -> Option<Result<Reply, Fault>> {
        let digest = sha1_smol::Sha1::from(script.text()).digest().to_string();
        run(state, &digest, &bytes(keys), &bytes(argv))
    }

    #[test]
    fn the_reference_answers_what_this_library_asks() {
        let (mut state, keys) = (state(), Keys::new("", "res"));
        let all = [keys.lock.as_str(), &keys.counter, NODE_RECORD];
        let mut check = |script, keys: &[&str], argv: &[&str], expected: Reply| {
            assert_eq!(ask(&mut state, script, keys, argv), Some(Ok(expected)), "{script:?}");
        };
        check(Script::Init, &all[2..], &["1", "5"], numbers(&[1, 5, 5]));
        check(Script::Acquire, &all, &[OWNER, "100", "0"], numbers(&[1, 6, 1]));
        check(Script::Confirm, &all, &[OWNER, "8"], numbers(&[1, 8, 1]));
        check(Script::Extend, &all[..1], &[OWNER, "200"], Reply::Int(1));
        let held = [
            Reply::bulk(OWNER),
            Reply::Int(200),
            Reply::Int(8),
            Reply::Int(1),
            Reply::Int(5),
            Reply::Int(8),
            Reply::Int(-1),
        ];
        check(Script::Inspect, &all, &[], Reply::Array(held.into()));
        check(Script::Release, &all[..1], &[OWNER, &keys.channel], Reply::Int(1));
    }

    #[test]
    fn a_floor_that_leaves_no_tokens_starts_nothing() {
        let mut state = state();
        for floor in ["9007199254740991", "9007199254740993", "18446744073709551615"] {
            let answer = ask(&mut state, Script::Init, &[NODE_RECORD], &["1", floor]);
            assert_eq!(answer, Some(Err(Fault::new("EXHAUSTED the numbers end at 2^53 - 1"))), "{floor}");
        }
        assert_eq!(state.space.hash(NODE_RECORD.as_bytes()), Ok(None));
    }

    #[test]
    fn what_the_reference_cannot_express_is_left_to_lua() {
        let (mut state, keys) = (state(), Keys::new("", "res"));
        let all = [keys.lock.as_str(), &keys.counter, NODE_RECORD];
        for argv in [&["me", "100", "0"][..], &[OWNER, "0", "0"], &[OWNER, "100", "1e3"], &[OWNER, "100"]] {
            assert_eq!(ask(&mut state, Script::Acquire, &all, argv), None, "{argv:?}");
        }
        assert_eq!(ask(&mut state, Script::Acquire, &[all[0], all[0], all[2]], &[OWNER, "100", "0"]), None);
        assert_eq!(
            run(&mut state, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", &[], &[]),
            None,
            "another script"
        );
    }

    #[test]
    fn fields_that_others_keep_in_the_record_stay() {
        let mut state = state();
        let record = NODE_RECORD.as_bytes();
        state.space.put_field(record, b"joining", b"7").unwrap();
        ask(&mut state, Script::Init, &[NODE_RECORD], &["1", "5"]).unwrap().unwrap();
        let fields = state.space.hash(record).unwrap().unwrap();
        assert_eq!(fields.get(&b"joining"[..]).map(|text| &text[..]), Some(&b"7"[..]));
        assert_eq!(fields.len(), 4);
    }
}
