//! One agent's process, as its supervisor holds it.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::AgentsError;
use super::line::Said;
use super::report::{AgentReport, Tally};

/// What comes from the processes, with the place of the one it comes from.
#[derive(Debug)]
pub(super) enum Heard {
    Said(Said),
    /// Its end of the line is closed.
    Ended,
}

pub(super) type Ear = mpsc::UnboundedSender<(usize, Heard)>;

/// A process that does not outlive this value, nor (by its line) its supervisor.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) tally: Tally,
    pub(super) killed: bool,
    pub(super) frozen: bool,
    pub(super) ended: bool,
    child: Child,
    /// Closed, it tells the process to end.
    orders: Option<ChildStdin>,
}

impl Process {
    /// Starts it; `ear` hears it as the one at `place`.
    pub(super) fn start(
        mut command: Command,
        name: &str,
        place: usize,
        ear: Ear,
    ) -> Result<Self, AgentsError> {
        // Ctrl-C in a terminal is for the supervisor, which then ends its agents. Should a frozen agent lose its supervisor, the
        // system wakes and ends it: its group is an orphan with a stopped member (POSIX, `_exit`).
        #[cfg(unix)]
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let failed = |source| failure(name, "started", source);
        let mut child = command.spawn().map_err(failed)?;
        let closed = || failed(io::ErrorKind::BrokenPipe.into());
        let (orders, stdout) = (child.stdin.take(), child.stdout.take().ok_or_else(closed)?);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(said) => drop(ear.send((place, Heard::Said(said)))),
                    // One that is killed may leave half a line.
                    Err(error) => tracing::debug!(%error, line, "not understood"),
                }
            }
            let _ = ear.send((place, Heard::Ended));
        });
        let name = name.to_owned();
        Ok(Self { name, tally: Tally::default(), killed: false, frozen: false, ended: false, child, orders })
    }

    /// Gives it leave to write.
    pub(super) async fn let_write(&mut self) {
        if let Some(orders) = &mut self.orders {
            // One that has ended is heard to have ended.
            let _ = orders.write_all(b"write\n").await;
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), AgentsError> {
        self.child.start_kill().map_err(|source| failure(&self.name, "killed", source))
    }

    /// SIGSTOP, and waits until it stands still.
    pub(super) async fn freeze(&self) -> Result<(), AgentsError> {
        let stopped = async {
            signal::stop(self.id()?)?;
            while !signal::is_stopped(self.id()?)? {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        };
        let stopped = tokio::time::timeout(Duration::from_secs(10), stopped).await;
        let stopped = stopped.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        stopped.map_err(|source| failure(&self.name, "frozen", source))
    }

    /// SIGCONT.
    pub(super) fn thaw(&self) -> Result<(), AgentsError> {
        let thawed = self.id().and_then(signal::go_on);
        thawed.map_err(|source| failure(&self.name, "thawed", source))
    }

    /// Tells it to give back what it holds, and to end.
    pub(super) fn dismiss(&mut self) {
        self.orders = None;
    }

    /// Waits for its end. That it must not have been, unless it was killed by us.
    pub(super) async fn farewell(&mut self) -> Result<(), AgentsError> {
        let status = self.child.wait().await.map_err(|source| failure(&self.name, "waited for", source))?;
        self.ended = true;
        match status.success() || self.killed {
            true => Ok(()),
            false => Err(AgentsError::Died { name: self.name.clone(), status }),
        }
    }

    pub(super) fn report(&self) -> AgentReport {
        AgentReport { name: self.name.clone(), tally: self.tally, killed: self.killed, frozen: self.frozen }
    }

    /// Known until its end was waited for: nobody else can have the number before.
    fn id(&self) -> io::Result<u32> {
        self.child.id().ok_or_else(|| io::Error::other("it has ended"))
    }
}

fn failure(name: &str, what: &'static str, source: io::Error) -> AgentsError {
    AgentsError::Process { name: name.to_owned(), what, source }
}

#[cfg(unix)]
mod signal {
    use std::io;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    pub(super) fn stop(id: u32) -> io::Result<()> {
        Ok(kill_process(pid(id)?, Signal::STOP)?)
    }

    pub(super) fn go_on(id: u32) -> io::Result<()> {
        Ok(kill_process(pid(id)?, Signal::CONT)?)
    }

    /// Asks without taking the answer from anybody else who waits.
    pub(super) fn is_stopped(id: u32) -> io::Result<bool> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid(id)?), options)?.is_some_and(|status| status.stopped()))
    }

    fn pid(id: u32) -> io::Result<Pid> {
        let number = i32::try_from(id).ok().and_then(Pid::from_raw);
        number.ok_or_else(|| io::Error::other("not the number of a process"))
    }
}

#[cfg(not(unix))]
mod signal {
    use std::io;

    pub(super) fn stop(_: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn go_on(_: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_stopped(_: u32) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
