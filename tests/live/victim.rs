//! What this binary does as another process, which a test kills or freezes.

use std::time::Duration;

use redfence::DistributedLock;

use crate::support::Victim;

const ROLE: &str = "REDFENCE_LIVE_VICTIM";
const NODES: &str = "REDFENCE_LIVE_NODES";

/// Plays the role in the environment, if there is one, and does not return then.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let nodes = std::env::var(NODES).expect("the test names the nodes");
    let locks = DistributedLock::builder().nodes(nodes.split(',')).patience(Duration::from_secs(5));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "locker" => lock_for_ever(&locks.build().expect("a lock")).await,
            "holder" => hold(&locks.build().expect("a lock")).await,
            other => panic!("no such role: {other}"),
        }
    });
    std::process::exit(0);
}

/// Acquires and releases, as fast as it goes.
async fn lock_for_ever(locks: &DistributedLock) {
    println!("starts");
    for i in 0_u64.. {
        let name = format!("resource {}", i % 3);
        let Ok(guard) = locks.on(&name).ttl(Duration::from_secs(2)).try_acquire().await else { continue };
        if i % 2 == 0 {
            let _ = guard.extend(Duration::from_secs(3)).await;
        }
        guard.release().await;
    }
}

/// Holds a lock that extends itself, and says at each line whether it does.
async fn hold(locks: &DistributedLock) {
    let ttl = Duration::from_secs(1);
    let guard = locks.on("held").ttl(ttl).wait(ttl * 20).auto_extend(true).acquire().await.expect("the lock");
    println!("holds");
    Victim::answer_for(&guard);
}

/// A client that acquires and releases without end.
pub(crate) fn locker(nodes: &[String]) -> Victim {
    start("locker", nodes, "starts")
}

/// A client that holds the lock `held` for a second at a time, and extends it.
pub(crate) fn holder(nodes: &[String]) -> Victim {
    start("holder", nodes, "holds")
}

fn start(role: &str, nodes: &[String], says: &str) -> Victim {
    let mut victim = Victim::start(&[(ROLE, role), (NODES, &nodes.join(","))]);
    assert_eq!(victim.next_line(), says);
    victim
}
