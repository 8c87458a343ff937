//! `redfence simulate`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redfence::simulate::{Experiment, Summary, Watch};

use crate::args::{Global, SimulateArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output, signals};

/// With a fault, the TTL is what everybody waits for: short. Long enough for a slow machine not to add faults of its own.
pub(crate) const FAULT_TTL: Duration = Duration::from_millis(300);

pub(crate) async fn run(global: &Global, args: SimulateArgs) -> Result<Exit, Failure> {
    global.without_mode("choose with --strategy")?;
    let (nodes, cluster) = nodes::servers(global).await?;
    let mut experiment = Experiment::new(args.strategy.0, nodes);
    experiment.workers = args.workers;
    experiment.ops = args.ops;
    experiment.runs = args.runs;
    experiment.memory = args.memory.parse()?;
    experiment.fault = args.fault.map(Into::into);
    experiment.ttl = args.ttl.unwrap_or(if args.fault.is_some() { FAULT_TTL } else { experiment.ttl });
    experiment.prefix = global.prefix.clone();
    experiment.allow_weak_quorum = global.allow_weak_quorum;
    experiment.seed = args.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
    eprintln!(
        "{}: {} workers, {} increments each, {} run(s), seed {}",
        experiment.strategy, experiment.workers, experiment.ops, experiment.runs, experiment.seed
    );
    let summary = watched(&experiment).await?;
    drop(cluster);
    match global.json {
        true => output::json(&summary)?,
        false => print(&summary),
    }
    Ok(if summary.kept_its_word() { Exit::Ok } else { Exit::Inexact })
}

/// Runs an experiment with its progress on the terminal, and stops it at Ctrl-C, so that no key is left.
pub(crate) async fn watched(experiment: &Experiment) -> Result<Summary, Failure> {
    let total = experiment.expected().saturating_mul(u64::from(experiment.runs));
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} increments, {per_sec}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let watch = Watch::default();
    let running = experiment.run(&watch);
    tokio::pin!(running);
    let stop = signals::stop();
    tokio::pin!(stop);
    let mut stopped = None;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            exit = &mut stop, if stopped.is_none() => {
                watch.stop();
                stopped = Some(exit);
            }
            _ = tick.tick() => bar.set_position(watch.done()),
        }
    };
    bar.finish_and_clear();
    ended.map_err(|error| {
        let mut failure = Failure::from(error);
        failure.exit = stopped.unwrap_or(failure.exit);
        failure
    })
}

fn print(summary: &Summary) {
    let mut table = output::table(&["run", "final", "lost", "time", "acquisitions", "retries", "refused"]);
    for (number, run) in summary.runs.iter().enumerate() {
        table.add_row([
            (number + 1).to_string(),
            run.last.to_string(),
            run.lost.to_string(),
            format!("{} ms", run.wall_ms),
            run.acquisitions.to_string(),
            run.retries.to_string(),
            run.fenced_rejections.to_string(),
        ]);
    }
    output::line(table);
    output::line(format_args!(
        "{}: expected {}, mean final {}, mean lost {} ({} %), {} increments/s, lock in {} us (p50), {} us (p99)",
        summary.strategy,
        summary.expected,
        summary.mean_final,
        summary.mean_lost,
        summary.mean_lost_pct,
        summary.ops_per_s,
        summary.acquire_us.p50,
        summary.acquire_us.p99
    ));
}
