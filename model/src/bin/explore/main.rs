//! `explore`: what holds, under which assumptions, and how the rest goes wrong.

mod file;
mod json;
mod progress;
mod serve;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redfence_model::check::Control;
use redfence_model::draw;
use redfence_model::report;
use redfence_model::scenario::{self, Outcome, Scenario, Size, similar};
use redfence_model::trace;
use redfence_model::world::Property;

/// Check the lock protocol: every failure of Redlock as a trace, every claim with what was searched.
#[derive(Parser)]
#[command(name = "explore", version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(clap::Args, Clone)]
struct Serve {
    /// Port of the page on 127.0.0.1; 0 for any that is free.
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Show these traces too, on the pages /file/1 and so on: of the model, of a simulation or of a live run.
    #[arg(long = "trace", value_name = "FILE", num_args = 1..)]
    traces: Vec<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Show everything on a web page; what is done if nothing else is asked for.
    Serve(Serve),
    /// Names of all scenarios, with what each shows.
    List {
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Search scenarios and compare what is found with what is expected.
    Check {
        /// Which; the quick ones if none is named.
        scenarios: Vec<String>,
        /// All of them, also those that take long.
        #[arg(long, conflicts_with = "scenarios")]
        all: bool,
        /// One JSON document.
        #[arg(long)]
        json: bool,
        /// Threads of a search.
        #[arg(long, default_value_t = threads())]
        threads: usize,
    },
    /// Print the shortest trace to a violation of a property, or to an instance of it.
    Trace {
        /// Which scenario.
        scenario: String,
        /// Which of its properties.
        property: String,
        /// One JSON document, as described in docs/traces.md.
        #[arg(long)]
        json: bool,
        /// Draw it into this file.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Print a trace from a file, or draw it: of the model, of a simulation or of a live run.
    Draw {
        /// A redfence.trace/1 document, as described in docs/traces.md.
        file: PathBuf,
        /// Draw it into this file.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Search everything and rewrite the generated parts of the documents.
    Report {
        /// Folder of the documents.
        #[arg(long, default_value = "docs")]
        docs: PathBuf,
        /// Only say whether they are up to date with what is expected; searches nothing.
        #[arg(long)]
        check: bool,
        /// Write what is expected without searching; `check --all` says whether it is true.
        #[arg(long, conflicts_with = "check")]
        unsearched: bool,
    },
}

/// Wrong names on the command line.
const USAGE: u8 = 2;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() -> ExitCode {
    let control = Control::default();
    let stop = control.stop.clone();
    if let Err(error) = ctrlc::set_handler(move || stop.store(true, std::sync::atomic::Ordering::Relaxed)) {
        eprintln!("explore: Ctrl-C will end it at once: {error}");
    }
    let args = Args::parse();
    match args.command.unwrap_or(Command::Serve(args.serve)) {
        Command::Serve(serve) => serve_page(serve, &control),
        Command::List { json } => list(json),
        Command::Check { scenarios, all, json, threads } => {
            check(&scenarios, all, json, threads.max(1), &control)
        }
        Command::Trace { scenario, property, json, svg } => {
            print_trace(&scenario, &property, json, svg.as_deref(), &control)
        }
        Command::Draw { file, svg } => draw_file(&file, svg.as_deref()),
        Command::Report { docs, check, unsearched } => report(&docs, check, unsearched, &control),
    }
}

/// Prints a line; nobody reading any more is no error.
fn say(text: &str) {
    use std::io::Write;
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

fn list(json: bool) -> ExitCode {
    let all = scenario::everything();
    if json {
        return print_json(&json::list(&all));
    }
    let width = all.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in &all {
        let size = match scenario.size {
            Size::Quick => "",
            Size::Full => " (long)",
            Size::Open => " (open)",
        };
        say(&format!("{:width$}  {}{size}", scenario.name, scenario.shows));
    }
    ExitCode::SUCCESS
}

fn print_json(document: &impl serde::Serialize) -> ExitCode {
    match serde_json::to_string_pretty(document) {
        Ok(text) => say(&text),
        Err(error) => {
            eprintln!("explore: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn chosen(names: &[String], all: bool) -> Result<Vec<Scenario>, ExitCode> {
    if names.is_empty() {
        let fits = |scenario: &Scenario| all || scenario.size == Size::Quick;
        return Ok(scenario::all().into_iter().filter(fits).collect());
    }
    names.iter().map(|name| named(name)).collect()
}

fn named(name: &str) -> Result<Scenario, ExitCode> {
    scenario::find(name).map_err(|near| {
        unknown("scenario", name, &near, "`explore list` shows all");
        ExitCode::from(USAGE)
    })
}

fn unknown(what: &str, name: &str, near: &[&str], otherwise: &str) {
    match near {
        [] => eprintln!("explore: no {what} named `{name}`; {otherwise}"),
        near => eprintln!("explore: no {what} named `{name}`; did you mean {}?", near.join(", ")),
    }
}

fn check(names: &[String], all: bool, json: bool, threads: usize, control: &Control) -> ExitCode {
    let scenarios = match chosen(names, all) {
        Ok(scenarios) => scenarios,
        Err(code) => return code,
    };
    let outcomes = search(scenarios, threads, control, |outcome| {
        if !json {
            say(&report::line(outcome));
        }
    });
    let ok = outcomes.iter().all(Outcome::is_ok);
    if json {
        print_json(&json::outcomes(&outcomes));
    } else if outcomes.len() > 1 {
        say(&report::summary(&outcomes));
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks each scenario, until told to stop.
fn search(
    scenarios: Vec<Scenario>,
    threads: usize,
    control: &Control,
    mut each: impl FnMut(&Outcome),
) -> Vec<Outcome> {
    let count = scenarios.len();
    let mut outcomes = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let title = format!("[{}/{count}] {}", index + 1, scenario.name);
        let shown = std::io::stderr().is_terminal().then(|| progress::Shown::start(title, control));
        let outcome = scenario::check(scenario, threads, control);
        drop(shown);
        each(&outcome);
        outcomes.push(outcome);
        if control.stop.load(std::sync::atomic::Ordering::Relaxed) {
            eprintln!("explore: ended early; {} of {count} scenarios were begun", index + 1);
            break;
        }
    }
    outcomes
}

fn print_trace(name: &str, property: &str, json: bool, svg: Option<&Path>, control: &Control) -> ExitCode {
    let scenario = match named(name) {
        Ok(scenario) => scenario,
        Err(code) => return code,
    };
    let names: Vec<(String, Property)> =
        scenario.expect.iter().map(|expect| (expect.property.name(), expect.property)).collect();
    let Some((_, asked)) = names.iter().find(|(name, _)| name == property) else {
        let near = similar(property, names.iter().map(|(name, _)| name.as_str()));
        let all: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        unknown(&format!("property of {name}"), property, &near, &format!("it has {}", all.join(", ")));
        return ExitCode::from(USAGE);
    };
    match trace::shortest(&scenario, *asked, control) {
        Ok(Some(path)) => {
            let trace = match trace::record(&scenario, &path) {
                Ok(trace) => trace,
                Err(error) => return failed(&error),
            };
            if let Some(file) = svg
                && let Err(code) = draw_into(file, &trace)
            {
                return code;
            }
            if json {
                return print_json(&trace);
            }
            say(report::story(&trace, *asked).trim_end());
        }
        Ok(None) => say(&format!("{name}: no state {}: there is no trace", report::looked_for(*asked))),
        Err(error) => return failed(&error),
    }
    ExitCode::SUCCESS
}

fn draw_into(file: &Path, trace: &trace::Trace) -> Result<(), ExitCode> {
    std::fs::write(file, draw::svg(trace, draw::Options::default())).map_err(|error| {
        eprintln!("explore: {}: {error}", file.display());
        ExitCode::FAILURE
    })
}

fn from_file(file: &Path) -> Result<trace::Trace, ExitCode> {
    file::read(file).map_err(|why| {
        eprintln!("explore: {why}");
        ExitCode::from(USAGE)
    })
}

fn draw_file(file: &Path, svg: Option<&Path>) -> ExitCode {
    let drawn = from_file(file).and_then(|trace| match svg {
        Some(svg) => draw_into(svg, &trace),
        None => {
            say(report::told(&trace).trim_end());
            Ok(())
        }
    });
    drawn.map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn serve_page(serve: Serve, control: &Control) -> ExitCode {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        from_file(path).map(|trace| serve::File { name, trace })
    };
    match serve.traces.iter().map(read).collect() {
        Ok(files) => serve::serve(serve.port, files, &control.stop),
        Err(code) => code,
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("explore: {error}");
    ExitCode::FAILURE
}

fn report(docs: &Path, check: bool, unsearched: bool, control: &Control) -> ExitCode {
    let result = if check {
        report::stale(docs, &scenario::all())
    } else if unsearched {
        report::rewrite(docs, &scenario::all())
    } else {
        let outcomes = search(scenario::all(), threads(), control, |outcome| say(&report::line(outcome)));
        if !outcomes.iter().all(Outcome::is_ok) || outcomes.len() < scenario::all().len() {
            eprintln!("explore: not everything was found as expected; the documents stay as they are");
            return ExitCode::FAILURE;
        }
        report::rewrite(docs, &scenario::all())
    };
    match result {
        Ok(files) if files.is_empty() => ExitCode::SUCCESS,
        Ok(files) if check => {
            eprintln!("explore: out of date: {}; run `explore report`", files.join(", "));
            ExitCode::FAILURE
        }
        Ok(files) => {
            println!("rewritten: {}", files.join(", "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("explore: {}: {error}", docs.display());
            ExitCode::FAILURE
        }
    }
}
