//! `redfence agents fill`, `work` and `check`.

use redfence::agents::{AgentsError, Documents, Hit, Line, Pace, Shelf, Tally, Worker};
use redfence::memory::BackendId;
use serde::Serialize;

use super::args::{CheckArgs, FillArgs, WorkArgs};
use super::stopping::Stopping;
use super::{corpus, story};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

#[derive(Debug, Serialize)]
struct Filled {
    schema: &'static str,
    documents: usize,
    fresh: bool,
}

pub(super) async fn fill(global: &Global, args: FillArgs) -> Result<Exit, Failure> {
    let corpus = corpus(&args.corpus)?;
    let fresh = Shelf::open(&args.memory).await?.fill(&corpus).await?;
    let filled = Filled { schema: "redfence.agents.fill/1", documents: corpus.documents().len(), fresh };
    match global.json {
        true => output::json(&filled)?,
        false if fresh => output::line(format_args!("{} tasks added", filled.documents)),
        false => output::line(format_args!("{} tasks were there already", filled.documents)),
    }
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct Worked {
    schema: &'static str,
    name: String,
    #[serde(flatten)]
    tally: Tally,
}

pub(super) async fn work(global: &Global, args: WorkArgs) -> Result<Exit, Failure> {
    let stopping = Stopping::listen();
    let line = match args.supervised {
        true => Line::to_supervisor(stopping.token.clone()),
        false => Line::alone(),
    };
    let locks = nodes::lock_with(global, |builder| {
        let builder = builder.ttl(args.pace.ttl);
        match args.backend_id {
            Some(id) => builder.backend_id(BackendId::new(id)),
            None => builder,
        }
    })?;
    let pace = Pace::new(args.pace.think.least, args.pace.think.most, args.pace.ttl);
    let shelf = stopping.or(open_existing(&args.memory)).await?;
    let worker = Worker::new(args.name.as_str(), shelf, locks, pace, line);
    let worked = worker.run(&stopping.token).await;
    match worked {
        Ok(_) if args.supervised => return Ok(Exit::Ok),
        // Who ended the line knows.
        Err(AgentsError::Stopped) if args.supervised => return Ok(Exit::Interrupted),
        _ => {}
    }
    let tally = worked.map_err(|error| stopping.failure(error))?;
    let worked = Worked { schema: "redfence.agents.work/1", name: args.name, tally };
    match global.json {
        true => output::json(&worked)?,
        false => output::line(format_args!(
            "{}: {} documents, {} conflicts, {} retries, {} refused",
            worked.name, tally.documents, tally.conflicts, tally.retries, tally.fenced_rejections
        )),
    }
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct Checked {
    schema: &'static str,
    documents: Documents,
    open_tasks: u64,
    search: Vec<Hit>,
}

pub(super) async fn check(global: &Global, args: CheckArgs) -> Result<Exit, Failure> {
    let found = open_existing(&args.memory).await?.check().await?;
    let exact = found.documents.are_exact() && found.open_tasks == 0;
    match global.json {
        true => output::json(&Checked {
            schema: "redfence.agents.check/1",
            documents: found.documents,
            open_tasks: found.open_tasks,
            search: found.search,
        })?,
        false => {
            output::line(story::documents(&found.documents));
            output::line(format_args!("open tasks: {}", found.open_tasks));
            output::line(story::search(&found.search));
        }
    }
    Ok(if exact { Exit::Ok } else { Exit::Inexact })
}

/// A file that is not there is not to be made by looking for it.
async fn open_existing(path: &std::path::Path) -> Result<Shelf, AgentsError> {
    if !path.exists() {
        return Err(AgentsError::NotFilled);
    }
    let shelf = Shelf::open(path).await?;
    shelf.require_filled().await?;
    Ok(shelf)
}
