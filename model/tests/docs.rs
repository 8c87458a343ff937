//! The documents say what the scenarios expect.

use std::collections::BTreeSet;
use std::path::PathBuf;

use redfence_model::{report, scenario};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

#[test]
fn the_generated_parts_are_up_to_date() {
    let stale = report::stale(&docs(), &scenario::all()).expect("the documents can be read");
    assert!(stale.is_empty(), "run `cargo run --features mutants --bin explore -- report`: {stale:?}");
}

#[test]
fn every_scenario_named_in_the_documents_exists() {
    let all = scenario::everything();
    let known: BTreeSet<&str> = all.iter().map(|scenario| scenario.name).collect();
    let rows = |word: &&str| {
        let digits = word.trim_start_matches("fact").trim_start_matches(|c: char| c.is_ascii_lowercase());
        word.contains('-') && digits.starts_with(|c: char| c.is_ascii_digit())
    };
    for file in ["limitations.md", "proof.md", "safety.md"] {
        let text = std::fs::read_to_string(docs().join(file)).expect("the document can be read");
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(rows).collect();
        assert!(named.len() > 3, "{file} names scenarios");
        for name in named {
            assert!(known.contains(name), "{file} names `{name}`, which does not exist");
        }
    }
}
