//! What came of it.

use serde::Serialize;

use super::line::Said;

/// What one agent has done and met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Documents that it wrote.
    pub documents: u64,
    /// How often another had written meanwhile.
    pub conflicts: u64,
    /// How often it began again: after a conflict, or a lost lease.
    pub retries: u64,
    /// How often the store refused its token, on reads and writes.
    pub fenced_rejections: u64,
    /// How many of these were writes.
    #[serde(skip)]
    pub late_writes: u64,
}

impl Tally {
    pub(super) fn note(&mut self, said: &Said) {
        match said {
            Said::Took { .. } | Said::AboutToWrite { .. } => {}
            Said::Wrote { .. } => self.documents += 1,
            Said::Conflicts { times } => self.conflicts += u64::from(*times),
            Said::Again { times } => self.retries += u64::from(*times),
            Said::ReadRefused { .. } => self.fenced_rejections += 1,
            Said::WriteRefused { .. } => {
                self.fenced_rejections += 1;
                self.late_writes += 1;
            }
        }
    }
}

/// One agent, as the supervisor saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AgentReport {
    /// Its name.
    pub name: String,
    /// What it told.
    #[serde(flatten)]
    pub tally: Tally,
    /// Whether it was killed with a lock in its hands.
    pub killed: bool,
    /// Whether it was frozen with a lock in its hands.
    pub frozen: bool,
}

/// How the documents stand in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Documents {
    /// That should be there.
    pub expected: u64,
    /// That are.
    pub present: u64,
    /// That are not there, or are missing in the list of their topic.
    pub lost: u64,
    /// That were written more than once, or are listed more than once.
    pub doubled: u64,
}

impl Documents {
    /// Whether each is there once.
    pub fn are_exact(&self) -> bool {
        self.present == self.expected && self.lost == 0 && self.doubled == 0
    }
}

/// A document that a search found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Hit {
    /// Its key.
    pub key: String,
    /// How far its embedding is.
    pub distance: f64,
    /// What it says.
    #[serde(skip)]
    pub text: String,
}

/// What is in the store.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The documents, counted.
    pub documents: Documents,
    /// Tasks that are not done.
    pub open_tasks: u64,
    /// What is near to the query.
    pub search: Vec<Hit>,
}

/// A whole run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The form of this report.
    pub schema: &'static str,
    /// Every agent, also those that took the place of killed ones.
    pub agents: Vec<AgentReport>,
    /// The documents, counted.
    pub documents: Documents,
    /// Writes under a token smaller than one that the store had seen: refused.
    pub refused_late_writes: u64,
    /// How long it took, from the first agent's start to the last one's end.
    pub wall_ms: u64,
    /// What is near to the query.
    pub search: Vec<Hit>,
}

impl Report {
    /// Puts together what the agents told and what is in the store.
    pub fn new(agents: Vec<AgentReport>, found: Found, wall_ms: u64) -> Self {
        let refused_late_writes = agents.iter().map(|agent| agent.tally.late_writes).sum();
        Self {
            schema: "redfence.agents/1",
            agents,
            documents: found.documents,
            refused_late_writes,
            wall_ms,
            search: found.search,
        }
    }
}
