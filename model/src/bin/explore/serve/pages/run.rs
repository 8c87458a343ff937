//! Searching a scenario from the page.

use maud::{Markup, html};
use redfence_model::scenario::{self, Scenario, Size};

use super::super::run::Look;
use super::super::variant;
use super::shell;

/// The page.
pub(in super::super) fn page(look: &Look, chosen: Option<&Scenario>) -> Markup {
    let name = chosen.map(|scenario| scenario.name).or(look.scenario);
    shell(
        "Search",
        "/run",
        &html! {
            h1 { "Search a scenario" }
            p class="lead" {
                "Every state of the scenario is visited, and what is found is compared with what is expected. One search at a time; it ends at "
                "its bounds, when it is cancelled, or half a minute after nobody looks at this page any more."
            }
            form method="post" action="/run" class="run" {
                label { "Scenario "
                    select name="scenario" { @for scenario in scenario::everything() {
                        option value=(scenario.name) selected[name.is_some_and(|name| name.split(variant::MARK).next() == Some(scenario.name))] {
                            (scenario.name)
                            @match scenario.size {
                                Size::Quick => {}
                                Size::Full => " (long)",
                                Size::Open => " (never seen to end)",
                            }
                        }
                    } }
                }
                label { "at most " input type="number" name="states" min="1" max="50000000" value=(look.most_states); " states" }
                label { "and " input type="number" name="seconds" min="1" max="3600" value=(look.most_seconds); " seconds" }
                button type="submit" disabled[look.running] { "Search" }
            (changes(name.unwrap_or_default()))
            }
            @if look.scenario.is_some() { (status(look)) }
            @if look.running { noscript { meta http-equiv="refresh" content="2"; } }
        },
    )
}

/// What can be changed: nothing unless a number is given.
fn changes(name: &str) -> Markup {
    let now: Vec<(&str, &str)> =
        name.split(variant::MARK).filter_map(|change| change.split_once('=')).collect();
    let value = |knob: &str| now.iter().find(|(name, _)| *name == knob).map(|(_, value)| *value);
    html! {
        details open[!now.is_empty()] {
            summary { "Change its faults and bounds" }
            p { "Empty means: as it is. A changed scenario has no expected verdict; what is found has its trace all the same." }
            div class="fields" { @for knob in variant::knobs() {
                label { input type="number" name=(knob.name) min="0" max=(knob.most) value=[value(knob.name)]; " " (knob.name) }
            } }
        }
    }
}

fn status(look: &Look) -> Markup {
    let rows = [
        ("states", look.states.to_string()),
        ("states_per_second", look.states_per_second.to_string()),
        ("depth", look.depth.to_string()),
        ("frontier", look.frontier.to_string()),
        ("seconds", format!("{:.1}", look.seconds)),
    ];
    html! {
        section id="progress" data-running=(look.running) {
            h2 { (look.scenario.unwrap_or_default()) }
            p role="status" { @match (look.running, look.ended) {
                (true, _) => "searching \u{2026}",
                (false, Some(why)) => { "ended early: " (why) }
                (false, None) => "complete",
            } }
            dl class="numbers" { @for (name, value) in rows {
                dt { (name.replace('_', " ").replace("per second", "/ s")) } dd data-field=(name) { (value) }
            } }
            @if look.running { form method="post" action="/run/cancel" { button type="submit" { "Cancel" } } }
            @if let (Some(outcome), Some(name)) = (&look.outcome, look.scenario) {
                @let changed = name.contains(variant::MARK);
                p { @match (outcome.ok, outcome.complete) {
                    _ if changed => "A changed scenario: found is what counts, nothing was expected.",
                    (true, _) => span class="verdict holds" { "as expected" },
                    (false, false) => span class="verdict unknown" { "not searched to the end" },
                    (false, true) => span class="verdict violated" { "NOT as expected" },
                } }
                table class="changes" {
                    thead { tr { @for title in ["property", "expected", "found", "steps"] { th scope="col" { (title) } } } }
                    tbody { @for property in &outcome.properties { tr {
                        th scope="row" { @if ["violated", "reached"].contains(&property.found) {
                            a href=(format!("/trace/{name}/{}", property.name)) { (property.name) }
                        } @else { (property.name) } }
                        td { (property.expected) }
                        td { span class=(format!("verdict {}", property.found)) { (property.found) } }
                        td { @if let Some(steps) = property.steps { (steps) } }
                    } } }
                }
            }
        }
    }
}
