//! What "safe" means.
//!
//! The same judge for a state of the model, a simulated history and a recorded one. Each rule looks at the few facts it needs
//! and names what is wrong; [`judge`] applies all of them to a whole [`History`]. Belief and damage are kept apart: most texts mix
//! them up, and the repair for one is not the repair for the other.

use core::fmt;

use crate::proto::{FencingToken, Owner, Request, Timestamp};

/// Something happened that a safe lock does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Violation {
    /// Two clients were inside their validity at once (`belief`).
    TwoBelievers(Owner, Owner),
    /// Two acquisitions won with one token (`token-order`).
    TokenRepeated(FencingToken),
    /// An acquisition that began after another had been won got a token that is not larger (`token-order`).
    TokenBehind {
        /// The later holder's.
        won: FencingToken,
        /// Already won when the later attempt began.
        before: FencingToken,
    },
    /// A write was accepted that rests on a read older than another accepted write: that one's update is gone (`damage`).
    LostUpdate {
        /// The version the write was computed from.
        base: u64,
        /// The version it replaced.
        current: u64,
    },
    /// A request of one owner ended another owner's key (`release-safety`).
    ForeignKeyEnded {
        /// Whose request.
        by: Owner,
        /// Whose key.
        of: Owner,
    },
    /// An extension made a key that was not there (`release-safety`).
    KeyCreated {
        /// Whose extension.
        by: Owner,
    },
    /// A key lives longer than the TTL it was given (`orphan`).
    KeyOutlivesTtl {
        /// Left to live, milliseconds.
        left: u64,
        /// Given, milliseconds.
        ttl: u64,
    },
}

/// At most one client may believe. `believers` are those inside their validity now.
pub fn exclusion(believers: impl IntoIterator<Item = Owner>) -> Result<(), Violation> {
    let mut believers = believers.into_iter();
    match (believers.next(), believers.next()) {
        (Some(one), Some(other)) => Err(Violation::TwoBelievers(one, other)),
        _ => Ok(()),
    }
}

/// A won token is new, and larger than any token that had been won before its attempt began.
///
/// `issued`: some acquisition has won with it already. `before`: the largest token won when the attempt began.
pub fn token_order(won: FencingToken, issued: bool, before: Option<FencingToken>) -> Result<(), Violation> {
    if issued {
        return Err(Violation::TokenRepeated(won));
    }
    match before {
        Some(before) if won <= before => Err(Violation::TokenBehind { won, before }),
        _ => Ok(()),
    }
}

/// An accepted write replaces the version it was computed from.
pub fn no_lost_update(base: u64, current: u64) -> Result<(), Violation> {
    if base == current { Ok(()) } else { Err(Violation::LostUpdate { base, current }) }
}

/// A request ends no key but its owner's, and an extension creates none.
pub fn release_safety(
    request: Request,
    before: Option<Owner>,
    after: Option<Owner>,
) -> Result<(), Violation> {
    let Some(by) = request.owner() else { return Ok(()) };
    if matches!(request, Request::Extend { .. }) && before.is_none() && after.is_some() {
        return Err(Violation::KeyCreated { by });
    }
    match before {
        Some(of) if of != by && after != before => Err(Violation::ForeignKeyEnded { by, of }),
        _ => Ok(()),
    }
}

/// No key is left to live longer than it was given: whatever went wrong, one TTL ends it.
pub fn no_orphan(left: u64, ttl: u64) -> Result<(), Violation> {
    if left <= ttl { Ok(()) } else { Err(Violation::KeyOutlivesTtl { left, ttl }) }
}

/// One acquisition that was won.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Acquisition {
    /// Signs its keys.
    pub owner: Owner,
    /// When the attempt began, in the observer's time.
    pub begun: Timestamp,
    /// When it was won, in the observer's time.
    pub won: Timestamp,
    /// The token; `None` in classic mode.
    pub token: Option<FencingToken>,
    /// When the belief ended (released, lost or validity over), in the observer's time.
    pub until: Timestamp,
}

/// One write that the guarded resource accepted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Write {
    /// The version it was computed from.
    pub base: u64,
    /// The version it replaced.
    pub current: u64,
}

/// What an observer with one clock has seen of one resource.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// All acquisitions that were won.
    pub acquisitions: Vec<Acquisition>,
    /// All writes that were accepted.
    pub writes: Vec<Write>,
}

/// Everything that is wrong with a history.
pub fn judge(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(overlaps(&history.acquisitions));
    found.extend(tokens(&history.acquisitions));
    found.extend(history.writes.iter().filter_map(|write| no_lost_update(write.base, write.current).err()));
    found
}

/// Beliefs that overlap: one sweep over the beliefs in the order in which they begin.
fn overlaps(acquisitions: &[Acquisition]) -> Vec<Violation> {
    let mut by_start: Vec<&Acquisition> = acquisitions.iter().collect();
    by_start.sort_by_key(|acquisition| (acquisition.won, acquisition.until));
    let mut latest: Option<&Acquisition> = None;
    let mut found = Vec::new();
    for acquisition in by_start {
        if let Some(other) = latest.filter(|other| acquisition.won < other.until) {
            found.extend(exclusion([other.owner, acquisition.owner]).err());
        }
        if latest.is_none_or(|other| acquisition.until > other.until) {
            latest = Some(acquisition);
        }
    }
    found
}

