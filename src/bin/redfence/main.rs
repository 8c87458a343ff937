//! The `redfence` command line: thin. It reads arguments, calls the library, prints, and ends with an [`exit::Exit`].
//!
//! Data go to stdout, talk and progress to stderr. What a lock is, the library knows; no decision about locks is made here.

mod agents;
mod args;
mod exit;
mod failure;
mod nodes;
mod output;
mod signals;
mod simulate;
mod sweep;
mod tour;
mod verbs;

use clap::Parser;

use args::{Cli, Command, TourArgs};
use exit::Exit;
use failure::Failure;

fn main() -> Exit {
    let cli = Cli::parse();
    // In an experiment a lost lease is what one came to see, and with a fault what the nodes have to say of it as well.
    start_logs(match &cli.command {
        Some(Command::Simulate(args)) if !args.fault.is_empty() => "off",
        None | Some(Command::Tour(_) | Command::Simulate(_) | Command::Agents(_)) => "error",
        Some(_) => "warn",
    });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::new(Exit::Internal, error)),
    };
    let done = runtime.block_on(dispatch(cli));
    // What still runs in the background has had its time.
    runtime.shutdown_background();
    done.unwrap_or_else(|failure| fail(&failure))
}

async fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    match command {
        None => tour::run(&global, TourArgs::default()).await,
        Some(Command::Tour(args)) => tour::run(&global, args).await,
        Some(Command::Simulate(args)) => simulate::run(&global, args).await,
        Some(Command::Acquire(args)) => verbs::acquire::run(&global, args).await,
        Some(Command::Extend(args)) => verbs::extend::run(&global, args).await,
        Some(Command::Release(args)) => verbs::release::run(&global, args).await,
        Some(Command::Status(args)) => verbs::status::run(&global, args).await,
        Some(Command::Init(args)) => verbs::init::run(&global, args).await,
        Some(Command::Readmit) => verbs::readmit::run(&global).await,
        Some(Command::Node(args)) => verbs::node::run(&global, args).await,
        Some(Command::Agents(args)) => agents::run(&global, args).await,
    }
}

fn fail(failure: &Failure) -> Exit {
    failure.print();
    failure.exit
}

/// Logs go to stderr: what `RUST_LOG` says, or else from this level on.
fn start_logs(level: &str) {
    use std::io::{IsTerminal, stderr};
    use tracing_subscriber::EnvFilter;
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let wanted = if wanted.is_empty() { level } else { wanted.as_str() };
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|error| {
        eprintln!("{}={wanted}: {error}; logged is from level {level} on", EnvFilter::DEFAULT_ENV);
        EnvFilter::new(level)
    });
    let terminal = stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(terminal).with_writer(stderr).init();
}
