//! One trace: the diagram, where it stands, what is different, what else could happen.

use axum::http::StatusCode;
use maud::{Markup, html};
use redfence_model::draw::{Options, picture};
use redfence_model::scenario;
use redfence_model::trace::{Change, Choice, Trace, choices};
use redfence_model::world::{Kind, Property};

use super::super::oops::Oops;
use super::super::story::{Source, Story};
use super::matrix::repairs;
use super::shell;

/// The page, after so many steps; by default after the last. A fork shows also the trace it was forked from.
pub(in super::super) fn page(
    story: &Story,
    at: Option<usize>,
    origin: Option<&Story>,
) -> Result<Markup, Oops> {
    let last = story.len();
    let at = at.unwrap_or(last);
    if at > last {
        return Err(Oops::new(
            StatusCode::NOT_FOUND,
            format!("there is no step {at}: the trace has {last} steps"),
        )
        .near(vec![(format!("step {last}"), story.at(last))]));
    }
    let possible = choices(&story.scenario, &story.path[..at])?;
    let trace = &story.trace;
    let link = |step: usize| story.at(step);
    let title = format!("{} step {at}", story.scenario.name);
    Ok(shell(
        &title,
        "",
        &html! {
            h1 class="small" { (heading(story)) }
            div class="story" {
                div {
                div class="picture" { (picture(trace, Options { at: Some(at), link: Some(&link), bare: false })) }
                @if let Some(origin) = origin { (forked(story, origin)) }
            }
                div class="panel" {
                    (stepper(story, at))
                    (standing(story, at))
                    (what_if(story, at, &possible))
                    (differences(trace, at))
                    (links(story))
                }
            }
            (whole_state(trace, at))
            (as_table(story, at))
        },
    ))
}

fn heading(story: &Story) -> Markup {
    let name = story.scenario.name;
    html! {
        @match story.source {
            Source::Shortest(property) => { (name) ": shortest way to " em { (property.name()) } },
            Source::Chosen(Some(property)) => {
                (name) ": what if? "
                small { "forked from " a href=(format!("/trace/{name}/{}", property.name())) { "the trace to " (property.name()) } }
            }
            Source::Chosen(None) => { (name) ": step by step" },
        }
    }
}

/// The trace that a fork comes from, with the last step they share marked.
fn forked(story: &Story, origin: &Story) -> Markup {
    let shared = story.path.iter().zip(&origin.path).take_while(|(one, other)| one == other).count();
    html! {
        section {
            h2 { "The trace it was forked from" @if shared < origin.len() { ", after step " (shared) } }
            ol class="origin" { @for step in &origin.trace.steps {
                li class=[(step.number > shared).then_some("other-way")] {
                    a href=(origin.at(step.number)) { (step.sentence) }
                    @for name in &step.after.violated { " " span class="verdict violated" { (name) } }
                }
            } }
        }
    }
}

/// Back, forward, to the ends, to what is interesting.
fn stepper(story: &Story, at: usize) -> Markup {
    let last = story.len();
    let next = interesting(&story.trace, at);
    html! {
        nav class="stepper" aria-label="Steps" {
            (go(story, "first", "\u{ab}", "start (Home)", (at > 0).then_some(0)))
            (go(story, "prev", "\u{2039}", "one step back (left arrow)", at.checked_sub(1)))
            strong { "step " (at) " of " (last) }
            (go(story, "next", "\u{203a}", "one step on (right arrow)", (at < last).then_some(at + 1)))
            (go(story, "last", "\u{bb}", "end (End)", (at < last).then_some(last)))
            (go(story, "interesting", "next event", "next interesting step (n)", next))
        }
        input class="slider" type="range" min="0" max=(last) value=(at) aria-label="Step"
            data-address=(story.at(0)) hidden[last == 0];
    }
}

