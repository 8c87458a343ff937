//! What is asked of a world of general clients.

use redfence::invariants;
use redfence::proto::FencingToken;

use super::state::numbers;
use super::{General, Rule, State};

/// A question with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// Always: no two attempts win one token, and one that began after another had won wins a larger one.
    TokenOrder,
    /// Always: of two attempts that won with answers of one node, the one that was granted there after the other has the larger
    /// token. Stronger than the same of attempts that took over at every node they share.
    TakeoverOrder,
    /// Sometimes: somebody wins.
    Win,
    /// Sometimes: every attempt wins.
    AllWin,
    /// Sometimes: a node that lost its data and came back above zero is counted in a win.
    WipedNodeCounts,
}

/// The numbers in a set of answers, small to large.
fn tokens(answers: u64) -> impl Iterator<Item = u8> {
    let numbers = numbers(answers);
    (0..8).filter(move |number| numbers & 1 << number != 0)
}

const fn token(number: u8) -> FencingToken {
    FencingToken(number as u64)
}

impl<const N: usize, const A: usize> General<N, A> {
    /// Whether it is true here; of those that must always be true, whether they still are.
    pub fn is_true(&self, property: Property, state: &State<N, A>) -> bool {
        let won = self.won(state);
        match property {
            Property::TokenOrder => (0..A).all(|attempt| is_new_and_larger(state, &won, attempt)),
            Property::TakeoverOrder => {
                let mut pairs = (0..A).flat_map(|first| (0..A).map(move |later| (first, later)));
                pairs.all(|(first, later)| first == later || self.took_over(state, &won, first, later))
            }
            Property::Win => won.iter().any(|won| *won != 0),
            Property::AllWin => won.iter().all(|won| *won != 0),
            Property::WipedNodeCounts => (0..A).any(|attempt| counts_wiped(state, &won, attempt)),
        }
    }

    /// The largest token won, 0 if none.
    pub(super) fn largest_token(&self, state: &State<N, A>) -> u8 {
        self.won(state).into_iter().filter_map(|won| tokens(won).last()).max().unwrap_or(0)
    }

    /// What is compared of answers.
    fn counted(&self, answers: u64) -> u64 {
        if self.settings.rule == Rule::EpochIgnored { numbers(answers) } else { answers }
    }

    /// What enough nodes have answered each attempt: each bit is a win.
    fn won(&self, state: &State<N, A>) -> [u64; A] {
        let needed = self.needed();
        state.answers.map(|answers| {
            // At place n: what n nodes at least have answered.
            let mut by = [0; 8];
            by[0] = u64::MAX;
            for answers in answers {
                for nodes in (1..=needed).rev() {
                    by[nodes] |= by[nodes - 1] & self.counted(answers);
                }
            }
            by[needed]
        })
    }

    /// Whether `later` has the larger token wherever it was granted after `first`, and both have won with this node.
    fn took_over(&self, state: &State<N, A>, won: &[u64; A], first: usize, later: usize) -> bool {
        let counted =
            |attempt: usize, at: usize| tokens(won[attempt] & self.counted(state.answers[attempt][at]));
        (0..N).filter(|at| state.is_granted_after(first, later, *at)).all(|at| {
            match (counted(first, at).last(), counted(later, at).next()) {
                (Some(largest), Some(least)) => {
                    invariants::token_order(token(least), false, Some(token(largest))).is_ok()
                }
                _ => true,
            }
        })
    }
}

fn is_new_and_larger<const N: usize, const A: usize>(
    state: &State<N, A>,
    won: &[u64; A],
    attempt: usize,
) -> bool {
    let others = (0..A).filter(|other| *other != attempt).fold(0, |all, other| all | numbers(won[other]));
    let before = state.before[attempt];
    let before = (before > 0).then_some(token(before));
    tokens(won[attempt]).all(|number| {
        let issued = others & 1 << number != 0;
        invariants::token_order(token(number), issued, before).is_ok()
    })
}

fn counts_wiped<const N: usize, const A: usize>(state: &State<N, A>, won: &[u64; A], attempt: usize) -> bool {
    state.nodes.iter().zip(state.answers[attempt]).any(|(node, answers)| {
        let epoch = u64::from(node.epoch).saturating_sub(1) * 8;
        let told = answers & won[attempt] & 0xFF << epoch;
        // Only such a node has a floor above zero here, and since it is back it tells nothing below.
        node.floor > 0 && tokens(told).any(|number| number > node.floor)
    })
}
