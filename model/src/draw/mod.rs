//! A trace as a space-time diagram: one lane for everybody, time downwards.
//!
//! What a client believes is drawn over the keys it rests on, node by node: a dashed frame for the belief, a bar for the key. A
//! frame without a bar is a belief without truth; two clients' frames side by side at one moment are the violation.

mod layout;
mod parts;

use maud::{Markup, PreEscaped, html};

use crate::trace::Trace;
use layout::Layout;

/// How a trace is drawn.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// The moment to highlight: after this many steps.
    pub at: Option<usize>,
    /// Where a click on a step leads.
    pub link: Option<&'a dyn Fn(usize) -> String>,
    /// Without the sentences: for two pictures side by side.
    pub bare: bool,
}

/// The diagram as a document of its own.
pub fn svg(trace: &Trace, options: Options<'_>) -> String {
    let picture = picture(trace, options).into_string();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{picture}\n")
}

/// The diagram as a part of a page.
pub fn picture(trace: &Trace, options: Options<'_>) -> Markup {
    let layout = Layout::new(trace, options.bare);
    let (width, height) = (layout.width, layout.height);
    let role = if options.link.is_some() { "group" } else { "img" };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" class="rf" role=(role) aria-labelledby="rf-title rf-desc"
            viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) {
            title id="rf-title" { (trace.scenario) ": " (trace.shows) }
            desc id="rf-desc" { (described(trace)) }
            style { (PreEscaped(include_str!("style.css"))) }
            rect class="paper" width=(width) height=(height) {}
            @if !options.bare { (parts::heading(trace)) }
            (parts::names(trace, &layout))
            (parts::rows(trace, &layout, options))
            (parts::ticks(trace, &layout))
            (parts::harm(&layout))
            (parts::lanes(trace, &layout))
            (parts::keys(&layout))
            (parts::beliefs(&layout))
            (parts::messages(trace, &layout))
            (parts::marks(trace, &layout))
        }
    }
}

/// The picture in words, for those who cannot see it.
fn described(trace: &Trace) -> String {
    let lanes: Vec<&str> = trace.lanes.iter().map(|lane| lane.id.as_str()).collect();
    let end = match trace.first_violation() {
        None => "nothing is violated".into(),
        Some(step) => format!("violated from step {step}: {}", trace.moment(step).violated.join(", ")),
    };
    format!("Space-time diagram of {} steps with lanes {}; {end}.", trace.steps.len(), lanes.join(", "))
}
