//! The reference of one Redis node: what each request does there, exactly.
//!
//! [`execute`] is the Lua scripts of `src/backend/redlock/scripts/` said once more in Rust. It runs on anything that
//! can hold a lock key, a counter and a node record ([`Store`]): the model's few bytes ([`NodeState`]) and the embedded
//! node's whole keyspace. `tests/conformance` holds it to a real Redis, answer by answer.
//!
//! This room never reads a clock: a key's life is counted down, or expired, by whoever owns the store.

use super::message::{MAX_HINT_LEAD, MAX_NUMBER, Owner, Record, Reply, Request, Stand};
use super::mutant::mutated;
use super::validity::Ttl;

/// Why a node could not do what was asked. It changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Obstacle {
    /// The lock key, the counter or the node record holds another type.
    WrongType,
    /// The lock key has no TTL: it is not a lock.
    NoTtl,
    /// The counter or the node record holds something that is not a number.
    NotANumber,
    /// The numbers are used up: the next would exceed [`MAX_NUMBER`].
    Exhausted,
    /// The node is empty, or its epoch is not smaller than the one it was asked to rise to.
    NotRaised,
}

/// The three keys of one resource at one node.
pub trait Store {
    /// The node record; of an empty node nothing but its emptiness need be read, and the claim never.
    fn record(&self) -> Result<Record, Obstacle>;
    /// Writes the node record, without the claim.
    fn set_record(&mut self, record: Record);
    /// An empty node's claim.
    fn joining(&self) -> Result<Option<u64>, Obstacle>;
    /// Writes or removes the claim.
    fn set_joining(&mut self, joining: Option<u64>);
    /// The counter of the resource, if it exists.
    fn counter(&self) -> Result<Option<u64>, Obstacle>;
    /// Writes the counter.
    fn set_counter(&mut self, number: u64);
    /// Whether a lock key exists, whatever it holds.
    fn is_locked(&self) -> bool;
    /// Why the existing lock key cannot be a lock, if so.
    fn lock_obstacle(&self) -> Result<(), Obstacle>;
    /// Whether the lock key exists and is signed by `owner`.
    fn is_signed_by(&self, owner: Owner) -> Result<bool, Obstacle>;
    /// Creates the lock key.
    fn set_lock(&mut self, owner: Owner, ttl: Ttl);
    /// Lets the lock key live at least `ttl` from now.
    fn extend_lock(&mut self, ttl: Ttl);
    /// Deletes the lock key.
    fn delete_lock(&mut self);
}

/// Does one request at a node. An `Err` has changed nothing.
pub fn execute<S: Store>(store: &mut S, request: Request) -> Result<Reply, Obstacle> {
    match request {
        Request::Acquire { owner, ttl, hint } => acquire(store, owner, ttl, hint),
        Request::AcquireClassic { owner, ttl } => {
            if store.is_locked() && !mutated!(SetOverwrites) {
                store.lock_obstacle()?;
                return Ok(Reply::Taken { number: 0 });
            }
            store.set_lock(owner, ttl);
            Ok(Reply::Mine(Stand::CLASSIC))
        }
        Request::Confirm { owner, number } => confirm(store, owner, number),
        Request::Extend { owner, ttl } => {
            if mutated!(ExtendCreates) && !store.is_locked() {
                store.set_lock(owner, ttl);
            }
            let mine = store.is_signed_by(owner)? || (mutated!(ExtendAnyKey) && store.is_locked());
            if !mine {
                return Ok(Reply::NotMine);
            }
            store.extend_lock(ttl);
            Ok(Reply::Extended)
        }
        Request::Release { owner } => {
            if !store.is_signed_by(owner)? && !mutated!(PlainDelete) {
                return Ok(Reply::NotMine);
            }
            store.delete_lock();
            Ok(Reply::Released)
        }
        Request::Inspect => told(store).map(Reply::Record),
        Request::Init { epoch, floor } => {
            let record = store.record()?;
            if record.epoch.is_none() {
                if floor >= MAX_NUMBER {
                    return Err(Obstacle::Exhausted);
                }
                store.set_record(Record { epoch: Some(epoch), floor, high: floor, ..record });
            }
            store.record().map(Reply::Record)
        }
        Request::Claim { epoch } => claim(store, epoch),
        Request::Raise { epoch } => raise_epoch(store, epoch),
        Request::Admit { epoch, floor } => admit(store, epoch, floor),
    }
}

