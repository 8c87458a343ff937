//! What a node remembers of one connection.

use std::collections::BTreeSet;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bus::{Ear, Message};
use super::reply::Resp;

/// Commands that wait for EXEC.
#[derive(Default, Debug)]
pub(crate) struct Transaction {
    pub(crate) commands: Vec<Vec<Bytes>>,
    /// One of them was refused when it came: EXEC will refuse all.
    pub(crate) broken: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) resp: Resp,
    pub(crate) trusted: bool,
    pub(crate) channels: BTreeSet<Bytes>,
    pub(crate) patterns: BTreeSet<Bytes>,
    pub(crate) transaction: Option<Transaction>,
    /// Watched keys, and how often each had changed when the watch began.
    pub(crate) watched: Vec<(Bytes, u64)>,
    /// Close once everything said so far is sent.
    pub(crate) closing: bool,
    /// Where published messages for this connection go in.
    messages: mpsc::Sender<Message>,
    /// Ends the connection at once.
    pub(crate) kill: CancellationToken,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        trusted: bool,
        messages: mpsc::Sender<Message>,
        kill: CancellationToken,
    ) -> Self {
        Self {
            id,
            resp: Resp::V2,
            trusted,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            transaction: None,
            watched: Vec::new(),
            closing: false,
            messages,
            kill,
        }
    }

    /// Channels and patterns it listens to.
    pub(crate) fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    pub(crate) fn ear(&self) -> Ear {
        Ear { client: self.id, messages: self.messages.clone(), kill: self.kill.clone() }
    }
}
