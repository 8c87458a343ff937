//! What all runs of this process have shown, as a table for people and as JSON for tools.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) fault: String,
    pub(crate) strategy: String,
    pub(crate) expected: u64,
    /// What the counter showed in the end.
    #[serde(rename = "final")]
    pub(crate) last: u64,
    pub(crate) lost_updates: i64,
    pub(crate) acquisitions: u64,
    pub(crate) lock_losses: u64,
    pub(crate) fence_rejections: u64,
    pub(crate) unanswered: u64,
    pub(crate) refused: u64,
    pub(crate) two_believers: u64,
    pub(crate) tokens_out_of_order: u64,
    pub(crate) injected: BTreeMap<String, u64>,
    pub(crate) seconds: f64,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

pub(crate) fn add(row: Row) {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
}

/// To stderr; and as JSON to the file named by `REDFENCE_CHAOS_JSON`.
pub(crate) fn print() {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| (row.strategy.clone(), row.fault.clone()));
    eprintln!("\n{}", text(&rows));
    if let Some(path) = std::env::var_os("REDFENCE_CHAOS_JSON") {
        let document = json!({ "schema": "redfence.chaos/1", "runs": rows });
        std::fs::write(&path, format!("{document:#}\n")).expect("the file for the table can be written");
    }
}

fn text(rows: &[Row]) -> String {
    let header = [
        "fault",
        "strategy",
        "final",
        "lost updates",
        "lock losses",
        "fence rejections",
        "unanswered",
        "two believers",
        "injected",
        "seconds",
    ];
    let line = |row: &Row| {
        let each = row.injected.iter().map(|(what, times)| format!("{times} {what}"));
        let injected = match row.injected.len() {
            ..=3 => each.collect::<Vec<_>>().join(", "),
            kinds => format!("{kinds} kinds"),
        };
        [
            row.fault.replace('_', " "),
            row.strategy.clone(),
            format!("{} of {}", row.last, row.expected),
            row.lost_updates.to_string(),
            row.lock_losses.to_string(),
            row.fence_rejections.to_string(),
            row.unanswered.to_string(),
            row.two_believers.to_string(),
            injected,
            format!("{:.1}", row.seconds),
        ]
    };
    let lines: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(rows.iter().map(line)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..header.len()).map(width).collect();
    let mut written = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        written.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
        if number == 0 {
            let rule = widths.iter().map(|&width| "-".repeat(width + 2)).collect::<Vec<_>>();
            written.push(format!("|{}|", rule.join("|")));
        }
    }
    written.join("\n")
}
