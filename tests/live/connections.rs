//! Ways to reach a node: unix sockets, users, TLS.

use redfence::lock::ReleaseOutcome;
use redfence::lock::error::{AcquireError, ConfigError};
use redfence::lock::report::{NodeAnswer, NodeError};
use redfence::{DistributedLock, LockBuilder};

use crate::setup::{LONG, NAME, SOON, builder};
use crate::support::{Cluster, Live, Options, RedisServer, eventually, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        current_thread:
            unix_sockets_reach_the_nodes,
            users_with_passwords_reach_the_nodes,
            tls_reaches_nodes_whose_authority_is_trusted,
            tls_shows_a_certificate_to_nodes_that_ask_for_one
    ]
}

/// Acquires, extends, wakes a waiter, releases: all that a connection carries.
async fn works(locks: &DistributedLock, nodes: &Cluster) {
    let guard = locks.acquire(NAME, SOON).await.expect("free");
    let owner = guard.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == nodes.len()).await;
    guard.extend(LONG).await.expect("held");
    let waiter = locks.clone();
    let waiting = tokio::spawn(async move { waiter.acquire(NAME, LONG).await });
    assert_eq!(guard.release().await.outcome, ReleaseOutcome::Released);
    waiting.await.expect("no panic").expect("free now").release().await;
    assert!(locks.drain(SOON).await);
    assert!(!nodes.exists_anywhere(NAME));
}

async fn unix_sockets_reach_the_nodes() {
    let nodes = Cluster::with(3, &Options::new().unix_socket());
    let urls: Vec<_> = nodes.iter().map(RedisServer::unix_url).collect();
    works(&builder(urls.clone()).build().expect("a lock"), &nodes).await;
    let short = urls.iter().map(|url| url.replace("redis+unix://", "unix://"));
    works(&builder(short).build().expect("a lock"), &nodes).await;
    let twice = builder([urls[0].clone(), urls[1].clone(), urls[0].clone()]).build();
    assert!(matches!(twice, Err(ConfigError::DuplicateNode { first: 1, second: 3, .. })), "{twice:?}");
}

async fn users_with_passwords_reach_the_nodes() {
    // As little as the lock needs, and characters that a URL must write in another way.
    let rights = "+hello +client +evalsha +eval +get +set +del +pttl +pexpire +exists +type +hget +hmget +hset +hexists +subscribe +unsubscribe +publish";
    let rules = format!("app on >p@ss:w/rd ~{NAME} ~redfence:* &redfence:released:* {rights}");
    let nodes = Cluster::with(3, &Options::new().password("the-default-user").user(&rules));
    let locks =
        builder(nodes.iter().map(|node| node.url_as("app", "p%40ss%3Aw%2Frd"))).build().expect("a lock");
    works(&locks, &nodes).await;
    assert!(locks.addresses().iter().all(|address| !address.contains("p@ss")));
}

fn authorities(nodes: &Cluster) -> Vec<u8> {
    let read = |node: &RedisServer| std::fs::read(&node.certificates().authority).expect("a file");
    nodes.iter().flat_map(read).collect()
}

fn tls(nodes: &Cluster) -> LockBuilder {
    builder(nodes.iter().map(RedisServer::tls_url)).allow_weak_quorum(true)
}

async fn tls_reaches_nodes_whose_authority_is_trusted() {
    let nodes = Cluster::with(3, &Options::new().tls());
    works(&tls(&nodes).tls_authority(authorities(&nodes)).build().expect("a lock"), &nodes).await;

    let stranger = std::fs::read(&nodes[0].certificates().authority).expect("a file");
    for distrusting in [tls(&nodes), tls(&nodes).tls_authority(stranger)] {
        let locks = distrusting.build().expect("a lock");
        let error = locks.try_acquire(NAME).await.expect_err("an unknown authority");
        let AcquireError::NoQuorum { report, .. } = &error else { panic!("{error}") };
        let refused = report.count(|answer| {
            matches!(answer, NodeAnswer::Failed(NodeError::Unreachable(why)) if why.contains("certificate"))
        });
        assert!(refused >= 2, "{error}");
    }
    let bad = tls(&nodes).tls_authority("-----BEGIN CERTIFICATE-----\nnot base64\n").build();
    assert!(matches!(bad, Err(ConfigError::BadNode { .. })), "{bad:?}");
    let plain = builder(nodes.urls()).tls_authority(authorities(&nodes)).build();
    assert!(matches!(plain, Err(ConfigError::PlainNode { .. })), "{plain:?}");
}

async fn tls_shows_a_certificate_to_nodes_that_ask_for_one() {
    let nodes = Cluster::with(1, &Options::new().tls());
    nodes[0].ask::<()>(&["CONFIG", "SET", "tls-auth-clients", "yes"]);
    let trusting = || tls(&nodes).tls_authority(authorities(&nodes));
    let error = trusting().build().expect("a lock").try_acquire(NAME).await.expect_err("no certificate");
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");

    let read = |path| std::fs::read(path).expect("a file");
    let certificates = nodes[0].certificates();
    let (certificate, key) = (read(&certificates.certificate), read(&certificates.key));
    let builder = trusting().tls_identity(certificate, key.clone());
    assert!(!format!("{builder:?}").contains("PRIVATE KEY"));
    works(&builder.build().expect("a lock"), &nodes).await;
    let bad = trusting().tls_identity("nothing", "nothing").build();
    assert!(matches!(bad, Err(ConfigError::BadNode { .. })), "{bad:?}");
}
