//! Two traces side by side, with the first difference marked.

use std::collections::HashMap;

use axum::http::StatusCode;
use maud::{Markup, html};
use redfence_model::draw::{Options, picture};
use redfence_model::trace::follow;

use super::super::oops::Oops;
use super::super::paths::{Paths, TO_THE_END};
use super::super::story::{Source, Story, scenario, steps};
use super::shell;

/// The page: `a` is `SCENARIO/PROPERTY` or `SCENARIO/STEPS`; `b` is the same, or a scenario in which the steps of `a` are taken.
pub(in super::super) fn page(paths: &Paths, query: &HashMap<String, String>) -> Result<Markup, Oops> {
    let named = |name: &str| {
        let missing = format!("`{name}` is missing: /compare?a=SCENARIO/PROPERTY&b=SCENARIO");
        query.get(name).ok_or_else(|| Oops::new(StatusCode::BAD_REQUEST, missing))
    };
    let one = told(paths, named("a")?)?;
    let other = named("b")?;
    let followed = !other.contains('/');
    let two = match followed {
        false => told(paths, other)?,
        true => {
            let other = scenario(other)?;
            let path = follow(&one.scenario, &one.path, &other)?;
            Story::new(other, path, Source::Chosen(None))?
        }
    };
    let first = difference(&one, &two);
    let title = format!("{} and {}", one.scenario.name, two.scenario.name);
    Ok(shell(
        &title,
        "",
        &html! {
            h1 class="small" { "Side by side: " (one.scenario.name) " and " (two.scenario.name) }
            p class="lead" {
            (verdict(&one, &two, first, followed)) " "
            @if two.len() < one.len() { a href=(two.at(two.len())) { "What can happen there instead" } "." }
        }
            div class="pair" {
                @for story in [&one, &two] {
                    section {
                        h2 { a href=(story.at(first.unwrap_or(story.len()).min(story.len()))) { (story.scenario.name) } }
                        p { (story.scenario.shows) }
                        (picture(&story.trace, Options { at: first, bare: true, link: None }))
                    }
                }
            }
            (steps_of(&one, &two, first))
        },
    ))
}

fn told(paths: &Paths, reference: &str) -> Result<Story, Oops> {
    let wrong = || {
        Oops::new(
            StatusCode::BAD_REQUEST,
            format!("`{reference}` is not SCENARIO/PROPERTY or SCENARIO/STEPS"),
        )
    };
    let (name, what) = reference.split_once('/').ok_or_else(wrong)?;
    if what.is_empty() || what == "-" || what.starts_with(|c: char| c.is_ascii_digit()) {
        return Story::new(scenario(name)?, steps(what)?, Source::Chosen(None));
    }
    Story::shortest(paths, name, what, TO_THE_END)
}

/// The first step that is not the same.
fn difference(one: &Story, two: &Story) -> Option<usize> {
    let most = one.len().max(two.len());
    let sentence =
        |story: &Story, index: usize| story.trace.steps.get(index).map(|step| step.sentence.clone());
    (0..most).find(|&index| sentence(one, index) != sentence(two, index)).map(|index| index + 1)
}

fn verdict(one: &Story, two: &Story, first: Option<usize>, followed: bool) -> String {
    let (name, steps) = (two.scenario.name, two.len());
    match first {
        None => "Both take the same steps.".into(),
        Some(step) if followed && steps < one.len() && step > steps => format!(
            "The same steps, taken in {name}, are possible up to step {steps}. Step {step} cannot happen there."
        ),
        Some(step) => format!("The first difference is at step {step}."),
    }
}

fn steps_of(one: &Story, two: &Story, first: Option<usize>) -> Markup {
    let sentence = |story: &Story, index: usize| -> String {
        match story.trace.steps.get(index) {
            Some(step) => step.sentence.clone(),
            None if index == story.len() => "not possible here, or not taken".into(),
            None => String::new(),
        }
    };
    html! {
        h2 { "Step by step" }
        div class="wide" { table class="steps two" {
            thead { tr { th scope="col" { "step" } th scope="col" { (one.scenario.name) } th scope="col" { (two.scenario.name) } } }
            tbody { @for index in 0..one.len().max(two.len()) {
                tr class=[(first == Some(index + 1)).then_some("at")] {
                    th scope="row" { (index + 1) @if first == Some(index + 1) { " first difference" } }
                    td { (sentence(one, index)) }
                    td { (sentence(two, index)) }
                }
            } }
        } }
    }
}
