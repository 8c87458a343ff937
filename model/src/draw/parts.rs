//! The pieces of the diagram.

use maud::{Markup, html};

use super::Options;
use super::layout::{Layout, colour, newly};
use crate::trace::{LaneKind, Mark, MarkKind, Message, Trace, Unit};

/// Title and legend.
pub(super) fn heading(trace: &Trace) -> Markup {
    html! {
        text class="title" x="12" y="22" { (trace.scenario) ": " (trace.shows) }
        (legend(trace))
    }
}

/// Names of the lanes.
pub(super) fn names(trace: &Trace, layout: &Layout) -> Markup {
    let (clients, nodes) = layout.size();
    let (left, right) = layout.across();
    let (base, _) = layout.row(0);
    html! {
        line class="rule" x1=(12) x2=(right) y1=(base - 6) y2=(base - 6) {}
        @for lane in &trace.lanes {
            @let above = if lane.kind == LaneKind::Node { 22 } else { 12 };
            g class=(layout.colour(&lane.id)) {
                text class="lane" x=(layout.x(&lane.id).unwrap_or(left)) y=(base - above) {
                    @if lane.kind == LaneKind::Client { "client " }
                    (lane.id)
                }
            }
        }
        @for node in 0..nodes {
            @for client in 0..clients {
                g class=(colour(client)) {
                    text class="sub" x=(layout.key_x(node, client)) y=(base - 9) { (trace.lanes[client].id) }
                }
            }
        }
    }
}

fn legend(trace: &Trace) -> Markup {
    let left = match trace.clock.unit {
        Unit::None => "no clocks: a key may end at any moment",
        Unit::Tick => "+n: ticks left at the end",
        Unit::Microsecond => "+n: milliseconds left at the end",
    };
    html! {
        g class="a" {
            rect class="bar" x="12" y="34" width="8" height="14" {}
            rect class="bar belief line" x="110" y="34" width="16" height="14" {}
        }
        text class="faint" x="26" y="45" { "key alive" }
        text class="faint" x="132" y="45" { "the holder's belief, over the keys it rests on" }
        path class="fault" d="M 386 47 l 7 -13 l 7 13 z" {}
        text class="faint" x="405" y="45" { "fault" }
        rect class="harm" x="446" y="34" width="16" height="14" {}
        text class="faint" x="468" y="45" { "two believe at once" }
        text class="faint" x="590" y="45" { (left) }
    }
}

/// Sentences, one row for each step, with its number.
pub(super) fn rows(trace: &Trace, layout: &Layout, options: Options<'_>) -> Markup {
    html! {
        @if options.at == Some(0) { (row(layout, 0, "at")) }
        (linked(options, 0, html! { text class="faint" x=(if layout.bare { 8 } else { 40 }) y=(layout.y(0) + 4) { "start" } }))
        @for step in &trace.steps {
            @if options.at == Some(step.number) {
                (row(layout, step.number, "at"))
            } @else if step.number % 2 == 0 {
                (row(layout, step.number, "row"))
            }
            (linked(options, step.number, sentence(trace, layout, step.number)))
        }
    }
}

fn row(layout: &Layout, step: usize, class: &str) -> Markup {
    let (top, bottom) = layout.row(step);
    html! { rect class=(class) x="0" width=(layout.width) y=(top) height=(bottom - top) {} }
}

fn linked(options: Options<'_>, step: usize, inner: Markup) -> Markup {
    match options.link {
        None => inner,
        Some(link) => html! { a href=(link(step)) { (inner) } },
    }
}

fn sentence(trace: &Trace, layout: &Layout, number: usize) -> Markup {
    let step = &trace.steps[number - 1];
    let lines = &layout.texts[number - 1];
    let harms: Vec<&String> = newly(trace.moment(number - 1), &step.after).collect();
    if layout.bare {
        return html! { text class="faint" x="30" y=(layout.y(number) + 4) text-anchor="end" { (number) } };
    }
    let count = i32::try_from(lines.len() + harms.len()).unwrap_or(1);
    let first = layout.y(number) - (count - 1) * 15 / 2 + 4;
    let y = |line: usize| first + i32::try_from(line).unwrap_or(0) * 15;
    html! {
        text class="faint" x="30" y=(first) text-anchor="end" { (number) }
        @for (index, line) in lines.iter().enumerate() {
            text class=[step.fault.then_some("fault-text")] x="40" y=(y(index)) { (line) }
        }
        @for (index, harm) in harms.iter().enumerate() {
            text class="harm-text" x="40" y=(y(lines.len() + index)) { "\u{2717} violates " (harm) }
        }
    }
}

