//! The shared counter, in this process or in a Redis server.
//!
//! Without a token it is a plain number: who writes, writes. With a token it remembers the largest one it was shown, on reads
//! too, and refuses smaller ones; and it remembers operations, so that a write that is sent again, because its answer was
//! lost, is not a second increment. In this process it is a [`Guarded`] value; in Redis each worker's last operation is enough.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, cmd};

use super::{ExperimentError, Memory};
use crate::memory::{self, Guarded, Read, Written};
use crate::proto::FencingToken;

/// A counter that is forgotten (the process was killed) goes away by itself.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// How often a command to the counter's server is tried, and the pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// One worker's n-th increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    pub(super) worker: u32,
    pub(super) number: u64,
}

/// What the counter says to a read or a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Value(u64),
    /// It has seen a larger token.
    Fenced,
}

/// The counter of one run.
pub(super) enum Counter {
    InProcess(Arc<Mutex<Cell>>),
    Redis(Box<Remote>),
}

/// One worker's way to the counter.
pub(super) enum Seat {
    InProcess(Arc<Mutex<Cell>>),
    Redis(Box<Line>),
}

impl Counter {
    /// A fresh counter at 0.
    pub(super) async fn create(memory: &Memory) -> Result<Self, ExperimentError> {
        match memory {
            Memory::InProcess => Ok(Self::InProcess(Arc::default())),
            Memory::Redis(url) => Ok(Self::Redis(Box::new(Remote::create(url).await?))),
        }
    }

    /// A worker's own way to it.
    pub(super) async fn open(&self) -> Result<Seat, ExperimentError> {
        match self {
            Self::InProcess(cell) => Ok(Seat::InProcess(Arc::clone(cell))),
            Self::Redis(remote) => Ok(Seat::Redis(Box::new(remote.open().await?))),
        }
    }

    /// What it shows at the end. Removes it.
    pub(super) async fn finish(self) -> Result<u64, ExperimentError> {
        match self {
            Self::InProcess(cell) => Ok(lock(&cell).value()),
            Self::Redis(remote) => remote.finish().await,
        }
    }
}

impl Seat {
    /// Reads. A token raises what the counter remembers.
    pub(super) async fn read(&mut self, token: Option<FencingToken>) -> Result<Access, ExperimentError> {
        match self {
            Self::InProcess(cell) => Ok(lock(cell).read(token)),
            Self::Redis(line) => line.read(token).await,
        }
    }

    /// Writes; with a token, an operation that is already done stays done.
    pub(super) async fn write(
        &mut self,
        value: u64,
        token: Option<FencingToken>,
        operation: Operation,
    ) -> Result<Access, ExperimentError> {
        match self {
            Self::InProcess(cell) => Ok(lock(cell).write(value, token, operation)),
            Self::Redis(line) => line.write(value, token, operation).await,
        }
    }
}

fn lock(cell: &Mutex<Cell>) -> std::sync::MutexGuard<'_, Cell> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counter in this process. Each access is atomic; a read and the write that follows it are not.
#[derive(Debug)]
pub(super) struct Cell(Guarded<u64>);

impl Default for Cell {
    fn default() -> Self {
        Self(Guarded::starting_at(0))
    }
}

impl Cell {
    fn value(&self) -> u64 {
        self.0.value().copied().unwrap_or_default()
    }

    fn read(&mut self, token: Option<FencingToken>) -> Access {
        match self.0.read(token) {
            Read::Fenced { .. } => Access::Fenced,
            Read::Value { .. } | Read::Missing { .. } => Access::Value(self.value()),
        }
    }

    fn write(&mut self, value: u64, token: Option<FencingToken>, operation: Operation) -> Access {
        let operation = memory::Operation(u128::from(operation.worker) << 64 | u128::from(operation.number));
        match self.0.write(value, token, None, operation) {
            Written::Fenced { .. } => Access::Fenced,
            _ => Access::Value(self.value()),
        }
    }
}

