//! Who waits for which release: releases are published, and ring here.
//!
//! A bell is advice. A release that goes unheard (a foreign client's, a lost message, a node that forbids it) is found by
//! polling; a bell that rings for nothing costs one attempt.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::proto::NodeId;
use crate::proto::tally::MAX_NODES;

/// Bells that nobody waits for are kept up to this number: subscribing for every wait would cost more than it saves.
const IDLE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Bells {
    by_channel: Mutex<HashMap<String, Arc<Bell>>>,
}

/// One resource's releases, as the nodes tell of them.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<Mark>,
    changed: Notify,
}

/// How often each node has rung. A waiter marks before it tries, so that a release during the attempt is heard after it.
pub(crate) type Mark = [u32; MAX_NODES];

/// What to do at the nodes after a bell was hung.
#[derive(Debug, Default)]
pub(crate) struct Hung {
    pub(crate) new: bool,
    pub(crate) dropped: Vec<String>,
}

impl Bells {
    /// The bell of a channel.
    pub(crate) fn hang(&self, channel: &str) -> (Arc<Bell>, Hung) {
        let mut bells = self.by_channel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(channel) {
            return (Arc::clone(bell), Hung::default());
        }
        let mut hung = Hung { new: true, dropped: Vec::new() };
        if bells.len() >= IDLE {
            hung.dropped = bells
                .iter()
                .filter(|(_, bell)| Arc::strong_count(bell) == 1)
                .map(|(c, _)| c.clone())
                .collect();
            hung.dropped.iter().for_each(|channel| {
                bells.remove(channel);
            });
        }
        let bell = Arc::<Bell>::default();
        bells.insert(channel.to_owned(), Arc::clone(&bell));
        (bell, hung)
    }

    pub(crate) fn channels(&self) -> Vec<String> {
        self.by_channel.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Takes a message from a node's connection.
    pub(crate) fn ring(&self, node: NodeId, push: &PushInfo) {
        if push.kind != PushKind::Message {
            return;
        }
        let Some(Value::BulkString(channel)) = push.data.first() else { return };
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        let bell = self.by_channel.lock().unwrap_or_else(PoisonError::into_inner).get(channel).cloned();
        if let Some(bell) = bell {
            bell.ring(node);
        }
    }
}

impl Bell {
    fn ring(&self, node: NodeId) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        rung[node.index()] = rung[node.index()].wrapping_add(1);
        drop(rung);
        self.changed.notify_waiters();
    }

    pub(crate) fn mark(&self) -> Mark {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `needed` nodes have rung since the mark.
    pub(crate) async fn rung_since(&self, mark: Mark, needed: usize) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let rung = self.mark().iter().zip(mark).filter(|(now, before)| **now != *before).count();
            if rung >= needed {
                return;
            }
            changed.await;
        }
    }
}
