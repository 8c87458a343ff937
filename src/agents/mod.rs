//! Agents that fill one vector store: several processes, of which one is killed and one frozen, and nothing is lost.
//!
//! Each agent claims a task from the queue (a lease, in the store), takes the lock of its document, shows the lock's token to the
//! store by reading, thinks, and writes text and embedding under that token **and** the version it has read. Then it adds the
//! document to the list of its topic: by version alone, and again if another was faster. So both ways are at work: the lock where work
//! is dear, the version where it is short.
//!
//! [`Shelf`] is what is where in the store, [`Worker`] one agent, [`Crew`] the supervisor that starts them as processes, kills and freezes
//! some at the worst moment, and counts. `redfence agents` is a thin cover on these.

mod corpus;
mod crew;
mod embedding;
mod error;
mod line;
mod process;
mod report;
mod shelf;
mod worker;

pub use corpus::{Corpus, DEFAULT_QUERY, Document, MAX_DOCUMENTS};
pub use crew::{Crew, MAX_AGENTS, News};
pub use embedding::{DIMENSION, embed};
pub use error::AgentsError;
pub use line::Line;
pub use report::{AgentReport, Documents, Found, Hit, Report, Tally};
pub use shelf::Shelf;
pub use worker::{Pace, Worker};
