//! One real PostgreSQL server on loopback. Databases in it are cheap: a test has one of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::reaper::{self, Mortal};
use super::{Port, Stopwatch, memory_folder};

const START_LIMIT: Duration = Duration::from_secs(30);
const USER: &str = "tester";

/// Whether a server can be started here; else the reason, in words for the person who runs the tests.
pub(crate) fn require_postgres() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(|| binaries().and_then(|_| account()).map(|_| ())).clone()
}

/// The folder of `initdb` and `postgres`: one on the path, or Debian's of the newest version.
fn binaries() -> Result<PathBuf, String> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let complete = |folder: &PathBuf| folder.join("initdb").exists() && folder.join("postgres").exists();
    let found = std::env::split_paths(&path).chain(debian.into_iter().rev()).find(complete);
    found.ok_or_else(|| "there is no initdb and postgres: install postgresql".to_owned())
}

/// As whom the server runs, if not as ourselves: it refuses to run as root.
fn account() -> Result<Option<(u32, u32)>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let ids = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    ids.map(Some).ok_or_else(|| "PostgreSQL does not run as root, and there is no user postgres".to_owned())
}

/// A running server.
#[derive(Debug)]
pub(crate) struct PostgresServer {
    port: Port,
    folder: TempDir,
    process: Mutex<Option<Mortal>>,
}

impl PostgresServer {
    /// Panics with the server's own words if it does not come up: nothing sensible can follow in a test.
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("redfence-postgres-").tempdir_in(memory_folder());
        let folder = folder.expect("a temporary folder");
        reaper::remove_at_the_end(folder.path());
        give(folder.path());
        let server = Self { port: Port::reserve(), folder, process: Mutex::default() };
        let made = server
            .command("initdb")
            .args(["-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(server.data())
            .output();
        expect_success("initdb", &made.expect("initdb runs"));
        server.launch();
        server
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The URL of a database of this server, also if it is reached through another address.
    pub(crate) fn url_at(addr: SocketAddr, database: &str) -> String {
        format!("postgres://{USER}@{addr}/{database}")
    }

    /// Ends all server processes at once, as a crash does, and starts the server again on its data.
    pub(crate) fn crash_and_restart(&self) {
        self.stop();
        self.launch();
    }

    fn launch(&self) {
        let log = std::fs::File::create(self.log()).expect("a log");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.number().to_string()]);
        // No files elsewhere, and nothing that outlives it: this is one of many for a moment.
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=16MB",
            "dynamic_shared_memory_type=mmap",
            "max_connections=100",
            "deadlock_timeout=200ms",
        ];
        for setting in settings {
            command.args(["-c", setting]);
        }
        let log = log.try_clone().map(|out| (out, log)).expect("a log");
        command.stdin(Stdio::null()).stdout(log.0).stderr(log.1);
        let process = Mortal::spawn(&mut command).expect("postgres starts");
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        let watch = Stopwatch::start();
        while !self.is_ready() {
            assert!(watch.elapsed() < START_LIMIT && !self.has_ended(), "postgres: {}", self.words());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The line that the server writes into its folder for `pg_ctl`.
    fn is_ready(&self) -> bool {
        let state = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        state.lines().any(|line| line.trim_end() == "ready")
    }

    fn has_ended(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_mut().is_none_or(Mortal::has_ended)
    }

    fn words(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Asks for what it calls an immediate shutdown: then it tidies up its shared memory. Else it is killed.
    fn stop(&self) {
        let Some(mut process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        if let Some(pid) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let watch = Stopwatch::start();
        while !process.has_ended() && watch.elapsed() < START_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(process);
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
    }

    fn command(&self, program: &str) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(binaries().expect("looked for before").join(program));
        // The server looks at where it is started, and may not look into other people's folders.
        command.current_dir(self.folder.path()).env("LC_ALL", "C").env("TZ", "UTC");
        if let Some((user, group)) = account().expect("looked for before") {
            command.uid(user).gid(group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn give(folder: &Path) {
    if let Some((user, group)) = account().expect("looked for before") {
        std::os::unix::fs::chown(folder, Some(user), Some(group)).expect("the folder can be given away");
    }
}

fn expect_success(what: &str, output: &Output) {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} ends with {}: {words}", output.status);
}
