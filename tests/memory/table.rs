//! Which store passed which case, and how fast each is here: markdown, for the docs.

use std::fmt::Write as _;

use redfence::memory::{Change, Written};

use crate::case::{Case, fence, has_passed};
use crate::subject::{Kind, Subject};
use crate::support::Stopwatch;

const WRITES: u64 = 1000;

/// Prints if `REDFENCE_MEMORY_TABLE=1`.
pub(crate) fn print(cases: &[Case]) {
    if std::env::var_os("REDFENCE_MEMORY_TABLE").is_none_or(|value| value != "1") {
        return;
    }
    println!("\n{}\n{}", by_case(cases), by_speed());
}

fn heading(first: &str) -> String {
    let names: String = Kind::ALL.iter().map(|kind| format!(" {} |", kind.name())).collect();
    format!("| {first} |{names}\n|---|{}\n", "---|".repeat(Kind::ALL.len()))
}

fn by_case(cases: &[Case]) -> String {
    let mut table = heading("case");
    for case in cases {
        let _ = write!(table, "| {} |", case.name.replace('_', " "));
        for kind in Kind::ALL {
            let mark = match (case.kinds.contains(kind), has_passed(case, *kind)) {
                (false, _) => "-",
                (true, true) => "yes",
                (true, false) => "no",
            };
            let _ = write!(table, " {mark} |");
        }
        table.push('\n');
    }
    table
}

/// One writer, one change after the other under a token, with the data in memory files: what the store costs, not the disk.
fn by_speed() -> String {
    let rates: Vec<Option<f64>> = Kind::ALL.iter().map(|kind| rate(*kind)).collect();
    let mut table = heading("one writer");
    let slowest = rates.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    for (row, show) in [
        ("changes per second", &(|rate: f64| format!("{rate:.0}")) as &dyn Fn(f64) -> String),
        ("times the slowest", &|rate| format!("{:.1}", rate / slowest)),
    ] {
        let cells =
            rates.iter().map(|rate| rate.map_or(" - |".to_owned(), |rate| format!(" {} |", show(rate))));
        let _ = writeln!(table, "| {row} |{}", cells.collect::<String>());
    }
    table
}

fn rate(kind: Kind) -> Option<f64> {
    kind.needs()().ok()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let subject = Subject::start(kind).await;
        let (store, fence) = (subject.open().await, fence(1));
        let watch = Stopwatch::start();
        for version in 0..WRITES {
            let change = Change::set(b"a value of some length").under(&fence).expecting(version);
            let done = store.write("k", change).await;
            assert!(matches!(done, Ok(Written::Applied { .. })), "{done:?}");
        }
        Some(WRITES as f64 / watch.elapsed().as_secs_f64())
    })
}
