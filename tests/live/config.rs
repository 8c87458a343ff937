//! Bad input: a typed error that shows the numbers and the next step, and nothing else on the nodes is touched.
//! Rules R14 of `docs/safety.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::MAX_RESOURCE_BYTES;
use redfence::lock::error::{AcquireError, ConfigError, ExtendError};
use redfence::lock::report::{NodeAnswer, NodeError};

use crate::setup::{LONG, NAME, SOON, builder, locks, ms, warm};
use crate::support::{Cluster, Live, Options, Port, RedisServer, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        sync:
            node_lists_that_cannot_work_are_refused_before_any_node_is_asked,
            an_acquisition_outside_a_runtime_is_refused;
        current_thread:
            arguments_that_cannot_work_are_refused_before_any_node_is_asked,
            unreachable_nodes_are_named_with_the_reason,
            a_key_that_holds_something_else_is_an_error_and_stays_as_it_is,
            a_damaged_counter_or_record_is_an_error_and_stays_as_it_is,
            b76_a_user_who_may_run_no_scripts_is_told_the_command,
            b76_a_user_who_may_not_run_a_command_inside_a_script_is_told_so,
            shards_of_a_redis_cluster_are_refused,
            a_replica_is_refused,
            a_wrong_password_is_told_and_not_shown
    ]
}

fn build<const N: usize>(urls: [&str; N]) -> ConfigError {
    DistributedLock::builder().nodes(urls).build().expect_err("it cannot work")
}

fn node_lists_that_cannot_work_are_refused_before_any_node_is_asked() {
    let [a, b] = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"];
    assert_eq!(build([]), ConfigError::NoNodes);
    assert!(matches!(build([a]), ConfigError::WeakQuorum { nodes: 1, spare: 0 }));
    assert!(matches!(build([a, b]), ConfigError::WeakQuorum { nodes: 2, spare: 0 }));
    let many: Vec<_> = (1..=33).map(|port| format!("redis://127.0.0.1:{port}")).collect();
    let error = DistributedLock::builder().nodes(many).build().expect_err("too many");
    assert!(matches!(error, ConfigError::TooManyNodes { given: 33, .. }), "{error}");

    for again in [a, "redis://user:secret@127.0.0.1:1", "redis://127.0.0.1:1/3"] {
        let error = build([a, b, again]);
        let expected = ConfigError::DuplicateNode { address: "127.0.0.1:1".into(), first: 1, second: 3 };
        assert_eq!(error, expected);
    }
    for bad in ["", "127.0.0.1:6379", "http://127.0.0.1:1", "redis://", "redis://127.0.0.1:port"] {
        let error = build([a, b, bad]);
        assert!(matches!(error, ConfigError::BadNode { .. }), "{bad:?}: {error}");
        assert!(error.to_string().contains("redis://[user:password@]host:port"), "{error}");
    }
    let error = build([a, b, "redis//user:secret@host:1"]);
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");

    let error =
        DistributedLock::builder().nodes([a]).patience(Duration::ZERO).allow_weak_quorum(true).build();
    assert_eq!(error.expect_err("no patience"), ConfigError::Patience(Duration::ZERO));
}

