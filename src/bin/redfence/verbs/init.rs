//! `redfence init`: gives a cluster of empty nodes its first epoch.

use redfence::lock::{InitOutcome, Nodes};
use serde::Serialize;

use crate::args::{Global, InitArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

#[derive(Debug, Serialize)]
struct Initialised {
    schema: &'static str,
    outcome: &'static str,
    floor: u64,
    nodes: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: InitArgs) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let addresses = locks.addresses();
    let named = |nodes: Nodes| {
        let names: Vec<_> = nodes.iter().filter_map(|node| addresses.get(node.index()).cloned()).collect();
        names.join(", ")
    };
    let failure = match locks.init(args.floor).await? {
        InitOutcome::Started => {
            let done = Initialised {
                schema: "redfence.init/1",
                outcome: "started",
                floor: args.floor,
                nodes: addresses,
            };
            match global.json {
                true => output::json(&done)?,
                false => output::line(format_args!(
                    "{} nodes started; tokens begin above {}",
                    done.nodes.len(),
                    done.floor
                )),
            }
            return Ok(Exit::Ok);
        }
        InitOutcome::NotNeeded => Failure::new(Exit::Configuration, "refused: every node is in use already")
            .next("nothing to do; see redfence status RESOURCE"),
        InitOutcome::InUse { empty } => {
            let what = format!("refused: some nodes are in use; empty are {}", named(empty));
            Failure::new(Exit::Configuration, what).next(
                "the empty nodes are new or lost their data, and do not vote; the others go on without them",
            )
        }
        InitOutcome::Unanswered(silent) => {
            let what = format!("refused: no answer from {}; nothing was changed", named(silent));
            Failure::new(Exit::NoQuorum, what).next("start these nodes: all must answer")
        }
        InitOutcome::Partial(silent) => {
            let what = format!("half done: no answer from {}", named(silent));
            Failure::new(Exit::NoQuorum, what)
                .next("empty the nodes that did answer (nothing was locked yet) and run init again")
        }
    };
    Err(failure)
}
