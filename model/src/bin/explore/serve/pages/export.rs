//! A trace to take away.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, PreEscaped, html};
use redfence_model::draw::{Options, picture, svg};

use super::super::oops::Oops;
use super::super::story::{Export, Story};

/// The file.
pub(in super::super) fn answer(story: &Story, export: Export) -> Result<Response, Oops> {
    let (kind, end, text) = match export {
        Export::Svg => ("image/svg+xml", "svg", svg(&story.trace, Options::default())),
        Export::Html => ("text/html; charset=utf-8", "html", alone(story)),
        Export::Json => {
            let text = serde_json::to_string_pretty(&story.trace)
                .map_err(|error| Oops::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
            ("application/json", "json", text)
        }
    };
    let what = story.property().map_or("steps".into(), |property| property.name());
    let name = format!("inline; filename=\"{}-{what}.{end}\"", story.scenario.name);
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], text).into_response())
}

/// One file that needs nothing else.
fn alone(story: &Story) -> String {
    let trace = &story.trace;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (trace.scenario) ": " (trace.shows) }
                style { (PreEscaped(include_str!("../style.css"))) }
            }
            body { main {
                h1 class="small" { (trace.scenario) ": " (trace.shows) }
                dl { @for assumption in &trace.assumptions { dt { (assumption.name) } dd { (assumption.value) } } }
                div class="picture" { (picture(trace, Options::default())) }
                (super::story::table(trace, None, None))
            } }
        }
    }
    .into_string()
}
