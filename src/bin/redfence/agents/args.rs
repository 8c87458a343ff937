//! The arguments of `redfence agents` and its parts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::{duration, ttl};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    /// Agents at the same time, each a process.
    #[arg(long, default_value_t = 3)]
    pub(crate) agents: u32,
    #[command(flatten)]
    pub(crate) corpus: CorpusArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// Keep the store in this file, as sqlite:PATH; it must be a new one [default: a temporary file].
    #[arg(long, value_parser = sqlite, value_name = "sqlite:PATH")]
    pub(crate) memory: Option<PathBuf>,
    /// Kill no agent.
    #[arg(long)]
    pub(crate) no_kill: bool,
    /// Freeze no agent.
    #[arg(long)]
    pub(crate) no_freeze: bool,
}

/// What `redfence agents` does in one go, one by one: for agents in several containers or terminals.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Put the tasks into a store; again is harmless.
    Fill(FillArgs),
    /// Be one agent: work until no task is left.
    Work(WorkArgs),
    /// Count the documents in a store, and search it.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CorpusArgs {
    /// Documents to add [default: 300].
    #[arg(long, conflicts_with = "vectors")]
    pub(crate) documents: Option<u32>,
    /// Add these documents, with these embeddings: one JSON object {"key", "text", "embedding"} on each line.
    #[arg(long, value_name = "FILE")]
    pub(crate) vectors: Option<PathBuf>,
    /// What to search for in the end [default: something about fencing; with --vectors, what is near to the first].
    #[arg(long, conflicts_with = "vectors", value_name = "TEXT")]
    pub(crate) query: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PaceArgs {
    /// How long an agent thinks about a document; 500ms..1s is the pace of a model.
    #[arg(long, value_parser = think, default_value = "50ms..150ms", value_name = "FROM..TO")]
    pub(crate) think: Think,
    /// Life of a lock: who is killed or frozen keeps the others from its document for so long.
    #[arg(long, value_parser = ttl, default_value = "2s")]
    pub(crate) ttl: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    pub(crate) corpus: CorpusArgs,
    /// The store, as sqlite:PATH.
    #[arg(long, value_parser = sqlite, value_name = "sqlite:PATH")]
    pub(crate) memory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// The agent's name.
    #[arg(long, value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// The store, as sqlite:PATH.
    #[arg(long, value_parser = sqlite, value_name = "sqlite:PATH")]
    pub(crate) memory: PathBuf,
    /// Tell a supervisor over stdout, and ask it for leave to write over stdin.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
    /// Whose tokens the store compares, where it is not said by the nodes.
    #[arg(long, hide = true)]
    pub(crate) backend_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The store, as sqlite:PATH.
    #[arg(long, value_parser = sqlite, value_name = "sqlite:PATH")]
    pub(crate) memory: PathBuf,
}

/// The shortest and the longest time to think.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Think {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

/// The longest time to think that makes a sensible wait.
const LONGEST: Duration = Duration::from_secs(3600);

fn think(text: &str) -> Result<Think, String> {
    let (least, most) = match text.split_once("..") {
        Some((least, most)) => (duration(least)?, duration(most)?),
        None => (duration(text)?, duration(text)?),
    };
    if least > most {
        return Err(format!("{least:?} is more than {most:?}; write the shorter time first"));
    }
    match most <= LONGEST {
        true => Ok(Think { least, most }),
        false => Err(format!("{most:?} is too long; the most is {LONGEST:?}")),
    }
}

fn sqlite(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(path.into()),
        _ => Err("the agents' store is an SQLite file: write sqlite:PATH".to_owned()),
    }
}

fn name(text: &str) -> Result<String, String> {
    let fits = (1..=100).contains(&text.len()) && !text.contains(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 100 bytes, none of them a control sign".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_think_is_one_or_a_range() {
        let millis = |least, most| {
            let span = Duration::from_millis;
            Ok(Think { least: span(least), most: span(most) })
        };
        assert_eq!(think("20ms"), millis(20, 20));
        assert_eq!(think("500ms..1s"), millis(500, 1_000));
        assert_eq!(think("0s"), millis(0, 0));
        for wrong in ["", "1s..", "..1s", "1s..500ms", "5", "2h"] {
            assert!(think(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_store_is_an_sqlite_file() {
        assert_eq!(sqlite("sqlite:/tmp/a:b"), Ok("/tmp/a:b".into()));
        for wrong in ["", "sqlite:", "/tmp/a", "redis:redis://x"] {
            assert!(sqlite(wrong).is_err(), "{wrong:?}");
        }
    }
}
