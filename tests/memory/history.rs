//! Histories drawn from a seed, compared access by access with `Guarded`.

use std::collections::BTreeMap;

use redfence::memory::{BackendId, Change, Fence, Guarded, Operation, Read, Store, StoreError, Written};
use redfence::proto::FencingToken;

use crate::case::{Case, cases};
use crate::subject::{Kind, Subject};

const SEEDS: std::ops::Range<u64> = 0..4;
const ACCESSES: usize = 150;
const KEYS: [&str; 3] = ["a", "b", "b/c"];

pub(crate) fn cases() -> Vec<Case> {
    cases![Kind::ALL => any_history_is_answered_as_guarded_does]
}

async fn any_history_is_answered_as_guarded_does(kind: Kind) {
    for seed in SEEDS {
        let subject = Subject::start(kind).await;
        // Two connections: what one has done, the other one sees.
        let stores = [subject.open().await, subject.open().await];
        let (mut dice, mut reference) = (fastrand::Rng::with_seed(seed), Reference::default());
        for number in 0..ACCESSES {
            let access = Access::draw(&mut dice, number);
            let (is, should_be) = (access.make(&*stores[number % 2]).await, access.imagine(&mut reference));
            assert_eq!(is, should_be, "seed {seed}, access {number}: {access:?}");
        }
    }
}

#[derive(Clone, Debug)]
enum Access {
    Read {
        key: &'static str,
        fence: Option<Fence>,
    },
    Write {
        key: &'static str,
        value: Option<Vec<u8>>,
        fence: Option<Fence>,
        expected: Option<u64>,
        operation: Operation,
    },
    Move {
        from: BackendId,
        to: BackendId,
    },
    Look {
        prefix: &'static str,
        after: Option<&'static str>,
        most: usize,
    },
}

/// What was answered, in a form that can be compared.
#[derive(PartialEq, Debug)]
enum Told {
    Read(Read<Vec<u8>>),
    Written(Written<Vec<u8>>),
    Done,
    OtherBackend { stored: BackendId, shown: BackendId },
    Seen(Vec<String>, Option<BackendId>),
}

impl Access {
    fn draw(dice: &mut fastrand::Rng, number: usize) -> Self {
        let key = KEYS[dice.usize(..KEYS.len())];
        let fence = draw_fence(dice);
        match dice.u32(..100) {
            0..30 => Self::Read { key, fence },
            30..90 => {
                let value = (dice.u32(..4) > 0).then(|| number.to_string().into_bytes());
                let expected = dice.bool().then(|| dice.u64(..25));
                Self::Write { key, value, fence, expected, operation: Operation(dice.u128(..60)) }
            }
            90..94 => Self::Move { from: backend(dice), to: backend(dice) },
            _ => {
                let (prefix, after) =
                    (["", "b", "b/"][dice.usize(..3)], [None, Some("a"), Some("b")][dice.usize(..3)]);
                Self::Look { prefix, after, most: dice.usize(..4) }
            }
        }
    }

    async fn make(&self, store: &dyn Store) -> Told {
        match self {
            Self::Read { key, fence } => told(store.read(key, fence.as_ref()).await.map(Told::Read)),
            Self::Write { key, value, fence, expected, operation } => {
                let change = Change {
                    value: value.as_deref(),
                    fence: fence.as_ref(),
                    expected: *expected,
                    operation: *operation,
                };
                told(store.write(key, change).await.map(Told::Written))
            }
            Self::Move { from, to } => told(store.change_backend(from, to).await.map(|()| Told::Done)),
            Self::Look { prefix, after, most } => {
                let keys = store.keys(prefix, *after, *most).await.expect("keys");
                Told::Seen(keys, store.backend().await.expect("a back end"))
            }
        }
    }

    fn imagine(&self, reference: &mut Reference) -> Told {
        match self {
            Self::Read { key, fence } => match reference.admit(fence.as_ref()) {
                Err(refusal) => refusal,
                Ok(token) => Told::Read(reference.value(key).read(token)),
            },
            Self::Write { key, value, fence, expected, operation } => match reference.admit(fence.as_ref()) {
                Err(refusal) => refusal,
                Ok(token) => Told::Written(match value.clone() {
                    Some(value) => reference.value(key).write(value, token, *expected, *operation),
                    None => reference.value(key).remove(token, *expected, *operation),
                }),
            },
            Self::Move { from, to } => reference.change_backend(from, to),
            Self::Look { prefix, after, most } => {
                let keys =
                    reference.values.iter().filter(|(_, value)| value.value().is_some()).map(|(key, _)| *key);
                let keys =
                    keys.filter(|key| key.starts_with(prefix) && after.is_none_or(|after| *key > after));
                Told::Seen(keys.take(*most).map(str::to_owned).collect(), reference.backend.clone())
            }
        }
    }
}

fn told(answer: Result<Told, StoreError>) -> Told {
    match answer {
        Ok(told) => told,
        Err(StoreError::OtherBackend { stored, shown }) => Told::OtherBackend { stored, shown },
        Err(error) => panic!("{error:?}"),
    }
}

fn draw_fence(dice: &mut fastrand::Rng) -> Option<Fence> {
    let token = FencingToken(dice.u64(1..8));
    (dice.u32(..3) > 0).then(|| Fence::new(backend(dice), token))
}

/// Mostly the same one.
fn backend(dice: &mut fastrand::Rng) -> BackendId {
    BackendId::new(if dice.u32(..8) > 0 { "redlock" } else { "etcd" })
}

/// The whole store, by its rules.
#[derive(Default)]
struct Reference {
    backend: Option<BackendId>,
    values: BTreeMap<&'static str, Guarded<Vec<u8>>>,
}

impl Reference {
    fn admit(&mut self, fence: Option<&Fence>) -> Result<Option<FencingToken>, Told> {
        let Some(fence) = fence else { return Ok(None) };
        let stored = self.backend.get_or_insert_with(|| fence.backend.clone());
        if *stored == fence.backend {
            return Ok(Some(fence.token));
        }
        Err(Told::OtherBackend { stored: stored.clone(), shown: fence.backend.clone() })
    }

    fn change_backend(&mut self, from: &BackendId, to: &BackendId) -> Told {
        match &self.backend {
            Some(stored) if stored == to => return Told::Done,
            Some(stored) if stored != from => {
                return Told::OtherBackend { stored: stored.clone(), shown: from.clone() };
            }
            _ => {}
        }
        self.backend = Some(to.clone());
        self.values.values_mut().for_each(Guarded::forget_tokens);
        Told::Done
    }

    fn value(&mut self, key: &'static str) -> &mut Guarded<Vec<u8>> {
        self.values.entry(key).or_default()
    }
}
