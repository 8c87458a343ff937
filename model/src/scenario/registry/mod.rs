//! Every scenario.
//!
//! Named after the rows of the failure list: `s` safety, `l` liveness, `f` fencing, `v` variants of the token protocol, `fact` what
//! the design rests on; `-repaired` marks the same world with what removes the failure. Numbers are exact: a change of any of
//! them is a change of the protocol or of the model.

mod facts;
mod fencing;
mod liveness;
#[cfg(feature = "mutants")]
mod mistakes;
mod safety;
mod tokens;

use super::{Expect, Scenario, Size, Verdict};
use crate::world::{Economy, Faults, Guard, Property, Settings, Time, Work};

/// All of them, in the order in which they are told, also those that nobody has seen the end of.
pub fn everything() -> Vec<Scenario> {
    let mut all = Vec::new();
    all.extend(facts::scenarios());
    all.extend(safety::scenarios());
    all.extend(liveness::scenarios());
    all.extend(fencing::scenarios());
    all.extend(tokens::scenarios());
    #[cfg(feature = "mutants")]
    all.extend(mistakes::scenarios());
    all
}

const fn expect(property: Property, verdict: Verdict, steps: Option<usize>) -> Expect {
    Expect { property, verdict, steps }
}

const fn holds(property: Property) -> Expect {
    expect(property, Verdict::Holds, None)
}

const fn violated(property: Property, steps: usize) -> Expect {
    expect(property, Verdict::Violated, Some(steps))
}

const fn reached(property: Property) -> Expect {
    expect(property, Verdict::Reached, None)
}

const fn reached_in(property: Property, steps: usize) -> Expect {
    expect(property, Verdict::Reached, Some(steps))
}

const fn unreached(property: Property) -> Expect {
    expect(property, Verdict::Unreached, None)
}

/// A scenario; `states` 0 if no property needs a complete search. A `sometimes` for each fault allowed is added: no verdict
/// is worth anything if the fault never happened.
fn scenario(
    name: &'static str,
    shows: &'static str,
    settings: Settings,
    states: u64,
    expect: &[Expect],
) -> Scenario {
    let mut expect = expect.to_vec();
    for (fault, count) in crate::world::Fault::ALL.iter().zip(settings.faults.counts()) {
        if count > 0 && count != crate::world::UNLIMITED {
            expect.push(reached(Property::Happens(*fault)));
        }
    }
    let states = (states > 0).then_some(states);
    Scenario { name, shows, settings, expect, states, size: Size::Quick, mutant: None }
}

/// The same, too long for `cargo test`.
fn long(scenario: Scenario) -> Scenario {
    Scenario { size: Size::Full, ..scenario }
}

/// The same, too large to be searched to the end: what is expected has not been shown.
fn open(scenario: Scenario) -> Scenario {
    Scenario { size: Size::Open, states: None, ..scenario }
}

/// Only the lock is looked at, nobody releases or gives up: the world of tokens. A client that waits for ever does all that
/// one that gives up does.
const TOKENS: Settings = Settings {
    work: Work::Nothing,
    economy: Economy::LoseReleases,
    release: false,
    abandon: false,
    ..Settings::BASIC
};

/// The same with as few steps as possible.
const TERSE: Settings = Settings { economy: Economy::Terse, ..TOKENS };

/// The fenced protocol with time, the resource fenced on reads and writes.
const FENCED: Settings =
    Settings { time: Time::Timed { ttl: 3, margin: 1, fast: 0, slow: 0 }, abandon: false, ..Settings::BASIC };

const fn numbers(settings: Settings, numbers: [u8; 5]) -> Settings {
    Settings { numbers, ..settings }
}

const fn faults(settings: Settings, faults: Faults) -> Settings {
    Settings { faults, ..settings }
}

const fn drift(settings: Settings, margin: u8, fast: u8, slow: u8) -> Settings {
    Settings { time: Time::Timed { ttl: 3, margin, fast, slow }, ..settings }
}

const fn guard(settings: Settings, guard: Guard) -> Settings {
    Settings { work: Work::Update(guard), ..settings }
}
