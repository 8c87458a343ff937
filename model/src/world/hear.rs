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
    outputs: Vec<Output>,
}

impl<'a, const N: usize> Hearing<'a, N> {
    pub(super) fn new(config: &'a Config, client: &'a Client<N>, links: &'a [Link; N]) -> Self {
        Self { config, client, links, outputs: Vec::new() }
    }

    /// Sets of nodes, one bit each, whose answers make the client act when the last of them is heard.
    pub(super) fn sets(mut self) -> impl Iterator<Item = u8> {
        let (mut loud, mut quiet) = (0u32, 0u32);
        if let Some(session) = &self.client.session {
            self.explore(session, 0, &mut loud, &mut quiet);
        }
        (0..32u8).filter(move |&set| loud >> set & 1 == 1)
    }

    fn explore(&mut self, session: &Session<N>, heard: u8, loud: &mut u32, quiet: &mut u32) {
        for at in (0..N).filter(|at| heard >> at & 1 == 0) {
            let Some((after, acts)) = self.hear(session, at) else { continue };
            let set = heard | 1 << at;
            if acts {
                *loud |= 1 << set;
            } else if *quiet >> set & 1 == 0 {
                *quiet |= 1 << set;
                self.explore(&after, set, loud, quiet);
            }
        }
    }

    /// An order in which only the last of these answers makes the client act.
    pub(super) fn order(mut self, set: u8) -> Vec<u8> {
        let mut order = Vec::new();
        if let Some(session) = &self.client.session {
            self.find(session, set, &mut order);
        }
        order
    }

    fn find(&mut self, session: &Session<N>, left: u8, order: &mut Vec<u8>) -> bool {
        for at in (0..N).filter(|at| left >> at & 1 == 1) {
            let Some((after, acts)) = self.hear(session, at) else { continue };
            let rest = left & !(1 << at);
            #[expect(clippy::cast_possible_truncation, reason = "a world has few nodes")]
            order.push(at as u8);
            if acts == (rest == 0) && (acts || self.find(&after, rest, order)) {
                return true;
            }
            order.pop();
        }
        false
    }

    fn hear(&mut self, session: &Session<N>, at: usize) -> Option<(Session<N>, bool)> {
        let Slot::Answered(packet, answer) = self.links[at].slot else { return None };
        let mut after = session.clone();
        let reply = Input::Reply { node: NodeId::new(at), round: packet.round(), reply: answer.reply() };
        after.handle(self.config, self.client.now(), reply, &mut self.outputs);
        let acts = !self.outputs.is_empty() || !self.links[at].waiting().is_empty();
        self.outputs.clear();
        Some((after, acts))
    }
}