async fn arguments_that_cannot_work_are_refused_before_any_node_is_asked() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let refused = async |name: &str, ttl: Duration| match locks.on(name).ttl(ttl).try_acquire().await {
        Err(AcquireError::Config(error)) => error,
        other => panic!("{name:?} with {ttl:?}: {other:?}"),
    };
    for ttl in [Duration::ZERO, Duration::from_micros(1_500), Duration::from_secs(40 * 86_400), Duration::MAX]
    {
        assert_eq!(refused(NAME, ttl).await, ConfigError::Ttl(ttl));
    }
    for ttl in [1, 2].map(ms) {
        let error = refused(NAME, ttl).await;
        let ConfigError::NoValidity { least, .. } = error else { panic!("{error}") };
        // The next step is a step: with it the lock can be built.
        builder(nodes.urls()).ttl(least).build().expect("the least that would do");
        assert!(error.to_string().contains(&format!("{ttl:?}")), "{error}");
    }
    assert_eq!(refused("", LONG).await, ConfigError::EmptyResource);
    let long = "x".repeat(MAX_RESOURCE_BYTES + 1);
    assert!(matches!(refused(&long, LONG).await, ConfigError::LongResource { bytes: 1025, most: 1024 }));
    for own in ["redfence:node", "redfence:counter:x", "redfence:"] {
        assert!(matches!(refused(own, LONG).await, ConfigError::ReservedResource { .. }), "{own}");
    }
    let often = locks.on(NAME).ttl(ms(100)).auto_extend(true);
    often.try_acquire().await.expect("a third of the TTL is early enough").release().await;
    let rare = builder(nodes.urls()).ttl(ms(100)).extend_every(ms(90)).build().expect("a lock");
    let error = rare.on(NAME).auto_extend(true).try_acquire().await.expect_err("too rare");
    assert!(matches!(error, AcquireError::Config(ConfigError::ExtendTooRare { .. })), "{error}");

    let guard = locks.acquire(NAME, SOON).await.expect("free");
    let error = guard.extend(Duration::ZERO).await.expect_err("no TTL");
    assert_eq!(error, ExtendError::Config(ConfigError::Ttl(Duration::ZERO)));
    assert!(guard.is_held(), "a bad argument costs nothing");
}

fn an_acquisition_outside_a_runtime_is_refused() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let mut acquiring = std::pin::pin!(locks.try_acquire(NAME));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(result) = acquiring.as_mut().poll(&mut context) else { panic!("it waits") };
    assert!(matches!(result, Err(AcquireError::Config(ConfigError::NoRuntime))), "{result:?}");
}

async fn unreachable_nodes_are_named_with_the_reason() {
    let (nodes, nobody) = (Cluster::start(3), Port::reserve());
    let locks = builder([nodes[0].url(), nodes[1].url(), nodes[2].url()]).build().expect("a lock");
    warm(&locks).await;
    let gone = format!("redis://{}", nobody.addr());
    let one = builder([nodes[0].url(), nodes[1].url(), gone.clone()]).build().expect("a lock");
    one.try_acquire(NAME).await.expect("one of three may be away").release().await;

    let unknown = "redis://no-such-host.invalid:6379".to_owned();
    let two = builder([nodes[0].url(), gone, unknown]).build().expect("a lock");
    let error = two.try_acquire(NAME).await.expect_err("two of three are away");
    let AcquireError::NoQuorum { needed: 2, nodes: 3, report, .. } = &error else { panic!("{error}") };
    let unreachable = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Unreachable(_))));
    assert_eq!(unreachable, 2, "{error}");
    for part in [nobody.addr().to_string().as_str(), "refused", "no-such-host.invalid:6379", "2 of 3"] {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    assert!(error.is_retryable());
    assert!(two.drain(LONG).await);
    assert!(!nodes.exists_anywhere(NAME));
}

/// Everything but what is ours by name.
fn strangers(nodes: &Cluster) -> Vec<Option<BTreeMap<String, Vec<u8>>>> {
    nodes.each(|node| {
        let mut all = node.snapshot();
        all.retain(|key, _| !key.starts_with("redfence:"));
        all
    })
}

async fn a_key_that_holds_something_else_is_an_error_and_stays_as_it_is() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    for words in [
        &["RPUSH", NAME, "a", "b"][..],
        &["HSET", NAME, "field", "value"],
        &["SADD", NAME, "a"],
        &["SET", NAME, "a string without TTL"],
    ] {
        nodes.each(|node| node.ask::<()>(words));
        let before = strangers(&nodes);
        // Waiting cannot cure it: no part of the minute is spent.
        let error = tokio::time::timeout(SOON, locks.acquire(NAME, LONG)).await.expect("it waits");
        let error = error.expect_err("it is not a lock");
        assert!(matches!(error, AcquireError::NotALock { .. }), "{words:?}: {error}");
        assert!(error.to_string().contains("another resource name"), "{error}");
        assert!(!error.is_retryable());
        assert!(locks.drain(SOON).await);
        assert_eq!(strangers(&nodes), before, "{words:?}");

        // On one node of three it is that node's failure alone.
        nodes[0].ask::<()>(&["DEL", NAME]);
        nodes[1].ask::<()>(&["DEL", NAME]);
        let guard = locks.acquire(NAME, SOON).await.expect("two of three will do");
        guard.extend(LONG).await.expect("held");
        guard.release().await;
        assert!(locks.drain(SOON).await);
        assert_eq!(strangers(&nodes)[2], before[2], "{words:?}");
        nodes[2].ask::<()>(&["DEL", NAME]);
    }
}

