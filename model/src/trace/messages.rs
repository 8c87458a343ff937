//! Messages, found by what each step did to the connections.

use std::collections::VecDeque;

use super::Message;
use super::RESOURCE;
use super::moment::{client_lane, node_lane};
use crate::world::{Action, Link, Slot, State, asked, heard, operator_name};

/// Follows the connections.
pub(super) struct Post<const N: usize, const C: usize> {
    messages: Vec<Message>,
    lines: [[Line; N]; C],
    /// A delayed write of each client.
    writes: [Option<usize>; C],
    /// What each operator has asked of each node.
    calls: Vec<[Option<usize>; N]>,
    /// Requests of operators that they gave up, or sent twice.
    stale_calls: Vec<[VecDeque<usize>; N]>,
}

/// What is on its way on one connection, by index.
#[derive(Clone, Copy, Default)]
struct Line {
    current: Option<usize>,
    stale: Option<usize>,
}

/// Before and after a step.
pub(super) struct Change<'a, const N: usize, const C: usize> {
    /// Which.
    pub(super) number: usize,
    /// The state before.
    pub(super) before: &'a State<N, C>,
    /// What happened.
    pub(super) action: Action,
    /// The state afterwards.
    pub(super) after: &'a State<N, C>,
}

impl<const N: usize, const C: usize> Post<N, C> {
    /// Nothing is on its way.
    pub(super) fn new(start: &State<N, C>) -> Self {
        Self {
            messages: Vec::new(),
            lines: [[Line::default(); N]; C],
            writes: [None; C],
            calls: vec![[None; N]; start.operators.len()],
            stale_calls: vec![std::array::from_fn(|_| VecDeque::new()); start.operators.len()],
        }
    }

    /// All messages, in the order of sending.
    pub(super) fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// A step was taken.
    pub(super) fn note(&mut self, change: &Change<'_, N, C>) {
        for (index, client) in (0..C).zip(0u8..) {
            for (at, node) in (0..N).zip(0u8..) {
                self.line(change, (index, client), (at, node));
            }
        }
        self.resource(change);
        self.operators(change);
    }

    fn send(&mut self, from: String, to: String, label: String, sent: usize) -> usize {
        self.messages.push(Message {
            from,
            to,
            label,
            answer: false,
            sent,
            arrives: None,
            lost: None,
            late: false,
        });
        self.messages.len() - 1
    }

    fn answer(&mut self, from: String, to: String, label: String, sent: usize) -> usize {
        let message = self.send(from, to, label, sent);
        self.messages[message].answer = true;
        message
    }

    fn arrives(&mut self, message: Option<usize>, number: usize) {
        if let Some(message) = message {
            self.messages[message].arrives = Some(number);
        }
    }

    fn lost(&mut self, message: Option<usize>, number: usize) {
        if let Some(message) = message {
            self.messages[message].lost = Some(number);
        }
    }