/// A dashed line for each moment at which time passes.
pub(super) fn ticks(trace: &Trace, layout: &Layout) -> Markup {
    let (left, right) = layout.across();
    let passes = |number: usize| trace.moment(number).at > trace.moment(number - 1).at;
    html! {
        @for number in (1..=trace.steps.len()).filter(|number| passes(*number)) {
            line class="tick" x1=(left) x2=(right) y1=(layout.y(number)) y2=(layout.y(number)) {}
            text class="faint" x=(right + 6) y=(layout.y(number) + 4) { (time(trace, trace.moment(number).at)) }
        }
    }
}

fn time(trace: &Trace, at: u64) -> String {
    match trace.clock.unit {
        Unit::Microsecond => format!("{} ms", shown(trace, at)),
        Unit::None | Unit::Tick => format!("t = {at}"),
    }
}

/// Microseconds are too fine for a picture.
pub(super) fn shown(trace: &Trace, span: u64) -> u64 {
    if trace.clock.unit == Unit::Microsecond { span / 1_000 } else { span }
}

/// A band where more than one believes.
pub(super) fn harm(layout: &Layout) -> Markup {
    let (left, right) = layout.across();
    html! {
        @for span in &layout.overlaps {
            @let (top, bottom) = layout.ends(*span);
            rect class="harm" x=(left) width=(right - left) y=(top) height=(bottom - top) {}
        }
    }
}

/// Life lines.
pub(super) fn lanes(trace: &Trace, layout: &Layout) -> Markup {
    html! {
        @for x in trace.lanes.iter().filter_map(|lane| layout.x(&lane.id)) {
            line class="rule" x1=(x) x2=(x) y1=(layout.row(0).0) y2=(layout.bottom()) {}
        }
    }
}

/// Keys that are alive.
pub(super) fn keys(layout: &Layout) -> Markup {
    html! {
        @for key in &layout.keys {
            @let (top, bottom) = layout.ends(key.span);
            @let x = layout.key_x(key.node, key.client);
            g class=(colour(key.client)) {
                rect class="bar" x=(x - 4) y=(top) width="8" height=(bottom - top) {}
                @if let Some(left) = key.left { text class="sub" x=(x) y=(bottom + 12) { "+" (left) } }
            }
        }
    }
}

/// What clients believe: on their own lanes, and over the keys.
pub(super) fn beliefs(layout: &Layout) -> Markup {
    html! {
        @for belief in &layout.beliefs {
            @let (top, bottom) = layout.ends(belief.span);
            @let own = layout.client_x(belief.client);
            g class=(colour(belief.client)) {
                rect class="bar" x=(own - 8) y=(top) width="16" height=(bottom - top) rx="3" {}
                @if let Some(left) = belief.left { text class="sub" x=(own) y=(bottom + 12) { "+" (left) } }
                @for x in belief.nodes.iter().map(|node| layout.key_x(*node, belief.client)) {
                    rect class="bar belief line" x=(x - 8) y=(top) width="16" height=(bottom - top) rx="3" {}
                }
            }
        }
    }
}

/// Arrows.
pub(super) fn messages(trace: &Trace, layout: &Layout) -> Markup {
    html! { @for message in &trace.messages { (arrow(layout, message)) } }
}

