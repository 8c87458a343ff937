//! The entry: every scenario with what is expected of it, repairs beside what they repair, and the debate.

use std::collections::BTreeMap;

use maud::{Markup, html};
use redfence_model::scenario::{self, Expect, Outcome, Scenario, Size, Verdict};
use redfence_model::world::Property;

use super::shell;

/// The columns: what must always hold if the lock is safe.
const COLUMNS: [Property; 5] = Property::SAFETY;

/// Parts of the table: title, and what the names in it begin with.
const PARTS: [(&str, &[&str]); 5] = [
    (
        "Faults of nodes and clients",
        &["s1-", "s2-", "s3-", "s4-", "s5-", "s6-", "s7-", "s8", "s9-", "s10-", "s11-"],
    ),
    ("What the design rests on", &["fact"]),
    ("Tokens and fences", &["f1-", "f2-", "f3-", "f4-", "f5-", "f6-", "v"]),
    ("Not to be had", &["l1-", "l2-", "l3-late", "l4-", "l5-", "l6-"]),
    (
        "Mistakes in an implementation",
        &["s12-", "s13-", "s14-", "s15-", "s16-", "s17-", "s18-", "l3-release", "m-", "h-"],
    ),
];

/// The document that has the debate as a table.
const LIMITATIONS: &str = include_str!("../../../../../../docs/limitations.md");

/// The page.
pub(in super::super) fn page(found: &BTreeMap<&'static str, Outcome>) -> Markup {
    let all = scenario::all();
    shell(
        "Verdicts",
        "/",
        &html! {
            h1 { "What Redlock can and cannot do" }
            p class="lead" {
                "Every row is a world of the model: the state machine that is shipped, with the faults named. Red cells open the "
                "shortest way to the violation, step by step. New here? " a href="/tour" { "Five failures everybody should have seen" } "."
            }
            nav class="parts" aria-label="Parts of this page" {
                a href="#debate" { "The debate" }
                a href="#open" { "Not searched to the end" }
                @for (index, (title, _)) in PARTS.iter().enumerate() { a href=(format!("#part-{index}")) { (title) } }
            }
            @for (index, (title, prefixes)) in PARTS.iter().enumerate() {
                (part(index, title, &rows(&all, prefixes), found))
                @if index == 0 { (debate()) }
            }
            (open())
        },
    )
}

/// Scenarios of a part, each repair after what it repairs.
fn rows<'a>(all: &'a [Scenario], prefixes: &[&str]) -> Vec<(bool, &'a Scenario)> {
    let here: Vec<&Scenario> = all
        .iter()
        .filter(|scenario| prefixes.iter().any(|prefix| scenario.name.starts_with(prefix)))
        .collect();
    let mut rows = Vec::new();
    for scenario in here.iter().filter(|scenario| repairs(scenario.name, all).is_none()) {
        rows.push((false, *scenario));
        let mine = here.iter().filter(|other| repairs(other.name, all) == Some(scenario.name));
        rows.extend(mine.map(|other| (true, *other)));
    }
    rows
}

/// The scenario that this one repairs.
pub(in super::super) fn repairs<'a>(name: &str, all: &'a [Scenario]) -> Option<&'a str> {
    if name == "fact5-fence" {
        return Some("fact4-fence-on-writes");
    }
    let failure = ["-repaired", "-fenced"].iter().find_map(|end| name.strip_suffix(end))?;
    all.iter().map(|scenario| scenario.name).find(|other| *other == failure)
}

fn part(
    index: usize,
    title: &str,
    rows: &[(bool, &Scenario)],
    found: &BTreeMap<&'static str, Outcome>,
) -> Markup {
    html! {
        section {
            h2 id=(format!("part-{index}")) { (title) }
            @if rows.is_empty() {
                p { "Wrong edits of the protocol are only in builds with them: " code { "cargo run --release -p redfence-model --features mutants" } }
            } @else {
                div class="wide" { table class="matrix" {
                    thead { tr {
                        th scope="col" { "scenario" }
                        @for column in COLUMNS { th scope="col" { (column.name()) } }
                        th scope="col" { "other properties" }
                        th scope="col" class="number" { "states" }
                    } }
                    tbody { @for (repair, scenario) in rows { (row(*repair, scenario, found.get(scenario.name))) } }
                } }
            }
        }
    }
}

