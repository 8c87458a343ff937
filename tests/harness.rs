//! The harness itself: each operation on a server and each fault of the proxy, shown on a real Redis.

mod support;

use std::time::Duration;

use support::{
    Cluster, Condition, Flow, Live, Options, Port, Proxy, RedisServer, Restart, Stopwatch, eventually,
    live_tests, require_own_clock, wait_until,
};

fn main() {
    let mut tests = tests();
    tests.push(
        Live::sync("a_server_has_its_own_clock", a_server_has_its_own_clock).needing(require_own_clock),
    );
    support::run_live(tests);
}

fn tests() -> Vec<Live> {
    live_tests![
        sync:
            a_server_answers_at_its_url_and_leaves_nothing_behind,
            a_stopped_server_is_silent_until_it_continues,
            a_killed_server_refuses_and_comes_back_with_its_data,
            a_server_can_come_back_empty,
            a_server_that_is_shut_down_comes_back,
            without_an_append_only_file_a_crash_loses_everything,
            passwords_and_users_are_asked_for,
            a_server_listens_on_a_unix_socket,
            a_server_talks_tls,
            configuration_and_statistics_can_be_looked_at,
            reserved_ports_differ,
            a_stopped_server_dies_when_dropped,
            servers_die_with_a_killed_test_process,
            a_cluster_is_looked_at_as_a_whole,
            shards_of_a_redis_cluster_send_clients_elsewhere,
            a_proxy_passes_and_notes_the_requests,
            a_proxy_delays_each_direction,
            a_black_hole_accepts_and_never_answers,
            dropped_replies_are_done_but_not_heard_of,
            dropped_requests_never_arrive,
            a_gap_in_a_stream_closes_the_connection,
            held_requests_arrive_in_order_when_let_go,
            held_requests_arrive_although_the_client_has_left,
            held_replies_come_later,
            a_cut_closes_and_refuses_until_it_heals,
            a_reset_closes_once,
            a_proxy_survives_its_node;
        current_thread:
            a_proxy_serves_a_current_thread_runtime;
        multi_thread:
            a_proxy_serves_a_multi_thread_runtime;
    ]
}

const SOON: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(150);

/// A connection that gives up early: silence is what many of these tests wait for.
fn connect(url: &str) -> redis::Connection {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_connection_with_timeout(SOON).expect("a connection");
    connection.set_read_timeout(Some(SOON)).expect("a timeout");
    connection
}

fn set(connection: &mut redis::Connection, key: &str, value: &str) -> redis::RedisResult<()> {
    redis::cmd("SET").arg(key).arg(value).query(connection)
}

fn get(connection: &mut redis::Connection, key: &str) -> redis::RedisResult<Option<String>> {
    redis::cmd("GET").arg(key).query(connection)
}

fn is_silence(error: &redis::RedisError) -> bool {
    error.is_timeout()
}

fn process_exists(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

fn a_server_answers_at_its_url_and_leaves_nothing_behind() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url());
    set(&mut connection, "key", "value").expect("an answer");
    assert_eq!(server.get("key").as_deref(), Some("value"));

    let (pid, folder) = (server.pid().expect("it runs"), server.data_folder());
    assert!(process_exists(pid) && folder.exists());
    drop(server);
    assert!(!process_exists(pid), "the process is still there");
    assert!(!folder.exists(), "the folder is still there");
}

fn a_stopped_server_is_silent_until_it_continues() {
    let server = RedisServer::start();
    let mut connection = connect(&server.url());
    server.stop();
    assert_eq!(server.condition(), Condition::Stopped);
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    let error = get(&mut connection, "key").expect_err("a frozen process does not answer");
    assert!(is_silence(&error), "{error}");

    server.cont();
    assert_eq!(server.condition(), Condition::Running);
    assert_eq!(get(&mut connect(&server.url()), "key").expect("an answer"), None);
}

fn a_killed_server_refuses_and_comes_back_with_its_data() {
    let server = RedisServer::start();
    server.ask::<()>(&["SET", "key", "value"]);
    let (addr, pid) = (server.addr(), server.pid());
    server.kill();
    assert_eq!((server.condition(), server.pid()), (Condition::Down, None));
    let error = std::net::TcpStream::connect(addr).expect_err("nobody listens");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);

    server.restart(Restart::KeepData);
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.get("key").as_deref(), Some("value"));
}

fn a_server_can_come_back_empty() {
    let server = RedisServer::start();
    server.ask::<()>(&["SET", "key", "value"]);
    server.restart(Restart::Empty);
    assert_eq!(server.get("key"), None);
    assert!(server.snapshot().is_empty());
}

