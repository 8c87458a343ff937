//! What there was at one moment of a history: who believed, and whose keys lived, by an observer who knows all.
//!
//! The same fields as in a trace of the model (`redfence::trace::Moment`), so that the two can be held together.

use std::collections::BTreeMap;

use redfence::invariants::{Acquisition, History};
use redfence::proto::{Event, Input, Output, Owner};
use redfence::trace::{Client, Key, Moment, Node, Resource};

use crate::judge::nodes::Nodes;
use crate::judge::{Findings, history};
use crate::world::log::{Entry, What};
use crate::world::memory::{Ask, Said};
use crate::world::{Host, World, node_millis_at};

/// The name of the property that is about every moment.
pub(crate) const BELIEF: &str = "belief";

#[derive(Clone, Default)]
struct Worker {
    attempts: u64,
    owner: Option<Owner>,
    /// When the attempt began, by its own clock.
    begun: u64,
    does: &'static str,
    holds: bool,
    /// Its machine has said that it has the lock, in this attempt.
    won: bool,
    down: bool,
    /// The version it has read.
    read: Option<u64>,
}

/// Goes through a history, entry by entry.
pub(crate) struct Moments<'a> {
    world: &'a World,
    resource: &'a str,
    /// Beliefs in this resource over the whole history.
    beliefs: BTreeMap<Owner, Acquisition>,
    owners: BTreeMap<Owner, (Host, u64)>,
    workers: BTreeMap<Host, Worker>,
    nodes: Nodes,
    version: u64,
    mark: u64,
}

impl<'a> Moments<'a> {
    /// Before the first of these entries, looking at one resource.
    pub(crate) fn new(entries: &[Entry], world: &'a World, resource: &'a str) -> Self {
        let history = history::histories(entries, world).remove(resource);
        let History { acquisitions, .. } = history.unwrap_or_default();
        Self {
            world,
            resource,
            beliefs: acquisitions.into_iter().map(|won| (won.owner, won)).collect(),
            owners: BTreeMap::new(),
            workers: world
                .workers()
                .map(|host| (host, Worker { does: "idle", ..Worker::default() }))
                .collect(),
            nodes: Nodes::default(),
            version: 0,
            mark: 0,
        }
    }

    /// Who signs so, and in which of its attempts; nothing if it is about another resource.
    pub(crate) fn attempt(&self, owner: Owner) -> Option<(Host, u64)> {
        self.owners.get(&owner).copied()
    }

    /// One more entry.
    pub(crate) fn see(&mut self, entry: &Entry) {
        self.nodes.see(entry, &mut Findings::default());
        let Entry { at, host, what } = entry;
        match what {
            What::Begun { owner, resource, .. } if resource == self.resource => {
                let begun = self.world.clock(*host).at(*at);
                let Some(worker) = self.workers.get_mut(host) else { return };
                let attempts = worker.attempts + 1;
                *worker = Worker {
                    attempts,
                    owner: Some(*owner),
                    begun,
                    does: "waiting for the lock",
                    ..Worker::default()
                };
                self.owners.insert(*owner, (*host, attempts));
            }
            What::Outputs { owner, outputs } => {
                let Some(worker) = self.of(*host, *owner) else { return };
                for output in outputs {
                    match output {
                        Output::Event(Event::Acquired { .. }) => {
                            (worker.holds, worker.won, worker.does) = (true, true, "holding the lock");
                        }
                        Output::Event(Event::Failed(_)) => worker.does = "failed",
                        Output::Event(Event::Lost(_)) => {
                            (worker.holds, worker.does) = (false, "lost the lock")
                        }
                        _ => {}
                    }
                }
            }
            What::Input { owner, input: Input::Release, .. } => {
                if let Some(worker) = self.of(*host, *owner) {
                    (worker.holds, worker.does) = (false, "done");
                }
            }
            What::Crashed => self.stopped(*host, true),
            What::Restarted => self.stopped(*host, false),
            What::Access(access) if access.resource == self.resource => {
                if access.said != Said::Fenced {
                    self.mark = self.mark.max(access.token.unwrap_or(0));
                }
                let by = access.from.and_then(|from| self.workers.get_mut(&from));
                match (&access.ask, access.said) {
                    (Ask::Read, Said::Value { version, .. }) => {
                        if let Some(worker) = by {
                            worker.read = Some(version);
                        }
                    }
                    (Ask::Write { .. }, Said::Applied) => {
                        if let Some(worker) = by {
                            worker.read = None;
                        }
                        self.version = access.version + u64::from(!access.repeated);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, host: Host, owner: Owner) -> Option<&mut Worker> {
        self.workers.get_mut(&host).filter(|worker| worker.owner == Some(owner))
    }

    fn stopped(&mut self, host: Host, down: bool) {
        if let Some(worker) = self.workers.get_mut(&host) {
            let attempts = worker.attempts;
            *worker =
                Worker { attempts, down, does: if down { "down" } else { "idle" }, ..Worker::default() };
        }
    }

    /// All there is at this time: not before the last entry seen, and not after the next.
    pub(crate) fn at(&self, time: u64) -> Moment {
        let clients: Vec<Client> =
            self.workers.iter().map(|(host, worker)| self.client(*host, worker, time)).collect();
        let believers = clients.iter().filter(|client| client.believes).count();
        Moment {
            at: time,
            clients,
            nodes: self.world.node_hosts().map(|host| self.node(host, time)).collect(),
            operators: Vec::new(),
            resource: Some(Resource { mark: self.mark }),
            violated: if believers > 1 { vec![BELIEF.to_owned()] } else { Vec::new() },
        }
    }

    fn client(&self, host: Host, worker: &Worker, time: u64) -> Client {
        let won = worker.owner.filter(|_| worker.won).and_then(|owner| self.beliefs.get(&owner));
        let left = won.map_or(0, |won| won.until.as_micros().saturating_sub(time));
        let clock = worker.owner.map_or(0, |_| self.world.clock(host).at(time).saturating_sub(worker.begun));
        let paused = self.world.gate(host).was_closed(time);
        let token = won.and_then(|won| won.token).map(|token| token.0);
        let mut words = worker.does.to_owned();
        if let Some(token) = token {
            words += &format!(", token {token}");
        }
        Client {
            lane: host.to_string(),
            words,
            does: worker.does.to_owned(),
            attempt: worker.attempts,
            token,
            clock: clock.cast_signed(),
            pace: if worker.down {
                "stopped"
            } else if paused {
                "paused"
            } else {
                "running"
            }
            .to_owned(),
            holds: worker.holds,
            believes: left > 0,
            belief_left: (left > 0).then_some(left),
            outdated: worker.read.is_some_and(|read| read < self.version),
        }
    }

    fn node(&self, host: Host, time: u64) -> Node {
        let (record, counter, lock) = self.nodes.stand(host, self.resource);
        let now = node_millis_at(self.world.clock(host), time);
        let key = lock.filter(|(_, end)| *end >= now).and_then(|(owner, end)| {
            let (client, attempt) = self.attempt(owner)?;
            Some(Key { client: client.to_string(), attempt, left: Some((end - now) * 1_000) })
        });
        let number = counter.unwrap_or(record.floor);
        let signed = key.as_ref().map_or_else(|| "no key".to_owned(), |key| format!("key of {}", key.client));
        Node {
            lane: host.to_string(),
            words: if record.epoch.is_some() { format!("{signed}, number {number}") } else { signed },
            key,
            number,
            largest: record.high,
            epoch: record.epoch,
            joining: record.joining,
            silent: 0,
        }
    }
}
