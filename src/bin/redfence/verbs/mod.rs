//! The commands that work on one lock, for scripts.

pub(crate) mod acquire;
pub(crate) mod extend;
pub(crate) mod init;
pub(crate) mod node;
mod outcome;
pub(crate) mod readmit;
pub(crate) mod release;
pub(crate) mod status;

use redfence::lock::report::Report;
use serde::Serialize;

/// One node, and what it said.
#[derive(Debug, Serialize)]
struct NodeLine {
    node: String,
    answer: String,
}

fn lines(report: &Report) -> Vec<NodeLine> {
    let line = |node: &redfence::lock::report::NodeReport| NodeLine {
        node: node.address.clone(),
        answer: node.answer.to_string(),
    };
    report.0.iter().map(line).collect()
}
