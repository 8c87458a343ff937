//! Everything a node holds, behind one lock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::bus::Bus;
use super::keyspace::Keyspace;
use super::lua::Dice;
use super::reply::{Fault, Resp};
use super::session::Session;

/// The version of Redis whose answers this node gives; `tests/conformance` compares them.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// Scripts kept for EVALSHA. Redis keeps them without bound; here the oldest make room.
const MAX_SCRIPTS: usize = 4096;

/// What is known of a connection to others: CLIENT LIST, CLIENT KILL.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) since: u64,
    pub(crate) resp: Resp,
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) kill: CancellationToken,
}

/// Scripts by their digest.
#[derive(Default, Debug)]
pub(crate) struct Scripts {
    texts: HashMap<String, Bytes>,
    order: VecDeque<String>,
}

impl Scripts {
    /// Keeps a script if `check` has nothing against it; its digest.
    pub(crate) fn keep(
        &mut self,
        text: &Bytes,
        check: impl FnOnce(&[u8]) -> Result<(), Fault>,
    ) -> Result<String, Fault> {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        if self.texts.contains_key(&digest) {
            return Ok(digest);
        }
        check(text)?;
        if self.order.len() >= MAX_SCRIPTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.texts.remove(&oldest);
        }
        self.texts.insert(digest.clone(), Bytes::copy_from_slice(text));
        self.order.push_back(digest.clone());
        Ok(digest)
    }

    pub(crate) fn text(&self, digest: &str) -> Option<Bytes> {
        self.texts.get(digest).cloned()
    }

    pub(crate) fn clear(&mut self) {
        self.texts.clear();
        self.order.clear();
    }
}

/// What does not change while a node runs.
#[derive(Debug)]
pub(crate) struct Identity {
    /// 40 hexadecimal digits, new at each start.
    pub(crate) run_id: String,
    pub(crate) password: Option<String>,
    pub(crate) durable: bool,
    pub(crate) started: u64,
}

/// Everything a node holds.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) space: Keyspace,
    pub(crate) scripts: Scripts,
    pub(crate) bus: Bus,
    pub(crate) clients: BTreeMap<u64, Client>,
    pub(crate) identity: Identity,
    pub(crate) dice: Dice,
    pub(crate) commands_done: u64,
    pub(crate) connections_seen: u64,
    /// The port it listens on, for INFO; 0 if it does not.
    pub(crate) port: u16,
}

impl State {
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            space: Keyspace::default(),
            scripts: Scripts::default(),
            bus: Bus::default(),
            clients: BTreeMap::new(),
            identity,
            dice: Dice::default(),
            commands_done: 0,
            connections_seen: 0,
            port: 0,
        }
    }

    /// What others know of this connection.
    pub(crate) fn client_of(&mut self, session: &Session) -> Option<&mut Client> {
        self.clients.get_mut(&session.id)
    }

    /// Ends everything that a connection has left behind.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        self.silence(session);
        for (key, seen) in std::mem::take(&mut session.watched) {
            self.space.unwatch(&key, seen);
        }
        self.clients.remove(&session.id);
    }

    /// Ends all subscriptions of a connection.
    pub(crate) fn silence(&mut self, session: &mut Session) {
        for name in std::mem::take(&mut session.channels) {
            self.bus.unsubscribe(&name, false, session.id);
        }
        for name in std::mem::take(&mut session.patterns) {
            self.bus.unsubscribe(&name, true, session.id);
        }
    }
}
