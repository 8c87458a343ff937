//! One real `redis-server` on loopback that a test starts, stops, kills and starts again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::OwnClock;
use super::reaper::{self, Mortal};
use super::{Certificates, Port, Stopwatch, wait_until};

const START_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The binary: `REDFENCE_REDIS_SERVER`, or `redis-server` on the path.
pub(crate) fn redis_binary() -> PathBuf {
    std::env::var_os("REDFENCE_REDIS_SERVER").map_or_else(|| "redis-server".into(), PathBuf::from)
}

/// A folder in a memory file system, where there is one.
pub(crate) fn memory_folder() -> PathBuf {
    let folder = Path::new("/dev/shm");
    if folder.is_dir() { folder.into() } else { std::env::temp_dir() }
}

/// Whether a real Redis can be started here; else the reason, in words for the person who runs the tests.
pub(crate) fn require_redis() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(look_for_redis).clone()
}

fn look_for_redis() -> Result<(), String> {
    let binary = redis_binary();
    let shown = binary.display();
    let hint = "install redis-server, or name one in REDFENCE_REDIS_SERVER";
    match Command::new(&binary).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{shown} --version ends with {}: {hint}", output.status)),
        Err(error) => Err(format!("{shown} cannot be run ({error}): {hint}")),
    }
}

/// How a server is set up. The default is what the docs ask of a node: every write on disk before its answer, nothing
/// evicted, no snapshots.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    config: BTreeMap<String, String>,
    password: Option<String>,
    users: Vec<String>,
    unix_socket: bool,
    tls: bool,
    cluster: bool,
    own_clock: bool,
    in_memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        let config = [
            ("bind", "127.0.0.1"),
            ("save", "\"\""),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
            ("enable-debug-command", "local"),
            ("latency-tracking", "no"),
        ];
        Self {
            config: config.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            password: None,
            users: Vec::new(),
            unix_socket: false,
            tls: false,
            cluster: false,
            own_clock: false,
            in_memory: false,
        }
    }
}

impl Options {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// One line of redis.conf. A later line of the same name replaces an earlier one.
    pub(crate) fn config(mut self, name: &str, value: &str) -> Self {
        self.config.insert(name.into(), value.into());
        self
    }

    /// Keep data on disk or lose it at every restart.
    pub(crate) fn append_only(self, on: bool) -> Self {
        self.config("appendonly", if on { "yes" } else { "no" })
    }

    /// `always`, `everysec` or `no`.
    pub(crate) fn append_fsync(self, when: &str) -> Self {
        self.config("appendfsync", when)
    }

    pub(crate) fn maxmemory_policy(self, policy: &str) -> Self {
        self.config("maxmemory-policy", policy)
    }

    /// The password of the default user.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// One more user, as a line of an ACL file without the word `user`: `agent on >secret ~* +@all`.
    pub(crate) fn user(mut self, rules: &str) -> Self {
        self.users.push(rules.into());
        self
    }

    /// Listen on a unix socket as well.
    pub(crate) fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Listen with TLS as well, on a port of its own.
    pub(crate) fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// A shard of a Redis Cluster rather than an independent node.
    pub(crate) fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// A wall clock that the test can set; see [`RedisServer::shift_clock`] and `require_own_clock`.
    pub(crate) fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Keep the data in a memory file system, where there is one: for tests that write a lot and whose faults end processes and
    /// not machines. What is written outlives the process all the same.
    pub(crate) fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    pub(crate) fn start(self) -> RedisServer {
        RedisServer::with(self)
    }
}

/// What a server is doing, as far as the test that handles it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Running,
    /// Frozen by SIGSTOP: connections are accepted by the kernel, nothing is answered.
    Stopped,
    Down,
}

/// What a server finds when it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Restart {
    /// The files it left.
    KeepData,
    /// Nothing, not even its scripts.
    Empty,
}

/// A running `redis-server`. All methods take `&self`, so that a test can share it between its tasks.
#[derive(Debug)]
pub(crate) struct RedisServer {
    options: Options,
    ports: Ports,
    folder: TempDir,
    certificates: Option<Certificates>,
    clock: Option<OwnClock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Ports {
    plain: Port,
    tls: Option<Port>,
    cluster_bus: Option<Port>,
}

#[derive(Debug)]
struct State {
    process: Option<Mortal>,
    condition: Condition,
}

enum StartError {
    PortTaken,
    Other(String),
}

impl RedisServer {
    /// Starts a server with the default [`Options`] and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::with(Options::default())
    }

