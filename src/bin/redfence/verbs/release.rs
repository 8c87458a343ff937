//! `redfence release`: gives a lock back, by its owner value.

use redfence::lock::report::NodeAnswer;
use serde::Serialize;

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
    let quorum = locks.quorum();
    let released = report.count(|answer| *answer == NodeAnswer::Released);
    let not_mine = report.count(|answer| *answer == NodeAnswer::NotMine);
    let (outcome, exit) = if released >= quorum.needed() {
        ("released", Exit::Ok)
    } else if not_mine > quorum.spare() {
        ("not held", Exit::Lost)
    } else {
        ("unknown", Exit::NoQuorum)
    };
    match (global.json, exit) {
        (true, _) => output::json(&Released {
            schema: "redfence.release/1",
            resource: args.resource.clone(),
            outcome,
            nodes: lines(&report),
        })?,
        (false, Exit::Ok) => output::line("released"),
        (false, _) => {}
    }
    let resource = &args.resource;
    match exit {
        Exit::Lost => {
            let what =
                format!("{resource:?} is not held by this owner (any more): nothing to release [{report}]");
            Err(Failure::new(exit, what).next("see who holds it: redfence status RESOURCE"))
        }
        Exit::NoQuorum => {
            let what = format!("too few nodes answered the release of {resource:?} [{report}]");
            Err(Failure::new(exit, what).next("try again; what is left ends with its TTL"))
        }
        exit => Ok(exit),
    }
}
