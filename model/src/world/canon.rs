//! One number for all states that differ only in the numbering of nodes and clients.
//!
//! Each node is a column: the node, and for each client the connection and what the client's session knows of this node. Sorting
//! the columns forgets which node is called 0. Clients are ordered by what does not depend on who is called what; where that does not order
//! them, every order is tried and the smallest number taken. The state itself is never rewritten, so every path stays concrete.

use std::hash::{Hash, Hasher};

use ahash::{AHasher, RandomState};
use redfence::proto::{ByNode, NodeId};

use super::operator::Operator;
use super::state::{Client, Node, Resource, Signer, State};

fn hasher() -> AHasher {
    use std::hash::BuildHasher;
    const KEYS: RandomState = RandomState::with_seeds(0x9E37_79B9, 0x7F4A_7C15, 0xF39C_C060, 0x5CED_C834);
    KEYS.build_hasher()
}

pub(crate) fn mix(feed: impl FnOnce(&mut AHasher)) -> u64 {
    let mut hasher = hasher();
    feed(&mut hasher);
    hasher.finish()
}

/// What a client's connections are like, whichever node each is to, tells most clients apart.
fn rank<const N: usize>(shared: u64, mut cells: [u64; N]) -> u64 {
    cells.sort_unstable();
    mix(|h| {
        h.write_u64(shared);
        cells.iter().for_each(|&cell| h.write_u64(cell));
    })
}

impl<const N: usize, const C: usize> State<N, C> {
    /// The state as one number.
    pub fn fingerprint(&self) -> u64 {
        let shared: [u64; C] = std::array::from_fn(|index| self.client_digest(&self.clients[index]));
        let cells: [[u64; N]; C] =
            std::array::from_fn(|index| std::array::from_fn(|at| self.cell_digest(index, at)));
        let identity: [usize; C] = std::array::from_fn(|index| index);
        if !self.symmetric {
            return self.numbered(&identity, &shared, &cells, false);
        }
        let rank: [u64; C] = std::array::from_fn(|index| rank(shared[index], cells[index]));
        let mut order = identity;
        order.sort_unstable_by_key(|&index| rank[index]);
        let mut least = u64::MAX;
        each_order(&mut order, 0, &rank, &mut |order| {
            least = least.min(self.numbered(order, &shared, &cells, true));
        });
        least
    }

    fn client_digest(&self, client: &Client<N>) -> u64 {
        mix(|h| {
            let small = [
                client.attempt,
                client.best,
                client.clock.cast_unsigned(),
                client.pace as u8,
                client.app as u8,
                client.token,
                client.before,
                u8::from(client.outdated),
            ];
            h.write_u64(u64::from_le_bytes(small));
            match &client.session {
                None => h.write_u8(0),
                Some(session) => session.hash_shared(h),
            }
        })
    }

    /// What lies between a client and a node, and what the client knows of it.
    fn cell_digest(&self, index: usize, at: usize) -> u64 {
        mix(|h| {
            self.links[index][at].words().iter().for_each(|&word| h.write_u64(word));
            if let Some(session) = &self.clients[index].session {
                session.hash_node(NodeId::new(at), h);
            }
        })
    }

    /// What is known of a node, whatever it and the clients are called: for choosing one of several.
    pub(super) fn column(&self, at: usize) -> u64 {
        let node = &self.nodes[at];
        let mut clients: [u64; C] = std::array::from_fn(|index| {
            let signed = node.signer.client().is_some_and(|client| usize::from(client) == index);
            let cells: [u64; N] = std::array::from_fn(|at| self.cell_digest(index, at));
            mix(|h| {
                h.write_u64(rank(self.client_digest(&self.clients[index]), cells));
                h.write_u64(cells[at]);
                h.write_u8(if signed { node.signer.attempt() + 1 } else { 0 });
            })
        });
        clients.sort_unstable();
        mix(|h| {
            h.write_u64(Node { signer: Signer::NOBODY, ..*node }.word(&[]));
            clients.iter().for_each(|&client| h.write_u64(client));
            self.operators.iter().for_each(|operator| operator.hash_node(NodeId::new(at), h));
        })
    }

    /// Operators that are clients change places with them.
    fn each_operator(&self, order: &[usize; C], visit: impl FnMut(&Operator<N>)) {
        match self.paired {
            true => order.iter().map(|&index| &self.operators[index]).for_each(visit),
            false => self.operators.iter().for_each(visit),
        }
    }

    fn numbered(&self, order: &[usize; C], shared: &[u64; C], cells: &[[u64; N]; C], sort: bool) -> u64 {
        let mut place = [0u8; C];
        for (to, &from) in (0u8..).zip(order) {
            place[from] = to;
        }
        let mut columns: [u64; N] = std::array::from_fn(|at| {
            mix(|h| {
                h.write_u64(self.nodes[at].word(&place));
                if let Some(saved) = &self.saved {
                    h.write_u64(saved[at].word(&place));
                }
                order.iter().for_each(|&index| h.write_u64(cells[index][at]));
                self.each_operator(order, |operator| operator.hash_node(NodeId::new(at), h));
                if let Some(takeovers) = &self.takeovers {
                    takeovers.hash_node(at, &place, h);
                }
            })
        });
        if sort {
            columns.sort_unstable();
        }
        mix(|h| {
            columns.iter().for_each(|&column| h.write_u64(column));
            order.iter().for_each(|&index| h.write_u64(shared[index]));
            self.each_operator(order, |operator| operator.hash_shared(h));
            h.write_u64(self.issued);
            if let Some(takeovers) = &self.takeovers {
                takeovers.hash_shared(&place, h);
            }
            // Where claims are the guard, the mark is a client.
            let mark = match self.resource {
                Resource { mark, claimed } if claimed > 0 => place[usize::from(mark - 1)] + 1,
                Resource { mark, .. } => mark,
            };
            h.write_u8(mark);
            (self.resource.claimed, self.wrongs, self.budget).hash(h);
        })
    }
}

impl Node {
    /// Everything in one word; the signer's client by its place.
    pub(crate) fn word(&self, place: &[u8]) -> u64 {
        let signer = self.signer.client().map_or(0, |client| {
            (u64::from(place[usize::from(client)]) + 1) << 4 | u64::from(self.signer.attempt())
        });
        let counter = self.counter.map_or(0, |counter| u64::from(counter) + 1);
        signer
            | u64::from(self.epoch) << 8
            | u64::from(self.floor) << 16
            | u64::from(self.high) << 24
            | counter << 32
            | u64::from(self.joining & 127) << 41
            | u64::from(self.left) << 48
            | u64::from(self.silent) << 56
    }
}

/// Every order of the clients in which their digests ascend.
pub(crate) fn each_order<const C: usize>(
    order: &mut [usize; C],
    from: usize,
    digests: &[u64; C],
    visit: &mut impl FnMut(&[usize; C]),
) {
    if from + 1 >= C {
        return visit(order);
    }
    for other in from..C {
        if digests[order[other]] == digests[order[from]] {
            order.swap(from, other);
            each_order(order, from + 1, digests, visit);
            order.swap(from, other);
        }
    }
}

impl<const N: usize, const C: usize> Hash for State<N, C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}
