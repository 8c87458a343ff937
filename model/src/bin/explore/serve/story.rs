//! What an address of a trace means.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::StatusCode;
use redfence_model::scenario::{self, Scenario, similar};
use redfence_model::trace::{self, Trace};
use redfence_model::world::Property;

use super::oops::Oops;
use super::paths::Paths;
use super::variant;

/// Longer paths are refused.
const LONGEST: usize = 1_000;

/// A path through a scenario, and why it is looked at.
pub(super) struct Story {
    pub(super) scenario: Scenario,
    pub(super) path: Vec<usize>,
    pub(super) source: Source,
    pub(super) trace: Trace,
}

/// Where a path comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// It is a shortest one.
    Shortest(Property),
    /// It was chosen step by step, perhaps beginning with a shortest one.
    Chosen(Option<Property>),
}

/// In which form a trace is handed out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    Json,
    Svg,
    Html,
}

impl Export {
    /// By its name in an address.
    pub(super) fn named(name: &str) -> Result<Self, Oops> {
        match name {
            "json" => Ok(Self::Json),
            "svg" => Ok(Self::Svg),
            "html" => Ok(Self::Html),
            _ => Err(Oops::new(
                StatusCode::NOT_FOUND,
                format!("a trace can be had as json, svg or html, not as {name}"),
            )),
        }
    }
}

impl Story {
    /// The shortest trace to a violation or an instance of a property.
    pub(super) fn shortest(
        paths: &Paths,
        name: &str,
        property: &str,
        patience: Duration,
    ) -> Result<Self, Oops> {
        let scenario = scenario(name)?;
        let property = self::property(&scenario, property)?;
        let Some(path) = paths.shortest(&scenario, property, patience)? else {
            return Err(Oops::new(
                StatusCode::NOT_FOUND,
                format!(
                    "{name}: no state {}: there is no trace",
                    redfence_model::report::looked_for(property)
                ),
            )
            .near(vec![(format!("search {name} again"), format!("/run?scenario={name}"))]));
        };
        Self::new(scenario, path, Source::Shortest(property))
    }

    /// The path that an address spells out.
    pub(super) fn chosen(name: &str, query: &HashMap<String, String>) -> Result<Self, Oops> {
        let scenario = scenario(name)?;
        let from = query.get("from").map(|from| property(&scenario, from)).transpose()?;
        let path = steps(query.get("steps").map_or("", String::as_str))?;
        Self::new(scenario, path, Source::Chosen(from))
    }

    /// The trace that this one was forked from, if it was and that is known by now.
    pub(super) fn origin(&self, paths: &Paths) -> Option<Self> {
        let Source::Chosen(Some(property)) = self.source else { return None };
        Self::shortest(paths, self.scenario.name, &property.name(), super::paths::A_MOMENT).ok()
    }

    /// This path.
    pub(super) fn new(scenario: Scenario, path: Vec<usize>, source: Source) -> Result<Self, Oops> {
        let trace = trace::record(&scenario, &path)?;
        Ok(Self { scenario, path, source, trace })
    }

    /// How many steps it has.
    pub(super) fn len(&self) -> usize {
        self.path.len()
    }

    /// The address of this story after so many steps.
    pub(super) fn at(&self, at: usize) -> String {
        let name = self.scenario.name;
        match self.source {
            Source::Shortest(property) => format!("/trace/{name}/{}?at={at}", property.name()),
            Source::Chosen(_) => self.chosen_at(&self.path, at),
        }
    }

    /// The address of this story up to a moment, and then another action.
    pub(super) fn fork(&self, at: usize, action: usize) -> String {
        self.chosen_at(&[&self.path[..at], &[action]].concat(), at + 1)
    }

    fn chosen_at(&self, path: &[usize], at: usize) -> String {
        let from = self.property().map_or(String::new(), |property| format!("&from={}", property.name()));
        format!("/path/{}?steps={}&at={at}{from}", self.scenario.name, spelled(path))
    }

    /// The property it is or was about.
    pub(super) fn property(&self) -> Option<Property> {
        match self.source {
            Source::Shortest(property) => Some(property),
            Source::Chosen(from) => from,
        }
    }

    /// The address of the story in another form.
    pub(super) fn export(&self, form: &str) -> String {
        let name = self.scenario.name;
        match self.source {
            Source::Shortest(property) => format!("/trace/{name}/{}/{form}", property.name()),
            Source::Chosen(_) => format!("/path/{name}/{form}?steps={}", spelled(&self.path)),
        }
    }

    /// How the comparison names it.
    pub(super) fn reference(&self) -> String {
        match self.source {
            Source::Shortest(property) => format!("{}/{}", self.scenario.name, property.name()),
            Source::Chosen(_) => format!("{}/{}", self.scenario.name, spelled(&self.path)),
        }
    }
}

/// A path as it is spelled in addresses; `-` for the empty one.
pub(super) fn spelled(path: &[usize]) -> String {
    match path {
        [] => "-".into(),
        path => path.iter().map(usize::to_string).collect::<Vec<_>>().join("."),
    }
}

/// A path spelled in an address.
pub(super) fn steps(text: &str) -> Result<Vec<usize>, Oops> {
    if text.is_empty() || text == "-" {
        return Ok(Vec::new());
    }
    let wrong = |step: &str| {
        Oops::new(
            StatusCode::BAD_REQUEST,
            format!("steps are numbers with dots between, as in 0.2.1, not `{step}`"),
        )
    };
    let path: Vec<usize> =
        text.split('.').map(|step| step.parse().map_err(|_| wrong(step))).collect::<Result<_, _>>()?;
    if path.len() > LONGEST {
        return Err(Oops::new(StatusCode::BAD_REQUEST, format!("a path has at most {LONGEST} steps")));
    }
    Ok(path)
}

/// Which moment an address asks for.
pub(super) fn at(query: &HashMap<String, String>) -> Result<Option<usize>, Oops> {
    let number = |text: &String| {
        text.parse().map_err(|_| {
            Oops::new(StatusCode::BAD_REQUEST, format!("`at` is the number of a step, not `{text}`"))
        })
    };
    query.get("at").map(number).transpose()
}

/// The scenario of this name, with what the name says is changed.
pub(super) fn scenario(name: &str) -> Result<Scenario, Oops> {
    if let Some((base, changes)) = name.split_once(variant::MARK) {
        return variant::changed(scenario(base)?, changes);
    }
    scenario::find(name).map_err(|near| {
        let near = near.into_iter().map(|name| (name.to_owned(), format!("/path/{name}"))).collect();
        Oops::new(StatusCode::NOT_FOUND, format!("no scenario is named `{name}`")).near(near)
    })
}

/// The property of this name.
pub(super) fn property(scenario: &Scenario, name: &str) -> Result<Property, Oops> {
    let all: Vec<(String, Property)> =
        scenario.expect.iter().map(|expect| (expect.property.name(), expect.property)).collect();
    if let Some((_, property)) = all.iter().find(|(property, _)| property == name) {
        return Ok(*property);
    }
    let names = || all.iter().map(|(name, _)| name.as_str());
    let near = match similar(name, names()) {
        near if near.is_empty() => names().collect(),
        near => near,
    };
    let link = |property: &str| (property.to_owned(), format!("/trace/{}/{property}", scenario.name));
    let text = format!("{} has no property named `{name}`", scenario.name);
    Err(Oops::new(StatusCode::NOT_FOUND, text).near(near.into_iter().map(link).collect()))
}
