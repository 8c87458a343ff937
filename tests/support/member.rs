//! One process of a cluster: started, frozen, killed and started again with the files it left.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::reaper::Mortal;

const TALK_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Member {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    process: Mutex<Option<Mortal>>,
}

impl Member {
    pub(super) fn new(program: impl Into<PathBuf>, arguments: Vec<String>, log: PathBuf) -> Self {
        Self { program: program.into(), arguments, log, process: Mutex::new(None) }
    }

    pub(super) fn launch(&self) {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log);
        *self.process() = Some(Mortal::spawn(&mut command).expect("the server starts"));
    }

    /// The server's own words, if it has ended by itself.
    pub(super) fn complaint(&self) -> Option<String> {
        let ended = self.process().as_mut().is_none_or(Mortal::has_ended);
        ended.then(|| std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    pub(super) fn runs(&self) -> bool {
        self.process().is_some()
    }

    pub(super) fn kill(&self) {
        *self.process() = None;
    }

    pub(super) fn stop(&self) {
        self.process().as_ref().expect("a process to freeze: it is down").freeze();
    }

    pub(super) fn cont(&self) {
        self.process().as_ref().expect("a process to thaw: it is down").thaw();
    }

    fn process(&self) -> MutexGuard<'_, Option<Mortal>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says something to a server and hears it out, until it hangs up.
pub(super) fn talk(addr: SocketAddr, words: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&addr, TALK_LIMIT).ok()?;
    stream.set_read_timeout(Some(TALK_LIMIT)).ok()?;
    stream.write_all(words.as_bytes()).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

/// A folder of ours that goes when its value goes, or the process.
pub(super) fn folder(prefix: &str) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir().expect("a temporary folder");
    super::remove_at_the_end(folder.path());
    folder
}

/// Whether a program answers to this, and else why not.
pub(super) fn require(program: &str, argument: &str, hint: &str) -> Result<(), String> {
    match Command::new(program).arg(argument).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program} {argument} ends with {}: {hint}", output.status)),
        Err(error) => Err(format!("{program} cannot be run ({error}): {hint}")),
    }
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}
