//! A scenario with other faults and bounds, spelled in its name: `s3-empty-restart~pause=1~margin=2`.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use redfence_model::scenario::{Expect, Scenario, Verdict};
use redfence_model::world::{Fault, Property, Settings, Time, UNLIMITED};

use super::oops::Oops;

/// Between the name of the scenario and each change.
pub(super) const MARK: char = '~';

/// Names live as long as the process, as those of all scenarios do; there are not more than this many.
const MOST_NAMES: usize = 1_000;
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Something that can be changed.
#[derive(Clone, Copy)]
pub(super) struct Knob {
    /// Its name in addresses and forms.
    pub(super) name: &'static str,
    /// The largest value this page takes.
    pub(super) most: u8,
    turns: Turns,
}

#[derive(Clone, Copy)]
enum Turns {
    Count(Fault),
    Attempts,
    Margin,
    Fast,
    Slow,
}

/// Everything that can be changed.
pub(super) fn knobs() -> Vec<Knob> {
    let bounds = [
        Knob { name: "attempts", most: 2, turns: Turns::Attempts },
        Knob { name: "margin", most: 4, turns: Turns::Margin },
        Knob { name: "fast-nodes", most: 2, turns: Turns::Fast },
        Knob { name: "slow-clients", most: 2, turns: Turns::Slow },
    ];
    let fault = |fault: &Fault| Knob { name: fault.name(), most: 2, turns: Turns::Count(*fault) };
    bounds.into_iter().chain(Fault::ALL.iter().map(fault)).collect()
}

/// What a form asks for: the scenario, changed where a field has another value than it.
pub(super) fn wanted(base: &Scenario, form: &HashMap<String, String>) -> Result<Scenario, Oops> {
    let given =
        |knob: &Knob| form.get(knob.name).filter(|text| !text.is_empty()).map(|text| (knob.name, text));
    let mut changes = String::new();
    for (name, text) in knobs().iter().filter_map(given) {
        let (knob, value) = parsed(name, text)?;
        if knob.turns.now(&base.settings) != Some(value) {
            let _ = write!(changes, "{MARK}{name}={value}");
        }
    }
    match changes.strip_prefix(MARK) {
        None => Ok(base.clone()),
        Some(changes) => changed(base.clone(), changes),
    }
}

/// The scenario with these changes.
pub(super) fn changed(base: Scenario, changes: &str) -> Result<Scenario, Oops> {
    let mut settings = base.settings;
    for change in changes.split(MARK) {
        let (name, text) = change.split_once('=').unwrap_or((change, ""));
        let (knob, value) = parsed(name, text)?;
        settings = knob.turns.turned(settings, value).map_err(wrong)?;
    }
    let unknown = |property| Expect { property, verdict: Verdict::Unknown, steps: None };
    let asked = base.expect.iter().map(|expect| expect.property);
    let happens = Fault::ALL.iter().zip(settings.faults.counts());
    let happens = happens
        .filter(|(_, count)| (1..UNLIMITED).contains(count))
        .map(|(fault, _)| Property::Happens(*fault));
    let properties: Vec<Property> =
        asked.filter(|property| !matches!(property, Property::Happens(_))).chain(happens).collect();
    Ok(Scenario {
        name: kept(format!("{}{MARK}{changes}", base.name))?,
        shows: "a scenario with changed faults or bounds",
        settings,
        expect: properties.into_iter().map(unknown).collect(),
        states: None,
        ..base
    })
}

fn wrong(text: String) -> Oops {
    Oops::new(StatusCode::BAD_REQUEST, text)
}

fn parsed(name: &str, text: &str) -> Result<(Knob, u8), Oops> {
    let all = knobs();
    let knob = all.iter().find(|knob| knob.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|knob| knob.name).collect();
        wrong(format!("`{name}` cannot be changed; what can: {}", names.join(", ")))
    })?;
    match text.parse() {
        Ok(value) if value <= knob.most => Ok((knob, value)),
        Ok(_) => Err(wrong(format!("{name}: {text} is too much, at most {}", knob.most))),
        Err(_) => Err(wrong(format!("{name}: `{text}` is not a number from 0 to {}", knob.most))),
    }
}

fn kept(name: String) -> Result<&'static str, Oops> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return Ok(known);
    }
    if names.len() >= MOST_NAMES {
        let text =
            format!("{MOST_NAMES} changed scenarios are enough for one process; start it anew for more");
        return Err(Oops::new(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    let name: &'static str = name.leak();
    names.insert(name);
    Ok(name)
}

impl Turns {
    /// The value now; nothing where there is none.
    fn now(self, settings: &Settings) -> Option<u8> {
        match (self, settings.time) {
            (Self::Count(fault), _) => Some(settings.faults.counts()[fault as usize]),
            (Self::Attempts, _) => Some(settings.attempts),
            (_, Time::Untimed) => None,
            (Self::Margin, Time::Timed { margin, .. }) => Some(margin),
            (Self::Fast, Time::Timed { fast, .. }) => Some(fast),
            (Self::Slow, Time::Timed { slow, .. }) => Some(slow),
        }
    }

    /// The settings with another value.
    fn turned(self, settings: Settings, value: u8) -> Result<Settings, String> {
        let time = match (self, settings.time) {
            (Self::Count(fault), _) => {
                return Ok(Settings { faults: settings.faults.with(fault, value), ..settings });
            }
            (Self::Attempts, _) if value == 0 => return Err("attempts: at least 1".into()),
            (Self::Attempts, _) => return Ok(Settings { attempts: value, ..settings }),
            (_, Time::Untimed) => return Err("in this scenario there are no clocks to change".into()),
            (_, Time::Timed { ttl, .. }) if value >= ttl => {
                return Err(format!("margin and drift are less than the TTL: at most {}", ttl - 1));
            }
            (Self::Margin, Time::Timed { ttl, fast, slow, .. }) => {
                Time::Timed { ttl, margin: value, fast, slow }
            }
            (Self::Fast, Time::Timed { ttl, margin, slow, .. }) => {
                Time::Timed { ttl, margin, fast: value, slow }
            }
            (Self::Slow, Time::Timed { ttl, margin, fast, .. }) => {
                Time::Timed { ttl, margin, fast, slow: value }
            }
        };
        Ok(Settings { time, ..settings })
    }
}