fn a_server_that_is_shut_down_comes_back() {
    let server = RedisServer::start();
    server.ask::<()>(&["SET", "key", "value"]);
    server.shutdown();
    assert_eq!(server.condition(), Condition::Down);
    server.restart(Restart::KeepData);
    assert_eq!(server.get("key").as_deref(), Some("value"));
}

fn without_an_append_only_file_a_crash_loses_everything() {
    let server = Options::new().append_only(false).start();
    server.ask::<()>(&["SET", "key", "value"]);
    server.restart(Restart::KeepData);
    assert_eq!(server.get("key"), None);
}

fn passwords_and_users_are_asked_for() {
    let server = Options::new().password("secret").user("agent on >word ~agent:* -@all +get").start();
    let stranger = redis::Client::open(format!("redis://{}", server.addr())).expect("a URL");
    let refused = stranger.get_connection().and_then(|mut connection| get(&mut connection, "key"));
    assert_eq!(refused.expect_err("no password was given").code(), Some("NOAUTH"));

    assert_eq!(get(&mut connect(&server.url()), "key").expect("an answer"), None);
    let mut agent = connect(&server.url_as("agent", "word"));
    assert_eq!(get(&mut agent, "agent:1").expect("an answer"), None);
    let refused = set(&mut agent, "agent:1", "value").expect_err("not allowed to write");
    assert_eq!(refused.code(), Some("NOPERM"));
}

fn a_server_listens_on_a_unix_socket() {
    let server = Options::new().unix_socket().start();
    server.ask::<()>(&["SET", "key", "value"]);
    let mut connection = connect(&server.unix_url());
    assert_eq!(get(&mut connection, "key").expect("an answer").as_deref(), Some("value"));
}

fn a_server_talks_tls() {
    let server = Options::new().tls().start();
    server.ask::<()>(&["SET", "key", "value"]);
    let trusting = redis::Client::build_with_tls(server.tls_url(), server.certificates().for_client());
    let mut connection = trusting.and_then(|client| client.get_connection()).expect("a TLS connection");
    assert_eq!(get(&mut connection, "key").expect("an answer").as_deref(), Some("value"));

    let suspicious = redis::Client::open(server.tls_url()).and_then(|client| client.get_connection());
    assert!(suspicious.is_err(), "a stranger's authority was trusted");
}

fn configuration_and_statistics_can_be_looked_at() {
    let server = Options::new().append_fsync("everysec").maxmemory_policy("allkeys-lru").start();
    let policy: (String, String) = server.ask(&["CONFIG", "GET", "maxmemory-policy"]);
    let fsync: (String, String) = server.ask(&["CONFIG", "GET", "appendfsync"]);
    assert_eq!((policy.1.as_str(), fsync.1.as_str()), ("allkeys-lru", "everysec"));

    server.ask::<()>(&["EVAL", "redis.call('SET', KEYS[1], 'one')", "1", "key"]);
    let before = server.snapshot();
    server.ask::<()>(&["SET", "key", "two"]);
    assert_eq!((server.calls("set"), server.calls("eval"), server.calls("del")), (2, 1, 0));
    assert_ne!(server.snapshot(), before);
    assert_eq!(server.pttl("key"), -1);
    assert!(server.exists("key"));
    assert!(server.log().contains("Ready to accept connections"));
}

fn a_server_has_its_own_clock() {
    let server = Options::new().own_clock().start();
    let seconds = |server: &RedisServer| server.ask::<(i64, i64)>(&["TIME"]).0;
    let before = seconds(&server);
    server.ask::<()>(&["SET", "key", "value", "PX", "60000"]);
    server.shift_clock(3_600_000);
    assert!((3_600..3_660).contains(&(seconds(&server) - before)));
    assert_eq!(server.get("key"), None, "an hour has passed for the server");

    server.shift_clock(-3_600_000);
    assert!((-3_600..-3_540).contains(&(seconds(&server) - before)));
    server.ask::<()>(&["SET", "key", "value", "PX", "60000"]);
    server.shift_clock(-3_600_000 - 30_000);
    let left = server.pttl("key");
    assert!((80_000..=90_000).contains(&left), "the key lives 30 s longer: {left}");
    server.restart(Restart::KeepData);
    assert!((-3_660..-3_500).contains(&(seconds(&server) - before)));
}

fn reserved_ports_differ() {
    let ports: Vec<_> = (0..100).map(|_| Port::reserve()).collect();
    let numbers: std::collections::BTreeSet<_> = ports.iter().map(Port::number).collect();
    assert_eq!(numbers.len(), ports.len());
}

fn a_stopped_server_dies_when_dropped() {
    let server = RedisServer::start();
    let pid = server.pid().expect("it runs");
    server.stop();
    drop(server);
    assert!(!process_exists(pid));
}

