//! `redfence readmit`: brings nodes that lost their data back.

use redfence::lock::Readmitted;
use serde::Serialize;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    outcome: &'static str,
    admitted: Vec<String>,
    epoch: Option<u64>,
    floor: Option<u64>,
}

pub(crate) async fn run(global: &Global) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let addresses = locks.addresses();
    let named = |nodes: redfence::lock::Nodes| -> Vec<String> {
        nodes.iter().filter_map(|node| addresses.get(node.index()).cloned()).collect()
    };
    let schema = "redfence.readmit/1";
    let report = match locks.readmit().await {
        Readmitted::NotNeeded => {
            Report { schema, outcome: "not needed", admitted: Vec::new(), epoch: None, floor: None }
        }
        Readmitted::Done { admitted, epoch, floor } => Report {
            schema,
            outcome: "done",
            admitted: named(admitted),
            epoch: Some(epoch),
            floor: Some(floor),
        },
        Readmitted::TooFew { intact } => {
            let intact = match named(intact).as_slice() {
                [] => "none".to_owned(),
                some => some.join(", "),
            };
            let what =
                format!("refused: too few nodes still have their numbers: {intact}; nothing was changed");
            return Err(Failure::new(Exit::NoQuorum, what).next(
                "start the nodes that are down; if their data is gone, empty all and run redfence init with a floor above every token ever used",
            ));
        }
        Readmitted::Stopped { at } => {
            let what = format!("stopped, which harms no token: no agreement from {}", named(at).join(", "));
            return Err(Failure::new(Exit::NoQuorum, what)
                .next("make sure that no other readmit runs and that these nodes answer, and run it again"));
        }
    };
    if global.json {
        output::json(&report)?;
        return Ok(Exit::Ok);
    }
    match (report.epoch, report.admitted.as_slice()) {
        (None, _) => output::line(format_args!("nothing to do: no node that answered is empty")),
        (Some(epoch), []) => output::line(format_args!("no node was empty; all are in epoch {epoch} now")),
        (Some(epoch), nodes) => output::line(format_args!(
            "{} back in epoch {epoch}; its numbers begin above {}",
            nodes.join(", "),
            report.floor.unwrap_or(0)
        )),
    }
    Ok(Exit::Ok)
}