    fn line(&mut self, change: &Change<'_, N, C>, (index, client): (usize, u8), (at, node): (usize, u8)) {
        let Change { number, before, action, after } = *change;
        let (old, new): (&Link, &Link) = (&before.links[index][at], &after.links[index][at]);
        let Line { current, stale } = self.lines[index][at];
        let (from, to) = (client_lane(client), node_lane(before.meant(index, at)));
        let here = |who: u8, at: u8| (who, at) == (client, node);
        let mut line = Line { current, stale };
        // Whether what was on its way on the line has left it.
        let free = match action {
            Action::Execute { client, node, .. }
            | Action::ExecuteEnded { client, node }
            | Action::Refuse { client, node }
                if here(client, node) =>
            {
                self.arrives(current, number);
                true
            }
            Action::Deliver { client, node } if here(client, node) => {
                self.arrives(current, number);
                true
            }
            Action::Hear { client: who, nodes, .. } if who == client && nodes >> node & 1 == 1 => {
                self.arrives(current, number);
                true
            }
            Action::GiveUp { client, node } if here(client, node) => {
                match (old.slot, current) {
                    (Slot::Asked(_), Some(message)) => {
                        self.lost(stale, number);
                        self.messages[message].late = true;
                        line.stale = current;
                    }
                    _ => self.lost(current, number),
                }
                true
            }
            Action::Late { client, node } if here(client, node) => {
                self.arrives(stale, number);
                line.stale = None;
                false
            }
            Action::Repeat { client, node } if here(client, node) => {
                if let Slot::Answered(packet, _) = old.slot {
                    let copy = self.send(from.clone(), to.clone(), asked(packet), number);
                    self.messages[copy].late = true;
                    line.stale = Some(copy);
                }
                false
            }
            _ if old.slot != new.slot => {
                // Broken by a restart, or nobody waits for it any more.
                self.lost(current, number);
                true
            }
            _ => false,
        };
        if free {
            line.current = match new.slot {
                Slot::Idle => None,
                Slot::Asked(packet) => Some(self.send(from, to, asked(packet), number)),
                Slot::Answered(packet, answer) => Some(self.answer(to, from, heard(packet, answer), number)),
            };
        }
        self.lines[index][at] = line;
    }

    fn resource(&mut self, change: &Change<'_, N, C>) {
        let Change { number, before, action, .. } = *change;
        let (Action::Read(id) | Action::Write(id) | Action::Delay(id) | Action::Arrive(id)) = action else {
            return;
        };
        let index = usize::from(id);
        let token = before.clients[index].token;
        let with = if token > 0 { format!(", token {token}") } else { String::new() };
        let mut send =
            |label: &str| self.send(client_lane(id), RESOURCE.into(), format!("{label}{with}"), number);
        match action {
            Action::Read(_) => {
                let read = send("read");
                self.arrives(Some(read), number);
            }
            Action::Delay(_) => self.writes[index] = Some(send("write")),
            Action::Arrive(_) => {
                let write = self.writes[index].take();
                self.arrives(write, number);
            }
            _ => {
                let write = send("write");
                self.arrives(Some(write), number);
            }
        }
    }

    fn operators(&mut self, change: &Change<'_, N, C>) {
        let Change { number, before, action, after } = *change;
        for (index, operator) in (0..after.operators.len()).zip(0u8..) {
            for at in 0..N {
                let here = |who: u8, node: u8| (who, usize::from(node)) == (operator, at);
                let (old, new) = (before.operators[index].call(at), after.operators[index].call(at));
                let call = self.calls[index][at];
                let arrived = match action {
                    Action::OperatorAsks { operator, node } => here(operator, node),
                    Action::OperatorAsksTwice { operator, node } if here(operator, node) => {
                        if let Some(request) = old {
                            let from = operator_name(after, operator);
                            let copy = self.send(from, node_lane(at), request.to_string(), number);
                            self.messages[copy].late = true;
                            self.stale_calls[index][at].push_back(copy);
                        }
                        true
                    }
                    Action::OperatorGivesUp { operator, node } if here(operator, node) => {
                        if let Some(call) = call {
                            self.messages[call].late = true;
                        }
                        self.stale_calls[index][at].extend(call);
                        if new.is_none() {
                            continue;
                        }
                        false
                    }
                    Action::OperatorLate { operator, node } if here(operator, node) => {
                        let copy = self.stale_calls[index][at].pop_front();
                        self.arrives(copy, number);
                        continue;
                    }
                    _ => false,
                };
                if arrived {
                    self.arrives(call, number);
                } else if old.is_some() && new.is_none() {
                    self.lost(call, number);
                }
                if let Some(request) = new.filter(|_| arrived || new != old) {
                    let from = operator_name(after, operator);
                    self.calls[index][at] = Some(self.send(from, node_lane(at), request.to_string(), number));
                }
            }
        }
    }
}