fn arrow(layout: &Layout, message: &Message) -> Markup {
    let (Some(from), Some(to)) = (layout.x(&message.from), layout.x(&message.to)) else {
        return html! {};
    };
    let owner = [&message.from, &message.to].map(|lane| layout.colour(lane)).concat();
    let top = layout.y(message.sent);
    let way = if to > from { 1 } else { -1 };
    let late = if message.late { "line late" } else { "line" };
    let end = message.arrives.or(message.lost).map(|step| layout.y(step));
    html! {
        g class=(owner) {
            title { (message.from) " to " (message.to) ": " (message.label) }
            @match (message.arrives, end) {
                (Some(_), Some(y)) => {
                    line class=(late) x1=(from) y1=(top) x2=(to - way * 2) y2=(y) {}
                    (head(from, top, to, y))
                    @if to_resource(layout, message) {
                        text class="faint" x=(to - 14) y=(y - 4) text-anchor="end" { (message.label) }
                    }
                }
                (None, Some(y)) => {
                    @let (x, y) = ((from + to) / 2, (top + y) / 2);
                    line class="line open" x1=(from) y1=(top) x2=(x) y2=(y) {}
                    path class="line" d=(format!("M {} {} l 8 8 m 0 -8 l -8 8", x - 4, y - 4)) {}
                }
                _ => {
                    line class="line open" x1=(from) y1=(top) x2=(from + way * 34) y2=(top + 14) {}
                }
            }
        }
    }
}

/// What a holder says to the resource is written at its arrow; the rest is in the sentences.
fn to_resource(layout: &Layout, message: &Message) -> bool {
    layout.colour(&message.to).is_empty() && !layout.is_node(&message.to)
}

/// The head of an arrow, turned along it.
fn head(from: i32, top: i32, to: i32, bottom: i32) -> Markup {
    let (dx, dy) = (f64::from(to - from), f64::from(bottom - top));
    let angle = dy.atan2(dx).to_degrees().round();
    html! {
        path class="head" d="M 0 0 l -9 -4 l 0 8 z" transform=(format!("translate({to} {bottom}) rotate({angle})")) {}
    }
}

/// Faults, wins, refusals and harm.
pub(super) fn marks(trace: &Trace, layout: &Layout) -> Markup {
    html! {
        @for step in &trace.steps {
            @for mark in &step.marks { (mark_at(layout, mark, layout.y(step.number))) }
        }
    }
}

fn mark_at(layout: &Layout, mark: &Mark, y: i32) -> Markup {
    let (left, right) = layout.across();
    let Some(x) = layout.x(&mark.lane) else {
        return html! {
            line class="harm-line" x1=(left) x2=(right) y1=(y) y2=(y) {}
            (said(left + 6, y - 9, &mark.text, "mark harm-text"))
        };
    };
    html! {
        @match mark.kind {
            MarkKind::Fault => {
                path class="fault" d=(format!("M {} {} l 9 -16 l 9 16 z", x - 9, y + 7)) {}
                (said(x + 12, y, &mark.text, "mark fault-text"))
            }
            MarkKind::Wins => g class=(layout.colour(&mark.lane)) {
                circle class="bar" cx=(x) cy=(y) r="6" {}
                (said(x + 12, y + 15, &mark.text, "mark"))
            },
            MarkKind::Begins => g class=(layout.colour(&mark.lane)) { circle class="bar" cx=(x) cy=(y) r="4" {} },
            MarkKind::Fails | MarkKind::Ends => g class=(layout.colour(&mark.lane)) {
                path class="line" d=(format!("M {} {} h 16", x - 8, y)) {}
                (said(x + 12, y + 15, &mark.text, "mark"))
            },
            MarkKind::KeyEnds => {}
            MarkKind::Refused => {
                circle class="harm-line" cx=(x) cy=(y) r="7" {}
                path class="harm-line" d=(format!("M {} {} l 10 -10", x - 5, y + 5)) {}
                (said(x + 11, y, &mark.text, "mark"))
            }
            MarkKind::Damage => {
                path class="harm-line" d=(format!("M {} {} l 14 14 m 0 -14 l -14 14", x - 7, y - 7)) {}
                (said(x - 8 - width(&mark.text), y + 15, &mark.text, "mark harm-text"))
            }
        }
    }
}

/// Words beside a mark, on a background of their own.
fn said(x: i32, y: i32, text: &str, class: &str) -> Markup {
    html! {
        rect class="pill" x=(x - 2) y=(y - 8) width=(width(text) + 4) height="15" rx="3" {}
        text class=(class) x=(x) y=(y + 4) { (text) }
    }
}

/// About how wide a text is.
fn width(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(0) * 13 / 2
}