async fn a_damaged_counter_or_record_is_an_error_and_stays_as_it_is() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let counter = format!("redfence:counter:{NAME}");
    for (key, words) in [
        (counter.as_str(), &["SET", &counter, "many"][..]),
        (&counter, &["SET", &counter, "-1"]),
        (&counter, &["RPUSH", &counter, "a"]),
        ("redfence:node", &["HSET", "redfence:node", "high", "much"]),
        ("redfence:node", &["SET", "redfence:node", "a string"]),
    ] {
        nodes.each(|node| node.ask::<()>(&["DEL", &counter]));
        if words[0] != "HSET" {
            nodes.each(|node| node.ask::<()>(&["DEL", key]));
        }
        nodes.each(|node| node.ask::<()>(words));
        let before = nodes.each(RedisServer::snapshot);
        let error = locks.try_acquire(NAME).await.expect_err("the numbers cannot be trusted");
        let AcquireError::Unusable { report, .. } = &error else { panic!("{words:?}: {error}") };
        let damaged = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Damaged(_))));
        assert!(damaged >= 2, "{words:?}: {error}");
        assert!(locks.drain(SOON).await);
        assert_eq!(nodes.each(RedisServer::snapshot), before, "{words:?}");
    }
}

/// Locks of a user with these rights.
fn locks_as(nodes: &Cluster) -> DistributedLock {
    builder(nodes.iter().map(|node| node.url_as("app", "secret"))).build().expect("a lock")
}

fn nodes_with_user(rights: &str) -> Cluster {
    Cluster::with(3, &Options::new().user(&format!("app on >secret {rights}")))
}

/// The error of a user who lacks a right, after the default user has used the nodes.
async fn denied(rights: &str) -> AcquireError {
    let nodes = nodes_with_user(rights);
    let allowed = locks(&nodes);
    warm(&allowed).await;
    nodes.each(|node| node.ask::<()>(&["SET", "data", "value"]));
    nodes.each(|node| node.ask::<()>(&["SCRIPT", "FLUSH"]));
    let before = nodes.each(RedisServer::snapshot);
    let locks = locks_as(&nodes);
    let error = tokio::time::timeout(SOON, locks.acquire(NAME, LONG)).await.expect("waiting cannot cure it");
    let error = error.expect_err("the user lacks a right");
    let AcquireError::Unusable { report, .. } = &error else { panic!("{rights}: {error}") };
    let denied = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Denied(_))));
    assert!(denied >= 2, "{rights}: {error}");
    assert!(error.to_string().contains("grant it to the user in the node's ACL"), "{error}");
    assert!(locks.drain(LONG).await);
    assert_eq!(nodes.each(RedisServer::snapshot), before, "{rights}");
    error
}

async fn b76_a_user_who_may_run_no_scripts_is_told_the_command() {
    let error = denied("~* &* +@all -@scripting").await;
    assert!(error.to_string().contains("'evalsha' command"), "{error}");
    let error = denied("~* &* +@all -eval").await;
    assert!(error.to_string().contains("'eval' command"), "{error}");
}

async fn b76_a_user_who_may_not_run_a_command_inside_a_script_is_told_so() {
    for rights in ["~* &* +@all -set", "~* &* +@all -hmget", "~data &* +@all"] {
        denied(rights).await;
    }
    // Without the right to extend, the lock is still had and given back.
    let nodes = nodes_with_user("~* &* +@all -pexpire");
    let locks = locks_as(&nodes);
    let guard = locks.acquire(NAME, SOON).await.expect("all that is needed so far");
    let error = guard.extend(LONG * 2).await.expect_err("no right to extend");
    let ExtendError::NoQuorum { report, .. } = &error else { panic!("{error}") };
    let denied = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Denied(_))));
    assert!(denied >= 2, "{error}");
    assert!(guard.is_held());
    guard.release().await;
    eventually(SOON, || !nodes.exists_anywhere(NAME)).await;
}

