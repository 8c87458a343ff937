//! What this binary does as another process, which a test kills or freezes.

use std::time::Duration;

use redfence::DistributedLock;

use crate::service::{Kind, NAME, SOON, Service};
use crate::support::Victim;

const ROLE: &str = "REDFENCE_BACKENDS_VICTIM";
const KIND: &str = "REDFENCE_BACKENDS_KIND";
const AT: &str = "REDFENCE_BACKENDS_AT";

/// The TTL that a victim asks for.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// Plays the role in the environment, if there is one, and does not return then.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let kind = match std::env::var(KIND).expect("the test names the kind").as_str() {
        "etcd" => Kind::Etcd,
        _ => Kind::ZooKeeper,
    };
    let at: Vec<_> =
        std::env::var(AT).expect("the test names the place").split(',').map(str::to_owned).collect();
    let locks = kind.builder(&at).ttl(TTL).build().expect("a lock");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        match role.as_str() {
            "waiter" => wait(&locks).await,
            "holder" => hold(&locks, false).await,
            "extender" => hold(&locks, true).await,
            other => panic!("no such role: {other}"),
        }
    });
    std::process::exit(0);
}

/// Waits for the lock, for ever, and says what came of it.
async fn wait(locks: &DistributedLock) {
    println!("waits");
    match locks.on(NAME).acquire().await {
        Ok(guard) => println!("acquired {}", guard.owner()),
        Err(error) => println!("failed {error}"),
    }
}

/// Holds the lock, and says at each line whether it does.
async fn hold(locks: &DistributedLock, extend: bool) {
    let guard = locks.on(NAME).wait(SOON).auto_extend(extend).acquire().await.expect("the lock");
    println!("holds {}", guard.token().map_or(0, |token| token.0));
    Victim::answer_for(&guard);
}

/// One that waits in the queue.
pub(crate) fn waiter(service: &Service) -> Victim {
    let mut victim = start("waiter", service);
    assert_eq!(victim.next_line(), "waits");
    victim
}

/// One that holds the lock, with or without extending it; and its token.
pub(crate) fn holder(service: &Service, extend: bool) -> (Victim, u64) {
    let mut victim = start(if extend { "extender" } else { "holder" }, service);
    let line = victim.next_line();
    let token = line.strip_prefix("holds ").and_then(|token| token.parse().ok());
    (victim, token.unwrap_or_else(|| panic!("not a holder: {line}")))
}

fn start(role: &str, service: &Service) -> Victim {
    Victim::start(&[(ROLE, role), (KIND, service.kind().name()), (AT, &service.addresses().join(","))])
}
