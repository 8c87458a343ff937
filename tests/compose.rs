//! `docker-compose.yml`: a compose implementation accepts it, it says what safety rests on, and the nodes that it describes,
//! started from the Debian package with those very settings, keep a lock.
//!
//! No container is started: that needs a Docker engine.

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::error::AcquireError;
use redis::Commands;
use serde_json::Value;
use support::{Live, Mortal, Port, live_tests, redis_binary, require_redis, wait_until};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker-compose.yml");
const SOON: Duration = Duration::from_secs(20);

fn main() {
    let nothing = || Ok(());
    let mut tests = vec![
        Live::sync("a_compose_implementation_accepts_the_file", a_compose_implementation_accepts_the_file)
            .needing(require_compose),
        Live::sync(
            "what_safety_rests_on_is_said_for_every_node",
            what_safety_rests_on_is_said_for_every_node,
        )
        .needing(nothing),
        Live::sync(
            "agents_wait_for_all_nodes_and_know_the_same_ones",
            agents_wait_for_all_nodes_and_know_the_same_ones,
        )
        .needing(nothing),
    ];
    tests.extend(live_tests![multi_thread: nodes_with_these_settings_keep_a_lock, ]);
    support::run_live(tests);
}

/// Whether there is a compose implementation; it needs no engine to read a file.
fn require_compose() -> Result<(), String> {
    match Command::new("docker-compose").arg("version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("docker-compose version ends with {}", output.status)),
        Err(error) => {
            Err(format!("docker-compose cannot be run ({error}): install it (Debian: docker-compose)"))
        }
    }
}

fn a_compose_implementation_accepts_the_file() {
    let check = |file: &str| {
        let output =
            Command::new("docker-compose").args(["-f", file, "config", "-q"]).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (accepted, said) = check(FILE);
    assert!(accepted, "{said}");
    // The check is one: a misspelt word is found.
    let text = std::fs::read_to_string(FILE).expect("the file").replace("healthcheck:", "healthchek:");
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("docker-compose.yml");
    std::fs::write(&wrong, text).expect("a file");
    let (accepted, said) = check(wrong.to_str().expect("UTF-8"));
    assert!(!accepted && said.contains("healthchek"), "{said}");
}

/// The services, anchors and merges followed.
fn services() -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(FILE).expect("the file");
    let file: Value = serde_saphyr::from_str(&text).expect("YAML");
    file["services"].as_object().expect("services").clone()
}

/// The Redis nodes, by name.
fn nodes() -> Vec<(String, Value)> {
    let is_node =
        |service: &Value| service["image"].as_str().is_some_and(|image| image.starts_with("redis:"));
    services().into_iter().filter(|(_, service)| is_node(service)).collect()
}

/// The words of a service's command.
fn command(service: &Value) -> Vec<String> {
    let words = service["command"].as_array().expect("a list");
    words.iter().map(|word| word.as_str().unwrap_or_else(|| panic!("{word} is no text")).to_owned()).collect()
}

fn what_safety_rests_on_is_said_for_every_node() {
    let nodes = nodes();
    assert_eq!(nodes.len(), 5);
    let (mut ports, mut volumes) = (BTreeSet::new(), BTreeSet::new());
    for (name, node) in &nodes {
        let command = command(node);
        let says = |option: &str, value: &str| command.windows(2).any(|pair| pair == [option, value]);
        assert!(says("--appendonly", "yes") && says("--appendfsync", "always"), "{name}: {command:?}");
        assert!(
            says("--maxmemory-policy", "noeviction") && says("--no-appendfsync-on-rewrite", "no"),
            "{name}"
        );
        assert!(!command.iter().any(|word| word.contains("replicaof") || word.contains("cluster")), "{name}");
        let test = node["healthcheck"]["test"][1].as_str().unwrap_or_default();
        assert!(test.contains("PONG"), "{name}: a node that loads answers too, but not PONG: {test:?}");
        ports.insert(node["ports"][0].as_str().expect("a port").to_owned());
        volumes.insert(node["volumes"][0].as_str().expect("a volume").to_owned());
    }
    assert_eq!((ports.len(), volumes.len()), (5, 5), "each its own: {ports:?} {volumes:?}");
    for (name, service) in services() {
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().is_some_and(|port| port.starts_with("127.0.0.1:")), "{name}: {port}");
        }
        let image = service["image"].as_str().expect("an image");
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{name}: {image} has no tag"));
        assert!(
            tag == "local" || tag.starts_with(|sign: char| sign.is_ascii_digit() || sign == 'v'),
            "{image}"
        );
    }
}

