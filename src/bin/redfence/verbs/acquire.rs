//! `redfence acquire`: takes a lock and leaves it at the nodes, for whoever knows the owner value.

use std::time::Duration;

use redfence::lock::{Acquire, Lease};
use serde::Serialize;

use crate::args::{AcquireArgs, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output, signals};

/// What to clear up at the end gets so long: releases after Ctrl-C, grants still on their way.
const CLEAR_UP: Duration = Duration::from_secs(1);

/// All that a script needs to use, extend and release the lock.
#[derive(Debug, Serialize)]
struct Handle {
    schema: &'static str,
    resource: String,
    owner: String,
    /// `null` in classic mode.
    token: Option<u64>,
    validity_ms: u64,
    nodes: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: AcquireArgs) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let mut acquire = locks.on(&args.resource).ttl(args.ttl);
    if let Some(wait) = args.wait {
        acquire = acquire.wait(wait);
    }
    let acquiring = begin(acquire, args.nowait);
    let ended = tokio::select! {
        ended = acquiring => ended,
        exit = signals::stop() => Err(Failure::new(exit, "stopped while waiting; nothing is held")),
    };
    let lease = match ended {
        Ok(lease) => lease,
        Err(failure) => {
            locks.drain(CLEAR_UP).await;
            return Err(failure);
        }
    };
    let handle = Handle {
        schema: "redfence.acquire/1",
        resource: lease.resource().to_owned(),
        owner: lease.owner().to_string(),
        token: lease.token().map(|token| token.0),
        validity_ms: u64::try_from(lease.remaining().as_millis()).unwrap_or(u64::MAX),
        nodes: locks.addresses(),
    };
    // A handle for scripts, with or without --json.
    output::json(&handle)?;
    locks.drain(CLEAR_UP).await;
    Ok(Exit::Ok)
}

async fn begin(acquire: Acquire, nowait: bool) -> Result<Lease, Failure> {
    let guard = match nowait {
        true => acquire.try_acquire().await?,
        false => acquire.acquire().await?,
    };
    Ok(guard.keep())
}
