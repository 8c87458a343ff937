//! The whole run: nodes, a store, agents as processes, two strikes, a count.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redfence::DistributedLock;
use redfence::agents::{AgentReport, AgentsError, Crew, News, Pace, Report, Shelf};
use redfence::memory::{BackendId, Operation};
use redfence::simulate::EmbeddedCluster;
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
    memory: PathBuf,
    place: &'a Place,
}

/// Where the locks are.
struct Place {
    locks: DistributedLock,
    /// For the agents, if they are not on another back end, which their environment names.
    urls: Option<String>,
    /// They end with the run.
    embedded: Option<EmbeddedCluster>,
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
    let place = Place::of(global, &args).await?;
    stopping.or(trial(&place.locks)).await?;
    let (memory, _folder) = file(args.memory.as_deref())?;
    let shelf = stopping.or(async { Shelf::open(&memory).await }).await?;
    if !stopping.or(shelf.fill(&corpus)).await? {
        return Err(AgentsError::AlreadyThere.into());
    }
    eprintln!(
        "{} agents add {} documents to {}; locks: {}",
        crew.agents,
        crew.documents,
        memory.display(),
        place.name(),
    );
    let program = std::env::current_exe().map_err(|error| Failure::new(Exit::Internal, error))?;
    let post = Post { program, global, args: &args, memory, place: &place };
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

impl Place {
    async fn of(global: &Global, args: &AgentsArgs) -> Result<Self, Failure> {
        let ttl = args.pace.ttl;
        if global.backend.is_some() {
            let locks = nodes::lock_with(global, |builder| builder.ttl(ttl))?;
            return Ok(Self { locks, urls: None, embedded: None });
        }
        let (urls, embedded) = nodes::servers(global).await?;
        let mut builder = DistributedLock::builder()
            .nodes(urls.clone())
            .prefix(global.prefix.clone())
            .allow_weak_quorum(global.allow_weak_quorum)
            .ttl(ttl);
        if embedded.is_some() {
            // A new cluster with every run: its tokens are no other's.
            builder = builder.backend_id(BackendId::new(format!("embedded-{:032x}", Operation::draw().0)));
        }
        Ok(Self { locks: builder.build()?, urls: Some(urls.join(",")), embedded })
    }

    fn name(&self) -> String {
        let number = self.locks.addresses().len();
        match (&self.embedded, &self.urls) {
            (Some(_), _) => format!("{number} embedded nodes"),
            (None, Some(_)) => format!("{number} nodes"),
            (None, None) => self.locks.backend_name().to_owned(),
        }
    }
}

/// One acquisition: starts fresh nodes, and finds what is wrong with others.
async fn trial(locks: &DistributedLock) -> Result<(), AgentsError> {
    let guard = locks.acquire(TRIAL, Duration::from_secs(10)).await?;
    guard.release().await;
    locks.drain(Duration::from_secs(2)).await;
    Ok(())
}

/// The user's file, or one in a folder that ends with the second value.
fn file(memory: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
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
            .arg(format!("--backend-id={}", self.place.locks.backend_id()));
        // Not as arguments: others could see the passwords in them.
        match (&self.place.urls, &self.global.backend) {
            (Some(urls), _) => command.env("REDFENCE_NODES", urls).env_remove("REDFENCE_BACKEND"),
            (None, Some(backend)) => command.env("REDFENCE_BACKEND", backend).env_remove("REDFENCE_NODES"),
            (None, None) => &mut command,
        };
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
