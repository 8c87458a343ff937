//! The connection, on a thread of its own.
//!
//! SQLite blocks: on the disk, and on other processes. So callers await, and the thread does one job after the other; one writer
//! per process is also what SQLite does best with. It ends with the last handle of the store.

use std::sync::{Arc, mpsc};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::fault::Fault;
use crate::memory::StoreError;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle on the thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    jobs: mpsc::Sender<Job>,
    store: Arc<str>,
}

impl Thread {
    /// Starts it. What `open` does, it does on the thread.
    pub(super) async fn start(
        store: Arc<str>,
        open: impl FnOnce() -> Result<Connection, Fault> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (opened, open_done) = oneshot::channel();
        let work = move || match open() {
            Ok(mut connection) => {
                let _ = opened.send(Ok(()));
                inbox.iter().for_each(|job| job(&mut connection));
            }
            Err(fault) => drop(opened.send(Err(fault))),
        };
        let thread = Self { jobs, store };
        std::thread::Builder::new()
            .name("redfence sqlite".into())
            .spawn(work)
            .map_err(|error| StoreError::Unavailable { store: thread.name(), source: error.into() })?;
        match open_done.await {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(fault)) => Err(fault.told(&thread.store)),
            Err(_) => Err(thread.gone()),
        }
    }

    /// Has a job done, and waits for what comes of it. A job whose caller is gone before its turn is not done.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, done) = oneshot::channel();
        let job = move |connection: &mut Connection| {
            if !answer.is_closed() {
                let _ = answer.send(work(connection));
            }
        };
        self.jobs.send(Box::new(job)).map_err(|_| self.gone())?;
        match done.await {
            Ok(result) => result.map_err(|fault| fault.told(&self.store)),
            Err(error) => Err(StoreError::Unknown { store: self.name(), source: error.into() }),
        }
    }

    /// Has a job done as one transaction that has the right to write from its beginning: one that reads first and wants to write
    /// then would fail at once, without waiting, if anybody had written in between.
    pub(super) async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(|connection| in_transaction(connection, work)).await
    }

    fn name(&self) -> String {
        self.store.to_string()
    }

    fn gone(&self) -> StoreError {
        StoreError::Unavailable {
            store: self.name(),
            source: "the thread of the connection has ended".into(),
        }
    }
}

/// What fails before the commit is undone.
pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit().map_err(Fault::Commit)?;
    Ok(done)
}
