//! A ZooKeeper ensemble of one or three servers on loopback.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::member::{self, Member, talk};
use super::{Port, Stopwatch};

const START_LIMIT: Duration = Duration::from_secs(60);

/// Where Debian's package `zookeeper` has it.
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// The length of a tick: a session lives 2 to 20 of them, an ensemble notices a lost server after 5.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// Whether ZooKeeper can be started here; else the reason.
pub(crate) fn require_zookeeper() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(look_for_zookeeper).clone()
}

fn look_for_zookeeper() -> Result<(), String> {
    let hint = "install zookeeper (Debian), which brings Java";
    if !Path::new(JAR).exists() {
        return Err(format!("{JAR} is not there: {hint}"));
    }
    member::require("java", "-version", hint)
}

/// A running ensemble.
#[derive(Debug)]
pub(crate) struct ZooKeeperEnsemble {
    servers: Vec<(Member, Port)>,
    _others: Vec<Port>,
    _folder: TempDir,
}

impl ZooKeeperEnsemble {
    /// Servers that do not wait for the disk. Panics with the log of one that does not come up.
    pub(crate) fn start(size: usize) -> Self {
        Self::with(size, "no")
    }

    /// Servers that have every write on disk before they answer, as in production.
    pub(crate) fn durable(size: usize) -> Self {
        Self::with(size, "yes")
    }

    fn with(size: usize, sync: &str) -> Self {
        let folder = member::folder("redfence-zookeeper-");
        let clients: Vec<_> = (0..size).map(|_| Port::reserve()).collect();
        let others: Vec<_> = (0..2 * size).map(|_| Port::reserve()).collect();
        let mut ensemble = String::new();
        if size > 1 {
            for (i, ports) in others.chunks(2).enumerate() {
                let [quorum, election] = [ports[0].number(), ports[1].number()];
                writeln!(ensemble, "server.{}=127.0.0.1:{quorum}:{election}", i + 1).expect("a string");
            }
        }
        let server = |(i, client): (usize, Port)| {
            let place = folder.path().join(format!("s{i}"));
            let data = place.join("data");
            std::fs::create_dir_all(&data).expect("a folder");
            std::fs::write(data.join("myid"), (i + 1).to_string()).expect("a file");
            let config = format!(
                "tickTime={}\ninitLimit=50\nsyncLimit=5\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
                 admin.enableServer=false\n4lw.commands.whitelist=srvr\nmaxClientCnxns=0\n{ensemble}",
                TICK.as_millis(),
                data.display(),
                client.number()
            );
            let file = place.join("zoo.cfg");
            std::fs::write(&file, config).expect("a file");
            let arguments = [
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.admin.enableServer=false",
                &format!("-Dzookeeper.forceSync={sync}"),
                "-cp",
                JAR,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            ];
            let mut arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            arguments.push(member::text(&file));
            (Member::new("java", arguments, place.join("log")), client)
        };
        let servers: Vec<_> = clients.into_iter().enumerate().map(server).collect();
        servers.iter().for_each(|(server, _)| server.launch());
        let ensemble = Self { servers, _others: others, _folder: folder };
        (0..size).for_each(|i| ensemble.wait_until_serving(i));
        ensemble
    }

    /// `host:port,host:port`
    pub(crate) fn connect_string(&self) -> String {
        let all: Vec<_> = self.servers.iter().map(|(_, port)| port.addr().to_string()).collect();
        all.join(",")
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Freezes a server (SIGSTOP).
    pub(crate) fn stop(&self, server: usize) {
        self.servers[server].0.stop();
    }

    /// Lets it run on (SIGCONT).
    pub(crate) fn cont(&self, server: usize) {
        self.servers[server].0.cont();
    }

    /// Ends a server at once (SIGKILL).
    pub(crate) fn kill(&self, server: usize) {
        self.servers[server].0.kill();
    }

    /// Starts a killed server again, with the data it left.
    pub(crate) fn restart(&self, server: usize) {
        self.servers[server].0.kill();
        self.servers[server].0.launch();
        self.wait_until_serving(server);
    }

    /// The server that leads; the only one of an ensemble of one.
    pub(crate) fn leader(&self) -> Option<usize> {
        (0..self.len()).find(|&i| matches!(self.mode(i).as_deref(), Some("leader" | "standalone")))
    }

    /// What a server says it is; nothing before it serves.
    fn mode(&self, server: usize) -> Option<String> {
        let (server, port) = &self.servers[server];
        let said = server.runs().then(|| talk(port.addr(), "srvr"))??;
        said.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    fn wait_until_serving(&self, index: usize) {
        let watch = Stopwatch::start();
        while self.mode(index).is_none() {
            if let Some(log) = self.servers[index].0.complaint() {
                panic!("ZooKeeper server {index} has ended:\n{log}");
            }
            assert!(
                watch.elapsed() < START_LIMIT,
                "ZooKeeper server {index} does not serve after {START_LIMIT:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