/// The counter in a Redis server: a string without tokens, and beside it a hash for what tokens need.
pub(super) struct Remote {
    client: Client,
    address: String,
    keys: Keys,
}

#[derive(Clone)]
struct Keys {
    value: String,
    /// Fields `fence`, and one for each worker's last operation.
    guard: String,
}

impl Remote {
    async fn create(url: &str) -> Result<Self, ExperimentError> {
        let client = Client::open(url).map_err(|source| ExperimentError::Memory {
            address: "the URL given (not shown: it may hold a password)".to_owned(),
            source,
        })?;
        let address = client.get_connection_info().addr().to_string();
        let name = format!("redfence-simulation:{{{:032x}}}", fastrand::u128(..));
        let keys = Keys { value: name.clone(), guard: format!("{name}:guard") };
        let remote = Self { client, address, keys };
        let mut line = remote.open().await?;
        line.plain_write(0).await?;
        line.ask::<()>(cmd("HSET").arg(&remote.keys.guard).arg("fence").arg(0)).await?;
        line.ask::<()>(cmd("EXPIRE").arg(&remote.keys.guard).arg(FORGOTTEN_AFTER.as_secs())).await?;
        Ok(remote)
    }

    async fn open(&self) -> Result<Line, ExperimentError> {
        let mut line = Line {
            client: self.client.clone(),
            address: self.address.clone(),
            keys: self.keys.clone(),
            connection: None,
        };
        // At the beginning a server that is away is told at once.
        let answered = line.ask_once::<()>(&cmd("PING")).await;
        answered.map_err(|source| ExperimentError::Memory { address: self.address.clone(), source })?;
        Ok(line)
    }

    async fn finish(&self) -> Result<u64, ExperimentError> {
        let mut line = self.open().await?;
        let value = line.plain_read().await?;
        line.ask::<()>(cmd("DEL").arg(&self.keys.value).arg(&self.keys.guard)).await?;
        Ok(value)
    }
}

/// KEYS value, guard; ARGV token. Answers the value, or nothing to a token smaller than one seen.
const READ: &str = "\
local fence = redis.call('HGET', KEYS[2], 'fence')
if fence and tonumber(ARGV[1]) < tonumber(fence) then return false end
redis.call('HSET', KEYS[2], 'fence', ARGV[1])
return redis.call('GET', KEYS[1])";

/// KEYS value, guard; ARGV token, value, worker, operation, seconds to live. Answers the value, or nothing to a token smaller
/// than one seen. An operation that is already done changes nothing.
const WRITE: &str = "\
local last = redis.call('HGET', KEYS[2], 'worker:' .. ARGV[3])
if last and tonumber(last) >= tonumber(ARGV[4]) then return redis.call('GET', KEYS[1]) end
local fence = redis.call('HGET', KEYS[2], 'fence')
if fence and tonumber(ARGV[1]) < tonumber(fence) then return false end
redis.call('HSET', KEYS[2], 'fence', ARGV[1], 'worker:' .. ARGV[3], ARGV[4])
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[5])
return ARGV[2]";

/// One worker's connection to the counter's server, opened again when it breaks.
pub(super) struct Line {
    client: Client,
    address: String,
    keys: Keys,
    connection: Option<MultiplexedConnection>,
}

impl Line {
    async fn read(&mut self, token: Option<FencingToken>) -> Result<Access, ExperimentError> {
        let Some(token) = token else { return self.plain_read().await.map(Access::Value) };
        let mut script = self.script(READ);
        script.arg(token.0);
        let answer = self.ask(&script).await?;
        self.access(answer)
    }

    async fn write(
        &mut self,
        value: u64,
        token: Option<FencingToken>,
        operation: Operation,
    ) -> Result<Access, ExperimentError> {
        let Some(token) = token else {
            self.plain_write(value).await?;
            return Ok(Access::Value(value));
        };
        let mut script = self.script(WRITE);
        script.arg(token.0).arg(value).arg(operation.worker).arg(operation.number);
        script.arg(FORGOTTEN_AFTER.as_secs());
        let answer = self.ask(&script).await?;
        self.access(answer)
    }

