//! Reserve, spend, settle: a budget that no number of spenders exceeds.
//!
//! To check what is left and then to spend is not enough: between the check and the spending others check too, and all of them
//! find that it is enough (BerriAI/litellm#34732). So what may be spent is taken **before** it is spent, and what was not needed is given back.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::{Edit, Operation, SharedMemory, Strategy, UpdateError};
use super::form::{FormError, parsed, unix_millis, written};

/// A budget of tokens, requests or money in a shared memory. Amounts are whole units of the user's choice.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redfence::memory::recipes::BudgetError> {
/// use redfence::memory::recipes::Budget;
/// use redfence::memory::{InProcessStore, SharedMemory};
///
/// let budget = Budget::new(SharedMemory::new(InProcessStore::default()), "tokens/today");
/// budget.open(1_000).await?;
/// let call = budget.reserve(700).await?;                  // the most that the call can cost
/// assert!(budget.reserve(700).await.is_err());            // somebody else would exceed it
/// budget.settle(&call, 250).await?;                       // what it did cost
/// assert_eq!(budget.account().await?.available(), 750);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    memory: SharedMemory,
    key: String,
    strategy: Strategy,
}

/// What was taken from a budget and not yet settled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[must_use = "a reservation that is not settled counts as spent"]
pub struct Reservation {
    id: String,
    amount: u64,
}

impl Reservation {
    /// How much was taken.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

/// How a budget stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Account {
    /// The most that may be spent.
    pub limit: u64,
    /// What was spent, by what was settled.
    pub spent: u64,
    reserved: BTreeMap<String, Held>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Held {
    amount: u64,
    since_unix_ms: u64,
}

impl Account {
    /// What is reserved and not yet settled.
    pub fn reserved(&self) -> u64 {
        self.reserved.values().map(|held| held.amount).fold(0, u64::saturating_add)
    }

    /// What can still be reserved.
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.spent).saturating_sub(self.reserved())
    }
}

/// Why a budget did not do what was asked. Nothing was changed, unless the source says that this is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// It would be exceeded.
    #[error("{asked} asked, {available} available of {limit}")]
    Exceeded {
        /// Asked for.
        asked: u64,
        /// Available.
        available: u64,
        /// The limit.
        limit: u64,
    },
    /// More was spent than was reserved: reserve the most that a call can cost.
    #[error("{actual} spent, but only {reserved} reserved: it counts as {reserved}")]
    AboveReservation {
        /// Spent.
        actual: u64,
        /// Reserved, and counted as spent now.
        reserved: u64,
    },
    /// The reservation is settled already, by its holder or as abandoned.
    #[error("the reservation is settled already")]
    Settled,
    /// There is no such budget yet.
    #[error("there is no budget at this key: open it first")]
    NotOpen,
    /// Something else is at its key.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The memory failed.
    #[error(transparent)]
    Memory(Box<UpdateError>),
}

impl From<UpdateError<Self>> for BudgetError {
    fn from(error: UpdateError<Self>) -> Self {
        match error.split() {
            Ok(own) => own,
            Err(memory) => Self::Memory(Box::new(memory)),
        }
    }
}

impl Budget {
    /// The budget at this key.
    pub fn new(memory: SharedMemory, key: impl Into<String>) -> Self {
        Self { memory, key: key.into(), strategy: Strategy::Optimistic }
    }

    /// Another strategy than the optimistic one: its updates are short.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the limit, and begins the account if there is none. What was spent and reserved stays.
    ///
    /// # Errors
    /// A [`BudgetError`] of the memory.
    pub async fn open(&self, limit: u64) -> Result<(), BudgetError> {
        self.change(true, |account| {
            account.limit = limit;
            Ok(())
        })
        .await
    }

    /// Takes the most that something can cost, before it is spent.
    ///
    /// # Errors
    /// [`BudgetError::Exceeded`] if that much is not available.
    pub async fn reserve(&self, amount: u64) -> Result<Reservation, BudgetError> {
        let id = format!("{:032x}", Operation::draw().0);
        self.change(false, |account| {
            let available = account.available();
            if amount > available {
                return Err(BudgetError::Exceeded { asked: amount, available, limit: account.limit });
            }
            account.reserved.insert(id.clone(), Held { amount, since_unix_ms: unix_millis() });
            Ok(())
        })
        .await?;
        Ok(Reservation { id, amount })
    }

    /// Says what was spent of a reservation; the rest is available again. 0 gives all of it back.
    ///
    /// # Errors
    /// [`BudgetError::Settled`] if it is settled; [`BudgetError::AboveReservation`] if more was spent, which then counts as
    /// spent as far as it was reserved.
    pub async fn settle(&self, reservation: &Reservation, actual: u64) -> Result<(), BudgetError> {
        self.change(false, |account| {
            let held = account.reserved.remove(&reservation.id).ok_or(BudgetError::Settled)?;
            account.spent = account.spent.saturating_add(actual.min(held.amount));
            Ok(())
        })
        .await?;
        match actual > reservation.amount {
            true => Err(BudgetError::AboveReservation { actual, reserved: reservation.amount }),
            false => Ok(()),
        }
    }

