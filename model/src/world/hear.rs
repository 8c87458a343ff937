//! Which answers a client hears together, where hearing that tells nobody anything takes no step.
//!
//! An answer after which the session says nothing and no request leaves might as well still be on its way: nobody can tell. So
//! a client hears several answers in one step: the last of them makes it act, those before do not.

use redfence::proto::session::Config;
use redfence::proto::{Input, NodeId, Output, Session};

use super::link::{Link, Slot};
use super::state::Client;

/// Answers on their way to one client.
pub(super) struct Hearing<'a, const N: usize> {
    config: &'a Config,
    client: &'a Client<N>,
    links: &'a [Link; N],
}

/// Answers that make the client act, and what it does.
struct Outcome<const N: usize> {
    /// From which nodes: one bit each.
    nodes: u8,
    /// The order in which they are heard.
    order: Vec<u8>,
    after: Session<N>,
    outputs: Vec<Output>,
}

impl<'a, const N: usize> Hearing<'a, N> {
    pub(super) fn new(config: &'a Config, client: &'a Client<N>, links: &'a [Link; N]) -> Self {
        Self { config, client, links }
    }

    /// Sets of nodes, one bit each, whose answers make the client act when the last of them is heard; with the number of an order
    /// in which they are heard. Orders that come to the same are one.
    pub(super) fn choices(&self) -> impl Iterator<Item = (u8, u8)> {
        let mut counts = [0u8; 32];
        self.outcomes().into_iter().map(move |outcome| {
            let count = &mut counts[usize::from(outcome.nodes)];
            *count += 1;
            (outcome.nodes, *count - 1)
        })
    }

    /// The order with this number.
    pub(super) fn order(&self, nodes: u8, number: u8) -> Vec<u8> {
        let outcomes = self.outcomes().into_iter().filter(|outcome| outcome.nodes == nodes);
        outcomes.map(|outcome| outcome.order).nth(usize::from(number)).unwrap_or_default()
    }

    fn outcomes(&self) -> Vec<Outcome<N>> {
        let (mut quiet, mut loud) = (Vec::new(), Vec::new());
        if let Some(session) = &self.client.session {
            self.explore(session, &mut Vec::new(), &mut quiet, &mut loud);
        }
        loud
    }

    fn explore(
        &self,
        session: &Session<N>,
        heard: &mut Vec<u8>,
        quiet: &mut Vec<(u8, Session<N>)>,
        loud: &mut Vec<Outcome<N>>,
    ) {
        for at in (0u8..).take(N) {
            if heard.contains(&at) {
                continue;
            }
            let Some((after, outputs)) = self.hear(session, usize::from(at)) else { continue };
            heard.push(at);
            let nodes = heard.iter().fold(0, |nodes, at| nodes | 1 << at);
            if !outputs.is_empty() || !self.links[usize::from(at)].waiting().is_empty() {
                let known = |other: &Outcome<N>| {
                    other.nodes == nodes && other.after == after && other.outputs == outputs
                };
                if !loud.iter().any(known) {
                    loud.push(Outcome { nodes, order: heard.clone(), after, outputs });
                }
            } else if !quiet.iter().any(|(set, session)| *set == nodes && *session == after) {
                quiet.push((nodes, after.clone()));
                self.explore(&after, heard, quiet, loud);
            }
            heard.pop();
        }
    }

    fn hear(&self, session: &Session<N>, at: usize) -> Option<(Session<N>, Vec<Output>)> {
        let Slot::Answered(packet, answer) = self.links[at].slot else { return None };
        let (mut after, mut outputs) = (session.clone(), Vec::new());
        let reply = Input::Reply { node: NodeId::new(at), round: packet.round(), reply: answer.reply() };
        after.handle(self.config, self.client.now(), reply, &mut outputs);
        Some((after, outputs))
    }
}
