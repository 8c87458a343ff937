//! The embedded node as the real Redis client sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redfence::backend::redlock::scripts::{Keys, NODE_RECORD, Script};
use redfence::lock::error::{AcquireError, ConfigError};
use redfence::lock::report::NodeAnswer;
use redfence::lock::{ByteStream, Connecting, Connector, InitOutcome, ReleaseOutcome, RunError};
use redfence::node::{EmbeddedNode, NodeHandle, NodeOptions};
use redfence::proto::message::MAX_NUMBER;
use redfence::proto::{Drift, FencingToken};
use redfence::{DistributedLock, LockBuilder};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, PushKind, Value,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(20);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("an end in time")
}

async fn listening() -> NodeHandle {
    EmbeddedNode::default().listen("127.0.0.1:0").await.expect("a free port")
}

async fn client(node: &NodeHandle) -> MultiplexedConnection {
    let client = Client::open(node.url()).expect("a URL");
    within(client.get_multiplexed_async_connection()).await.expect("a connection")
}

/// A connection over no network at all.
async fn over_duplex(node: &EmbeddedNode, protocol: ProtocolVersion) -> MultiplexedConnection {
    let (mine, theirs) = tokio::io::duplex(1024);
    let node = node.clone();
    tokio::spawn(async move { node.serve(theirs).await });
    let info = "redis://embedded"
        .into_connection_info()
        .expect("a URL")
        .redis_settings()
        .clone()
        .set_protocol(protocol);
    let config = AsyncConnectionConfig::new();
    let (connection, driver) =
        within(MultiplexedConnection::new_with_config(&info, mine, config)).await.expect("a greeting");
    tokio::spawn(driver);
    connection
}

#[tokio::test]
async fn the_client_works_over_any_stream_in_both_versions() {
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let node = EmbeddedNode::default();
        let mut one = over_duplex(&node, protocol).await;
        let mut other = over_duplex(&node, protocol).await;
        let (): () = one.set("key", "value").await.unwrap();
        let got: String = other.get("key").await.unwrap();
        assert_eq!(got, "value");
        let (): () = one.hset_multiple("hash", &[("a", 1), ("b", 2)]).await.unwrap();
        let all: std::collections::BTreeMap<String, i64> = other.hgetall("hash").await.unwrap();
        assert_eq!(all, [("a".to_owned(), 1), ("b".to_owned(), 2)].into());
        let missing: Option<String> = other.get("nothing").await.unwrap();
        assert_eq!(missing, None);
    }
}

#[tokio::test]
async fn a_script_is_sent_once_and_then_called_by_its_digest() {
    let node = listening().await;
    let mut connection = client(&node).await;
    let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let (first, second): (i64, i64) = (
        script.key("n").arg(2).invoke_async(&mut connection).await.unwrap(),
        script.key("n").arg(3).invoke_async(&mut connection).await.unwrap(),
    );
    assert_eq!((first, second), (2, 5));
    let (): () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.unwrap();
    let third: i64 = script.key("n").arg(1).invoke_async(&mut connection).await.unwrap();
    assert_eq!(third, 6, "an unknown digest makes the client send the text");
}

#[tokio::test]
async fn our_scripts_lock_and_release_through_the_client() {
    let node = listening().await;
    let mut connection = client(&node).await;
    let keys = Keys::new("", "res");
    let owner = format!("{:032x}", 7);
    let acquire = redis::Script::new(Script::Acquire.text());
    let mut call = acquire.prepare_invoke();
    call.key(&keys.lock).key(&keys.counter).key(NODE_RECORD).arg(&owner).arg(60_000).arg(0);
    let empty: Vec<i64> = call.invoke_async(&mut connection).await.unwrap();
    assert_eq!(empty, [-1], "an empty node does not vote");
    let init = redis::Script::new(Script::Init.text());
    let record: Vec<i64> = init.key(NODE_RECORD).arg(1).arg(41).invoke_async(&mut connection).await.unwrap();
    assert_eq!(record, [1, 41, 41]);
    let mine: Vec<i64> = call.invoke_async(&mut connection).await.unwrap();
    assert_eq!(mine, [1, 42, 1]);
    let taken: Vec<i64> = call.invoke_async(&mut connection).await.unwrap();
    assert!(taken[..2] == [0, 42] && (1..=60_000).contains(&taken[2]), "{taken:?}");
    let release = redis::Script::new(Script::Release.text());
    let released: i64 =
        release.key(&keys.lock).arg(&owner).arg(&keys.channel).invoke_async(&mut connection).await.unwrap();
    assert_eq!(released, 1);
}