/// Runs this binary again as the test process that is killed.
fn servers_die_with_a_killed_test_process() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const VICTIM: &str = "REDFENCE_HARNESS_VICTIM";
    if std::env::var_os(VICTIM).is_some() {
        let server = RedisServer::start();
        println!("server {} {}", server.pid().expect("it runs"), server.data_folder().display());
        server.stop();
        loop {
            std::thread::park();
        }
    }
    let this = std::env::current_exe().expect("a path");
    let mut victim = Command::new(this)
        .args(["--exact", "servers_die_with_a_killed_test_process"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(victim.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let said = lines.filter_map(|line| line.strip_prefix("server ").map(str::to_owned)).next();
    victim.kill().expect("it can be killed");
    victim.wait().expect("it can be reaped");
    let said = said.expect("it names its server");
    let (pid, folder) = said.split_once(' ').expect("pid and folder");
    let pid = pid.parse().expect("a pid");
    wait_until(SOON, || !process_exists(pid) && !std::path::Path::new(folder).exists());
}

fn a_cluster_is_looked_at_as_a_whole() {
    let nodes = Cluster::start(3);
    assert_eq!(nodes.urls().len(), nodes.len());
    assert!(!nodes.exists_anywhere("key"));
    nodes[1].ask::<()>(&["SET", "key", "value", "PX", "60000"]);
    assert!(nodes.exists_anywhere("key"));
    assert_eq!(nodes.get("key"), [None, Some("value".into()), None]);
    assert_eq!(nodes.keys("k*"), [Some(vec![]), Some(vec!["key".into()]), Some(vec![])]);
    assert_eq!(nodes.count_with("key", "value"), 1);

    nodes[0].kill();
    nodes[2].stop();
    let left = nodes.pttl("key");
    assert!(left[0].is_none() && left[2].is_none(), "{left:?}");
    assert!(left[1].is_some_and(|ms| 0 < ms && ms <= 60_000), "{left:?}");
}

fn shards_of_a_redis_cluster_send_clients_elsewhere() {
    let shards = Cluster::shards(3);
    let answers = shards.each(|node| node.try_ask::<Option<String>>(&["GET", "key"]));
    let moved =
        answers.iter().flatten().filter_map(|answer| answer.as_ref().err()?.code()).collect::<Vec<_>>();
    assert_eq!(moved, ["MOVED", "MOVED"]);
}

fn a_proxy_passes_and_notes_the_requests() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.forget();
    set(&mut connection, "key", &"value".repeat(100_000)).expect("an answer");
    assert_eq!(get(&mut connection, "key").expect("an answer"), Some("value".repeat(100_000)));
    let seen = proxy.seen();
    let names: Vec<_> = seen.iter().map(|seen| (seen.name.as_str(), seen.arguments[0].as_str())).collect();
    assert_eq!(names, [("SET", "key"), ("GET", "key")]);
    assert_eq!((proxy.requests(), proxy.requests_of("get"), proxy.requests_of("DEL")), (2, 1, 0));
}

fn a_proxy_delays_each_direction() {
    let server = Options::new().append_only(false).start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    let delay = Duration::from_millis(200);
    for (requests, replies) in [(delay, Duration::ZERO), (Duration::ZERO, delay), (delay, delay)] {
        proxy.delay(requests, replies);
        let watch = Stopwatch::start();
        set(&mut connection, "key", "value").expect("an answer");
        let took = watch.elapsed();
        assert!(took >= requests + replies, "{took:?} for {requests:?} and {replies:?}");
    }
    // A delay, not a low rate: what is sent at once arrives at once.
    let watch = Stopwatch::start();
    let mut pipeline = redis::pipe();
    (0..50).for_each(|i| {
        pipeline.set(format!("key {i}"), "value").ignore();
    });
    pipeline.query::<()>(&mut connection).expect("answers");
    assert!(watch.elapsed() < delay * 20, "{:?}", watch.elapsed());

    proxy.pass();
    let watch = Stopwatch::start();
    set(&mut connection, "key", "value").expect("an answer");
    assert!(watch.elapsed() < delay * 2, "{:?}", watch.elapsed());
}

fn a_black_hole_accepts_and_never_answers() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    proxy.black_hole();
    let client = redis::Client::open(proxy.url()).expect("a URL");
    let error = client.get_connection_with_timeout(SILENCE).err().expect("no answer");
    assert!(is_silence(&error), "{error}");
    assert!(std::net::TcpStream::connect(proxy.addr()).is_ok(), "it accepts");

    proxy.pass();
    let mut connection = connect(&proxy.url());
    proxy.black_hole();
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    assert!(is_silence(&set(&mut connection, "key", "value").expect_err("no answer")));
    assert_eq!(proxy.requests_of("SET"), 1);
    assert_eq!(server.get("key"), None);
}

