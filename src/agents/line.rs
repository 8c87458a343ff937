//! What an agent tells its supervisor, and how it asks for leave to write.
//!
//! One JSON object on each line of the agent's stdout, and one line on its stdin for each leave. The leave is there for one thing:
//! so that the supervisor can strike exactly between the last look at the lease and the write. All others get it at once and
//! unseen by each other; what keeps the agents apart is the lock.

use std::io::{BufRead, Write, stdin, stdout};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::AgentsError;
use super::report::Tally;

/// What an agent tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(super) enum Said {
    /// It holds the lock, and the store has seen its token.
    Took { document: String, token: u64 },
    /// It has found its lease good, and writes next, once it is given leave.
    AboutToWrite { document: String, token: u64 },
    /// The document is in the store.
    Wrote { document: String },
    /// Others had written meanwhile, so many times.
    Conflicts { times: u32 },
    /// It has begun again, so many times.
    Again { times: u32 },
    /// The store has seen a larger token, and it did not read.
    ReadRefused { document: String },
    /// The store has seen a larger token, and it did not write.
    WriteRefused { document: String, token: u64 },
}

/// An agent's line to its supervisor, if it has one.
#[derive(Debug)]
pub struct Line {
    tally: Tally,
    /// One for each leave given.
    leave: Option<mpsc::UnboundedReceiver<()>>,
}

impl Line {
    /// Nobody listens, and nobody is asked.
    pub fn alone() -> Self {
        Self { tally: Tally::default(), leave: None }
    }

    /// Over the stdin and stdout of this process, which belong to the line from then on. When the supervisor is gone, however it
    /// went, stdin ends and `stop` is cancelled.
    pub fn to_supervisor(stop: CancellationToken) -> Self {
        let (given, leave) = mpsc::unbounded_channel();
        // Reading blocks; the thread ends with its pipe, or with the process.
        std::thread::spawn(move || {
            let _ended = stop.drop_guard();
            for _ in stdin().lock().lines().map_while(Result::ok) {
                if given.send(()).is_err() {
                    break;
                }
            }
        });
        Self { tally: Tally::default(), leave: Some(leave) }
    }

    /// What was told so far.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    pub(super) fn say(&mut self, said: Said) {
        self.tally.note(&said);
        tracing::debug!(?said, "agent");
        if self.leave.is_none() {
            return;
        }
        // A supervisor that does not hear any more is gone; stdin says so too.
        if let Ok(text) = serde_json::to_string(&said) {
            let mut stdout = stdout().lock();
            let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        }
    }

    /// Says that the next thing is the write, and waits for leave.
    pub(super) async fn ask_to_write(&mut self, document: &str, token: u64) -> Result<(), AgentsError> {
        self.say(Said::AboutToWrite { document: document.to_owned(), token });
        match &mut self.leave {
            None => Ok(()),
            Some(leave) => leave.recv().await.ok_or(AgentsError::Stopped),
        }
    }
}
