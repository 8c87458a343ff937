//! Who took over from whom: kept only where the order of tokens is asked for by it.
//!
//! Two wins share a node. Where one was granted after the other at every node they share, it has taken over, and its token must
//! be the larger one, whichever attempt began or won first.

use std::hash::{Hash, Hasher};

use redfence::invariants;
use redfence::proto::FencingToken;

use super::state::Signer;

/// The order of the grants at each node, and the attempts that have won.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Takeovers<const N: usize> {
    grants: [Vec<Signer>; N],
    won: Vec<(Signer, u8)>,
}

impl<const N: usize> Default for Takeovers<N> {
    fn default() -> Self {
        Self { grants: std::array::from_fn(|_| Vec::new()), won: Vec::new() }
    }
}

impl<const N: usize> Takeovers<N> {
    /// A node has granted.
    pub(super) fn granted(&mut self, node: usize, to: Signer) {
        self.grants[node].retain(|other| *other != to);
        self.grants[node].push(to);
    }

    /// An attempt has won. Says whether its token is in order with every other's.
    pub(super) fn won(&mut self, who: Signer, token: u8) -> bool {
        let in_order = |&(other, others): &(Signer, u8)| {
            let token_of = |token: u8| FencingToken(u64::from(token));
            let (mut after, mut before) = (0, 0);
            for grants in &self.grants {
                let place = |wanted: Signer| grants.iter().position(|signer| *signer == wanted);
                match (place(who), place(other)) {
                    (Some(mine), Some(theirs)) if mine > theirs => after += 1,
                    (Some(_), Some(_)) => before += 1,
                    _ => {}
                }
            }
            match (after, before) {
                (0, 0) => true,
                (_, 0) => invariants::token_order(token_of(token), false, Some(token_of(others))).is_ok(),
                (0, _) => invariants::token_order(token_of(others), false, Some(token_of(token))).is_ok(),
                _ => true,
            }
        };
        let right = self.won.iter().all(in_order);
        self.won.push((who, token));
        right
    }

    /// What happened at a node, with the clients by their places.
    pub(super) fn hash_node<H: Hasher>(&self, node: usize, place: &[u8], state: &mut H) {
        self.grants[node].iter().for_each(|signer| placed(*signer, place).hash(state));
    }

    /// The rest.
    pub(super) fn hash_shared<H: Hasher>(&self, place: &[u8], state: &mut H) {
        let mut won: Vec<_> = self.won.iter().map(|(who, token)| (placed(*who, place), *token)).collect();
        won.sort_unstable();
        won.hash(state);
    }
}

fn placed(signer: Signer, place: &[u8]) -> Signer {
    signer.client().map_or(signer, |client| Signer::new(place[usize::from(client)], signer.attempt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_over_everywhere_needs_the_larger_token() {
        let (one, other) = (Signer::new(0, 1), Signer::new(1, 1));
        let after = |nodes: &[(usize, Signer)], first: (Signer, u8), second: (Signer, u8)| {
            let mut takeovers = Takeovers::<3>::default();
            nodes.iter().for_each(|(node, who)| takeovers.granted(*node, *who));
            assert!(takeovers.won(first.0, first.1), "nobody has won before");
            takeovers.won(second.0, second.1)
        };
        let everywhere = [(0, one), (1, one), (0, other), (2, other)];
        assert!(after(&everywhere, (one, 1), (other, 2)));
        assert!(after(&everywhere, (other, 2), (one, 1)), "whoever wins first");
        assert!(!after(&everywhere, (one, 2), (other, 1)));
        assert!(!after(&everywhere, (other, 1), (one, 2)));
        let mixed = [(0, one), (1, other), (0, other), (1, one)];
        assert!(after(&mixed, (one, 2), (other, 1)), "each took over from the other");
    }
}