fn dropped_replies_are_done_but_not_heard_of() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.drop_replies();
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    assert!(is_silence(&set(&mut connection, "key", "value").expect_err("no answer")));
    assert_eq!(server.get("key").as_deref(), Some("value"));
}

fn dropped_requests_never_arrive() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let client = redis::Client::open(proxy.url()).expect("a URL");
    let mut subscriber = client.get_connection().expect("a connection");
    let mut subscription = subscriber.as_pubsub();
    subscription.subscribe("channel").expect("an answer");
    let mut connection = connect(&proxy.url());

    proxy.drop_requests();
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    assert!(is_silence(&set(&mut connection, "key", "value").expect_err("no answer")));
    assert_eq!(server.get("key"), None);
    // The other direction is open.
    server.ask::<()>(&["PUBLISH", "channel", "hello"]);
    subscription.set_read_timeout(Some(SOON)).expect("a timeout");
    assert_eq!(
        subscription.get_message().expect("a message").get_payload::<String>().expect("text"),
        "hello"
    );
}

/// Otherwise the client would take the answer to a later request for the one that was lost.
fn a_gap_in_a_stream_closes_the_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.drop_replies();
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    set(&mut connection, "key", "value").expect_err("no answer");
    proxy.pass();
    connection.set_read_timeout(Some(SOON)).expect("a timeout");
    let error = get(&mut connection, "key").expect_err("the connection is closed");
    assert!(!is_silence(&error), "{error}");
    assert_eq!(get(&mut connect(&proxy.url()), "key").expect("an answer").as_deref(), Some("value"));
}

fn held_requests_arrive_in_order_when_let_go() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.hold_requests();
    let answer = std::thread::spawn(move || {
        let mut pipeline = redis::pipe();
        (0..100).for_each(|i| {
            pipeline.cmd("APPEND").arg("key").arg(i % 10).ignore();
        });
        pipeline.query::<()>(&mut connection)
    });
    wait_until(SOON, || proxy.requests_of("APPEND") == 100);
    assert_eq!(server.get("key"), None);
    proxy.pass();
    answer.join().expect("no panic").expect("answers");
    assert_eq!(server.get("key"), Some("0123456789".repeat(10)));
}

fn held_requests_arrive_although_the_client_has_left() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.hold_requests();
    connection.set_read_timeout(Some(SILENCE)).expect("a timeout");
    assert!(is_silence(&set(&mut connection, "key", "value").expect_err("no answer")));
    drop(connection);
    assert_eq!(server.get("key"), None);
    proxy.pass();
    wait_until(SOON, || server.get("key").as_deref() == Some("value"));
}

fn held_replies_come_later() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.hold_replies();
    let answer = std::thread::spawn(move || set(&mut connection, "key", "value"));
    wait_until(SOON, || server.get("key").as_deref() == Some("value"));
    std::thread::sleep(SILENCE);
    assert!(!answer.is_finished(), "the answer was let through");
    proxy.set(Flow::Hold, Flow::Pass);
    answer.join().expect("no panic").expect("the answer");
}

fn a_cut_closes_and_refuses_until_it_heals() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    for _ in 0..3 {
        proxy.cut();
        let error = get(&mut connection, "key").expect_err("the connection is closed");
        assert!(!is_silence(&error), "{error}");
        let error = std::net::TcpStream::connect(proxy.addr()).expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        proxy.pass();
        connection = connect(&proxy.url());
        assert_eq!(get(&mut connection, "key").expect("an answer"), None);
    }
}

fn a_reset_closes_once() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    proxy.reset();
    get(&mut connection, "key").expect_err("the connection is closed");
    assert_eq!(get(&mut connect(&proxy.url()), "key").expect("an answer"), None);
}

fn a_proxy_survives_its_node() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = connect(&proxy.url());
    server.restart(Restart::KeepData);
    get(&mut connection, "key").expect_err("the node closed the connection");
    assert_eq!(get(&mut connect(&proxy.url()), "key").expect("an answer"), None);
}

async fn a_proxy_serves_a_current_thread_runtime() -> redis::RedisResult<()> {
    an_async_client_meets_a_held_reply().await
}

async fn a_proxy_serves_a_multi_thread_runtime() -> redis::RedisResult<()> {
    an_async_client_meets_a_held_reply().await
}

async fn an_async_client_meets_a_held_reply() -> redis::RedisResult<()> {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut connection = redis::Client::open(proxy.url())?.get_multiplexed_async_connection().await?;
    proxy.hold_replies();
    let answer = tokio::spawn(async move {
        redis::cmd("SET").arg("key").arg("value").query_async::<()>(&mut connection).await
    });
    eventually(SOON, || server.get("key").as_deref() == Some("value")).await;
    assert!(!answer.is_finished(), "the answer was let through");
    proxy.pass();
    answer.await.expect("no panic")
}