fn go(story: &Story, rel: &str, sign: &str, title: &str, to: Option<usize>) -> Markup {
    html! {
        @match to {
            Some(to) => a class="button" rel=(rel) href=(story.at(to)) title=(title) aria-label=(title) { (sign) },
            None => span class="button off" aria-hidden="true" { (sign) },
        }
    }
}

/// The next step at which somebody wins, a fault happens, or something is violated.
pub(super) fn interesting(trace: &Trace, at: usize) -> Option<usize> {
    trace
        .steps
        .iter()
        .skip(at)
        .find(|step| !step.marks.is_empty() || !step.reached.is_empty())
        .map(|step| step.number)
}

/// The step in words, and every property after it.
fn standing(story: &Story, at: usize) -> Markup {
    let trace = &story.trace;
    let moment = trace.moment(at);
    let step = at.checked_sub(1).map(|index| &trace.steps[index]);
    let expect = story.scenario.expect.iter().map(|expect| expect.property);
    let always = expect.filter(|property| property.kind() == Kind::Always).map(Property::name);
    html! {
        section aria-live="polite" {
            p class="sentence" { @match step {
                Some(step) => (step.sentence),
                None => "Nothing has happened yet.",
            } }
            p class="standing" {
                @for name in always {
                    @match moment.violated.contains(&name) {
                        true => span class="verdict violated" { "\u{2717} " (name) " violated" },
                        false => span class="verdict holds" { "\u{2713} " (name) },
                    }
                    " "
                }
                @for name in step.map(|step| &step.reached).into_iter().flatten() {
                    span class="verdict reached" { "reached: " (name) } " "
                }
            }
        }
    }
}

pub(super) fn differences(trace: &Trace, at: usize) -> Markup {
    let changes: &[Change] = at.checked_sub(1).map_or(&[], |index| &trace.steps[index].changes);
    html! {
        section {
            h2 { "What this step changed" }
            @if changes.is_empty() {
                p { "Nothing but messages on their way." }
            } @else {
                table class="changes" {
                    thead { tr { @for title in ["whose", "what", "before", "after"] { th scope="col" { (title) } } } }
                    tbody { @for change in changes {
                        tr { th scope="row" { (change.lane) } td { (change.field) } td { (change.before) } td { ins { (change.after) } } }
                    } }
                }
            }
        }
    }
}

fn what_if(story: &Story, at: usize, possible: &[Choice]) -> Markup {
    let taken = story.path.get(at);
    html! {
        section {
            h2 { "What can happen next" }
            @if possible.is_empty() { p { "Nothing any more." } }
            ol class="choices" {
                @for choice in possible {
                    @let here = taken == Some(&choice.action);
                    li class=[choice.fault.then_some("fault")] {
                        @if here {
                            a href=(story.at(at + 1)) { (choice.sentence) } small { " \u{2014} happened here" }
                        } @else {
                            a href=(story.fork(at, choice.action)) { (choice.sentence) }
                        }
                        @for name in &choice.violates { " " span class="verdict violated" { (name) } }
                    }
                }
            }
        }
    }
}

fn links(story: &Story) -> Markup {
    let all = scenario::all();
    let name = story.scenario.name;
    let mine = story.reference();
    let compare = |other: &str| format!("/compare?a={mine}&b={other}");
    let failure = repairs(name, &all);
    html! {
        section {
            h2 { "Beside it" }
            ul class="links" {
                @for repair in all.iter().filter(|other| repairs(other.name, &all) == Some(name)) {
                    li { a href=(compare(repair.name)) { "the same steps in " (repair.name) } }
                }
                @if let Some(failure) = failure { li { a href=(format!("/#{failure}")) { "repairs " (failure) } } }
                @if let (Source::Chosen(Some(property)), true) = (story.source, story.len() > 0) {
                    li { a href=(format!("/compare?a={name}/{}&b={mine}", property.name())) { "side by side with the trace it was forked from" } }
                }
                li { "take it away: "
                    a href=(story.export("json")) download { "JSON" } ", "
                    a href=(story.export("svg")) download { "SVG" } ", "
                    a href=(story.export("html")) download { "one HTML file" } }
                li { a href=(format!("/run?scenario={name}")) { "search this scenario" } }
            }
            p class="keys" {
                kbd { "\u{2190}" } " " kbd { "\u{2192}" } " step, " kbd { "Home" } " " kbd { "End" } " ends, " kbd { "n" }
                " next event, " kbd { "1" } "\u{2013}" kbd { "9" } " what happens next"
            }
            details { summary { "What is assumed" }
                dl { @for assumption in &story.trace.assumptions { dt { (assumption.name) } dd { (assumption.value) } } }
            }
        }
    }
}

