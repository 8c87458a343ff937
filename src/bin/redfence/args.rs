//! The arguments, as clap reads them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use redfence::lock::Mode;
use redfence::proto::message::MAX_NUMBER;
use redfence::proto::{Owner, Ttl};
use redfence::simulate::{Fault, Strategy};

use crate::agents::args::AgentsArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// A distributed lock on a quorum of independent Redis nodes, with fencing tokens.
///
/// Without a command: the tour. It needs no server and takes less than a minute.
#[derive(Debug, Parser)]
#[command(name = "redfence", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER_HELP: &str = "\
Exit codes:
    0  done
    1  a protected counter ended off its value
    2  usage
   69  no quorum
   70  a mistake in redfence
   75  not acquired: held by somebody else, or time ran out
   78  configuration
   79  lock lost, or not held
  130  stopped by Ctrl-C
  143  stopped by SIGTERM

Data go to stdout, talk to stderr. RUST_LOG=redfence=info tells every event.";

/// What all commands understand.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The nodes: URLs separated by commas, as in redis://10.0.0.1:6379,redis://10.0.0.2:6379,..; the same list at every
    /// client. `embedded:5` where it makes sense: nodes inside this process.
    #[arg(long, global = true, env = "REDFENCE_NODES", hide_env_values = true, value_name = "URL,URL,..")]
    pub(crate) nodes: Option<String>,
    /// etcd or ZooKeeper instead of Redis nodes: etcd://HOST:PORT,HOST:PORT,.. or zookeeper://HOST:PORT,..[/chroot]. For acquire,
    /// extend, release, status, agents and simulate --strategy etcd or zookeeper, in a build with the cargo feature of that name.
    #[arg(long, global = true, env = "REDFENCE_BACKEND", hide_env_values = true, value_name = "URL")]
    pub(crate) backend: Option<String>,
    /// Comes before every resource name to make its key.
    #[arg(long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Allow one node, or an even number of nodes.
    #[arg(long, global = true)]
    pub(crate) allow_weak_quorum: bool,
    /// Redlock with fencing tokens (the default), or as the Redis page has it, without.
    #[arg(long, global = true, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Print one JSON document to stdout.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Global {
    pub(crate) fn mode(&self) -> ModeArg {
        self.mode.unwrap_or(ModeArg::Fenced)
    }

    /// Refuses a mode where it would be ignored.
    pub(crate) fn without_mode(&self, instead: &str) -> Result<(), Failure> {
        match self.mode {
            None => Ok(()),
            Some(_) => Err(Failure::new(Exit::Usage, "--mode means nothing here").next(instead)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ModeArg {
    Fenced,
    Classic,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Fenced => Self::Fenced,
            ModeArg::Classic => Self::Classic,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lost updates without a lock, none with it, and what a pause does to either: what runs without a command.
    Tour(TourArgs),
    /// Workers add to a shared counter: with no lock, with a lock, with a fault.
    Simulate(SimulateArgs),
    /// Take a lock and leave it at the nodes until its TTL ends; prints a JSON handle.
    Acquire(AcquireArgs),
    /// Let a lock live longer, by its owner value.
    Extend(ExtendArgs),
    /// Give a lock back, by its owner value.
    Release(ReleaseArgs),
    /// Who holds a lock, as every node sees it.
    Status(StatusArgs),
    /// Start a cluster of empty nodes; refused if any node is in use. Usually not needed: fresh nodes start by themselves.
    Init(InitArgs),
    /// Bring nodes that lost their data back, above every number ever used.
    ///
    /// One run at a time, over all machines. For mutual exclusion wait first until the longest TTL in use has passed since
    /// the node came back: the keys it held are gone too.
    Readmit,
    /// A Redis node inside this process, on a port, for trying things.
    Node(NodeArgs),
    /// Agents, each a process, fill one vector store; one is killed and one frozen while it holds a lock, and nothing is lost.
    Agents(AgentsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TourArgs {
    /// Workers at the same time.
    #[arg(long, default_value_t = 3)]
    pub(crate) workers: u32,
    /// Increments of each worker.
    #[arg(long, default_value_t = 1000)]
    pub(crate) ops: u64,
    /// Feeds the random choices [default: a random one, which is told].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

impl Default for TourArgs {
    fn default() -> Self {
        Self { workers: 3, ops: 1000, seed: None }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    /// What to lock: the name of the Redis key.
    #[arg(value_parser = resource)]
    pub(crate) resource: String,
    /// Life of the lock: a whole number of milliseconds.
    #[arg(long, value_parser = ttl, default_value = "10s")]
    pub(crate) ttl: Duration,
    /// Wait for at most this long if somebody else holds it [default: for ever].
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) nowait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExtendArgs {
    /// What is locked.
    #[arg(value_parser = resource)]
    pub(crate) resource: String,
    /// The owner value, from `redfence acquire`.
    #[arg(long)]
    pub(crate) owner: Owner,
    /// Life of the lock from now: a whole number of milliseconds. Only lengthens.
    #[arg(long, value_parser = ttl, default_value = "10s")]
    pub(crate) ttl: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// What is locked.
    #[arg(value_parser = resource)]
    pub(crate) resource: String,
    /// The owner value, from `redfence acquire`.
    #[arg(long)]
    pub(crate) owner: Owner,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// What may be locked.
    #[arg(value_parser = resource)]
    pub(crate) resource: String,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Tokens begin above this number: 0 for a new cluster; for one that replaces an older one, at least the largest token
    /// ever used.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_NUMBER))]
    pub(crate) floor: u64,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Where to listen; 0 takes a free port.
    #[arg(long)]
    pub(crate) port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) bind: String,
    /// Keep the data in this file as well, in the format of Redis' append-only file; every change is on the disk before it is
    /// answered.
    #[arg(long, value_name = "FILE")]
    pub(crate) aof: Option<PathBuf>,
    /// Answer only those who give this password. Better in the environment than on the command line, which others can see.
    #[arg(long, env = "REDFENCE_NODE_PASSWORD", hide_env_values = true)]
    pub(crate) password: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// How the counter is protected.
    #[arg(long, value_enum, default_value_t = StrategyArg(Strategy::Fenced))]
    pub(crate) strategy: StrategyArg,
    /// Workers at the same time.
    #[arg(long, default_value_t = 3)]
    pub(crate) workers: u32,
    /// Increments of each worker.
    #[arg(long, default_value_t = 1000)]
    pub(crate) ops: u64,
    /// How often to do it all.
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u32,
    /// Where the counter is: in-process, sqlite:PATH, redis:URL as in redis:redis://127.0.0.1:6379, or postgres:URL as in
    /// postgres:postgresql://127.0.0.1/db. In a database of its own, best.
    #[arg(long, default_value = "in-process", value_name = "MEMORY")]
    pub(crate) memory: String,
    /// What goes wrong on purpose: one or more, with commas between them. A lock that is not fenced is expected to lose under
    /// some of them, and the exit code says so all the same.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT,FAULT,..")]
    pub(crate) fault: Vec<FaultArg>,
    /// Life of the lock's keys [default: 10s; 300ms with a fault, 2s with clock-jump].
    #[arg(long, value_parser = ttl)]
    pub(crate) ttl: Option<Duration>,
    /// Feeds the random choices [default: a random one, which is told].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Instead: the same updates locked, optimistic and adaptive, for 1 to 32 workers on 1 to 64 keys, with work of 0, 1 and 10 ms; a
    /// table of what each costs.
    #[arg(long, conflicts_with_all = ["strategy", "workers", "ops", "runs", "fault"])]
    pub(crate) sweep: bool,
    /// How long the sweep measures each combination.
    #[arg(long, default_value = "500ms", value_parser = ttl, requires = "sweep")]
    pub(crate) each: Duration,
    /// Where the sweep is drawn, as SVG.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub(crate) svg: Option<PathBuf>,
}

/// A [`Strategy`] for clap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategyArg(pub(crate) Strategy);

impl ValueEnum for StrategyArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: &[StrategyArg] = &[
            StrategyArg(Strategy::None),
            StrategyArg(Strategy::Classic),
            StrategyArg(Strategy::Fenced),
            StrategyArg(Strategy::Optimistic),
            StrategyArg(Strategy::Adaptive),
            StrategyArg(Strategy::Etcd),
            StrategyArg(Strategy::ZooKeeper),
        ];
        ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// A [`Fault`] for clap, or all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultArg {
    One(Fault),
    Mix,
}

impl ValueEnum for FaultArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [FaultArg; Fault::ALL.len() + 1] = {
            let mut all = [FaultArg::Mix; Fault::ALL.len() + 1];
            let mut place = 0;
            while place < Fault::ALL.len() {
                all[place] = FaultArg::One(Fault::ALL[place]);
                place += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let (name, help) = match self {
            Self::One(fault) => (fault.name(), fault.help()),
            Self::Mix => ("mix", "all of these that the nodes can have"),
        };
        Some(clap::builder::PossibleValue::new(name).help(help))
    }
}

/// A resource name that can be one, whatever the nodes are.
fn resource(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the resource name is empty".to_owned());
    }
    Ok(text.to_owned())
}

/// A TTL that a node can keep.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    match Ttl::from_duration(span) {
        Some(_) => Ok(span),
        None => Err("it must be a whole number of milliseconds, from 1ms to about 24 days".to_owned()),
    }
}

/// A duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = humantime::parse_duration(text);
    parsed.map_err(|error| format!("{error}; a duration is a number with a unit: 10s, 250ms, 1m 30s"))
}
