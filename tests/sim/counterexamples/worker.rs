//! A worker that does what it is told, and the memory as its scenario's resource is.

use std::time::Duration;

use redfence::lock::LockGuard;
use redfence::proto::FencingToken;
use tokio::sync::mpsc;

use super::RESOURCE;
use crate::world::Host;
use crate::world::memory::{Ask, Said};
use crate::world::worker::Worker;

/// What the guarded memory is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    Open,
    Writes,
    ReadsAndWrites,
}

/// What a worker is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Takes the lock on another resource and releases it: connections, scripts and the first start are out of the way.
    WarmUp,
    Begin,
    Read,
    Check,
    Write,
    Release,
}

/// Does what it is told.
pub(super) async fn obey(mut worker: Worker, mut orders: mpsc::UnboundedReceiver<Order>, guard: Guard) {
    let mut held: Option<LockGuard> = None;
    let mut token: Option<FencingToken> = None;
    let mut read = (0, 0);
    let gate = worker.clock.gate.clone();
    loop {
        let lost = async {
            match &held {
                Some(guard) => guard.lost().await,
                None => std::future::pending().await,
            }
        };
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            reason = lost => {
                worker.log.note(worker.host, format!("lost: {reason}"));
                // Lets go; what it is about to write, it writes.
                held = None;
                continue;
            }
        };
        gate.pass().await;
        let shown = token.filter(|_| guard != Guard::Open);
        match order {
            None => return,
            Some(Order::WarmUp) => {
                let guard = worker.locks.acquire("warm-up", Duration::from_secs(20)).await;
                guard.expect("nothing fails yet").release().await;
                worker.log.note(worker.host, "warm");
            }
            Some(Order::Begin) => match worker.locks.try_acquire(RESOURCE).await {
                Ok(guard) => (token, held) = (guard.token(), Some(guard)),
                Err(error) => worker.log.note(worker.host, format!("not acquired: {error}")),
            },
            Some(Order::Read) => {
                let shown = shown.filter(|_| guard == Guard::ReadsAndWrites);
                if let Said::Value { value, version } = worker.memory.ask(RESOURCE, shown, &Ask::Read).await {
                    read = (value, version);
                }
            }
            Some(Order::Check) => {
                let held = held.as_ref().is_some_and(|guard| guard.is_held());
                worker.log.note(worker.host, format!("looks at its lease: held {held}"));
            }
            Some(Order::Write) => {
                let Host::Worker(index) = worker.host else { return };
                let write = Ask::Write { value: read.0 + 1, base: read.1, operation: index.into() };
                worker.memory.ask(RESOURCE, shown, &write).await;
            }
            Some(Order::Release) => held = None,
        }
    }
}
