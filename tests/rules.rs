//! Every rule of `docs/safety.md` is named by the code that keeps it and by a test that shows it; and other promises of the
//! documents that can be read off the tree.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_rule_is_named_by_code_and_by_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let safety = fs::read_to_string(root.join("docs/safety.md")).expect("docs/safety.md");
    let rules: Vec<&str> = safety.lines().filter_map(rule).collect();
    assert!(rules.len() >= 14, "rules found: {rules:?}");
    let (code, tests) = (texts(&root.join("src")), texts(&root.join("tests")));
    let unnamed = |texts: &[(PathBuf, String)]| -> Vec<&str> {
        rules.iter().copied().filter(|rule| !texts.iter().any(|(_, text)| names(text, rule))).collect()
    };
    assert_eq!((unnamed(&code), unnamed(&tests)), (vec![], vec![]), "rules that (code, tests) do not name");
}

#[test]
fn every_file_that_a_rule_points_at_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let safety = fs::read_to_string(root.join("docs/safety.md")).expect("docs/safety.md");
    let homes = ["src", "src/proto", "src/backend/redlock", "tests"];
    for line in safety.lines().filter(|line| rule(line).is_some()) {
        for path in
            line.split('`').skip(1).step_by(2).filter(|code| code.ends_with(".rs") || code.ends_with(".lua"))
        {
            let found = path.contains('*') || homes.iter().any(|home| root.join(home).join(path).exists());
            assert!(found, "{path} does not exist: {line}");
        }
    }
}

/// `cargo run` must mean the tour, and `cargo run --bin explore` the explorer: neither may be ambiguous.
#[test]
fn the_commands_of_the_readme_name_one_binary_each() {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let told = std::process::Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let workspace: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let packages = workspace["packages"].as_array().expect("packages");
    let default_runs: Vec<_> =
        packages.iter().filter_map(|package| package["default_run"].as_str()).collect();
    assert_eq!(default_runs, ["redfence"], "what `cargo run` runs");
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let is_binary = |target: &&serde_json::Value| target["kind"][0] == "bin";
    let binaries: Vec<_> = targets.filter(is_binary).filter_map(|target| target["name"].as_str()).collect();
    for name in ["redfence", "explore"] {
        assert_eq!(binaries.iter().filter(|binary| **binary == name).count(), 1, "{name} in {binaries:?}");
    }
}

/// The rule that a line of the table is about.
fn rule(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| ")?.split(' ').next()?;
    let digits = name.strip_prefix('R')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

/// Whether the text names the rule as a word of its own: R1 is not R12.
fn names(text: &str, rule: &str) -> bool {
    text.match_indices(rule).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let after = text[at + rule.len()..].chars().next().is_none_or(|c| !c.is_alphanumeric());
        before && after
    })
}

fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(texts(&path));
        } else if path.file_name().is_some_and(|name| name != "rules.rs")
            && path.extension().is_some_and(|end| end == "rs" || end == "lua" || end == "txt")
            && let Ok(text) = fs::read_to_string(&path)
        {
            found.push((path, text));
        }
    }
    found
}
