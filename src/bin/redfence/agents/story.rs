//! How a run of agents is told.

use redfence::agents::{Documents, Hit, News, Report};

use crate::output;

/// One event, as a sentence; `None` for what only moves the bar.
pub(super) fn sentence(news: &News) -> Option<String> {
    Some(match news {
        News::Written(_) => return None,
        News::Killed { name, document, token, replacement } => {
            format!(
                "{name} is killed as it is about to write {document} (token {token}); {replacement} starts"
            )
        }
        News::Frozen { name, document, token } => {
            format!("{name} is frozen as it is about to write {document} (token {token})")
        }
        News::Thawed { name, by, token } => {
            format!("{name} is thawed: its lock has ended, and {by} has the document (token {token})")
        }
        News::Refused { name, document, token } => {
            format!("{name} writes {document} under token {token}: refused, a larger one was seen")
        }
    })
}

pub(super) fn print(report: &Report, happened: &[String]) {
    let mut table = output::table(&["agent", "documents", "conflicts", "retries", "refused", "fate"]);
    for agent in &report.agents {
        let fate = match (agent.killed, agent.frozen) {
            (true, _) => "killed with a lock",
            (false, true) => "frozen with a lock",
            (false, false) => "",
        };
        let tally = agent.tally;
        table.add_row([
            agent.name.clone(),
            tally.documents.to_string(),
            tally.conflicts.to_string(),
            tally.retries.to_string(),
            tally.fenced_rejections.to_string(),
            fate.to_owned(),
        ]);
    }
    output::line(table);
    happened.iter().for_each(output::line);
    output::line(documents(&report.documents));
    output::line(format_args!(
        "late writes refused: {}; {:.1} s",
        report.refused_late_writes,
        report.wall_ms as f64 / 1e3
    ));
    output::line(search(&report.search));
}

pub(super) fn documents(documents: &Documents) -> String {
    let Documents { expected, present, lost, doubled } = documents;
    format!("documents: {present} of {expected} present, {lost} lost, {doubled} doubled")
}

/// What a search found, the nearest first.
pub(super) fn search(hits: &[Hit]) -> String {
    let mut table = output::table(&["near", "distance", "what it says"]);
    for hit in hits {
        table.add_row([hit.key.clone(), format!("{:.3}", hit.distance), hit.text.clone()]);
    }
    table.to_string()
}
