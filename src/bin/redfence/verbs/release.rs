//! `redfence release`: gives a lock back, by its owner value.

use redfence::lock::report::NodeAnswer;
use serde::Serialize;

use super::outcome::Outcome;
use super::{NodeLine, lines};
use crate::args::{Global, ReleaseArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

#[derive(Debug, Serialize)]
struct Released {
    schema: &'static str,
    resource: String,
    outcome: &'static str,
    nodes: Vec<NodeLine>,
}

pub(crate) async fn run(global: &Global, args: ReleaseArgs) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let report = locks.release_owner(&args.resource, args.owner).await?;
    let outcome = Outcome::of(&report, locks.quorum(), &NodeAnswer::Released);
    match (global.json, outcome) {
        (true, _) => output::json(&Released {
            schema: "redfence.release/1",
            resource: args.resource.clone(),
            outcome: outcome.word("released"),
            nodes: lines(&report),
        })?,
        (false, Outcome::Done) => output::line("released"),
        (false, _) => {}
    }
    let not_held = ("nothing to release", "see who holds it: redfence status RESOURCE");
    let unknown = ("too few nodes answered the release of", "try again; what is left ends with its TTL");
    outcome.into_result(&args.resource, &report, not_held, unknown)
}