    async fn plain_read(&mut self) -> Result<u64, ExperimentError> {
        let text: Option<String> = self.ask(&self.on_value("GET")).await?;
        self.number(text.unwrap_or_default())
    }

    async fn plain_write(&mut self, value: u64) -> Result<(), ExperimentError> {
        let mut set = self.on_value("SET");
        set.arg(value).arg("EX").arg(FORGOTTEN_AFTER.as_secs());
        self.ask(&set).await
    }

    fn on_value(&self, name: &str) -> Cmd {
        let mut cmd = cmd(name);
        cmd.arg(&self.keys.value);
        cmd
    }

    fn script(&self, text: &str) -> Cmd {
        let mut eval = cmd("EVAL");
        eval.arg(text).arg(2).arg(&self.keys.value).arg(&self.keys.guard);
        eval
    }

    fn access(&self, answer: Option<String>) -> Result<Access, ExperimentError> {
        answer.map_or(Ok(Access::Fenced), |text| self.number(text).map(Access::Value))
    }

    fn number(&self, found: String) -> Result<u64, ExperimentError> {
        let parsed = found.parse();
        parsed.map_err(|_| ExperimentError::NotANumber { address: self.address.clone(), found })
    }

    /// Asks, and asks again while the server is away: every command here may be sent twice. A plain write sets the same
    /// value again, and one with a token is known by its operation.
    async fn ask<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, ExperimentError> {
        let mut tried = 1;
        loop {
            let error = match self.ask_once(cmd).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let away = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
            if !away || tried >= TRIES {
                return Err(ExperimentError::Memory { address: self.address.clone(), source: error });
            }
            self.connection = None;
            tried += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask_once<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, RedisError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(Duration::from_secs(1)))
                    .set_response_timeout(Some(Duration::from_secs(2)));
                self.client.get_multiplexed_async_connection_with_config(&config).await?
            }
        };
        let answer = cmd.query_async(&mut connection).await;
        self.connection = Some(connection);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(number: u64) -> Operation {
        Operation { worker: 0, number }
    }

    fn token(number: u64) -> Option<FencingToken> {
        Some(FencingToken(number))
    }

    #[test]
    fn a_read_raises_the_mark_so_an_older_holders_write_is_refused() {
        let mut cell = Cell::default();
        assert_eq!(cell.read(token(1)), Access::Value(0));
        assert_eq!(cell.read(token(2)), Access::Value(0));
        assert_eq!(cell.write(1, token(1), op(0)), Access::Fenced);
        assert_eq!(cell.write(1, token(2), op(0)), Access::Value(1));
        assert_eq!(cell.read(token(1)), Access::Fenced);
    }

    #[test]
    fn a_write_sent_again_is_no_second_increment() {
        let mut cell = Cell::default();
        assert_eq!(cell.write(1, token(1), op(0)), Access::Value(1));
        assert_eq!(cell.write(2, token(2), Operation { worker: 1, number: 0 }), Access::Value(2));
        // Under a later token, with a value computed afresh, and also after the token has been fenced off.
        assert_eq!(cell.write(3, token(3), op(0)), Access::Value(2));
        assert_eq!(cell.write(1, token(1), op(0)), Access::Value(2));
        assert_eq!(cell.value(), 2);
    }

    #[test]
    fn without_a_token_who_writes_writes() {
        let mut cell = Cell::default();
        assert_eq!((cell.read(None), cell.read(None)), (Access::Value(0), Access::Value(0)));
        cell.write(1, None, op(0));
        cell.write(1, None, Operation { worker: 1, number: 0 });
        assert_eq!(cell.read(None), Access::Value(1));
    }
}
