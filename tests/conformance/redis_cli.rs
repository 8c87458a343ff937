//! `redis-cli` against the embedded node.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::pair::Embedded;
use crate::support::{Live, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    let tests = live_tests![sync: redis_cli_works, redis_cli_hears_what_is_published];
    tests.into_iter().map(|test| test.needing(require_redis_cli)).collect()
}

fn require_redis_cli() -> Result<(), String> {
    match Command::new("redis-cli").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("redis-cli cannot be run ({error}): install redis-tools")),
    }
}

fn redis_cli(node: &Embedded, words: &[&str]) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &node.address().port().to_string()]).args(words);
    command
}

#[track_caller]
fn check(node: &Embedded, words: &[&str], expected: &str) {
    let output = redis_cli(node, words).output().expect("redis-cli runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), expected, "{words:?}");
}

fn redis_cli_works() {
    let node = Embedded::start();
    check(&node, &["PING"], "PONG");
    check(&node, &["SET", "a", "b", "NX", "PX", "600000"], "OK");
    check(&node, &["SET", "a", "c", "NX", "PX", "600000"], "");
    check(&node, &["GET", "a"], "b");
    check(&node, &["--no-raw", "GET", "absent"], "(nil)");
    check(&node, &["-3", "HGETALL", "absent"], "");
    check(&node, &["--no-raw", "INCR", "n"], "(integer) 1");
    let unlock =
        "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    check(&node, &["EVAL", unlock, "1", "a", "other"], "0");
    check(&node, &["EVAL", unlock, "1", "a", "b"], "1");
    check(&node, &["--scan"], "n");
    check(&node, &["NOPE"], "ERR unknown command 'NOPE', with args beginning with:");
    // As a person uses it: it asks for COMMAND DOCS first.
    let mut child =
        redis_cli(&node, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli runs");
    child.stdin.take().expect("an input").write_all(b"SET typed 1\nGET typed\nINFO server\n").expect("words");
    let output = child.wait_with_output().expect("an end");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("OK\n1\n") && told.contains("redis_mode:standalone"), "{told}");
}

/// Ends the child also when the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn redis_cli_hears_what_is_published() {
    let node = Embedded::start();
    let mut child = Ended(
        redis_cli(&node, &["SUBSCRIBE", "news"]).stdout(Stdio::piped()).spawn().expect("redis-cli runs"),
    );
    let mut lines =
        BufReader::new(child.0.stdout.take().expect("an output")).lines().map(|line| line.expect("a line"));
    let told: Vec<String> = lines.by_ref().take(3).collect();
    assert_eq!(told, ["subscribe", "news", "1"]);
    check(&node, &["PUBLISH", "news", "hello"], "1");
    let told: Vec<String> = lines.take(3).collect();
    assert_eq!(told, ["message", "news", "hello"]);
}