#[tokio::test]
async fn messages_reach_subscribers_of_both_kinds() {
    let node = listening().await;
    let url = Client::open(node.url()).unwrap();
    let mut by_stream = url.get_async_pubsub().await.unwrap();
    by_stream.subscribe("news").await.unwrap();
    by_stream.psubscribe("n?ws").await.unwrap();

    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let resp3 = Client::open(format!("{}?protocol=resp3", node.url())).unwrap();
    let mut by_push = resp3.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    by_push.subscribe("news").await.unwrap();

    let mut publisher = client(&node).await;
    let heard: usize = publisher.publish("news", "hello").await.unwrap();
    assert_eq!(heard, 3);
    let mut messages = by_stream.on_message();
    for _ in 0..2 {
        let message = within(messages.next()).await.unwrap();
        assert_eq!(
            (message.get_channel_name(), message.get_payload::<String>().unwrap().as_str()),
            ("news", "hello")
        );
    }
    let message = within(async {
        loop {
            let push = pushes.recv().await.unwrap();
            if push.kind == PushKind::Message {
                return push.data;
            }
        }
    });
    let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    assert_eq!(message.await, [bulk("news"), bulk("hello")]);
    // A subscriber in RESP3 goes on asking.
    let answer: String = redis::cmd("PING").query_async(&mut by_push).await.unwrap();
    assert_eq!(answer, "PONG");
}

