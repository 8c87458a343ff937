//! A trace from a file: the diagram, where it stands, what is different. What else could have happened is not known.

use axum::http::StatusCode;
use maud::{Markup, html};
use redfence_model::draw::{Options, picture};

use super::super::File;
use super::super::oops::Oops;
use super::shell;
use super::story::{differences, interesting, table, whole_state};

/// The page of one of the files, after so many steps; by default after the last.
pub(in super::super) fn page(files: &[File], number: usize, at: Option<usize>) -> Result<Markup, Oops> {
    let file = number.checked_sub(1).and_then(|index| files.get(index)).ok_or_else(|| {
        let count = files.len();
        let text =
            format!("there is no file {number}: {count} were given with `explore serve --trace FILE..`");
        let near =
            files.iter().enumerate().map(|(index, file)| (file.name.clone(), address(index + 1, None)));
        Oops::new(StatusCode::NOT_FOUND, text).near(near.collect())
    })?;
    let trace = &file.trace;
    let last = trace.steps.len();
    let at = at.unwrap_or(last);
    if at > last {
        return Err(Oops::new(
            StatusCode::NOT_FOUND,
            format!("there is no step {at}: the trace has {last} steps"),
        )
        .near(vec![(format!("step {last}"), address(number, Some(last)))]));
    }
    let link = |step: usize| address(number, Some(step));
    let step = at.checked_sub(1).map(|index| &trace.steps[index]);
    let body = html! {
        h1 class="small" { (trace.scenario) ": " (trace.shows) " " small { (file.name) } }
        div class="story" {
            div class="picture" { (picture(trace, Options { at: Some(at), link: Some(&link), bare: false })) }
            div class="panel" {
                nav class="stepper" aria-label="Steps" {
                    (go("first", "\u{ab}", "start (Home)", (at > 0).then(|| link(0))))
                    (go("prev", "\u{2039}", "one step back (left arrow)", at.checked_sub(1).map(link)))
                    strong { "step " (at) " of " (last) }
                    (go("next", "\u{203a}", "one step on (right arrow)", (at < last).then(|| link(at + 1))))
                    (go("last", "\u{bb}", "end (End)", (at < last).then(|| link(last))))
                    (go("interesting", "next event", "next interesting step (n)", interesting(trace, at).map(link)))
                }
                section aria-live="polite" {
                    p class="sentence" { @match step {
                        Some(step) => (step.sentence),
                        None => "Nothing has happened yet.",
                    } }
                    p class="standing" { @for name in &trace.moment(at).violated {
                        span class="verdict violated" { "\u{2717} " (name) " violated" } " "
                    } }
                }
                (differences(trace, at))
                details { summary { "What is assumed" }
                    dl { @for assumption in &trace.assumptions { dt { (assumption.name) } dd { (assumption.value) } } }
                }
                @if files.len() > 1 {
                    h2 { "Files" }
                    ol { @for (index, other) in files.iter().enumerate() {
                        li { a href=(address(index + 1, None)) aria-current=[(index + 1 == number).then_some("page")] { (other.name) } }
                    } }
                }
            }
        }
        (whole_state(trace, at))
        details class="table-form" {
            summary { "The diagram as a table" }
            (table(trace, Some(at), Some(&link)))
        }
    };
    Ok(shell(&format!("{} step {at}", trace.scenario), "", &body))
}

fn address(number: usize, at: Option<usize>) -> String {
    at.map_or_else(|| format!("/file/{number}"), |at| format!("/file/{number}?at={at}"))
}

fn go(rel: &str, sign: &str, title: &str, to: Option<String>) -> Markup {
    html! {
        @match to {
            Some(to) => a class="button" rel=(rel) href=(to) title=(title) aria-label=(title) { (sign) },
            None => span class="button off" aria-hidden="true" { (sign) },
        }
    }
}
