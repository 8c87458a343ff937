//! `redfence extend`: lets a lock live longer, by its owner value.

use redfence::lock::clock::{Clock, SystemClock};
use redfence::lock::report::NodeAnswer;
use redfence::proto::validity::valid_until;
use redfence::proto::{Drift, Ttl};
use serde::Serialize;

use super::{NodeLine, lines};
use crate::args::{ExtendArgs, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

#[derive(Debug, Serialize)]
struct Extended {
    schema: &'static str,
    resource: String,
    outcome: &'static str,
    validity_ms: u64,
    nodes: Vec<NodeLine>,
}

pub(crate) async fn run(global: &Global, args: ExtendArgs) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let clock = SystemClock::default();
    let start = clock.now();
    let report = locks.extend_owner(&args.resource, args.owner, args.ttl).await?;
    let quorum = locks.quorum();
    // The library has found the TTL good.
    let until = Ttl::from_duration(args.ttl).map_or(start, |ttl| valid_until(start, ttl, Drift::default()));
    let validity = until.since(clock.now());
    let extended = report.count(|answer| *answer == NodeAnswer::Extended);
    let not_mine = report.count(|answer| *answer == NodeAnswer::NotMine);
    let (outcome, exit) = if extended >= quorum.needed() && !validity.is_zero() {
        ("extended", Exit::Ok)
    } else if not_mine > quorum.spare() {
        ("not held", Exit::Lost)
    } else {
        ("unknown", Exit::NoQuorum)
    };
    let validity_ms = if exit == Exit::Ok { validity.as_millis() as u64 } else { 0 };
    let nodes = lines(&report);
    match (global.json, exit) {
        (true, _) => output::json(&Extended {
            schema: "redfence.extend/1",
            resource: args.resource.clone(),
            outcome,
            validity_ms,
            nodes,
        })?,
        (false, Exit::Ok) => output::line(format_args!("extended, valid for {validity_ms} ms")),
        (false, _) => {}
    }
    let resource = &args.resource;
    match exit {
        Exit::Lost => {
            let what = format!("{resource:?} is not held by this owner (any more): not extended [{report}]");
            Err(Failure::new(exit, what).next("stop what the lock protects, and acquire again"))
        }
        Exit::NoQuorum => {
            let what = format!("too few nodes have extended {resource:?} in time [{report}]");
            Err(Failure::new(exit, what).next("what was valid before still is; try again before it ends"))
        }
        exit => Ok(exit),
    }
}
