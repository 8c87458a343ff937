//! How results are printed.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;

/// Prints one line of data. A reader that has gone away (`| head`) is no failure.
pub(crate) fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints one JSON document.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Failure::new(Exit::Internal, error))?;
    line(text);
    Ok(())
}

/// An empty table: fits the terminal; plain characters where there is none.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let style = if std::io::stdout().is_terminal() { presets::UTF8_FULL } else { presets::ASCII_FULL };
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(100);
    }
    table.set_header(header.to_vec());
    table
}