    /// Panics with the server's own log if it does not come up: nothing sensible can follow in a test.
    pub(crate) fn with(options: Options) -> Self {
        let tries = 10;
        for _ in 0..tries {
            let server = Self::prepared(options.clone());
            match server.launch() {
                Ok(()) => return server,
                Err(StartError::PortTaken) => {}
                Err(StartError::Other(reason)) => panic!("{reason}"),
            }
        }
        panic!("{tries} reserved ports in a row were taken by others before redis-server could bind them");
    }

    fn prepared(options: Options) -> Self {
        let place = if options.in_memory { memory_folder() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("redfence-redis-").tempdir_in(place);
        let folder = folder.expect("a temporary folder");
        reaper::remove_at_the_end(folder.path());
        std::fs::create_dir(folder.path().join("data")).expect("a folder for the data");
        let ports = Ports {
            plain: Port::reserve(),
            tls: options.tls.then(Port::reserve),
            cluster_bus: options.cluster.then(Port::reserve),
        };
        let certificates = options.tls.then(|| Certificates::create(folder.path()));
        let clock = options.own_clock.then(|| OwnClock::create(folder.path()));
        let state = Mutex::new(State { process: None, condition: Condition::Down });
        let server = Self { options, ports, folder, certificates, clock, state };
        server.write_config();
        server
    }

    /// `redis://127.0.0.1:PORT`, with the password of the default user if it has one.
    pub(crate) fn url(&self) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{}", self.addr()),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// The same for another user.
    pub(crate) fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    pub(crate) fn unix_url(&self) -> String {
        assert!(self.options.unix_socket, "started without Options::unix_socket");
        format!("redis+unix://{}", self.socket_path().display())
    }

    pub(crate) fn tls_url(&self) -> String {
        let port = self.ports.tls.as_ref().expect("started with Options::tls");
        format!("rediss://{}", port.addr())
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("started with Options::tls")
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.ports.plain.addr()
    }

    /// Where the shards of a Redis Cluster talk to each other.
    pub(crate) fn bus_port(&self) -> u16 {
        self.ports.cluster_bus.as_ref().expect("started with Options::cluster").number()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.state().process.as_ref().map(Mortal::id)
    }

    pub(crate) fn condition(&self) -> Condition {
        self.state().condition
    }

    /// Everything the server wrote to its log, over all its starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The folder with the append-only file.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Bytes in the end of the append-only file: what was written since the last rewrite.
    pub(crate) fn append_only_length(&self) -> u64 {
        std::fs::metadata(self.append_only_end()).expect("the append-only file").len()
    }

    /// Cuts the append-only file to this length, as a power loss does that loses the last writes. The server must be down.
    pub(crate) fn cut_append_only(&self, length: u64) {
        assert_eq!(self.condition(), Condition::Down, "a running server would write on");
        let file = std::fs::OpenOptions::new().write(true).open(self.append_only_end());
        file.and_then(|file| file.set_len(length)).expect("the append-only file can be cut");
    }

    fn append_only_end(&self) -> PathBuf {
        let folder = self.data_folder().join("appendonlydir");
        let mut files =
            std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let end = files.find(|path| path.to_string_lossy().ends_with(".incr.aof"));
        end.expect("a server with an append-only file")
    }

    /// Freezes the process (SIGSTOP): a node that hangs, with its connections open.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.process.as_ref().expect("a process to freeze: it is down").freeze();
        state.condition = Condition::Stopped;
    }

    /// Lets a frozen process run on (SIGCONT).
    pub(crate) fn cont(&self) {
        let mut state = self.state();
        state.process.as_ref().expect("a process to thaw: it is down").thaw();
        state.condition = Condition::Running;
    }

    /// Sets the wall clock of the server to `ms` ahead of this machine's, behind it if negative: a jump.
    pub(crate) fn shift_clock(&self, ms: i64) {
        self.clock.as_ref().expect("started with Options::own_clock").set(ms);
    }