    /// Counts reservations as spent in full that are older than this by the wall clock: of spenders that died, and that may have
    /// spent it. Answers how much that was. So the budget is never exceeded, whatever a clock says; a spender that was only slow is
    /// told [`BudgetError::Settled`].
    ///
    /// # Errors
    /// A [`BudgetError`] of the memory.
    pub async fn settle_abandoned(&self, age: Duration) -> Result<u64, BudgetError> {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let mut abandoned = 0;
        self.change(false, |account| {
            let now = unix_millis();
            let before = account.reserved();
            account.reserved.retain(|_, held| now.saturating_sub(held.since_unix_ms) < age);
            abandoned = before - account.reserved();
            account.spent = account.spent.saturating_add(abandoned);
            Ok(())
        })
        .await?;
        Ok(abandoned)
    }

    /// How the budget stands: may be old when it is looked at.
    ///
    /// # Errors
    /// [`BudgetError::NotOpen`] if there is none.
    pub async fn account(&self) -> Result<Account, BudgetError> {
        let value = self.memory.get(&self.key).await;
        let value = value.map_err(|error| BudgetError::Memory(Box::new(error.into())))?;
        Ok(parsed(&value.ok_or(BudgetError::NotOpen)?)?)
    }

    async fn change(
        &self,
        begin: bool,
        mut change: impl FnMut(&mut Account) -> Result<(), BudgetError>,
    ) -> Result<(), BudgetError> {
        let changed = self.memory.update(&self.key, self.strategy, |value| {
            let changed = changed(value, begin, &mut change);
            async move { changed }
        });
        changed.await?;
        Ok(())
    }
}

fn changed(
    value: Option<Vec<u8>>,
    begin: bool,
    change: &mut impl FnMut(&mut Account) -> Result<(), BudgetError>,
) -> Result<Edit, BudgetError> {
    let mut account = match value {
        Some(value) => parsed(&value)?,
        None if begin => Account { limit: 0, spent: 0, reserved: BTreeMap::new() },
        None => return Err(BudgetError::NotOpen),
    };
    change(&mut account)?;
    Ok(Edit::Set(written(&account)?))
}

#[cfg(test)]
mod tests {
    use super::super::super::InProcessStore;
    use super::*;

    fn budget() -> Budget {
        Budget::new(SharedMemory::new(InProcessStore::default()), "budget")
    }

    #[tokio::test]
    async fn many_spenders_never_exceed_it_and_all_is_accounted_for() {
        let budget = budget();
        budget.open(1_000).await.unwrap();
        let mut spenders = tokio::task::JoinSet::new();
        for seed in 0..8 {
            let (budget, mut dice) = (budget.clone(), fastrand::Rng::with_seed(seed));
            spenders.spawn(async move {
                let mut spent = 0;
                for _ in 0..40 {
                    let Ok(reservation) = budget.reserve(dice.u64(1..30)).await else { continue };
                    tokio::task::yield_now().await;
                    let actual = dice.u64(0..=reservation.amount());
                    budget.settle(&reservation, actual).await.unwrap();
                    spent += actual;
                    assert!(budget.account().await.unwrap().spent <= 1_000);
                }
                spent
            });
        }
        let spent: u64 = spenders.join_all().await.iter().sum();
        let account = budget.account().await.unwrap();
        assert_eq!((account.spent, account.reserved()), (spent, 0));
        assert!(spent > 900, "the budget was worth guarding: {spent}");
    }

    #[tokio::test]
    async fn a_reservation_is_settled_once() {
        let budget = budget();
        budget.open(10).await.unwrap();
        let one = budget.reserve(6).await.unwrap();
        let error = budget.reserve(5).await.unwrap_err();
        assert!(matches!(error, BudgetError::Exceeded { asked: 5, available: 4, limit: 10 }), "{error}");
        budget.settle(&one, 2).await.unwrap();
        assert!(matches!(budget.settle(&one, 2).await, Err(BudgetError::Settled)));
        let two = budget.reserve(8).await.unwrap();
        let error = budget.settle(&two, 9).await.unwrap_err();
        assert!(matches!(error, BudgetError::AboveReservation { actual: 9, reserved: 8 }), "{error}");
        assert_eq!(budget.account().await.unwrap().available(), 0);
    }

    #[tokio::test]
    async fn what_the_dead_have_reserved_counts_as_spent() {
        let budget = budget();
        budget.open(10).await.unwrap();
        let slow = budget.reserve(4).await.unwrap();
        assert_eq!(budget.settle_abandoned(Duration::from_secs(3600)).await.unwrap(), 0);
        assert_eq!(budget.settle_abandoned(Duration::ZERO).await.unwrap(), 4);
        assert!(matches!(budget.settle(&slow, 1).await, Err(BudgetError::Settled)));
        let account = budget.account().await.unwrap();
        assert_eq!((account.spent, account.available()), (4, 6));
    }

    #[tokio::test]
    async fn bad_ground_is_told_and_left_alone() {
        let budget = budget();
        assert!(matches!(budget.reserve(1).await, Err(BudgetError::NotOpen)));
        let text = b"not a budget";
        budget.memory.store().write("budget", super::super::super::Change::set(text)).await.unwrap();
        assert!(matches!(budget.open(5).await, Err(BudgetError::Form(_))));
        assert_eq!(budget.memory.get("budget").await.unwrap().as_deref(), Some(&text[..]));
    }
}
