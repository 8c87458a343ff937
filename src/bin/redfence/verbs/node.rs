//! `redfence node`: the embedded node as a server, for trying things.

use redfence::node::{EmbeddedNode, NodeOptions};
use serde::Serialize;

use crate::args::{Global, NodeArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{output, signals};

#[derive(Debug, Serialize)]
struct Listening {
    schema: &'static str,
    url: String,
    port: u16,
}

pub(crate) async fn run(global: &Global, args: NodeArgs) -> Result<Exit, Failure> {
    let mut options = NodeOptions::new();
    if let Some(password) = args.password {
        options = options.password(password);
    }
    if let Some(file) = &args.aof {
        options = options.aof(file);
    }
    let node = EmbeddedNode::new(&options).map_err(|error| {
        let file = args.aof.as_deref().unwrap_or_else(|| std::path::Path::new("")).display().to_string();
        let failure = Failure::new(Exit::Configuration, error);
        failure.next(format!("look at the log {file:?}, or give another file with --aof"))
    })?;
    let address = (args.bind.as_str(), args.port);
    let handle = node.listen(address).await.map_err(|error| {
        let what = format!("cannot listen on {}:{}: {error}", args.bind, args.port);
        Failure::new(Exit::Configuration, what).next("choose another --port; 0 takes a free one")
    })?;
    let listening = Listening { schema: "redfence.node/1", url: handle.url(), port: handle.address().port() };
    match global.json {
        true => output::json(&listening)?,
        false => output::line(&listening.url),
    }
    if args.aof.is_none() {
        eprintln!("in memory only: every lock and every number is gone at the end; --aof FILE keeps them");
    }
    tokio::select! {
        _ = signals::stop() => {}
        () = handle.stopped() => {
            let failed = "the node has stopped: it can no longer write its log";
            return Err(Failure::new(Exit::Internal, failed).next("see the log lines above"));
        }
    }
    handle.shutdown().await;
    Ok(Exit::Ok)
}