    /// Ends the process at once (SIGKILL): a crash. What was not on disk is lost.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.process = None;
        state.condition = Condition::Down;
    }

    /// Ends the process in its own time (SHUTDOWN, without a snapshot).
    pub(crate) fn shutdown(&self) {
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut self.connection());
        wait_until(START_LIMIT, || self.state().process.as_mut().is_none_or(Mortal::has_ended));
        self.kill();
    }

    /// Kills the process if it runs, and starts it again on the same port.
    pub(crate) fn restart(&self, found: Restart) {
        self.kill();
        if found == Restart::Empty {
            let data = self.data_folder();
            std::fs::remove_dir_all(&data)
                .and_then(|()| std::fs::create_dir(&data))
                .expect("the data can be wiped");
        }
        let watch = Stopwatch::start();
        loop {
            match self.launch() {
                Ok(()) => return,
                Err(StartError::PortTaken) if watch.elapsed() < START_LIMIT => {}
                Err(StartError::PortTaken) => panic!("{} is taken by another process", self.addr()),
                Err(StartError::Other(reason)) => panic!("{reason}"),
            }
        }
    }

    /// A blocking connection of the default user for the test's own looks. Panics if the node does not answer.
    pub(crate) fn connection(&self) -> redis::Connection {
        self.try_connection().unwrap_or_else(|error| panic!("{} does not answer: {error}", self.addr()))
    }

    fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        let connection = redis::Client::open(self.url())?.get_connection_with_timeout(ANSWER_LIMIT)?;
        connection.set_read_timeout(Some(ANSWER_LIMIT))?;
        connection.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(connection)
    }

    /// One command, as words. Panics on an error answer.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{words:?} at {}: {error}", self.addr()))
    }

    pub(crate) fn try_ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let (name, arguments) = words.split_first().expect("a command");
        redis::cmd(name).arg(arguments).query(&mut self.try_connection()?)
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.ask(&["GET", key])
    }

    /// In ms; -1 without TTL, -2 without the key.
    pub(crate) fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key])
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key])
    }

    /// Names of the keys that match `pattern`, sorted.
    pub(crate) fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", pattern]);
        keys.sort();
        keys
    }

    /// Every key with its serialized value: equal snapshots mean that nothing was touched but TTLs.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        self.keys("*").into_iter().map(|key| (key.clone(), self.ask(&["DUMP", &key]))).collect()
    }

    /// How often a command has run since the start, inside scripts as well.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
        let stats: String = self.ask(&["INFO", "commandstats"]);
        stats
            .lines()
            .find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
            .unwrap_or_default()
    }

    fn launch(&self) -> Result<(), StartError> {
        let written = self.log().len();
        let process = Mortal::spawn(
            Command::new(redis_binary())
                .arg(self.config_path())
                .envs(self.clock.iter().flat_map(OwnClock::environment))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
        .map_err(|error| StartError::Other(format!("{}: {error}", redis_binary().display())))?;
        *self.state() = State { process: Some(process), condition: Condition::Running };
        let watch = Stopwatch::start();
        while !self.answers() {
            let ended = self.state().process.as_mut().is_none_or(Mortal::has_ended);
            if !ended && watch.elapsed() < START_LIMIT {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            self.kill();
            let log = self.log().split_off(written);
            if log.contains("Address already in use") {
                return Err(StartError::PortTaken);
            }
            return Err(StartError::Other(format!(
                "redis-server does not answer at {}; its log:\n{log}",
                self.addr()
            )));
        }
        Ok(())
    }

    /// Our own server, not a stranger on the same port: its pid is compared.
    fn answers(&self) -> bool {
        let Some(pid) = self.pid() else { return false };
        let info: Result<String, _> = self.try_ask(&["INFO", "server"]);
        let pong: Result<String, _> = self.try_ask(&["PING"]);
        info.is_ok_and(|info| info.lines().any(|line| line == format!("process_id:{pid}")))
            && pong.is_ok_and(|pong| pong == "PONG")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_config(&self) {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name} {value}").expect("a string takes what is written");
        };
        for (name, value) in &self.options.config {
            line(name, value);
        }
        line("port", &self.ports.plain.number().to_string());
        line("dir", &self.data_folder().display().to_string());
        line("logfile", &self.log_path().display().to_string());
        if self.options.unix_socket {
            line("unixsocket", &self.socket_path().display().to_string());
        }
        if let Some(bus) = &self.ports.cluster_bus {
            line("cluster-enabled", "yes");
            line("cluster-port", &bus.number().to_string());
        }
        if let (Some(port), Some(certificates)) = (&self.ports.tls, &self.certificates) {
            line("tls-port", &port.number().to_string());
            line("tls-cert-file", &certificates.certificate.display().to_string());
            line("tls-key-file", &certificates.key.display().to_string());
            line("tls-ca-cert-file", &certificates.authority.display().to_string());
            line("tls-auth-clients", "no");
        }
        if let Some(password) = &self.options.password {
            line("user", &format!("default on >{password} ~* &* +@all"));
        }
        for rules in &self.options.users {
            line("user", rules);
        }
        std::fs::write(self.config_path(), text).expect("the configuration can be written");
    }

    fn config_path(&self) -> PathBuf {
        self.folder.path().join("redis.conf")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("redis.log")
    }

    fn socket_path(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }
}

impl Drop for RedisServer {
    /// Before the folder goes: the process may still write there.
    fn drop(&mut self) {
        self.kill();
    }
}
