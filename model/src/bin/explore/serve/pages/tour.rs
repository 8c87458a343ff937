//! Five failures that everybody who uses Redlock should have seen, and their repairs.

use maud::{Markup, PreEscaped, html};
use redfence_model::scenario;

use super::super::paths::{A_MOMENT, Paths, patiently};
use super::super::story;
use super::shell;

struct Stop {
    title: &'static str,
    scenario: &'static str,
    property: &'static str,
    /// What happens, in three sentences.
    says: &'static str,
    repair: &'static str,
    repaired: &'static str,
}

const STOPS: [Stop; 5] = [
    Stop {
        title: "A pause",
        scenario: "s10-pause-after-check",
        property: "damage",
        says: "A looks at its validity, finds it good, and is paused before its write leaves. Meanwhile its keys end, B gets the lock, and \
               reads the value. A wakes up and writes, B overwrites it: an accepted update is lost, although never two believed at once.",
        repair: "s10-pause-after-check-repaired",
        repaired: "No clock and no check helps here. The resource must refuse the smaller token, on reads and on writes.",
    },
    Stop {
        title: "A clock jump",
        scenario: "s1-clock-jump",
        property: "belief",
        says: "Redis ends keys by its wall clock. The clock of one node jumps forward, and A's key there ends early, while A has every reason \
               to believe in its lock. B gets that node and one other: two majorities, two believers.",
        repair: "s1-clock-jump-fenced",
        repaired: "Nothing at the lock repairs it: slew clocks, never step them. The fence keeps the data safe while exclusion fails.",
    },
    Stop {
        title: "An empty restart",
        scenario: "s3-empty-restart",
        property: "belief",
        says: "A node that had granted A restarts without its data. It has forgotten the key and grants B, who already has another node. Again \
               two majorities, with perfect clocks.",
        repair: "s3-empty-restart-fenced",
        repaired: "An empty node does not vote until somebody who has heard a majority brings it back. Without tokens: keep it silent for the \
                   longest TTL in use.",
    },
    Stop {
        title: "A fence on writes only",
        scenario: "fact4-fence-on-writes",
        property: "damage",
        says: "A reads the value with token 1 and is slow; its keys end, and B reads with token 2. B has not written yet, so the resource has \
               seen no token above 1 and accepts A's write. B writes what it made of the old value, and A's update is lost.",
        repair: "fact5-fence",
        repaired: "A read must raise the largest token seen as well: then A's write comes too late and is refused.",
    },
    Stop {
        title: "The largest of several counters as token",
        scenario: "f3-no-write-back",
        property: "token-order",
        says: "Each node counts its grants, and a client takes the largest number of its quorum as its token. Counters of different nodes are \
               not in step, and the number that A took is known to one node only. B's quorum can come to the same number, or to a smaller one.",
        repair: "fact3-tokens",
        repaired: "Before a token is used, a quorum must have risen to it. Grants that agree have done so already, at no cost.",
    },
];

/// The fifth needs a wrong edit of the protocol, which is not in every build; its picture is.
const COUNTERS: &str = include_str!("../../../../../tests/testdata/f3-no-write-back-token-order.svg");

/// Searches the traces of the tour, so that they are there when somebody comes.
pub(in super::super) fn prepare(paths: &Paths) {
    let paths = paths.clone();
    std::thread::spawn(move || {
        for stop in &STOPS {
            // What cannot be had here is said where it is asked for.
            let _ = patiently(|| story::Story::shortest(&paths, stop.scenario, stop.property, A_MOMENT));
        }
    });
}

/// The page.
pub(in super::super) fn page() -> Markup {
    shell(
        "Tour",
        "/tour",
        &html! {
            h1 { "Five failures every user of Redlock should have seen" }
            @for (index, stop) in STOPS.iter().enumerate() {
                section class="stop" id=(format!("stop-{}", index + 1)) {
                    h2 { (index + 1) ". " (stop.title) }
                    p { (stop.says) }
                    (drawing(stop))
                    p { strong { "Repair: " } (stop.repaired) }
                    (onward(stop))
                }
            }
        },
    )
}

fn drawing(stop: &Stop) -> Markup {
    let known = scenario::find(stop.scenario).is_ok();
    let alt = format!("Space-time diagram: {}. {}", stop.title, stop.says);
    html! {
        div class="picture" {
            @if known {
                img src=(format!("/trace/{}/{}/svg", stop.scenario, stop.property)) alt=(alt);
            } @else {
                (PreEscaped(COUNTERS.trim_start_matches("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")))
            }
        }
    }
}

fn onward(stop: &Stop) -> Markup {
    let Stop { scenario, property, repair, .. } = stop;
    html! {
        @if scenario::find(scenario).is_ok() {
            p class="onward" {
                a class="button" href=(format!("/trace/{scenario}/{property}?at=0")) { "Step through it" }
                a class="button" href=(format!("/compare?a={scenario}/{property}&b={repair}")) { "Side by side with its repair" }
                a class="button" href=(format!("/#{repair}")) { "The repair's verdicts" }
            }
        } @else {
            p class="onward" { a class="button" href=(format!("/#{repair}")) { "The repair's verdicts" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_has_a_trace_and_a_repair() {
        for Stop { scenario, property, repair, .. } in &STOPS {
            let failure = scenario::find(scenario).expect("the failure");
            let asked =
                failure.expect.iter().find(|expect| expect.property.name() == *property).expect("asked");
            assert_eq!(asked.verdict, scenario::Verdict::Violated, "{scenario}");
            assert!(scenario::find(repair).is_ok(), "{repair}");
        }
    }
}