fn row(repair: bool, scenario: &Scenario, found: Option<&Outcome>) -> Markup {
    let of = |property| scenario.expect.iter().find(|expect| expect.property == property);
    let others = scenario.expect.iter().filter(|expect| !COLUMNS.contains(&expect.property));
    html! {
        tr class=[repair.then_some("repair")] id=(scenario.name) {
            th scope="row" {
                @if repair { span class="mend" { "\u{21b3} " (if scenario.name.ends_with("-fenced") { "fenced" } else { "repaired" }) " " } }
                a href=(format!("/path/{}", scenario.name)) title="step through it by hand" { (scenario.name) }
                @if scenario.size == Size::Full { small { " long" } }
                span class="shows" { (scenario.shows) }
            }
            @for column in COLUMNS {
                td { @match of(column) {
                    Some(expect) => (cell(scenario, expect, found)),
                    None => span class="none" title="not asked" { "\u{b7}" },
                } }
            }
            td { @for expect in others {
                span class="other" { (expect.property.name()) " " (cell(scenario, expect, found)) }
            } }
            td class="number" { @match scenario.states {
                Some(states) => a href=(format!("/run?scenario={}", scenario.name)) { (states) },
                None => a href=(format!("/run?scenario={}", scenario.name)) { "search" },
            } }
        }
    }
}

/// A verdict; a link to the trace if there is one.
fn cell(scenario: &Scenario, expect: &Expect, found: Option<&Outcome>) -> Markup {
    let Expect { property, verdict, steps } = *expect;
    let text = match steps {
        Some(steps) => format!("{} in {steps}", verdict.name()),
        None => verdict.name().to_owned(),
    };
    let seen = found.and_then(|outcome| outcome.properties.iter().find(|seen| seen.expect == *expect));
    let seen = html! { @match seen.map(|seen| seen.is_ok()) {
        Some(true) => span title="found as expected in this session" { " \u{2713}" },
        Some(false) => span title="not found as expected in this session" { " !" },
        None => {}
    } };
    let class = format!("verdict {}", verdict.name());
    html! {
        @if matches!(verdict, Verdict::Violated | Verdict::Reached) {
            a class=(class) href=(format!("/trace/{}/{}", scenario.name, property.name())) { (text) (seen) }
        } @else {
            span class=(class) { (text) (seen) }
        }
    }
}

/// What nobody has seen the end of.
fn open() -> Markup {
    let open: Vec<Scenario> =
        scenario::everything().into_iter().filter(|scenario| scenario.size == Size::Open).collect();
    html! { @if !open.is_empty() {
        section {
            h2 id="open" { "Not searched to the end" }
            p { "These have no verdict: their searches are too long. They can be stepped through, and searched until told to stop." }
            ul { @for scenario in &open {
                li id=(scenario.name) { a href=(format!("/path/{}", scenario.name)) { (scenario.name) } ": " (scenario.shows)
                    " (" a href=(format!("/run?scenario={}", scenario.name)) { "search" } ")" }
            } }
        }
    } }
}

fn debate() -> Markup {
    let all = &scenario::everything();
    html! {
        section {
            h2 id="debate" { "The debate, decided" }
            p { "Kleppmann (\u{201c}How to do distributed locking\u{201d}, 2016) and antirez (\u{201c}Is Redlock safe?\u{201d}, 2016), claim by claim." }
            div class="wide" { table class="debate" {
                thead { tr { @for title in ["claim", "by", "verdict", "scenarios"] { th scope="col" { (title) } } } }
                tbody { @for [claim, by, verdict, scenarios] in claims(LIMITATIONS) {
                    tr {
                        th scope="row" { (claim) }
                        td { (by) }
                        td { (verdict) }
                        td { @for name in scenarios.split('`').skip(1).step_by(2) { (named(name, all)) " " } }
                    }
                } }
            } }
        }
    }
}

fn named(name: &str, all: &[Scenario]) -> Markup {
    let scenario = all.iter().find(|scenario| scenario.name == name);
    let violated = scenario.and_then(|scenario| {
        scenario
            .expect
            .iter()
            .find(|expect| expect.verdict == Verdict::Violated)
            .map(|expect| expect.property)
    });
    html! {
        @match (scenario, violated) {
            (Some(_), Some(property)) => a href=(format!("/trace/{name}/{}", property.name())) { (name) },
            (Some(_), None) => a href=(format!("#{name}")) { (name) },
            (None, _) => span { (name) },
        }
    }
}

/// Rows of the table of claims.
fn claims(document: &str) -> Vec<[&str; 4]> {
    document
        .lines()
        .filter(|line| line.starts_with("| C"))
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            cells.get(1..5).and_then(|cells| cells.try_into().ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_nine_claims() {
        let claims = claims(LIMITATIONS);
        assert_eq!(claims.len(), 9);
        assert!(claims.iter().all(|[claim, ..]| claim.starts_with('C')));
    }

    #[test]
    fn every_scenario_has_its_place_and_only_one() {
        let all = scenario::all();
        let mut shown: Vec<&str> = PARTS
            .iter()
            .flat_map(|(_, prefixes)| rows(&all, prefixes))
            .map(|(_, scenario)| scenario.name)
            .collect();
        let mut names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
        shown.sort_unstable();
        names.sort_unstable();
        assert_eq!(shown, names);
    }
}
