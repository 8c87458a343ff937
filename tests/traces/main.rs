//! Text histories of the protocol: what happens line by line, and under each line everything that follows from it.
//!
//! ```text
//! # Three equal grants: the second one decides, in one round trip.
//! start ttl=10s
//!   send {0,1,2} grant: acquire a1b2c3d4 ttl 10000ms hint 0
//! reply 0 grant mine 1/1
//! reply 1 grant mine 1/1
//!   acquired token 1 until 9898.000ms
//! ```
//!
//! A history begins with `#` and its title, a sentence. Lines at the margin are input (the verbs are in `world.rs` and in
//! `testdata/README.md`); indented lines are output, word for word. `REDFENCE_UPDATE=1 cargo test --test traces` writes the
//! output anew: read the difference before you commit it.

mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use world::World;

const UPDATE: &str = "REDFENCE_UPDATE";

#[test]
fn histories_read_word_for_word_as_written() {
    let update = env::var_os(UPDATE).is_some_and(|value| value == "1");
    let files = histories().unwrap();
    assert!(!files.is_empty(), "no histories under tests/testdata");
    let mut wrong = String::new();
    for path in files {
        let written = fs::read_to_string(&path).unwrap();
        let actual = replay(&path, &written);
        if update && actual != written {
            fs::write(&path, actual).unwrap();
        } else if actual != written {
            let _ = writeln!(wrong, "{}{}", path.display(), first_difference(&written, &actual));
        }
    }
    assert!(wrong.is_empty(), "{wrong}\n{UPDATE}=1 cargo test --test traces writes them anew");
}

#[test]
fn a_difference_is_found_and_a_word_that_is_none_is_refused() {
    let history = "# T.\nstart ttl=10s\n  send nothing\n";
    let actual = replay(Path::new("here"), history);
    assert!(actual.ends_with("  send {0,1,2} grant: acquire a1b2c3d4 ttl 10000ms hint 0\n"), "{actual}");
    assert!(first_difference(history, &actual).contains(":3:"));
    for nonsense in ["reply 0 grant perhaps", "reply 0 grant mine 1", "start ttl=10", "start tll=10s", "sing"]
    {
        assert!(World::default().line(nonsense).is_err(), "`{nonsense}` was understood");
    }
}

fn histories() -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let paths = entries.iter().map(fs::DirEntry::path);
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    Ok(files)
}

/// The file as it should be: the input lines as they are, under each the output it has now.
fn replay(path: &Path, written: &str) -> String {
    let mut world = World::default();
    let mut actual = String::new();
    for (number, line) in written.lines().enumerate() {
        if line.starts_with("  ") {
            continue;
        }
        let _ = writeln!(actual, "{line}");
        if line.starts_with('#') {
            world = World::default();
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let outputs = world.line(line);
        let outputs = outputs
            .unwrap_or_else(|why| panic!("{}:{}: {why}; so far\n{actual}", path.display(), number + 1));
        for output in outputs {
            let _ = writeln!(actual, "  {output}");
        }
    }
    actual
}

fn first_difference(written: &str, actual: &str) -> String {
    let (mut written, mut actual) = (written.lines(), actual.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (written.next(), actual.next()) {
            (None, None) => return String::from(": the line ends differ"),
            (old, new) if old == new => {}
            (old, new) => {
                let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
                return format!(":{number}:\n  written: {}\n  actual:  {}", show(old), show(new));
            }
        }
    }
}
