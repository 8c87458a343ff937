//! Seeded random walks, beyond the bounds where every path can be searched.
//!
//! A walk proves nothing; many of them find what is easy to find. The generator is our own, so that a seed stays the same walk
//! when a dependency changes.

use crate::world::{Action, Property, World};

/// A walk that went wrong: enough to walk it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Where the walk began.
    pub seed: u64,
    /// After how many steps.
    pub steps: usize,
    /// What was violated.
    pub property: Property,
}

/// What walks have seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Steps taken in all.
    pub steps: u64,
    /// Walks in which two clients or more had won by the end.
    pub contended: u64,
    /// The first walk that went wrong.
    pub wrong: Option<Wrong>,
}

/// Small, and good enough to choose by: splitmix64.
#[derive(Clone, Copy, Debug)]
struct Dice(u64);

/// What ends things is always possible, so that a uniform choice would hardly ever let anybody win: it is taken one time in this
/// many that it is drawn.
const RARE: usize = 16;

fn ends_something(action: Action) -> bool {
    matches!(
        action,
        Action::Expire(_)
            | Action::Abandon(_)
            | Action::Wipe(_)
            | Action::Die(_)
            | Action::OperatorDies(_)
            | Action::OperatorGivesUp { .. }
            | Action::GiveUp { .. }
            | Action::Evict(_)
            | Action::Jump(_)
    )
}

impl Dice {
    /// One of the actions; there is at least one.
    fn choose(&mut self, actions: &[Action]) -> Action {
        loop {
            let action = actions[self.below(actions.len())];
            if !ends_something(action) || self.below(RARE) == 0 {
                return action;
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        // A product of two numbers below 2^64 fits; the upper half is below the bound.
        usize::try_from((u128::from(z) * bound as u128) >> 64).unwrap_or(0)
    }
}

/// Walks once from each seed, at most `steps` steps, and looks at the properties after each.
pub fn walk<const N: usize, const C: usize>(
    world: &World<N, C>,
    seeds: std::ops::Range<u64>,
    steps: usize,
    properties: &[Property],
) -> Seen {
    let mut seen = Seen::default();
    let mut actions = Vec::new();
    for seed in seeds {
        let mut dice = Dice(seed);
        let mut state = world.start();
        for step in 1..=steps {
            actions.clear();
            world.enabled(&state, &mut actions);
            if actions.is_empty() {
                break;
            }
            state = world.step(&state, dice.choose(&actions));
            seen.steps += 1;
            let violated = properties.iter().find(|property| !property.is_true(world.settings(), &state));
            if let Some(&property) = violated {
                seen.wrong = Some(Wrong { seed, steps: step, property });
                return seen;
            }
        }
        seen.contended += u64::from(state.issued.count_ones() >= 2);
    }
    seen
}
