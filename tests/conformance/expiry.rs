//! Keys that end in real time, and the log that outlives the process.

use std::time::Duration;

use redfence::node::NodeOptions;

use crate::pair::{Embedded, Pair};
use crate::support::{Live, live_tests, wait_until};
use crate::wire::{Answer, Resp, Wire};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync: keys_end_in_real_time_at_both, redis_reads_the_log_of_the_embedded_node]
}

const LIMIT: Duration = Duration::from_secs(10);

fn keys_end_in_real_time_at_both() {
    let mut pair = Pair::start(Resp::V2);
    for words in [
        &["SET", "a", "x", "PX", "80"][..],
        &["RPUSH", "b", "x"],
        &["PEXPIRE", "b", "80"],
        &["SET", "c", "x"],
        &["SET", "d", "x", "PX", "600000"],
    ] {
        pair.ask(words);
    }
    for key in ["a", "b"] {
        wait_until(LIMIT, || pair.ask(&["EXISTS", key]) == (Answer::Int(0), Answer::Int(0)));
    }
    for words in [
        &["PTTL", "a"][..],
        &["TYPE", "b"],
        &["GET", "a"],
        &["SET", "a", "y", "NX"],
        &["INCR", "b"],
        &["TTL", "b"],
        &["EXISTS", "c", "d"],
        &["DBSIZE"],
    ] {
        let (embedded, real) = pair.ask(words);
        assert_eq!(embedded, real, "{words:?}: embedded node, Redis");
    }
}

/// What the embedded node writes is what Redis would write: a server started on the file has the same data.
fn redis_reads_the_log_of_the_embedded_node() {
    use crate::support::{Options, Restart};

    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("appendonly.aof");
    let node = Embedded::with(&NodeOptions::new().aof(&log));
    let mut wire = Wire::connect(node.address());
    for words in [
        &["SET", "text", "a\r\nb"][..],
        &["SET", "lock", "owner", "PX", "600000"],
        &["HSET", "hash", "f", "1", "g", "2"],
        &["HDEL", "hash", "f"],
        &["RPUSH", "list", "1", "2", "3"],
        &["LPOP", "list"],
        &["SADD", "set", "m", "n"],
        &["SREM", "set", "n"],
        &["INCR", "number"],
        &["PEXPIRE", "number", "600000"],
        &["PERSIST", "number"],
        &["SET", "gone", "x"],
        &["DEL", "gone"],
        &["EVAL", "redis.call('SET', 'one', 1) redis.call('SET', 'two', 2)", "0"],
    ] {
        let answer = wire.ask(words);
        assert!(!matches!(answer, Answer::Error(_) | Answer::Other(_)), "{words:?}: {answer:?}");
    }
    let looks: [&[&str]; 8] = [
        &["DBSIZE"],
        &["GET", "text"],
        &["HGETALL", "hash"],
        &["LRANGE", "list", "0", "-1"],
        &["SMEMBERS", "set"],
        &["TTL", "number"],
        &["MGET", "number", "one", "two", "lock"],
        &["PEXPIRETIME", "lock"],
    ];
    let before: Vec<Answer> = looks.iter().map(|words| wire.ask(words)).collect();
    drop((wire, node));

    let again = Embedded::with(&NodeOptions::new().aof(&log));
    let mut wire = Wire::connect(again.address());
    assert_eq!(
        looks.iter().map(|words| wire.ask(words)).collect::<Vec<_>>(),
        before,
        "embedded, started again"
    );

    // A server that finds such a file takes it for the one of an older version, and adopts it.
    let server = Options::new().append_only(true).start();
    server.kill();
    let data = server.data_folder();
    std::fs::remove_dir_all(data.join("appendonlydir")).expect("the folder of the server's own log");
    std::fs::copy(&log, data.join("appendonly.aof")).expect("a copy");
    server.restart(Restart::KeepData);
    let mut real = Wire::connect(server.addr());
    assert_eq!(
        looks.iter().map(|words| real.ask(words)).collect::<Vec<_>>(),
        before,
        "Redis, on the same log"
    );
}