fn tokens(acquisitions: &[Acquisition]) -> Vec<Violation> {
    let mut by_win: Vec<&Acquisition> = acquisitions.iter().collect();
    by_win.sort_by_key(|acquisition| acquisition.won);
    let mut found = Vec::new();
    for (index, acquisition) in by_win.iter().enumerate() {
        let Some(won) = acquisition.token else { continue };
        let earlier = &by_win[..index];
        let issued = earlier.iter().any(|other| other.token == Some(won));
        let before = earlier.iter().filter(|other| other.won <= acquisition.begun);
        found.extend(token_order(won, issued, before.filter_map(|other| other.token).max()).err());
    }
    found
}

impl Violation {
    /// The property that this breaks, as the model, the simulation and the docs name it.
    pub const fn property(&self) -> &'static str {
        match self {
            Self::TwoBelievers(..) => "belief",
            Self::TokenRepeated(_) | Self::TokenBehind { .. } => "token-order",
            Self::LostUpdate { .. } => "damage",
            Self::ForeignKeyEnded { .. } | Self::KeyCreated { .. } => "release-safety",
            Self::KeyOutlivesTtl { .. } => "orphan",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoBelievers(one, other) => {
                write!(f, "{} and {} believe at the same time", one.short(), other.short())
            }
            Self::TokenRepeated(token) => write!(f, "token {token} was won twice"),
            Self::TokenBehind { won, before } => {
                write!(f, "token {won} was won by an attempt that began after token {before} was won")
            }
            Self::LostUpdate { base, current } => {
                write!(f, "a write computed from version {base} replaced version {current}")
            }
            Self::ForeignKeyEnded { by, of } => {
                write!(f, "a request of {} ended the key of {}", by.short(), of.short())
            }
            Self::KeyCreated { by } => write!(f, "an extension of {} created a key", by.short()),
            Self::KeyOutlivesTtl { left, ttl } => {
                write!(f, "a key with a TTL of {ttl}ms has {left}ms to live")
            }
        }
    }
}

impl core::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquisition(owner: u128, begun: u64, won: u64, until: u64, token: u64) -> Acquisition {
        Acquisition {
            owner: Owner(owner),
            begun: Timestamp::from_millis(begun),
            won: Timestamp::from_millis(won),
            until: Timestamp::from_millis(until),
            token: Some(FencingToken(token)),
        }
    }

    fn verdict(acquisitions: &[Acquisition]) -> Vec<Violation> {
        judge(&History { acquisitions: acquisitions.to_vec(), writes: Vec::new() })
    }

    #[test]
    fn holders_one_after_the_other_are_safe() {
        assert_eq!(verdict(&[acquisition(1, 0, 2, 9, 4), acquisition(2, 1, 9, 12, 7)]), []);
    }

    #[test]
    fn a_long_belief_overlaps_one_that_begins_after_a_short_one_inside_it() {
        let found =
            verdict(&[acquisition(1, 0, 2, 90, 1), acquisition(2, 0, 3, 5, 2), acquisition(3, 0, 8, 9, 3)]);
        let pairs = [(1, 2), (1, 3)].map(|(a, b)| Violation::TwoBelievers(Owner(a), Owner(b)));
        assert_eq!(found, pairs);
    }

    #[test]
    fn attempts_that_overlap_may_win_in_either_order_but_never_alike() {
        assert_eq!(verdict(&[acquisition(1, 0, 2, 3, 7), acquisition(2, 1, 4, 5, 6)]), []);
        let repeated = Violation::TokenRepeated(FencingToken(7));
        assert_eq!(verdict(&[acquisition(1, 0, 2, 3, 7), acquisition(2, 1, 4, 5, 7)]), [repeated]);
        let behind = Violation::TokenBehind { won: FencingToken(6), before: FencingToken(7) };
        assert_eq!(verdict(&[acquisition(1, 0, 2, 3, 7), acquisition(2, 2, 4, 5, 6)]), [behind]);
    }

    #[test]
    fn a_write_from_an_old_read_is_a_lost_update() {
        let writes = vec![Write { base: 0, current: 0 }, Write { base: 0, current: 1 }];
        let found = judge(&History { acquisitions: Vec::new(), writes });
        assert_eq!(found, [Violation::LostUpdate { base: 0, current: 1 }]);
        assert_eq!(found[0].property(), "damage");
    }

    #[test]
    fn a_request_may_end_its_own_key_only() {
        let (mine, other) = (Owner(1), Owner(2));
        let release = Request::Release { owner: mine };
        assert_eq!(release_safety(release, Some(mine), None), Ok(()));
        assert_eq!(release_safety(release, Some(other), Some(other)), Ok(()));
        let foreign = Violation::ForeignKeyEnded { by: mine, of: other };
        assert_eq!(release_safety(release, Some(other), None), Err(foreign));
        assert_eq!(release_safety(release, Some(other), Some(mine)), Err(foreign));
        let ttl = crate::proto::Ttl::MAX;
        let extend = Request::Extend { owner: mine, ttl };
        assert_eq!(release_safety(extend, Some(mine), Some(mine)), Ok(()));
        let created = Violation::KeyCreated { by: mine };
        assert_eq!(release_safety(extend, None, Some(mine)), Err(created));
    }
}
