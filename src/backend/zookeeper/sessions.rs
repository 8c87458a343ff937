//! Sessions, one for each TTL in use.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

use crate::backend::queue::Trouble;
use crate::lock::clock::Clock;
use crate::lock::report::{NodeAnswer, NodeError, NodeReport, Report};
use crate::proto::{NodeId, Ttl};

/// Sessions kept although nobody uses them: each is a connection that pings.
const IDLE: usize = 4;

/// Opening a session is a connection, a vote and perhaps a search for a server that is up.
const OPEN_AT_LEAST: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Sessions {
    servers: Vec<String>,
    connect: String,
    chroot: String,
    patience: Duration,
    clock: Arc<dyn Clock>,
    by_ttl: Mutex<HashMap<Ttl, Arc<Slot>>>,
}

/// Where a session is, or is being opened by one for all who want it.
type Slot = AsyncMutex<Option<Arc<Session>>>;

/// One session. It is closed when nobody uses it any more, and its znodes go with it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
}

impl Session {
    /// It has ended, for all that this process can know.
    pub(super) fn is_over(&self) -> bool {
        self.client.state().is_terminated()
    }

    /// The TTL granted: the timeout that the server has agreed to.
    pub(super) fn granted(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Returns when the session has ended.
    pub(super) async fn over(&self) {
        let mut watcher = self.client.state_watcher();
        if self.is_over() {
            return;
        }
        while !watcher.changed().await.is_terminated() {}
    }

    /// Returns when the session is connected, or has ended.
    pub(super) async fn connected(&self) {
        let mut watcher = self.client.state_watcher();
        while self.client.state() == SessionState::Disconnected {
            watcher.changed().await;
        }
    }
}

impl Sessions {
    pub(super) fn new(servers: Vec<String>, chroot: &str, patience: Duration, clock: Arc<dyn Clock>) -> Self {
        let connect = servers.join(",");
        Self { servers, connect, chroot: chroot.to_owned(), patience, clock, by_ttl: Mutex::default() }
    }

    pub(super) fn servers(&self) -> &[String] {
        &self.servers
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// A session that is open, as far as one can know.
    pub(super) async fn get(&self, ttl: Ttl) -> Result<Arc<Session>, Trouble> {
        let slot = self.slot(ttl);
        let mut slot = slot.lock().await;
        if let Some(session) = slot.as_ref().filter(|session| !session.is_over()) {
            return Ok(Arc::clone(session));
        }
        let limit = self.patience.max(OPEN_AT_LEAST);
        let opened = tokio::time::timeout(limit, self.open(ttl)).await;
        let client = opened.unwrap_or(Err(Error::Timeout)).map_err(|error| self.failed(&error))?;
        tracing::debug!(session = %client.session_id(), timeout = ?client.session_timeout(), "ZooKeeper session");
        let session = Arc::new(Session { client });
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn open(&self, ttl: Ttl) -> Result<Client, Error> {
        // Eagerly: with no server up, who waits shall hear so at once and not after a whole TTL.
        let connector = Client::connector().with_session_timeout(ttl.as_duration()).with_fail_eagerly();
        let client = connector.connect(&self.connect).await?;
        if self.chroot.is_empty() {
            return Ok(client);
        }
        // A chroot that is not there would be refused at each znode: make it, as the folders below it are made.
        client.mkdir(&self.chroot, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        client.chroot(self.chroot.as_str()).map_err(|_| Error::NoNode)
    }

    /// Something went wrong that a session in its right mind does not say, as after the end of the runtime that it ran on.
    pub(super) async fn retire(&self, ttl: Ttl, session: &Arc<Session>) {
        let slot = self.slot(ttl);
        let mut slot = slot.lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *slot = None;
        }
    }

    fn slot(&self, ttl: Ttl) -> Arc<Slot> {
        let mut slots = self.by_ttl.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= IDLE && !slots.contains_key(&ttl) {
            let in_use = |slot: &Arc<Slot>| {
                let session = slot.try_lock();
                session.is_ok_and(|session| {
                    session.as_ref().is_some_and(|session| Arc::strong_count(session) > 1)
                })
            };
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || in_use(slot));
        }
        Arc::clone(slots.entry(ttl).or_default())
    }

    /// A request, for at most the patience. One that is given up on may still be done.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(self.patience, request).await.unwrap_or(Err(Error::Timeout))
    }

    /// The service as one: which server a session is at is not told.
    pub(super) fn failed(&self, error: &Error) -> Trouble {
        let answer = NodeAnswer::Failed(node_error(error));
        let line = |(index, address): (usize, &String)| NodeReport {
            node: NodeId::new(index),
            address: address.clone(),
            answer: answer.clone(),
        };
        Trouble::Failed(Report(self.servers.iter().enumerate().map(line).collect()))
    }
}

pub(super) fn node_error(error: &Error) -> NodeError {
    let text = error.to_string();
    match error {
        Error::NoHosts => NodeError::Unreachable("no server could be reached".to_owned()),
        Error::ConnectionLoss | Error::Timeout | Error::SessionExpired | Error::SessionMoved => {
            NodeError::NoAnswer(text)
        }
        Error::NoAuth | Error::InvalidAcl => NodeError::Denied(text),
        Error::AuthFailed => NodeError::Authentication(text),
        _ => NodeError::Other(text),
    }
}