fn acquire<S: Store>(store: &mut S, owner: Owner, ttl: Ttl, hint: u64) -> Result<Reply, Obstacle> {
    let record = store.record()?;
    let Some(epoch) = record.epoch.or(mutated!(EmptyVotes).then_some(1)) else {
        return Ok(Reply::Empty);
    };
    let counter = store.counter()?.filter(|_| !mutated!(NumberEndsWithKey) || store.is_locked());
    let number = counter.unwrap_or(record.floor);
    if store.is_locked() && !mutated!(SetOverwrites) {
        store.lock_obstacle()?;
        return Ok(Reply::Taken { number });
    }
    let mut raised = number.saturating_add(1);
    if hint > raised && hint - raised <= MAX_HINT_LEAD {
        raised = hint;
    }
    if mutated!(GrantDoesNotRaise) || (mutated!(HintNotAbove) && hint == number && hint > 0) {
        raised = number;
    }
    if mutated!(HintAssigned) && hint > 0 {
        raised = hint;
    }
    if raised > MAX_NUMBER {
        return Err(Obstacle::Exhausted);
    }
    store.set_lock(owner, ttl);
    raise(store, record, raised);
    Ok(Reply::Mine(Stand { number: raised, epoch }))
}

fn confirm<S: Store>(store: &mut S, owner: Owner, number: u64) -> Result<Reply, Obstacle> {
    let record = store.record()?;
    let Some(epoch) = record.epoch.or(mutated!(EmptyVotes).then_some(1)) else {
        return Ok(Reply::Empty);
    };
    let unchecked = mutated!(ConfirmAnyKey) || (mutated!(ConfirmAbsentKey) && !store.is_locked());
    if !store.is_signed_by(owner)? && !unchecked {
        return Ok(Reply::NotMine);
    }
    let own = store.counter()?.unwrap_or(record.floor);
    if number > MAX_NUMBER {
        return Err(Obstacle::Exhausted);
    }
    // Never lowers; and a number above the one asked for is told as it is: the client compares.
    let raised = if mutated!(ConfirmLowers) { number } else { own.max(number) };
    if !mutated!(ConfirmDoesNotRaise) {
        raise(store, record, raised);
    }
    Ok(Reply::Mine(Stand { number: raised, epoch }))
}

/// The node record with its claim.
fn told<S: Store>(store: &S) -> Result<Record, Obstacle> {
    Ok(Record { joining: store.joining()?, ..store.record()? })
}

fn claim<S: Store>(store: &mut S, epoch: u64) -> Result<Reply, Obstacle> {
    let record = told(store)?;
    if epoch > MAX_NUMBER {
        return Err(Obstacle::Exhausted);
    }
    if record.epoch.is_none() && record.joining.is_none_or(|other| other < epoch) {
        store.set_joining(Some(epoch));
    }
    told(store).map(Reply::Record)
}

/// A second raise with one epoch is refused: whoever repeats it cannot know whether grants came between.
fn raise_epoch<S: Store>(store: &mut S, epoch: u64) -> Result<Reply, Obstacle> {
    let record = told(store)?;
    if epoch > MAX_NUMBER {
        return Err(Obstacle::Exhausted);
    }
    let equal = mutated!(ReadmitKeepsEpoch) && record.epoch == Some(epoch);
    if record.epoch.is_none_or(|own| own >= epoch) && !equal {
        return Err(Obstacle::NotRaised);
    }
    store.set_record(Record { epoch: Some(epoch), ..record });
    told(store).map(Reply::Record)
}

fn admit<S: Store>(store: &mut S, epoch: u64, floor: u64) -> Result<Reply, Obstacle> {
    let record = told(store)?;
    if epoch > MAX_NUMBER || floor >= MAX_NUMBER {
        return Err(Obstacle::Exhausted);
    }
    if record.epoch.is_none() && (record.joining == Some(epoch) || mutated!(AdmitUnclaimed)) {
        store.set_record(Record { epoch: Some(epoch), floor, high: floor, ..record });
        store.set_joining(None);
    }
    told(store).map(Reply::Record)
}

fn raise<S: Store>(store: &mut S, record: Record, number: u64) {
    store.set_counter(number);
    if number > record.high {
        store.set_record(Record { high: number, ..record });
    }
}

/// One resource at one node, as a value: what a model holds.
///
/// The life of the key is in whole milliseconds and counted down by [`NodeState::advance`]; an untimed model calls
/// [`NodeState::expire`] instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeState {
    /// The node record.
    pub record: Record,
    /// The counter of the resource; `None` if it does not exist.
    pub counter: Option<u64>,
    /// The lock key: who signed it, and its remaining life in milliseconds.
    pub lock: Option<(Owner, u64)>,
}

