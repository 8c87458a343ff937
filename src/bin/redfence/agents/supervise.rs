//! The whole run: nodes, a store, agents as processes, two strikes, a count.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redfence::DistributedLock;
use redfence::agents::{AgentReport, AgentsError, Crew, News, Pace, Report, Shelf};
use redfence::memory::{BackendId, Operation};
use tokio::process::Command;
use tokio::time::Instant;

use super::args::AgentsArgs;
use super::stopping::Stopping;
use super::{corpus, story};
use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

/// Taken once before any agent starts: nodes that cannot serve are told by one process and not by three.
const TRIAL: &str = "redfence-agents-trial";

/// What an agent's process needs to know.
struct Post<'a> {
    program: PathBuf,
    global: &'a Global,
    args: &'a AgentsArgs,
    urls: String,
    memory: PathBuf,
    backend: BackendId,
}

pub(super) async fn run(global: &Global, args: AgentsArgs) -> Result<Exit, Failure> {
    let stopping = Stopping::listen();
    let corpus = corpus(&args.corpus)?;
    let pace = Pace::new(args.pace.think.least, args.pace.think.most, args.pace.ttl);
    let crew = Crew {
        agents: args.agents,
        documents: corpus.documents().len() as u64,
        kill: !args.no_kill,
        freeze: !args.no_freeze,
        ttl: args.pace.ttl,
        pace,
    };
    crew.check()?;
    let (urls, cluster) = nodes::servers(global).await?;
    // Embedded nodes begin at 0 with every run: their tokens are no one else's.
    let backend = match cluster {
        Some(_) => BackendId::new(format!("embedded-{:032x}", Operation::draw().0)),
        None => BackendId::new("redlock"),
    };
    let locks = DistributedLock::builder()
        .nodes(urls.clone())
        .prefix(global.prefix.clone())
        .allow_weak_quorum(global.allow_weak_quorum)
        .ttl(args.pace.ttl)
        .build()?;
    stopping.or(trial(&locks)).await?;
    let (memory, _folder) = place(args.memory.as_deref())?;
    let shelf = stopping.or(async { Shelf::open(&memory).await }).await?;
    if !stopping.or(shelf.fill(&corpus)).await? {
        return Err(AgentsError::AlreadyThere.into());
    }
    let kind = if cluster.is_some() { "embedded " } else { "" };
    eprintln!(
        "{} agents add {} documents to {}; locks on {} {kind}nodes",
        crew.agents,
        crew.documents,
        memory.display(),
        locks.addresses().len(),
    );
    let program = std::env::current_exe().map_err(|error| Failure::new(Exit::Internal, error))?;
    let post = Post { program, global, args: &args, urls: urls.join(","), memory, backend };
    let begun = Instant::now();
    let (agents, happened) = watched(&crew, &post, &stopping).await?;
    let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = Report::new(agents, stopping.or(shelf.check()).await?, wall_ms);
    match global.json {
        true => output::json(&report)?,
        false => story::print(&report, &happened),
    }
    Ok(if report.documents.are_exact() { Exit::Ok } else { Exit::Inexact })
}

/// One acquisition: starts fresh nodes, and finds what is wrong with others.
async fn trial(locks: &DistributedLock) -> Result<(), AgentsError> {
    let guard = locks.acquire(TRIAL, Duration::from_secs(10)).await?;
    guard.release().await;
    locks.drain(Duration::from_secs(2)).await;
    Ok(())
}

/// The user's file, or one in a folder that ends with the second value.
fn place(memory: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
    if let Some(file) = memory {
        return Ok((file.to_owned(), None));
    }
    let folder = tempfile::Builder::new().prefix("redfence-agents-").tempdir().map_err(|error| {
        Failure::new(Exit::Configuration, error).next("give a file of your own: --memory sqlite:PATH")
    })?;
    Ok((folder.path().join("memory.sqlite"), Some(folder)))
}

/// Runs the crew with its progress on the terminal; answers what the agents told and what happened.
async fn watched(
    crew: &Crew,
    post: &Post<'_>,
    stopping: &Stopping,
) -> Result<(Vec<AgentReport>, Vec<String>), Failure> {
    let bar = ProgressBar::with_draw_target(Some(crew.documents), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} documents, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut happened = Vec::new();
    let news = |news: News| {
        if let News::Written(documents) = news {
            bar.set_position(documents);
        }
        if let Some(sentence) = story::sentence(&news) {
            bar.println(format!("  {sentence}"));
            happened.push(sentence);
        }
    };
    let agents = crew.run(|name| post.command(name), &stopping.token, news).await;
    bar.finish_and_clear();
    let agents = agents.map_err(|error| stopping.failure(error))?;
    Ok((agents, happened))
}

impl Post<'_> {
    /// An agent's process: this program again.
    fn command(&self, name: &str) -> Command {
        let pace = &self.args.pace;
        let mut command = Command::new(&self.program);
        command
            .args(["agents", "work", "--supervised", "--name", name, "--memory"])
            .arg(sqlite(&self.memory))
            .arg(format!("--think={}us..{}us", pace.think.least.as_micros(), pace.think.most.as_micros()))
            .arg(format!("--ttl={}ms", pace.ttl.as_millis()))
            .arg(format!("--prefix={}", self.global.prefix))
            .arg(format!("--backend-id={}", self.backend))
            // Not as an argument: others could see the passwords in it.
            .env("REDFENCE_NODES", &self.urls);
        if self.global.allow_weak_quorum {
            command.arg("--allow-weak-quorum");
        }
        command
    }
}

/// Any path, also one that is not UTF-8.
fn sqlite(path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from("sqlite:");
    text.push(path);
    text
}
