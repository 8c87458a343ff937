//! `redfence extend`: lets a lock live longer, by its owner value.

use redfence::lock::clock::{Clock, SystemClock};
use redfence::lock::report::NodeAnswer;
use redfence::proto::validity::valid_until;
use redfence::proto::{Drift, Ttl};
use serde::Serialize;

use super::outcome::Outcome;
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
    // The library has found the TTL good.
    let until = Ttl::from_duration(args.ttl).map_or(start, |ttl| valid_until(start, ttl, Drift::default()));
    let validity = until.since(clock.now());
    let outcome = match Outcome::of(&report, locks.quorum(), &NodeAnswer::Extended) {
        Outcome::Done if validity.is_zero() => Outcome::Unknown,
        outcome => outcome,
    };
    let validity_ms = if outcome == Outcome::Done { validity.as_millis() as u64 } else { 0 };
    match (global.json, outcome) {
        (true, _) => output::json(&Extended {
            schema: "redfence.extend/1",
            resource: args.resource.clone(),
            outcome: outcome.word("extended"),
            validity_ms,
            nodes: lines(&report),
        })?,
        (false, Outcome::Done) => output::line(format_args!("extended, valid for {validity_ms} ms")),
        (false, _) => {}
    }
    let not_held = ("not extended", "stop what the lock protects, and acquire again");
    let unknown =
        ("too few nodes have extended in time", "what was valid before still is; try again before it ends");
    outcome.into_result(&args.resource, &report, not_held, unknown)
}