impl NodeState {
    /// A node that takes part: `epoch`, and numbers starting from `floor`.
    pub const fn member(epoch: u64, floor: u64) -> Self {
        Self {
            record: Record { epoch: Some(epoch), floor, high: floor, joining: None },
            counter: None,
            lock: None,
        }
    }

    /// Lets the key's life run out by `millis`.
    pub fn advance(&mut self, millis: u64) {
        self.lock = self
            .lock
            .and_then(|(owner, left)| left.checked_sub(millis).filter(|&l| l > 0).map(|l| (owner, l)));
    }

    /// Ends the key now.
    pub fn expire(&mut self) {
        self.lock = None;
    }

    /// Loses all data: the node becomes empty.
    pub fn wipe(&mut self) {
        *self = Self::default();
    }
}

impl Store for NodeState {
    fn record(&self) -> Result<Record, Obstacle> {
        Ok(self.record)
    }

    fn set_record(&mut self, record: Record) {
        self.record = Record { joining: self.record.joining, ..record };
    }

    fn joining(&self) -> Result<Option<u64>, Obstacle> {
        Ok(self.record.joining)
    }

    fn set_joining(&mut self, joining: Option<u64>) {
        self.record.joining = joining;
    }

    fn counter(&self) -> Result<Option<u64>, Obstacle> {
        Ok(self.counter)
    }

    fn set_counter(&mut self, number: u64) {
        self.counter = Some(number);
    }

    fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    fn lock_obstacle(&self) -> Result<(), Obstacle> {
        Ok(())
    }

    fn is_signed_by(&self, owner: Owner) -> Result<bool, Obstacle> {
        Ok(self.lock.is_some_and(|(signed, _)| signed == owner))
    }

    fn set_lock(&mut self, owner: Owner, ttl: Ttl) {
        self.lock = Some((owner, ttl.as_millis()));
    }

    fn extend_lock(&mut self, ttl: Ttl) {
        self.lock = self.lock.map(|(owner, left)| (owner, left.max(ttl.as_millis())));
    }

