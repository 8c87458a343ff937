//! An etcd cluster of one or three members on loopback.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::member::{self, Member, talk};
use super::{Port, Stopwatch};

const START_LIMIT: Duration = Duration::from_secs(40);

/// Whether etcd can be started here; else the reason.
pub(crate) fn require_etcd() -> Result<(), String> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(|| member::require("etcd", "--version", "install etcd-server")).clone()
}

/// A running cluster. Elections are as quick as tests want them: TTLs below 1.5 s are raised to 2 s.
#[derive(Debug)]
pub(crate) struct EtcdCluster {
    members: Vec<(Member, Port)>,
    _peers: Vec<Port>,
    _folder: TempDir,
}

impl EtcdCluster {
    /// Members that do not wait for the disk. Panics with the log of one that does not come up.
    pub(crate) fn start(size: usize) -> Self {
        Self::with(size, &["--unsafe-no-fsync"])
    }

    /// Members that have every write on disk before they answer, as in production.
    pub(crate) fn durable(size: usize) -> Self {
        Self::with(size, &[])
    }

    fn with(size: usize, more: &[&str]) -> Self {
        let folder = member::folder("redfence-etcd-");
        let (clients, peers): (Vec<_>, Vec<_>) =
            (0..size).map(|_| (Port::reserve(), Port::reserve())).unzip();
        let url = |port: &Port| format!("http://{}", port.addr());
        let all: Vec<_> = peers.iter().enumerate().map(|(i, peer)| format!("n{i}={}", url(peer))).collect();
        let all = all.join(",");
        let member = |(i, (client, peer)): (usize, (Port, &Port))| {
            let place = folder.path().join(format!("n{i}"));
            let (data, log) = (member::text(&place), folder.path().join(format!("n{i}.log")));
            let arguments = [
                ("--name", format!("n{i}")),
                ("--data-dir", data),
                ("--listen-client-urls", url(&client)),
                ("--advertise-client-urls", url(&client)),
                ("--listen-peer-urls", url(peer)),
                ("--initial-advertise-peer-urls", url(peer)),
                ("--initial-cluster", all.clone()),
                ("--heartbeat-interval", "100".to_owned()),
                ("--election-timeout", "1000".to_owned()),
                ("--logger", "zap".to_owned()),
                ("--log-level", "warn".to_owned()),
            ];
            let mut arguments: Vec<_> =
                arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
            arguments.extend(more.iter().map(|&argument| argument.to_owned()));
            (Member::new("etcd", arguments, log), client)
        };
        let members: Vec<_> = clients.into_iter().zip(&peers).enumerate().map(member).collect();
        members.iter().for_each(|(member, _)| member.launch());
        let cluster = Self { members, _peers: peers, _folder: folder };
        (0..size).for_each(|i| cluster.wait_until_healthy(i));
        cluster
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.members.iter().map(|(_, port)| format!("http://{}", port.addr())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Freezes a member (SIGSTOP).
    pub(crate) fn stop(&self, member: usize) {
        self.members[member].0.stop();
    }

    /// Lets it run on (SIGCONT).
    pub(crate) fn cont(&self, member: usize) {
        self.members[member].0.cont();
    }

    /// Ends a member at once (SIGKILL).
    pub(crate) fn kill(&self, member: usize) {
        self.members[member].0.kill();
    }

    /// Starts a killed member again, with the data it left.
    pub(crate) fn restart(&self, member: usize) {
        self.members[member].0.kill();
        self.members[member].0.launch();
        self.wait_until_healthy(member);
    }

    /// The member that leads, as a running member sees it.
    pub(crate) fn leader(&self) -> Option<usize> {
        let ids: Vec<_> = (0..self.len()).map(|i| self.status(i)).collect();
        let leader = ids.iter().flatten().map(|(_, leader)| leader.clone()).find(|leader| leader != "0")?;
        ids.iter().position(|seen| seen.as_ref().is_some_and(|(id, _)| *id == leader))
    }

    /// A member's own id, and the leader's.
    fn status(&self, member: usize) -> Option<(String, String)> {
        let (member, port) = &self.members[member];
        if !member.runs() {
            return None;
        }
        let said: serde_json::Value =
            serde_json::from_str(&post(port.addr(), "/v3/maintenance/status")?).ok()?;
        let id = said["header"]["member_id"].as_str()?.to_owned();
        Some((id, said["leader"].as_str()?.to_owned()))
    }

    fn wait_until_healthy(&self, index: usize) {
        let (member, port) = &self.members[index];
        let watch = Stopwatch::start();
        let request = "GET /health HTTP/1.0\r\n\r\n";
        while !talk(port.addr(), request).is_some_and(|said| said.contains("\"true\"")) {
            if let Some(log) = member.complaint() {
                panic!("etcd member {index} has ended:\n{log}");
            }
            assert!(
                watch.elapsed() < START_LIMIT,
                "etcd member {index} is not healthy after {START_LIMIT:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn post(addr: SocketAddr, path: &str) -> Option<String> {
    let said = talk(addr, &format!("POST {path} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}"))?;
    said.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}
