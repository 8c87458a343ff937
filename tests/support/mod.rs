//! Real servers, faults between them and the lock, and the runner of the tests that need them.
//!
//! A test file takes it in with `#[path = ".."] mod support;`. Everything is blocking and runs on its own threads, so
//! that a test in any runtime, or in none, can use it. Nothing survives the test process: handles end what they
//! started when dropped, and the [`reaper`] ends the rest if the process itself is killed.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of this")]

mod clock;
mod cluster;
mod etcd_server;
mod member;
mod port;
mod postgres_server;
mod proxy;
mod reaper;
mod redis_server;
mod runner;
mod tls;
mod victim;
mod waiting;
mod zookeeper_server;

pub(crate) use clock::require_own_clock;
pub(crate) use cluster::Cluster;
pub(crate) use etcd_server::{EtcdCluster, require_etcd};
pub(crate) use port::Port;
pub(crate) use postgres_server::{PostgresServer, require_postgres};
pub(crate) use proxy::{Flow, Proxy, Seen};
pub(crate) use reaper::{Mortal, remove_at_the_end};
pub(crate) use redis_server::{
    Condition, Options, RedisServer, Restart, memory_folder, redis_binary, require_redis,
};
pub(crate) use runner::{
    Live, TestOutcome, conclude_live, live_required, live_tests, run_live, run_live_at_once, test_name,
};
pub(crate) use tls::Certificates;
pub(crate) use victim::Victim;
pub(crate) use waiting::{Stopwatch, eventually, wait_until};
pub(crate) use zookeeper_server::{TICK, ZooKeeperEnsemble, require_zookeeper};