    fn delete_lock(&mut self) {
        self.lock = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner(0xA);
    const B: Owner = Owner(0xB);

    fn ttl(millis: u64) -> Ttl {
        Ttl::from_millis(millis).unwrap()
    }

    fn mine(number: u64) -> Result<Reply, Obstacle> {
        Ok(Reply::Mine(Stand { number, epoch: 1 }))
    }

    #[test]
    fn a_grant_raises_the_number_and_outlives_the_key() {
        let mut node = NodeState::member(1, 0);
        assert_eq!(execute(&mut node, Request::Acquire { owner: A, ttl: ttl(9), hint: 0 }), mine(1));
        let taken = execute(&mut node, Request::Acquire { owner: B, ttl: ttl(9), hint: 0 });
        assert_eq!(taken, Ok(Reply::Taken { number: 1 }));
        assert_eq!(execute(&mut node, Request::Release { owner: B }), Ok(Reply::NotMine));
        assert_eq!(execute(&mut node, Request::Release { owner: A }), Ok(Reply::Released));
        assert_eq!(execute(&mut node, Request::Acquire { owner: B, ttl: ttl(9), hint: 7 }), mine(7));
        node.advance(9);
        assert_eq!(execute(&mut node, Request::Acquire { owner: A, ttl: ttl(9), hint: 3 }), mine(8));
        assert_eq!(node.record.high, 8);
    }

    #[test]
    fn a_confirm_never_lowers_and_needs_the_key() {
        let mut node = NodeState::member(1, 4);
        assert_eq!(execute(&mut node, Request::Confirm { owner: A, number: 9 }), Ok(Reply::NotMine));
        execute(&mut node, Request::Acquire { owner: A, ttl: ttl(9), hint: 0 }).unwrap();
        assert_eq!(execute(&mut node, Request::Confirm { owner: A, number: 3 }), mine(5));
        assert_eq!(execute(&mut node, Request::Confirm { owner: A, number: 9 }), mine(9));
        assert_eq!(execute(&mut node, Request::Confirm { owner: B, number: 99 }), Ok(Reply::NotMine));
        assert_eq!(node.counter, Some(9));
    }

    #[test]
    fn an_empty_node_does_not_vote_until_it_gets_an_epoch() {
        let mut node = NodeState::default();
        let acquire = Request::Acquire { owner: A, ttl: ttl(9), hint: 0 };
        assert_eq!(execute(&mut node, acquire), Ok(Reply::Empty));
        assert_eq!(execute(&mut node, Request::Confirm { owner: A, number: 1 }), Ok(Reply::Empty));
        assert_eq!(node, NodeState::default(), "nothing was changed");
        let taken = Record { epoch: Some(1), floor: 5, high: 5, joining: None };
        assert_eq!(execute(&mut node, Request::Init { epoch: 1, floor: 5 }), Ok(Reply::Record(taken)));
        assert_eq!(execute(&mut node, Request::Init { epoch: 2, floor: 0 }), Ok(Reply::Record(taken)));
        assert_eq!(execute(&mut node, acquire), mine(6));
    }

    #[test]
    fn a_wiped_node_comes_back_in_a_new_epoch_above_every_number() {
        let record = |epoch, floor, high, joining| Ok(Reply::Record(Record { epoch, floor, high, joining }));
        let mut intact = NodeState::member(1, 6);
        let mut wiped = NodeState::default();
        assert_eq!(execute(&mut wiped, Request::Raise { epoch: 4 }), Err(Obstacle::NotRaised));
        assert_eq!(execute(&mut wiped, Request::Claim { epoch: 4 }), record(None, 0, 0, Some(4)));
        assert_eq!(execute(&mut wiped, Request::Claim { epoch: 3 }), record(None, 0, 0, Some(4)));
        assert_eq!(execute(&mut intact, Request::Claim { epoch: 4 }), record(Some(1), 6, 6, None));
        assert_eq!(execute(&mut intact, Request::Raise { epoch: 4 }), record(Some(4), 6, 6, None));
        assert_eq!(execute(&mut intact, Request::Raise { epoch: 4 }), Err(Obstacle::NotRaised));
        let other = Request::Admit { epoch: 3, floor: 6 };
        assert_eq!(execute(&mut wiped, other), record(None, 0, 0, Some(4)), "claimed by another run");
        let admit = Request::Admit { epoch: 4, floor: 6 };
        assert_eq!(execute(&mut wiped, admit), record(Some(4), 6, 6, None));
        let acquire = Request::Acquire { owner: A, ttl: ttl(9), hint: 0 };
        assert_eq!(execute(&mut wiped, acquire), Ok(Reply::Mine(Stand { number: 7, epoch: 4 })));
        assert_eq!(
            execute(&mut wiped, admit),
            record(Some(4), 6, 7, None),
            "a second time it changes nothing"
        );
        let absurd = Request::Claim { epoch: MAX_NUMBER + 1 };
        assert_eq!(execute(&mut NodeState::default(), absurd), Err(Obstacle::Exhausted));
    }

    #[test]
    fn an_extension_lengthens_and_never_creates() {
        let mut node = NodeState::member(1, 0);
        let extend = |millis| Request::Extend { owner: A, ttl: ttl(millis) };
        assert_eq!(execute(&mut node, extend(50)), Ok(Reply::NotMine));
        assert_eq!(node.lock, None);
        execute(&mut node, Request::AcquireClassic { owner: A, ttl: ttl(10) }).unwrap();
        assert_eq!(execute(&mut node, extend(50)), Ok(Reply::Extended));
        assert_eq!(execute(&mut node, extend(20)), Ok(Reply::Extended));
        assert_eq!(node.lock, Some((A, 50)), "an extension that comes late must not shorten a key's life");
    }

    #[test]
    fn the_numbers_end_with_an_error_and_never_repeat() {
        // P8, and the bound on hints.
        let mut node = NodeState::member(1, MAX_NUMBER - 1);
        let acquire = Request::Acquire { owner: A, ttl: ttl(9), hint: u64::MAX };
        assert_eq!(execute(&mut node, acquire), mine(MAX_NUMBER));
        node.expire();
        let before = node;
        assert_eq!(execute(&mut node, acquire), Err(Obstacle::Exhausted));
        assert_eq!(node, before, "an error changes nothing");
        let mut absurd = NodeState::member(1, u64::MAX);
        assert_eq!(execute(&mut absurd, acquire), Err(Obstacle::Exhausted));
        for floor in [MAX_NUMBER, MAX_NUMBER + 1, u64::MAX] {
            let mut empty = NodeState::default();
            assert_eq!(execute(&mut empty, Request::Init { epoch: 1, floor }), Err(Obstacle::Exhausted));
            assert_eq!(empty, NodeState::default(), "a floor that leaves no tokens starts nothing");
        }
    }
}
