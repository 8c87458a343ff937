//! Publish and subscribe: who listens where.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::glob;
use super::reply::Reply;

/// Messages that wait for one connection. One that falls this far behind is closed, as Redis closes a subscriber whose
/// buffer is full: it must not cost the node its memory, and must not believe that it hears everything.
pub(crate) const BACKLOG: usize = 8192;

/// A message on its way to one connection.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The pattern it came by, if by a pattern.
    pub(crate) pattern: Option<Bytes>,
    pub(crate) channel: Bytes,
    pub(crate) payload: Bytes,
}

impl Message {
    pub(crate) fn into_reply(self) -> Reply {
        let (kind, pattern) = match self.pattern {
            Some(pattern) => ("pmessage", Some(Reply::Bulk(pattern))),
            None => ("message", None),
        };
        let tail = [Reply::Bulk(self.channel), Reply::Bulk(self.payload)];
        Reply::Push([Reply::bulk(kind)].into_iter().chain(pattern).chain(tail).collect())
    }
}

/// What one connection hears by: its end of the way, and how to tell it that it has lost messages.
#[derive(Clone, Debug)]
pub(crate) struct Ear {
    pub(crate) client: u64,
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) kill: tokio_util::sync::CancellationToken,
}

type Ears = BTreeMap<Bytes, BTreeMap<u64, Ear>>;

/// All subscriptions of a node.
#[derive(Default, Debug)]
pub(crate) struct Bus {
    channels: Ears,
    patterns: Ears,
}

impl Bus {
    fn side(&mut self, pattern: bool) -> &mut Ears {
        if pattern { &mut self.patterns } else { &mut self.channels }
    }

    pub(crate) fn subscribe(&mut self, name: &Bytes, pattern: bool, ear: Ear) {
        self.side(pattern).entry(name.clone()).or_default().insert(ear.client, ear);
    }

    pub(crate) fn unsubscribe(&mut self, name: &Bytes, pattern: bool, client: u64) {
        let side = self.side(pattern);
        if let Some(ears) = side.get_mut(name) {
            ears.remove(&client);
            if ears.is_empty() {
                side.remove(name);
            }
        }
    }

    /// Sends to everyone who listens; to how many.
    pub(crate) fn publish(&self, channel: &Bytes, payload: &Bytes) -> usize {
        let direct =
            self.channels.get(channel).into_iter().flat_map(|ears| ears.values().map(|ear| (None, ear)));
        let by_pattern = self
            .patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel))
            .flat_map(|(pattern, ears)| ears.values().map(move |ear| (Some(pattern.clone()), ear)));
        let mut heard = 0;
        for (pattern, ear) in direct.chain(by_pattern) {
            let message = Message { pattern, channel: channel.clone(), payload: payload.clone() };
            match ear.messages.try_send(message) {
                Ok(()) => heard += 1,
                Err(_) => ear.kill.cancel(),
            }
        }
        heard
    }

    /// Channels that match, and how many listen to each (patterns not counted).
    pub(crate) fn channels(&self) -> impl Iterator<Item = (&Bytes, usize)> {
        self.channels.iter().map(|(name, ears)| (name, ears.len()))
    }

    /// How many patterns there are.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns.len()
    }
}
