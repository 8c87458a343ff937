//! The supervisor: starts agents as processes, kills one and freezes one at the worst moment, and counts what all of them tell.

use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::AgentsError;
use super::line::Said;
use super::process::{Ear, Heard, Process};
use super::report::AgentReport;
use super::worker::Pace;

/// Most agents of one crew.
pub const MAX_AGENTS: u32 = 64;

/// How long agents have to give back what they hold, when all is stopped.
const GOODBYE: Duration = Duration::from_secs(5);

/// Several agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crew {
    /// How many work at the same time.
    pub agents: u32,
    /// How many documents there are to add: the strikes come at a quarter and at a half of them.
    pub documents: u64,
    /// Whether one is killed with a lock in its hands.
    pub kill: bool,
    /// Whether one is frozen with a lock in its hands, until another has taken over.
    pub freeze: bool,
    /// Life of a lock.
    pub ttl: Duration,
    /// How fast they work.
    pub pace: Pace,
}

/// What there is to tell while they work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// So many documents are in the store.
    Written(u64),
    /// An agent was killed, and another started in its place.
    Killed {
        /// Who.
        name: String,
        /// What it was about to write.
        document: String,
        /// The token of its lock.
        token: u64,
        /// Who took its place.
        replacement: String,
    },
    /// An agent was frozen.
    Frozen {
        /// Who.
        name: String,
        /// What it was about to write.
        document: String,
        /// The token of its lock.
        token: u64,
    },
    /// The frozen agent goes on: its lock has ended, and another has the document.
    Thawed {
        /// Who.
        name: String,
        /// Who took over.
        by: String,
        /// The token of the other's lock.
        token: u64,
    },
    /// The store refused a write.
    Refused {
        /// Whose.
        name: String,
        /// Of what.
        document: String,
        /// The token that was too small.
        token: u64,
    },
}

impl Crew {
    /// Starts the agents and waits until all is done. `start` makes the command of one, by its name: a program that runs a
    /// [`Worker`](super::Worker) with [`Line::to_supervisor`](super::Line::to_supervisor).
    ///
    /// When this returns, however it does, no process of it is left.
    ///
    /// # Errors
    /// [`AgentsError::Stopped`] after `stop`; what could not work at all; what agents failed of.
    pub async fn run(
        &self,
        start: impl Fn(&str) -> Command,
        stop: &CancellationToken,
        news: impl FnMut(News),
    ) -> Result<Vec<AgentReport>, AgentsError> {
        self.check()?;
        let (ear, mut heard) = mpsc::unbounded_channel();
        let mut shift = Shift::new(self, start, news, ear);
        let worked = tokio::select! {
            biased;
            () = stop.cancelled() => Err(AgentsError::Stopped),
            worked = shift.work(&mut heard) => worked,
        };
        if worked.is_err() {
            shift.dismiss_all().await;
        }
        worked.map(|()| shift.agents.iter().map(Process::report).collect())
    }

    /// Says no to what cannot work, before anything is started.
    ///
    /// # Errors
    /// [`AgentsError::OutOfRange`], [`AgentsError::TooFewToFreeze`].
    pub fn check(&self) -> Result<(), AgentsError> {
        let (given, most) = (u64::from(self.agents), u64::from(MAX_AGENTS));
        match self.agents {
            0 => Err(AgentsError::OutOfRange { what: "agents", given, most }),
            1 if self.freeze => Err(AgentsError::TooFewToFreeze),
            1..=MAX_AGENTS => Ok(()),
            _ => Err(AgentsError::OutOfRange { what: "agents", given, most }),
        }
    }

    /// Longer than any honest silence: an agent thinks, while all others wait for what it claimed.
    fn patience(&self) -> Duration {
        Duration::from_secs(30) + 2 * (self.ttl + self.pace.claim)
    }
}

/// An agent that is frozen, and who may wake it.
#[derive(Debug)]
struct Frozen {
    place: usize,
    document: String,
    /// Its lock has ended for sure.
    until: Instant,
    /// Who has the document now, and under which token.
    taken: Option<(String, u64)>,
}

/// One run.
struct Shift<'a, S, N> {
    crew: &'a Crew,
    start: S,
    news: N,
    ear: Ear,
    agents: Vec<Process>,
    written: u64,
    to_kill: bool,
    to_freeze: bool,
    frozen: Option<Frozen>,
}

impl<'a, S: Fn(&str) -> Command, N: FnMut(News)> Shift<'a, S, N> {
    fn new(crew: &'a Crew, start: S, news: N, ear: Ear) -> Self {
        let (to_kill, to_freeze) = (crew.kill, crew.freeze);
        Self { crew, start, news, ear, agents: Vec::new(), written: 0, to_kill, to_freeze, frozen: None }
    }