/// Every field at a moment; what the last step changed is marked.
pub(super) fn whole_state(trace: &Trace, at: usize) -> Markup {
    let fields = trace.moment(at).fields();
    let changes: &[Change] = at.checked_sub(1).map_or(&[], |index| &trace.steps[index].changes);
    let changed =
        |lane: &str, field: &str| changes.iter().any(|change| change.lane == lane && change.field == field);
    html! {
        section {
            h2 { "Everything after step " (at) }
            div class="cards" {
                @for lane in &trace.lanes {
                    @let mine = fields.iter().filter(|(whose, _, _)| *whose == lane.id);
                    table class="card" {
                        caption { (lane.id) }
                        tbody { @for (_, field, value) in mine {
                            tr class=[changed(&lane.id, field).then_some("changed")] {
                                th scope="row" { (field) }
                                td { @if changed(&lane.id, field) { ins { (value) } } @else { (value) } }
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// The diagram as a table.
fn as_table(story: &Story, at: usize) -> Markup {
    html! {
        details class="table-form" {
            summary { "The diagram as a table" }
            (table(&story.trace, Some(at), Some(&|step| story.at(step))))
        }
    }
}

/// The diagram as a table: for reading without it.
pub(in super::super) fn table(
    trace: &Trace,
    at: Option<usize>,
    link: Option<&dyn Fn(usize) -> String>,
) -> Markup {
    let timed = trace.clock.ttl.is_some();
    html! {
        div class="wide" { table class="steps" {
            thead { tr {
                th scope="col" { "step" }
                @if timed { th scope="col" { "time" } }
                th scope="col" { "what happens" }
                th scope="col" { "sent" }
                th scope="col" { "who believes" }
                th scope="col" { "whose keys" }
                th scope="col" { "violated" }
            } }
            tbody { @for (number, moment) in trace.moments().enumerate() {
                tr class=[(at == Some(number)).then_some("at")] {
                    th scope="row" { @match link {
                        Some(link) => a href=(link(number)) { (number) },
                        None => (number),
                    } }
                    @if timed { td { (moment.at) } }
                    td { @match number.checked_sub(1).map(|index| &trace.steps[index]) {
                        Some(step) => (step.sentence),
                        None => "start",
                    } }
                    td { @for message in trace.messages.iter().filter(|message| message.sent == number && number > 0) {
                        span class="sent" { (message.from) " \u{2192} " (message.to) ": " (message.label)
                            @match (message.arrives, message.lost) {
                                (Some(step), _) => { " (arrives at step " (step) ")" }
                                (None, Some(step)) => { " (lost at step " (step) ")" }
                                (None, None) => " (still on its way)",
                            }
                        }
                    } }
                    td { @for client in moment.clients.iter().filter(|client| client.believes) {
                        span class="sent" { (client.lane)
                            @if let Some(left) = client.belief_left { " for " (left) }
                            @if let Some(token) = client.token { ", token " (token) } }
                    } }
                    td { @for node in &moment.nodes { @if let Some(key) = &node.key {
                        span class="sent" { (node.lane) ": " (key.client) @if let Some(left) = key.left { " for " (left) } }
                    } } }
                    td { (moment.violated.join(", ")) }
                }
            } }
        } }
    }
}
