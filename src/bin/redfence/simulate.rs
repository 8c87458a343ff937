//! `redfence simulate`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use redfence::simulate::{EmbeddedCluster, Experiment, ExperimentError, Fault, Summary, Watch};

use crate::args::{FaultArg, Global, SimulateArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output, signals};

pub(crate) async fn run(global: &Global, args: SimulateArgs) -> Result<Exit, Failure> {
    global.without_mode("choose with --strategy")?;
    if args.sweep {
        return crate::sweep::run(global, args).await;
    }
    let strategy = args.strategy.0;
    let (nodes, cluster) = match nodes::members(global, strategy)? {
        Some(members) => (members, None),
        None => nodes::servers(global).await?,
    };
    let mut experiment = Experiment::new(strategy, nodes);
    experiment.workers = args.workers;
    experiment.ops = args.ops;
    experiment.runs = args.runs;
    experiment.memory = args.memory.parse()?;
    experiment.faults = faults(&args.fault, cluster.is_some());
    // Neither etcd nor ZooKeeper grants less than some seconds.
    let least =
        if cluster.is_some() || strategy.is_on_nodes() { Duration::ZERO } else { Duration::from_secs(4) };
    let sensible = experiment.faults.iter().map(|fault| fault.sensible_ttl().max(least)).max();
    experiment.ttl = args.ttl.or(sensible).unwrap_or(experiment.ttl);
    experiment.prefix = global.prefix.clone();
    experiment.allow_weak_quorum = global.allow_weak_quorum;
    experiment.seed = args.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
    eprintln!(
        "{}: {} workers, {} increments each, {} run(s), seed {}",
        experiment.strategy, experiment.workers, experiment.ops, experiment.runs, experiment.seed
    );
    for fault in &experiment.faults {
        eprintln!("  {fault}: {}", fault.help());
    }
    let summary = watched(&experiment, cluster.as_ref()).await?;
    drop(cluster);
    match global.json {
        true => output::json(&summary)?,
        false => print(&summary),
    }
    Ok(if summary.kept_its_word() { Exit::Ok } else { Exit::Inexact })
}

/// Each once; in a mix all that these nodes can have.
fn faults(given: &[FaultArg], ours: bool) -> Vec<Fault> {
    let mut faults = BTreeSet::new();
    for given in given {
        match given {
            FaultArg::One(fault) => drop(faults.insert(*fault)),
            FaultArg::Mix => {
                faults.extend(Fault::ALL.into_iter().filter(|fault| ours || !fault.needs_embedded_nodes()));
            }
        }
    }
    faults.into_iter().collect()
}

/// Runs an experiment with its progress on the terminal, and stops it at Ctrl-C, so that no key is left.
pub(crate) async fn watched(
    experiment: &Experiment,
    cluster: Option<&EmbeddedCluster>,
) -> Result<Summary, Failure> {
    let total = experiment.expected().saturating_mul(u64::from(experiment.runs));
    let template = "  {bar:30} {pos}/{len} increments, {per_sec}, {elapsed}";
    let watch = Watch::default();
    let running = async {
        match cluster {
            None => experiment.run(&watch).await,
            Some(cluster) => experiment.run_on(cluster, &watch).await,
        }
    };
    watch_over(total, template, &watch, running).await
}

/// Shows how far something is, and stops it at Ctrl-C.
pub(crate) async fn watch_over<T>(
    total: u64,
    template: &str,
    watch: &Watch,
    running: impl Future<Output = Result<T, ExperimentError>>,
) -> Result<T, Failure> {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
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
    let mut table =
        output::table(&["run", "final", "lost", "time", "acquisitions", "retries", "conflicts", "refused"]);
    for (number, run) in summary.runs.iter().enumerate() {
        table.add_row([
            (number + 1).to_string(),
            run.last.to_string(),
            run.lost.to_string(),
            format!("{} ms", run.wall_ms),
            run.acquisitions.to_string(),
            run.retries.to_string(),
            run.conflicts.to_string(),
            run.fenced_rejections.to_string(),
        ]);
    }
    output::line(table);
    if summary.fault.is_some() {
        output::line(format_args!("faults injected: {}", injected(summary)));
    }
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

/// How often each fault struck, over all runs.
fn injected(summary: &Summary) -> String {
    let mut counts = BTreeMap::new();
    for (fault, times) in summary.runs.iter().flat_map(|run| &run.faults_injected) {
        *counts.entry(fault).or_insert(0) += times;
    }
    let each: Vec<_> = counts.into_iter().map(|(fault, times)| format!("{fault} {times}x")).collect();
    match each.is_empty() {
        true => "none: there is too little to do; take more --ops".to_owned(),
        false => each.join(", "),
    }
}
