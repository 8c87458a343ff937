//! `redfence simulate --sweep`: the table, and the plot.

use std::path::Path;

use plotters::prelude::*;
use redfence::simulate::{Cell, Experiment, Strategy, Sweep, SweepReport, Watch};

use crate::args::{Global, SimulateArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::simulate::watch_over;
use crate::{nodes, output};

/// What the cells of one plot have in common.
const STRATEGIES: [(&str, RGBColor); 3] = [
    ("locked", RGBColor(31, 87, 163)),
    ("optimistic", RGBColor(200, 80, 30)),
    ("adaptive", RGBColor(40, 130, 70)),
];

pub(crate) async fn run(global: &Global, args: SimulateArgs) -> Result<Exit, Failure> {
    let (nodes, cluster) = nodes::servers(global).await?;
    let mut experiment = Experiment::new(Strategy::Adaptive, nodes);
    experiment.memory = args.memory.parse()?;
    experiment.ttl = args.ttl.unwrap_or(experiment.ttl);
    experiment.prefix = global.prefix.clone();
    experiment.allow_weak_quorum = global.allow_weak_quorum;
    experiment.seed = args.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
    let mut sweep = Sweep::new(experiment);
    sweep.each = args.each;
    if let Some(file) = &args.svg {
        // Minutes of measuring must not end in a file that cannot be written.
        std::fs::write(file, "").map_err(|error| unwritable(file, &error))?;
    }
    eprintln!("{} combinations, {:?} each, seed {}", sweep.cells(), sweep.each, sweep.experiment.seed);
    let watch = Watch::default();
    let template = "  {bar:30} {pos}/{len} combinations, {elapsed}, {eta} to go";
    let report = watch_over(sweep.cells() as u64, template, &watch, sweep.run(&watch)).await?;
    drop(cluster);
    if let Some(file) = &args.svg {
        std::fs::write(file, plot(&report)).map_err(|error| unwritable(file, &error))?;
        eprintln!("drawn in {}", file.display());
    }
    match global.json {
        true => output::json(&report)?,
        false => print(&report),
    }
    Ok(if report.is_exact() { Exit::Ok } else { Exit::Inexact })
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{} cannot be written: {error}", file.display()))
        .next("give --svg a file in a folder that is there")
}

fn print(report: &SweepReport) {
    let mut table = output::table(&[
        "work",
        "keys",
        "workers",
        "locked/s",
        "optimistic/s",
        "adaptive/s",
        "conflicts per update",
        "adaptive locks",
        "faster",
    ]);
    for (hold, keys, workers) in places(report) {
        let at = |strategy: &str| cell(report, strategy, hold, keys, workers);
        let (Some(locked), Some(optimistic), Some(adaptive)) =
            (at("locked"), at("optimistic"), at("adaptive"))
        else {
            continue;
        };
        let faster = match optimistic.updates_per_s >= locked.updates_per_s {
            true => "optimistic",
            false => "locked",
        };
        table.add_row([
            format!("{hold} ms"),
            keys.to_string(),
            workers.to_string(),
            format!("{:.0}", locked.updates_per_s),
            format!("{:.0}", optimistic.updates_per_s),
            format!("{:.0}", adaptive.updates_per_s),
            format!("{:.2}", optimistic.conflicts_per_update),
            format!("{:.0} %", adaptive.locked * 100.0),
            faster.to_owned(),
        ]);
    }
    output::line(table);
    let lost: i64 = report.cells.iter().map(|cell| cell.lost).sum();
    let updates: u64 = report.cells.iter().map(|cell| cell.updates).sum();
    output::line(format_args!("{updates} updates, {lost} lost"));
}

/// Every combination of work, keys and workers, in the order measured.
fn places(report: &SweepReport) -> Vec<(u64, u32, u32)> {
    let mut places = Vec::new();
    for cell in &report.cells {
        let place = (cell.hold_ms, cell.keys, cell.workers);
        if places.last() != Some(&place) {
            places.push(place);
        }
    }
    places
}

fn cell<'a>(report: &'a SweepReport, strategy: &str, hold: u64, keys: u32, workers: u32) -> Option<&'a Cell> {
    let is = |cell: &&Cell| {
        cell.strategy == strategy && (cell.hold_ms, cell.keys, cell.workers) == (hold, keys, workers)
    };
    report.cells.iter().find(is)
}

/// One small plot for each work and number of keys: updates per second over workers.
fn plot(report: &SweepReport) -> String {
    let places = places(report);
    let mut holds: Vec<_> = places.iter().map(|place| place.0).collect();
    let mut keys: Vec<_> = places.iter().map(|place| place.1).collect();
    holds.sort_unstable();
    holds.dedup();
    keys.sort_unstable();
    keys.dedup();
    let mut svg = String::new();
    // A drawing into a text does not fail; what if it did is an empty picture.
    let _ = draw(report, &holds, &keys, &mut svg);
    svg
}

fn draw(
    report: &SweepReport,
    holds: &[u64],
    keys: &[u32],
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let (width, height) = (280 * keys.len() as u32, 240 * holds.len() as u32 + 40);
    let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (legend, plots) = root.split_vertically(40);
    for (place, (name, colour)) in (0..).zip(STRATEGIES) {
        let left = 12 + 130 * place;
        legend.draw(&Rectangle::new([(left, 14), (left + 22, 20)], colour.filled()))?;
        legend.draw(&Text::new(name, (left + 28, 10), ("sans-serif", 14)))?;
    }
    legend.draw(&Text::new("updates per second over workers", (420, 10), ("sans-serif", 14)))?;
    let areas = plots.split_evenly((holds.len(), keys.len()));
    for (row, &hold) in holds.iter().enumerate() {
        for (column, &keys_here) in keys.iter().enumerate() {
            small(report, hold, keys_here, &areas[row * keys.len() + column])?;
        }
    }
    root.present()?;
    Ok(())
}

fn small(
    report: &SweepReport,
    hold: u64,
    keys: u32,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    let here: Vec<_> = report.cells.iter().filter(|cell| cell.hold_ms == hold && cell.keys == keys).collect();
    let most = here.iter().map(|cell| cell.updates_per_s).fold(1.0, f64::max) * 1.6;
    let least = here.iter().map(|cell| cell.updates_per_s).fold(most, f64::min).max(0.5) / 1.6;
    let workers = here.iter().map(|cell| cell.workers).max().unwrap_or(1);
    let title = format!("{keys} key{}, work {hold} ms", if keys == 1 { "" } else { "s" });
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(52)
        .build_cartesian_2d((1..workers.max(2)).log_scale().base(2.0), (least..most).log_scale())?;
    chart.configure_mesh().light_line_style(WHITE).x_labels(6).y_labels(5).draw()?;
    for (name, colour) in STRATEGIES {
        let line: Vec<_> = here
            .iter()
            .filter(|cell| cell.strategy == name)
            .map(|cell| (cell.workers, cell.updates_per_s))
            .collect();
        chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
    }
    Ok(())
}
