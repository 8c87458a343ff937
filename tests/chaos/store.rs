//! The counter: in a Redis server of its own, with the fence on reads and on writes, and each worker's last operation.
//!
//! It keeps a log of the writes it accepted: from which version each was computed, and which it replaced. So the judge of the
//! model says which updates were lost, and not only how many are missing.

use std::time::Duration;

use redfence::invariants::Write;
use redfence::proto::FencingToken;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, Script};

use crate::support::RedisServer;

const COUNTER: &str = "counter";
const LOG: &str = "counter:writes";

/// KEYS counter; ARGV token or nothing. Answers value and version, or nothing to a token smaller than one seen.
const READ: &str = "\
local counter = KEYS[1]
if ARGV[1] ~= '' then
  local fence = redis.call('HGET', counter, 'fence')
  if fence and tonumber(ARGV[1]) < tonumber(fence) then return {} end
  redis.call('HSET', counter, 'fence', ARGV[1])
end
return {redis.call('HGET', counter, 'value') or '0', redis.call('HGET', counter, 'version') or '0'}";

/// KEYS counter, log; ARGV token or nothing, worker, operation, value, version it rests on. Answers whether the operation is
/// done; not to a token smaller than one seen. With a token, an operation that is already done changes nothing.
const WRITE: &str = "\
local counter = KEYS[1]
if ARGV[1] ~= '' then
  local last = redis.call('HGET', counter, 'worker:' .. ARGV[2])
  if last and tonumber(last) >= tonumber(ARGV[3]) then return 1 end
  local fence = redis.call('HGET', counter, 'fence')
  if fence and tonumber(ARGV[1]) < tonumber(fence) then return 0 end
  redis.call('HSET', counter, 'fence', ARGV[1])
end
local version = tonumber(redis.call('HGET', counter, 'version') or '0')
redis.call('HSET', counter, 'value', ARGV[4], 'version', version + 1, 'worker:' .. ARGV[2], ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[5] .. ' ' .. version)
return 1";

/// One worker's n-th increment, from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) worker: usize,
    pub(crate) number: u64,
}

/// The counter as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) value: u64,
    pub(crate) version: u64,
}

/// It has seen a larger token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fenced;

/// A worker's way to the counter. Every request may be sent twice, so one without an answer is sent again.
pub(crate) struct Store {
    client: redis::Client,
    connection: Option<MultiplexedConnection>,
    read: Script,
    write: Script,
}

impl Store {
    pub(crate) fn new(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a URL");
        Self { client, connection: None, read: Script::new(READ), write: Script::new(WRITE) }
    }

    /// A worker's last operation that is done; 0 if none is.
    pub(crate) async fn last_operation(&mut self, worker: usize) -> u64 {
        loop {
            let asked = async {
                let mut connection = self.connection().await?;
                let field = format!("worker:{worker}");
                redis::cmd("HGET").arg(COUNTER).arg(field).query_async::<Option<u64>>(&mut connection).await
            };
            match asked.await {
                Ok(last) => return last.unwrap_or(0),
                Err(error) => self.again(&error).await,
            }
        }
    }

    pub(crate) async fn read(&mut self, token: Option<FencingToken>) -> Result<Read, Fenced> {
        loop {
            let asked = async {
                let mut connection = self.connection().await?;
                let script = self.read.clone();
                script.key(COUNTER).arg(word(token)).invoke_async::<Vec<u64>>(&mut connection).await
            };
            match asked.await.as_deref() {
                Ok(&[value, version]) => return Ok(Read { value, version }),
                Ok(_) => return Err(Fenced),
                Err(error) => self.again(error).await,
            }
        }
    }

    pub(crate) async fn write(
        &mut self,
        token: Option<FencingToken>,
        operation: Operation,
        seen: Read,
    ) -> Result<(), Fenced> {
        loop {
            let asked = async {
                let mut connection = self.connection().await?;
                let mut call = self.write.key(COUNTER);
                call.key(LOG).arg(word(token)).arg(operation.worker).arg(operation.number);
                call.arg(seen.value + 1).arg(seen.version);
                call.invoke_async::<bool>(&mut connection).await
            };
            match asked.await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Fenced),
                Err(error) => self.again(&error).await,
            }
        }
    }

    async fn connection(&mut self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(Duration::from_millis(500)));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(self.connection.insert(connection).clone())
    }

    /// Nobody knows whether it was done: on a new connection, the same again.
    async fn again(&mut self, error: &RedisError) {
        let away = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
        assert!(away, "the counter refuses: {error}");
        self.connection = None;
        // Told at once: a worker may be killed before the next answer.
        println!("unanswered");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn word(token: Option<FencingToken>) -> String {
    token.map(|token| token.0.to_string()).unwrap_or_default()
}

/// What the counter shows in the end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) value: u64,
    /// Each worker's last operation.
    pub(crate) operations: Vec<u64>,
    pub(crate) writes: Vec<Write>,
}

/// Looks at the server itself.
pub(crate) fn outcome(server: &RedisServer, workers: usize) -> Outcome {
    let field = |name: &str| server.ask::<Option<u64>>(&["HGET", COUNTER, name]).unwrap_or(0);
    let log: Vec<String> = server.ask(&["LRANGE", LOG, "0", "-1"]);
    let write = |line: &String| {
        let (base, current) = line.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        Write { base: number(base), current: number(current) }
    };
    Outcome {
        value: field("value"),
        operations: (0..workers).map(|worker| field(&format!("worker:{worker}"))).collect(),
        writes: log.iter().map(write).collect(),
    }
}