#[tokio::test]
async fn a_dropped_subscriber_is_forgotten() {
    let node = listening().await;
    let mut publisher = client(&node).await;
    let mut ear = Client::open(node.url()).unwrap().get_async_pubsub().await.unwrap();
    ear.subscribe("news").await.unwrap();
    drop(ear);
    within(async {
        while publisher.publish::<_, _, usize>("news", "hello").await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn pipelines_larger_than_every_buffer_are_answered_in_order() {
    let node = EmbeddedNode::default();
    let (mine, theirs) = tokio::io::duplex(512);
    tokio::spawn(async move { node.serve(theirs).await });
    let (mut reader, mut writer) = tokio::io::split(mine);
    let count = 20_000;
    let sending = async move {
        for number in 0..count {
            writer.write_all(format!("ECHO {number}\r\n").as_bytes()).await.unwrap();
        }
        writer.write_all(b"QUIT\r\n").await.unwrap();
        writer
    };
    let receiving = async move {
        let mut told = String::new();
        reader.read_to_string(&mut told).await.unwrap();
        told
    };
    let (_, told) = within(async { tokio::join!(sending, receiving) }).await;
    let expected: String =
        (0..count).map(|n: u32| n.to_string()).map(|n| format!("${}\r\n{n}\r\n", n.len())).collect();
    assert!(told == expected + "+OK\r\n", "20 000 answers, in order, and then the end");
}

#[tokio::test]
async fn commands_of_one_script_are_seen_together_or_not_at_all() {
    let node = listening().await;
    let script =
        "redis.call('INCR', 'a'); for i = 1, 2000 do redis.call('GET', 'a') end; redis.call('INCR', 'b')";
    let mut writer = client(&node).await;
    let writing = tokio::spawn(async move {
        for _ in 0..50 {
            let (): () = redis::cmd("EVAL").arg(script).arg(0).query_async(&mut writer).await.unwrap();
        }
    });
    let mut reader = client(&node).await;
    while !writing.is_finished() {
        let (a, b): (Option<u32>, Option<u32>) =
            redis::cmd("MGET").arg(&["a", "b"]).query_async(&mut reader).await.unwrap();
        assert_eq!(a, b);
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_script_leaves_nothing_for_the_next() {
    let node = listening().await;
    let mut connection = client(&node).await;
    for (leave, look) in [
        ("rawset(_G, 'left', 1)", "return left"),
        ("rawset(string, 'left', 1)", "return string.left"),
        ("table.insert(table, 1)", "return table[1]"),
        ("rawset(redis, 'call', 1)", "return type(redis.call) == 'function'"),
        ("rawset(getmetatable('') or {}, '__index', nil)", "return ('x'):upper() == 'X'"),
        ("setmetatable(string, {})", "return string.upper('x') == 'X'"),
        ("KEYS[1] = 'x'", "return KEYS[1]"),
        ("math.random = nil", "return type(math.random) == 'function'"),
    ] {
        let run = |text: &str| redis::cmd("EVAL").arg(text).arg(0).clone();
        let fresh: Result<Value, _> = run(look).query_async(&mut connection).await;
        let _: Result<Value, _> = run(leave).query_async(&mut connection).await;
        let after: Result<Value, _> = run(look).query_async(&mut connection).await;
        assert_eq!(fresh, after, "{leave}");
        let clean = matches!(&after, Err(_) | Ok(Value::Nil)) || after == Ok(Value::Int(1));
        assert!(clean, "{look}: {after:?}");
    }
}

#[tokio::test]
async fn a_node_lives_by_the_clock_it_is_given() {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let hand = Arc::clone(&time);
    let node = EmbeddedNode::new(&NodeOptions::new().clock(move || hand.load(Ordering::SeqCst))).unwrap();
    let mut connection = over_duplex(&node, ProtocolVersion::RESP2).await;
    let (): () =
        redis::cmd("SET").arg(&["key", "x", "PX", "500"]).query_async(&mut connection).await.unwrap();
    for (now, left) in [(1_000_000, 500), (1_000_499, 1), (1_000_500, 0), (1_000_501, -2), (1_000_000, -2)] {
        time.store(now, Ordering::SeqCst);
        let told: i64 = redis::cmd("PTTL").arg("key").query_async(&mut connection).await.unwrap();
        assert_eq!(told, left, "at {now}");
    }
    let told: (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await.unwrap();
    assert_eq!(told, (1_000, 0));
}

#[tokio::test]
async fn shutting_down_closes_connections_and_keeps_the_data() {
    let node = listening().await;
    let mut connection = client(&node).await;
    let (): () = connection.set("key", "value").await.unwrap();
    let (embedded, address) = (node.node().clone(), node.address());
    within(node.shutdown()).await;
    assert!(connection.get::<_, String>("key").await.is_err(), "the connection is closed");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens");
    let again = embedded.listen(address).await.unwrap();
    let value: String = client(&again).await.get("key").await.unwrap();
    assert_eq!(value, "value");
}

#[tokio::test]
async fn a_wiped_node_is_an_empty_node() {
    let node = listening().await;
    let mut connection = client(&node).await;
    let (): () = connection.set("key", "value").await.unwrap();
    let run_id = |info: String| info.lines().find(|line| line.starts_with("run_id:")).unwrap().to_owned();
    let before: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await.unwrap();
    node.node().wipe().unwrap();
    let mut connection = client(&node).await;
    let keys: usize = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
    let after: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await.unwrap();
    assert_eq!(keys, 0);
    assert_ne!(run_id(before), run_id(after));
}

#[tokio::test]
async fn connections_can_be_killed_by_others() {
    let node = listening().await;
    let (mut victim, mut killer) = (client(&node).await, client(&node).await);
    let id: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut victim).await.unwrap();
    let killed: usize =
        redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut killer).await.unwrap();
    assert_eq!(killed, 1);
    assert!(victim.get::<_, Option<String>>("key").await.is_err());
    within(async {
        loop {
            let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut killer).await.unwrap();
            if list.lines().count() == 1 {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_answered_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = NodeOptions::new().aof(folder.path().join("log"));
    for start in 0..3_u32 {
        let node = EmbeddedNode::new(&options).unwrap().listen("127.0.0.1:0").await.unwrap();
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(client(&node).await);
        }
        let found: u32 = redis::cmd("DBSIZE").query_async(&mut connections[0]).await.unwrap();
        assert_eq!(found, start * 80);
        let writers = connections.into_iter().enumerate().map(|(at, mut connection)| async move {
            for number in 0..20 {
                let key = format!("{start} {at} {number}");
                let (): () = connection
                    .set_options(
                        key,
                        "x",
                        redis::SetOptions::default().with_expiration(redis::SetExpiry::EX(600)),
                    )
                    .await
                    .unwrap();
            }
        });
        within(futures_util::future::join_all(writers)).await;
        // Not shut down: dropped, as a crash would leave it. What was answered must be there.
        let left: i64 = client(&node).await.pttl(format!("{start} 0 0")).await.unwrap();
        assert!((500_000..=600_000).contains(&left), "{left}");
        within(node.shutdown()).await;
    }
}

#[tokio::test]
async fn several_nodes_live_in_one_process() {
    let nodes = [listening().await, listening().await, listening().await];
    for (at, node) in nodes.iter().enumerate() {
        let (): () = client(node).await.set("who", at).await.unwrap();
    }
    for (at, node) in nodes.iter().enumerate() {
        let who: usize = client(node).await.get("who").await.unwrap();
        assert_eq!(who, at);
    }
}

/// Streams to embedded nodes without any network, as a simulation hands them over: `redis://node-0:1` is the first.
#[derive(Debug)]
struct InProcess(Vec<EmbeddedNode>);

impl InProcess {
    fn start(nodes: usize) -> Arc<Self> {
        Arc::new(Self((0..nodes).map(|_| EmbeddedNode::default()).collect()))
    }

    fn builder(self: &Arc<Self>) -> LockBuilder {
        let urls = (0..self.0.len()).map(|place| format!("redis://node-{place}:1"));
        DistributedLock::builder().nodes(urls).connector(self.clone()).patience(PATIENCE)
    }
}

impl Connector for InProcess {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let place: usize = address["node-".len()..].trim_end_matches(":1").parse().expect("a place");
            let (mine, theirs) = tokio::io::duplex(1024);
            let node = self.0[place].clone();
            tokio::spawn(async move { node.serve(theirs).await });
            Ok(Box::new(mine) as Box<dyn ByteStream>)
        })
    }
}

#[tokio::test]
async fn the_lock_runs_over_any_streams_and_outlives_the_loss_of_all_data() {
    let nodes = InProcess::start(3);
    let locks = nodes.builder().build().unwrap();
    let guard = within(locks.acquire("job", PATIENCE)).await.unwrap();
    let shown = format!("{guard:?}");
    assert!(shown.contains("job") && !shown.contains(&guard.owner().to_string()), "{shown}");
    let other = locks.clone();
    let waiting = tokio::spawn(async move { other.acquire("job", PATIENCE).await });
    within(guard.extend(PATIENCE)).await.unwrap();
    let first = guard.token();
    assert_eq!(within(guard.release()).await.outcome, ReleaseOutcome::Released);
    let guard = within(waiting).await.unwrap().unwrap();
    let second = guard.token();
    assert!(second > first);
    within(guard.release()).await;
    assert!(locks.drain(PATIENCE).await);
    // All of them empty at once: they start anew, above the clock.
    nodes.0.iter().for_each(|node| node.wipe().unwrap());
    let third = within(locks.acquire("job", PATIENCE)).await.unwrap();
    assert!(third.token() > second, "{third:?} after {second:?}");
}

#[tokio::test]
async fn nodes_wait_for_their_operator_where_the_start_is_not_automatic() {
    let nodes = InProcess::start(3);
    let drift = Drift { rate_ppm: 0, fixed: Duration::from_secs(4) };
    let locks = nodes.builder().auto_init(false).drift(drift).max_hold(PATIENCE).build().unwrap();
    let error = within(locks.run("job", Duration::ZERO, async |_| ())).await.unwrap_err();
    let empty = error.report().unwrap().count(|answer| *answer == NodeAnswer::Empty);
    assert!(matches!(error, RunError::Acquire(AcquireError::NoQuorum { .. })) && empty >= 2, "{error}");
    assert!(matches!(locks.init(MAX_NUMBER).await, Err(ConfigError::Floor { .. })));
    assert_eq!(within(locks.init(500)).await, Ok(InitOutcome::Started));
    let guard = within(locks.try_acquire("job")).await.unwrap();
    assert_eq!(guard.token(), Some(FencingToken(501)));
    assert!(guard.remaining() <= Duration::from_secs(6), "{guard:?}");
}

#[tokio::test]
async fn channels_of_names_that_nobody_waits_for_any_more_are_given_up() {
    const NAMES: usize = 300;
    let nodes = InProcess::start(3);
    let (holder, waiter) = (nodes.builder().build().unwrap(), nodes.builder().build().unwrap());
    for i in 0..NAMES {
        let name = format!("job/{i}");
        let guard = within(holder.try_acquire(&name)).await.unwrap();
        within(waiter.acquire(&name, Duration::from_millis(1))).await.unwrap_err();
        within(guard.release()).await;
    }
    assert!(waiter.drain(PATIENCE).await);
    let mut looker = over_duplex(&nodes.0[0], ProtocolVersion::RESP2).await;
    let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut looker).await.unwrap();
    assert!(channels.len() < NAMES / 2, "{} channels are still heard", channels.len());
}
