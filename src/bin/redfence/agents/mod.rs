//! `redfence agents`: several agents on one vector store, all at once or part by part.

pub(crate) mod args;
mod parts;
mod stopping;
mod story;
mod supervise;

use redfence::agents::{AgentsError, Corpus, DEFAULT_QUERY};

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use args::{AgentsArgs, CorpusArgs, Part};

pub(crate) async fn run(global: &Global, args: AgentsArgs) -> Result<Exit, Failure> {
    global.without_mode("the agents' store goes by fencing tokens; leave --mode out")?;
    match args.part {
        None => supervise::run(global, args).await,
        Some(Part::Fill(args)) => parts::fill(global, args).await,
        Some(Part::Work(args)) => parts::work(global, args).await,
        Some(Part::Check(args)) => parts::check(global, args).await,
    }
}

/// The documents that the user wants.
fn corpus(args: &CorpusArgs) -> Result<Corpus, Failure> {
    let Some(file) = &args.vectors else {
        let query = args.query.as_deref().unwrap_or(DEFAULT_QUERY);
        return Ok(Corpus::made(args.documents.unwrap_or(300), query)?);
    };
    let lines = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Usage, format!("--vectors {}: cannot be read: {error}", file.display()))
    })?;
    Ok(Corpus::given(&lines)?)
}

impl From<AgentsError> for Failure {
    fn from(error: AgentsError) -> Self {
        let (exit, next) = match &error {
            AgentsError::Config(config) => return config.clone().into(),
            AgentsError::Acquire(acquire) => return acquire.clone().into(),
            AgentsError::OutOfRange { .. } => (Exit::Usage, None),
            AgentsError::TooFewToFreeze => (Exit::Usage, Some("--agents 2, or --no-freeze")),
            AgentsError::Vectors { .. } => (
                Exit::Usage,
                Some(r#"write lines like {"key": "a", "text": "what it says", "embedding": [0.1, 0.9]}"#),
            ),
            AgentsError::AlreadyThere => (
                Exit::Configuration,
                Some("--memory sqlite:OTHER-FILE; what is in this one: redfence agents check"),
            ),
            AgentsError::NotFilled => {
                (Exit::Configuration, Some("redfence agents fill --memory sqlite:PATH, with the same file"))
            }
            AgentsError::Memory(_) => {
                (Exit::Configuration, Some("look at the file that --memory names, and at its folder"))
            }
            AgentsError::Stopped => (Exit::Interrupted, None),
            AgentsError::Died { status, .. } => (died(status.code()), None),
            _ => (Exit::Internal, None),
        };
        let failure = Self::new(exit, error);
        match next {
            Some(step) => failure.next(step),
            None => failure,
        }
    }
}

/// An agent's own exit code tells more than that it failed.
fn died(code: Option<i32>) -> Exit {
    let known = [Exit::Usage, Exit::NoQuorum, Exit::NotAcquired, Exit::Configuration];
    known.into_iter().find(|exit| code == Some(*exit as i32)).unwrap_or(Exit::Internal)
}
