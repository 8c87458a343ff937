//! The tour: what a newcomer sees first.

use redfence::simulate::{Experiment, Fault, Strategy, Summary};
use serde::Serialize;

use crate::args::{Global, TourArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::simulate::watched;
use crate::{nodes, output};

/// One stop of the tour.
struct Stop {
    title: &'static str,
    strategy: Strategy,
    fault: Option<Fault>,
}

const STOPS: [Stop; 5] = [
    Stop { title: "no lock", strategy: Strategy::None, fault: None },
    Stop { title: "classic Redlock", strategy: Strategy::Classic, fault: None },
    Stop { title: "fenced Redlock", strategy: Strategy::Fenced, fault: None },
    Stop { title: "classic Redlock, and a pause", strategy: Strategy::Classic, fault: Some(Fault::Pause) },
    Stop { title: "fenced Redlock, and a pause", strategy: Strategy::Fenced, fault: Some(Fault::Pause) },
];

#[derive(Debug, Serialize)]
struct Tour {
    schema: &'static str,
    seed: u64,
    stops: Vec<Visited>,
}

#[derive(Debug, Serialize)]
struct Visited {
    title: &'static str,
    fault: Option<&'static str>,
    summary: Summary,
}

pub(crate) async fn run(global: &Global, args: TourArgs) -> Result<Exit, Failure> {
    global.without_mode("the tour shows both; see redfence simulate --strategy")?;
    let (nodes, cluster) = nodes::servers(global).await?;
    let seed = args.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
    let expected = u64::from(args.workers).saturating_mul(args.ops);
    let (workers, ops, kind) = (args.workers, args.ops, if cluster.is_some() { "embedded " } else { "" });
    eprintln!(
        "{workers} workers share one counter. Each reads it, adds 1 and writes it back, {ops} times: {expected} in the end,"
    );
    eprintln!("if no update is lost. The lock is kept by {} {kind}Redis nodes. (seed {seed})\n", nodes.len());
    let mut tour = Tour { schema: "redfence.tour/1", seed, stops: Vec::new() };
    for (number, stop) in STOPS.iter().enumerate() {
        let mut experiment = Experiment::new(stop.strategy, nodes.clone());
        (experiment.workers, experiment.ops, experiment.seed) = (workers, ops, seed);
        (experiment.prefix, experiment.allow_weak_quorum) = (global.prefix.clone(), global.allow_weak_quorum);
        if let Some(fault) = stop.fault {
            (experiment.faults, experiment.ttl) = (vec![fault], fault.sensible_ttl());
        }
        eprintln!("{} of {}: {} ..", number + 1, STOPS.len(), stop.title);
        let summary = watched(&experiment, cluster.as_ref()).await?;
        eprintln!("        {:.0} of {expected} in {}", summary.mean_final, seconds(&summary));
        let fault = stop.fault.map(Fault::name);
        tour.stops.push(Visited { title: stop.title, fault, summary });
    }
    eprintln!();
    match global.json {
        true => output::json(&tour)?,
        false => print(&tour),
    }
    // Classic Redlock may well lose an update to the pause: that is what the tour shows.
    let kept = tour.stops.iter().all(|stop| stop.summary.kept_its_word() || stop.fault_breaks_it());
    Ok(if kept { Exit::Ok } else { Exit::Inexact })
}

impl Visited {
    fn fault_breaks_it(&self) -> bool {
        self.fault.is_some() && self.summary.strategy == Strategy::Classic.name()
    }

    /// What happened, for somebody who sees it for the first time.
    fn meaning(&self) -> String {
        let lost = self.summary.runs.iter().map(|run| run.lost).sum::<i64>();
        let refused = self.summary.runs.iter().map(|run| run.fenced_rejections).sum::<u64>();
        let protected = self.summary.strategy != Strategy::None.name();
        match (protected, self.fault, lost) {
            (false, _, 0) => "Nothing was lost this time, by luck: nothing prevents it.".to_owned(),
            (false, _, _) => "Two workers read the same number, both write the next one: one of the two is lost.".to_owned(),
            (true, None, 0) => "One worker at a time, and every update counts.".to_owned(),
            (true, None, _) => "Updates were lost: this must not happen. Please report it.".to_owned(),
            (true, Some(_), 0) if refused > 0 => format!(
                "The same pause. The counter knows the newer holders' tokens and refused the late write ({refused}x); the worker did it again."
            ),
            (true, Some(_), 0) => "A worker slept past its lease, and nobody else wrote meanwhile: no harm this time.".to_owned(),
            (true, Some(_), _) if !self.fault_breaks_it() => "Updates were lost: this must not happen. Please report it.".to_owned(),
            (true, Some(_), _) => "A worker with the lock slept past its lease, woke up and wrote its old number over what the others had done.".to_owned(),
        }
    }
}

fn print(tour: &Tour) {
    let mut table = output::table(&["what ran", "result", "lost", "time", "lock in", "what happened"]);
    for stop in &tour.stops {
        let summary = &stop.summary;
        let lost = summary.runs.iter().map(|run| run.lost).sum::<i64>();
        let acquire = match summary.acquire_us.p50 {
            0 => "-".to_owned(),
            micros => format!("{:.1} ms", micros as f64 / 1e3),
        };
        table.add_row([
            stop.title.to_owned(),
            format!("{:.0} of {}", summary.mean_final, summary.expected),
            lost.to_string(),
            seconds(summary),
            acquire,
            stop.meaning(),
        ]);
    }
    output::line(table);
}

fn seconds(summary: &Summary) -> String {
    let millis = summary.runs.iter().map(|run| run.wall_ms).sum::<u64>();
    format!("{:.1} s", millis as f64 / 1e3)
}
