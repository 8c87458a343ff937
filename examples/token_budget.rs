//! Ten agents share a budget of 10000 tokens. Checking what is left and then spending overruns it; reserving, spending and settling
//! does not.
//!
//! `cargo run --example token_budget` needs no server.

use std::error::Error;
use std::time::Duration;

use redfence::memory::recipes::{Budget, BudgetError};
use redfence::memory::{InProcessStore, SharedMemory};
use tokio::task::JoinSet;

const AGENTS: usize = 10;
const LIMIT: u64 = 10_000;
/// The most that a call can cost.
const MOST: u64 = 1_500;
/// What it does cost.
const COST: u64 = 1_200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let budget = Budget::new(SharedMemory::new(InProcessStore::default()), "budget/today");
    budget.open(LIMIT).await?;
    let mut agents = JoinSet::new();
    for _ in 0..AGENTS {
        agents.spawn(spend(budget.clone()));
    }
    let mut calls = 0;
    for made in agents.join_all().await {
        calls += made?;
    }
    let account = budget.account().await?;
    println!("{AGENTS} agents made {calls} calls and spent {} of {LIMIT} tokens", account.spent);
    println!("{} are left, less than the {MOST} that a call may cost", account.available());
    assert!(account.spent <= LIMIT && account.spent == calls * COST);
    Ok(())
}

/// Calls the model for as long as there is budget.
async fn spend(budget: Budget) -> Result<u64, BudgetError> {
    let mut calls = 0;
    loop {
        let reservation = match budget.reserve(MOST).await {
            Ok(reservation) => reservation,
            Err(BudgetError::Exceeded { .. }) => return Ok(calls),
            Err(error) => return Err(error),
        };
        // Here the model is called. If this agent dies now, `settle_abandoned` counts its reservation as spent.
        tokio::time::sleep(Duration::from_millis(10)).await;
        budget.settle(&reservation, COST).await?;
        calls += 1;
    }
}