async fn shards_of_a_redis_cluster_are_refused() {
    let shards = Cluster::shards(3);
    let locks = locks(&shards);
    for name in [NAME, "another", "{tag}"] {
        let error =
            tokio::time::timeout(SOON, locks.acquire(name, LONG)).await.expect("waiting cannot cure it");
        let error = error.expect_err("these are not independent nodes");
        let AcquireError::Unusable { report, .. } = &error else { panic!("{error}") };
        let shard = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::ClusterShard(_))));
        assert!(shard >= 2, "{error}");
        assert!(error.to_string().contains("give standalone servers"), "{error}");
    }
    assert!(locks.drain(SOON).await);
    assert_eq!(shards.keys("*"), vec![Some(Vec::<String>::new()); 3]);
}

async fn a_replica_is_refused() {
    let nodes = Cluster::start(4);
    for used_before in [false, true] {
        if used_before {
            // Masters are three of the others, so that the replicas get a record with an epoch.
            let masters = builder((0..3).map(|i| nodes[i].url())).build().expect("a lock");
            nodes.each(|node| node.ask::<()>(&["REPLICAOF", "NO", "ONE"]));
            warm(&masters).await;
        }
        let (host, port) = (nodes[0].addr().ip().to_string(), nodes[0].addr().port().to_string());
        nodes[0].ask::<()>(&["SET", "data", "value"]);
        for i in 1..4 {
            nodes[i].ask::<()>(&["REPLICAOF", &host, &port]);
        }
        eventually(LONG, || (1..4).all(|i| nodes[i].get("data").is_some())).await;
        let locks = builder((1..4).map(|i| nodes[i].url())).build().expect("a lock");
        let error = tokio::time::timeout(SOON, locks.acquire(NAME, LONG)).await;
        let error = error.expect("waiting cannot cure it").expect_err("replicas take no writes");
        let AcquireError::Unusable { report, .. } = &error else { panic!("{error}") };
        let replicas = report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Replica(_))));
        assert!(replicas >= 2, "{error}");
        assert!(error.to_string().contains("give masters"), "{error}");
        assert!(locks.drain(SOON).await);
        assert!(!nodes.exists_anywhere(NAME));
    }
}

async fn a_wrong_password_is_told_and_not_shown() {
    let nodes = Cluster::with(3, &Options::new().password("right").user("app on >secret ~* &* +@all"));
    let urls = |user: &str, password: &str| nodes.iter().map(|node| node.url_as(user, password)).collect();
    let anonymous = nodes.iter().map(|node| format!("redis://{}", node.addr())).collect();
    let attempts: [Vec<String>; 4] =
        [urls("app", "tr0ub4dor"), urls("nobody", "tr0ub4dor"), urls("default", "tr0ub4dor"), anonymous];
    for urls in attempts {
        let builder = builder(urls);
        let shown = format!("{builder:?}");
        let locks = builder.build().expect("a lock");
        let error = tokio::time::timeout(SOON, locks.acquire(NAME, LONG)).await;
        let error = error.expect("waiting cannot cure it").expect_err("the password is wrong");
        // Also at once again, while no new connection is tried.
        let again = locks.try_acquire(NAME).await.expect_err("the password is wrong");
        assert!(matches!(again, AcquireError::Unusable { .. }), "{again}");
        let AcquireError::Unusable { report, .. } = &error else { panic!("{error}") };
        let refused =
            report.count(|answer| matches!(answer, NodeAnswer::Failed(NodeError::Authentication(_))));
        assert!(refused >= 2, "{error}");
        for text in [error.to_string(), format!("{error:?}"), format!("{locks:?}"), shown] {
            assert!(!text.contains("tr0ub4dor"), "the password is shown: {text}");
        }
    }
    let right = builder(urls("app", "secret")).build().expect("a lock");
    right.acquire(NAME, SOON).await.expect("the right password").release().await;
}