    async fn work(&mut self, heard: &mut mpsc::UnboundedReceiver<(usize, Heard)>) -> Result<(), AgentsError> {
        for _ in 0..self.crew.agents {
            self.hire()?;
        }
        while self.agents.iter().any(|agent| !agent.ended) {
            let thaw =
                self.frozen.as_ref().filter(|frozen| frozen.taken.is_some()).map(|frozen| frozen.until);
            let patience = self.crew.patience();
            tokio::select! {
                biased;
                Some((place, heard)) = heard.recv() => self.hear(place, heard).await?,
                () = tokio::time::sleep_until(thaw.unwrap_or_else(Instant::now)), if thaw.is_some() => self.thaw().await?,
                () = tokio::time::sleep(patience) => return Err(AgentsError::Silent(patience)),
            }
        }
        Ok(())
    }

    /// Starts one more.
    fn hire(&mut self) -> Result<String, AgentsError> {
        let place = self.agents.len();
        let name = format!("agent-{}", place + 1);
        let command = (self.start)(&name);
        self.agents.push(Process::start(command, &name, place, self.ear.clone())?);
        Ok(name)
    }

    async fn hear(&mut self, place: usize, heard: Heard) -> Result<(), AgentsError> {
        let said = match heard {
            Heard::Ended => return self.agents[place].farewell().await,
            Heard::Said(said) => said,
        };
        self.agents[place].tally.note(&said);
        match said {
            Said::AboutToWrite { document, token } => self.at_the_write(place, document, token).await?,
            Said::Took { document, token } => self.taken(place, &document, token),
            Said::Wrote { .. } => {
                self.written += 1;
                (self.news)(News::Written(self.written));
            }
            Said::WriteRefused { document, token } => {
                let name = self.agents[place].name.clone();
                (self.news)(News::Refused { name, document, token });
            }
            Said::Conflicts { .. } | Said::Again { .. } | Said::ReadRefused { .. } => {}
        }
        Ok(())
    }

    /// The worst moment: the lease was good a moment ago, and the write is not done.
    async fn at_the_write(&mut self, place: usize, document: String, token: u64) -> Result<(), AgentsError> {
        let parts = |of: u64| self.crew.documents / of;
        if self.to_kill && self.written >= parts(4) {
            return self.kill(place, document, token);
        }
        if self.to_freeze && !self.to_kill && self.written >= parts(2) {
            return self.freeze(place, document, token).await;
        }
        self.agents[place].let_write().await;
        Ok(())
    }

    fn kill(&mut self, place: usize, document: String, token: u64) -> Result<(), AgentsError> {
        self.to_kill = false;
        let agent = &mut self.agents[place];
        agent.kill()?;
        agent.killed = true;
        let name = agent.name.clone();
        let replacement = self.hire()?;
        (self.news)(News::Killed { name, document, token, replacement });
        Ok(())
    }

    async fn freeze(&mut self, place: usize, document: String, token: u64) -> Result<(), AgentsError> {
        self.to_freeze = false;
        let agent = &mut self.agents[place];
        agent.freeze().await?;
        agent.frozen = true;
        let name = agent.name.clone();
        let until = Instant::now() + self.crew.ttl;
        self.frozen = Some(Frozen { place, document: document.clone(), until, taken: None });
        (self.news)(News::Frozen { name, document, token });
        Ok(())
    }

    /// Whether that was the frozen agent's document.
    fn taken(&mut self, place: usize, document: &str, token: u64) {
        let by = self.agents[place].name.clone();
        if let Some(frozen) = &mut self.frozen
            && frozen.place != place
            && frozen.document == document
        {
            frozen.taken = Some((by, token));
        }
    }

    /// The frozen agent writes now: too late.
    async fn thaw(&mut self) -> Result<(), AgentsError> {
        let Some(Frozen { place, taken: Some((by, token)), .. }) = self.frozen.take() else { return Ok(()) };
        let agent = &mut self.agents[place];
        agent.let_write().await;
        agent.thaw()?;
        (self.news)(News::Thawed { name: agent.name.clone(), by, token });
        Ok(())
    }

    /// Ends all: first by asking, so that no key stays, and then by force.
    async fn dismiss_all(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            let _ = self.agents[frozen.place].thaw();
        }
        self.agents.iter_mut().for_each(Process::dismiss);
        let goodbye = Instant::now() + GOODBYE;
        for agent in self.agents.iter_mut().filter(|agent| !agent.ended) {
            if tokio::time::timeout_at(goodbye, agent.farewell()).await.is_err() {
                let _ = agent.kill();
                let _ = agent.farewell().await;
            }
        }
    }
}
