//! Traces from files: the model's, a simulation's, a live run's.

use std::path::Path;

use redfence_model::trace::{SCHEMA, Trace};
use serde_json::Value;

/// Reads a trace, or says what is wrong with the file.
pub(crate) fn read(path: &Path) -> Result<Trace, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| parse(&text)).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Trace, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match document.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(format!("its schema is `{other}`; only `{SCHEMA}` can be read (docs/traces.md)"));
        }
        None => {
            return Err(format!(
                "not a trace: it has no `schema`, which would be `{SCHEMA}` (docs/traces.md)"
            ));
        }
    }
    let trace: Trace = serde_json::from_str(text).map_err(|error| format!("not a trace: {error}"))?;
    check(&trace).map(|()| trace)
}

/// What the types do not say: steps are counted from 1, and messages leave and arrive at steps that exist.
fn check(trace: &Trace) -> Result<(), String> {
    for (index, step) in trace.steps.iter().enumerate() {
        if step.number != index + 1 {
            return Err(format!("step {} calls itself {}", index + 1, step.number));
        }
    }
    let last = trace.steps.len();
    for message in &trace.messages {
        let steps = [Some(message.sent), message.arrives, message.lost];
        if let Some(step) = steps.into_iter().flatten().find(|step| *step > last) {
            return Err(format!(
                "a message from {} to {} names step {step}, but there are {last} steps",
                message.from, message.to
            ));
        }
    }
    Ok(())
}
