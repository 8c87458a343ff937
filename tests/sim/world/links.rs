//! The network of a world: cut, one way, held, late, slow, lossy.
//!
//! turmoil does not combine one-way cuts with held links, so a link has one kind of trouble at a time: whoever makes trouble
//! keeps account of the links that have some (the swarm does), and ends it by [`World::mend`].

use std::net::SocketAddr;
use std::time::Duration;

use turmoil::{Protocol, Segment};

use super::{Host, World};

/// A link on which one old connection is stuck, while everything else passes.
pub(super) struct Straggle {
    link: (Host, Host),
    /// The direction that is stuck, of one connection; chosen when the first data are seen.
    stuck: Option<(SocketAddr, SocketAddr)>,
}

impl World {
    /// Nothing passes in either direction, and nobody is told. What was under way is lost.
    pub(crate) fn cut(&mut self, a: Host, b: Host) {
        self.fault(a, format!("cut off from {b}"));
        self.sim.partition(a.to_string(), b.to_string());
    }

    /// Nothing passes from `from` to `to`; the other direction works.
    pub(crate) fn cut_one_way(&mut self, from: Host, to: Host) {
        self.fault(from, format!("not heard by {to} any more"));
        self.sim.partition_oneway(from.to_string(), to.to_string());
    }

    /// Everything between them waits until [`mend`](Self::mend), in order.
    pub(crate) fn hold(&mut self, a: Host, b: Host) {
        self.fault(a, format!("link to {b} held"));
        self.sim.hold(a.to_string(), b.to_string());
    }

    /// What a worker sends next on its connection to a node waits; on new connections everything passes. So when it is mended
    /// old requests arrive after newer ones.
    pub(crate) fn straggle(&mut self, worker: Host, node: Host) {
        self.fault(worker, format!("connection to {node} stuck, new ones pass"));
        self.sim.hold(worker.to_string(), node.to_string());
        self.straggles.push(Straggle { link: (worker, node), stuck: None });
    }

    /// The link works again. What was held arrives; what was lost stays lost, and breaks its connection.
    pub(crate) fn mend(&mut self, a: Host, b: Host) {
        self.fault(a, format!("link to {b} mended"));
        self.straggles.retain(|straggle| straggle.link != (a, b) && straggle.link != (b, a));
        self.sim.release(a.to_string(), b.to_string());
    }

    /// Every message takes this long.
    pub(crate) fn slow(&mut self, a: Host, b: Host, latency: Duration) {
        self.fault(a, format!("every message to and from {b} takes {latency:?}"));
        self.sim.set_link_latency(a.to_string(), b.to_string(), latency);
    }

    /// Messages take as long as they did.
    pub(crate) fn quick(&mut self, a: Host, b: Host) {
        self.fault(a, format!("messages to and from {b} are quick again"));
        self.sim.set_link_latency(a.to_string(), b.to_string(), self.shape.tick);
        self.sim.set_link_max_message_latency(a.to_string(), b.to_string(), self.shape.latency);
    }

    /// Any message breaks its link with this probability; the next ones on that link may mend it.
    pub(crate) fn lose(&mut self, rate: f64) {
        self.fault(Host::Operator, format!("messages are lost: {rate:.4}"));
        self.sim.set_fail_rate(rate);
    }

    /// Lets through, at the next step, what waits on a held link in this direction.
    pub(crate) fn pass(&mut self, from: Host, to: Host) {
        let (from, to) = (self.sim.lookup(from.to_string()), self.sim.lookup(to.to_string()));
        self.sim.links(|links| {
            for link in
                links.filter(|link| matches!(link.pair(), pair if pair == (from, to) || pair == (to, from)))
            {
                link.filter(|sent| sent.pair().0.ip() == from).for_each(turmoil::SentRef::deliver);
            }
        });
    }

    /// Delivers at once what is not stuck on the links that straggle.
    pub(super) fn deliver_around_straggles(&mut self) {
        let (sim, straggles) = (&self.sim, &mut self.straggles);
        for Straggle { link: (worker, node), stuck } in straggles.iter_mut() {
            let (worker, node) = (sim.lookup(worker.to_string()), sim.lookup(node.to_string()));
            sim.links(|links| {
                for link in links.filter(
                    |link| matches!(link.pair(), pair if pair == (worker, node) || pair == (node, worker)),
                ) {
                    for sent in link {
                        let data = matches!(sent.protocol(), Protocol::Tcp(Segment::Data(..)));
                        if stuck.is_none() && data && sent.pair().0.ip() == worker {
                            *stuck = Some(sent.pair());
                        }
                        if *stuck != Some(sent.pair()) {
                            sent.deliver();
                        }
                    }
                }
            });
        }
    }
}