fn agents_wait_for_all_nodes_and_know_the_same_ones() {
    let (services, nodes) = (services(), nodes());
    let expected: Vec<_> = nodes.iter().map(|(name, _)| format!("redis://{name}:6379")).collect();
    let is_agent = |service: &Value| {
        service["command"].as_array().is_some_and(|words| words.contains(&Value::from("work")))
    };
    let agents: Vec<_> = services.iter().filter(|(_, service)| is_agent(service)).collect();
    assert_eq!(agents.len(), 3);
    for (name, agent) in agents {
        let told = agent["environment"]["REDFENCE_NODES"].as_str().expect("nodes");
        assert_eq!(told.split(',').collect::<Vec<_>>(), expected, "{name}");
        for (node, _) in &nodes {
            assert_eq!(agent["depends_on"][node]["condition"], "service_healthy", "{name} and {node}");
        }
        assert_eq!(agent["depends_on"]["fill"]["condition"], "service_completed_successfully", "{name}");
        assert_eq!(agent["volumes"], services["fill"]["volumes"], "{name} has the same store");
    }
}

/// A `redis-server` of this machine, with the settings of one service.
struct Node {
    _process: Mortal,
    _data: tempfile::TempDir,
    port: Port,
}

impl Node {
    fn start(service: &Value) -> Self {
        let words = command(service);
        assert_eq!(words[0], "redis-server");
        let data = tempfile::Builder::new().prefix("redfence-compose-").tempdir().expect("a folder");
        support::remove_at_the_end(data.path());
        let port = Port::reserve();
        let mut server = Command::new(redis_binary());
        server.args(&words[1..]).args(["--bind", "127.0.0.1", "--port", &port.number().to_string(), "--dir"]);
        server.arg(data.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Mortal::spawn(&mut server).expect("redis-server starts");
        let node = Self { _process: process, _data: data, port };
        wait_until(SOON, || node.ask::<String>(&["PING"]).is_some_and(|said| said == "PONG"));
        node
    }

    fn url(&self) -> String {
        format!("redis://{}", self.port.addr())
    }

    fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let mut connection = redis::Client::open(self.url()).ok()?.get_connection().ok()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).ok()
    }

    fn setting(&self, name: &str) -> String {
        let pair: Vec<String> = self.ask(&["CONFIG", "GET", name]).expect("an answer");
        pair[1].clone()
    }
}

async fn nodes_with_these_settings_keep_a_lock() {
    require_redis().expect("it was asked for");
    let servers: Vec<_> = nodes().iter().map(|(_, service)| Node::start(service)).collect();
    for server in &servers {
        let read = |name| server.setting(name);
        assert_eq!((read("appendonly"), read("appendfsync")), ("yes".into(), "always".into()));
        assert_eq!((read("maxmemory-policy"), read("maxmemory")), ("noeviction".into(), "0".into()));
        assert_eq!((read("no-appendfsync-on-rewrite"), read("save")), ("no".into(), String::new()));
        assert_eq!(read("replicaof"), "");
    }
    let locks = DistributedLock::builder().nodes(servers.iter().map(Node::url)).build().expect("a lock");
    let guard = locks.acquire("compose", SOON).await.expect("it is free");
    let token = guard.token().expect("a token");
    let refused = locks.try_acquire("compose").await;
    assert!(matches!(refused, Err(AcquireError::Contended { .. })), "{refused:?}");
    guard.release().await;
    let next = locks.acquire("compose", SOON).await.expect("it was given back");
    assert!(next.token().expect("a token") > token);
    next.release().await;
    assert!(locks.drain(SOON).await);
    for server in &servers {
        let mut connection =
            redis::Client::open(server.url()).and_then(|client| client.get_connection()).expect("it answers");
        let left: bool = connection.exists("compose").expect("an answer");
        assert!(!left, "the lock's key is gone at every node");
    }
}
