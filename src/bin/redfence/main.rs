//! The `redfence` command line: thin. It reads arguments, calls the library, prints, and ends with an [`exit::Exit`].
//!
//! Data go to stdout, talk and progress to stderr. What a lock is, the library knows; no decision about locks is made here.

mod args;
mod exit;
mod failure;
mod nodes;
mod output;
mod signals;
mod simulate;
mod tour;
mod verbs;

use clap::Parser;

use args::{Cli, Command, TourArgs};
use exit::Exit;
use failure::Failure;

fn main() -> Exit {
    let cli = Cli::parse();
    start_logs();
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
        Some(Command::Node(args)) => verbs::node::run(&global, args).await,
    }
}

fn fail(failure: &Failure) -> Exit {
    failure.print();
    failure.exit
}

/// Logs go to stderr: warnings, or what `RUST_LOG` says.
fn start_logs() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
