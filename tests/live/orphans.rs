//! Keys that nobody would give back (field reports, section E): dropped guards, dropped waits, late grants, closed doors.
//! Rules R5, R12 of `docs/safety.md`.

use std::time::Duration;

use redfence::lock::error::AcquireError;
use redfence::{DistributedLock, LockGuard};

use crate::setup::{LONG, NAME, Proxied, SOON, builder, locks, measured, ms, timed, warm};
use crate::support::{Cluster, Live, Proxy, Stopwatch, eventually, live_tests, wait_until};

/// A drop asks for the release and goes on. Generous: the machine may be busy with something else.
const NO_WAIT: Duration = Duration::from_millis(50);

pub(crate) fn tests() -> Vec<Live> {
    live_tests![
        sync:
            b61_a_guard_dropped_outside_any_runtime_leaves_no_key,
            b61_a_guard_that_outlives_its_runtime_is_harmless;
        current_thread:
            b61_a_guard_dropped_in_a_current_thread_runtime_leaves_no_key,
            b62_an_acquire_that_is_dropped_early_leaves_no_key,
            b63_a_set_that_arrives_after_the_release_leaves_no_key,
            b63_a_set_on_a_connection_that_was_given_up_leaves_no_key,
            b63_a_set_that_arrives_after_the_node_said_not_mine_leaves_no_key,
            b64_dropping_the_handle_takes_no_lock_away_and_leaves_no_key,
            b65_waiting_for_the_end_of_releases_ends_at_its_limit;
        multi_thread:
            b61_a_guard_dropped_in_a_multi_thread_runtime_leaves_no_key,
            b66_a_wait_that_is_cancelled_is_never_an_acquisition
    ]
}

async fn b61_a_guard_dropped_in_a_current_thread_runtime_leaves_no_key() {
    dropped_in_a_runtime().await;
}

async fn b61_a_guard_dropped_in_a_multi_thread_runtime_leaves_no_key() {
    dropped_in_a_runtime().await;
}

async fn dropped_in_a_runtime() {
    let nodes = Cluster::start(5);
    let locks = locks(&nodes);
    for _ in 0..3 {
        let guard = locks.acquire(NAME, SOON).await.expect("free");
        drop_at_once(guard);
        let ((), took) = timed(eventually(SOON, || !nodes.exists_anywhere(NAME))).await;
        measured("b61", "keys gone after the drop", took);
    }
}

fn drop_at_once(guard: LockGuard) {
    let lease = guard.lease().clone();
    let watch = Stopwatch::start();
    drop(guard);
    let took = watch.elapsed();
    assert!(took < NO_WAIT, "the drop took {took:?}");
    assert!(!lease.is_held(), "a copy of the lease goes on believing");
}

fn b61_a_guard_dropped_outside_any_runtime_leaves_no_key() {
    let nodes = Cluster::start(3);
    let runtime = runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(1));
    let locks = locks(&nodes);
    let guard = runtime.block_on(locks.acquire(NAME, SOON)).expect("free");
    std::thread::spawn(move || drop_at_once(guard)).join().expect("no panic");
    wait_until(SOON, || !nodes.exists_anywhere(NAME));
}

fn b61_a_guard_that_outlives_its_runtime_is_harmless() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let runtime = runtime(&mut tokio::runtime::Builder::new_current_thread());
    let guard = runtime.block_on(locks.on(NAME).ttl(Duration::from_secs(2)).acquire()).expect("free");
    drop(runtime);
    drop_at_once(guard);
    // Nobody is left who could release: the keys end with their TTL, as documented.
    wait_until(SOON, || !nodes.exists_anywhere(NAME));
    // The handle itself serves the next runtime.
    let next = self::runtime(&mut tokio::runtime::Builder::new_current_thread());
    next.block_on(async {
        locks.acquire(NAME, SOON).await.expect("free").release().await;
    });
}

fn runtime(builder: &mut tokio::runtime::Builder) -> tokio::runtime::Runtime {
    builder.enable_all().build().expect("a runtime")
}

async fn b62_an_acquire_that_is_dropped_early_leaves_no_key() {
    let proxied = Proxied::start(3);
    let warmed = proxied.locks();
    warm(&warmed).await;
    proxied.all(|proxy| proxy.delay(ms(10), ms(10)));
    // At every stage of an attempt, with open connections and while they are being opened.
    let cuts = [0, 1, 5, 10, 15, 18, 20, 21, 22, 25, 30, 40, 45, 60, 80].map(ms);
    let mut tasks = tokio::task::JoinSet::new();
    for (i, cut) in cuts.into_iter().enumerate() {
        for (kind, locks) in [("warm", warmed.clone()), ("cold", proxied.locks())] {
            tasks.spawn(async move {
                let name = format!("{NAME}/{kind}/{i}");
                let acquired = tokio::time::timeout(cut, locks.acquire(&name, LONG)).await;
                let won = acquired.is_ok();
                drop(acquired);
                assert!(locks.drain(SOON).await, "{name} is not cleared up");
                won
            });
        }
    }
    let won = tasks.join_all().await.into_iter().filter(|&won| won).count();
    measured("b62", "of 30 acquisitions won in spite of the cut", won);
    let left = || proxied.nodes.keys(&format!("{NAME}/*"));
    eventually(SOON, || left().into_iter().flatten().all(|keys| keys.is_empty())).await;
    // What was under way at the cut arrives within the delays; a key that comes now would stay for a minute.
    tokio::time::sleep(ms(500)).await;
    assert_eq!(left(), vec![Some(Vec::<String>::new()); 3]);
}

/// Two nodes on which somebody else holds the lock, and one with a proxy before it.
struct Straggler {
    nodes: Cluster,
    proxy: Proxy,
    locks: DistributedLock,
}

impl Straggler {
    async fn start(patience: Duration) -> Self {
        let nodes = Cluster::start(3);
        let proxy = Proxy::before(&nodes[2]);
        let urls = [nodes[0].url(), nodes[1].url(), proxy.url()];
        let locks = builder(urls).patience(patience).build().expect("a lock");
        warm(&locks).await;
        for node in [&nodes[0], &nodes[1]] {
            node.ask::<()>(&["SET", NAME, "somebody else", "PX", "60000"]);
        }
        proxy.forget();
        Self { nodes, proxy, locks }
    }

    /// The attempt is decided without the third node, whose request is stuck.
    async fn fail(&self) {
        let error = self.locks.try_acquire(NAME).await.expect_err("taken on two of three");
        assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    }

    fn granted_at_the_third(&self) -> bool {
        self.nodes[2].exists(&format!("redfence:counter:{NAME}"))
    }

    async fn nothing_is_left(&self) {
        assert!(self.locks.drain(Duration::from_secs(30)).await, "it is not cleared up");
        assert!(self.granted_at_the_third(), "the late grant never came: nothing was tested");
        assert!(!self.nodes[2].exists(NAME));
        assert_eq!(self.nodes.count_with(NAME, "somebody else"), 2, "another's keys were touched");
    }
}

async fn b63_a_set_that_arrives_after_the_release_leaves_no_key() {
    let straggler = Straggler::start(Duration::from_secs(5)).await;
    straggler.proxy.hold_requests();
    straggler.fail().await;
    tokio::time::sleep(ms(300)).await;
    assert_eq!(straggler.proxy.requests(), 1, "the release overtook its own grant");
    straggler.proxy.pass();
    straggler.nothing_is_left().await;
}

async fn b63_a_set_on_a_connection_that_was_given_up_leaves_no_key() {
    // One second without an answer, and the connection is given up; its bytes are still on their way.
    let straggler = Straggler::start(ms(100)).await;
    straggler.proxy.hold_requests();
    straggler.fail().await;
    eventually(SOON, || straggler.proxy.requests() > 1).await;
    assert!(!straggler.granted_at_the_third());
    straggler.proxy.pass();
    straggler.nothing_is_left().await;
}

async fn b63_a_set_that_arrives_after_the_node_said_not_mine_leaves_no_key() {
    let straggler = Straggler::start(ms(100)).await;
    straggler.proxy.drop_requests();
    straggler.fail().await;
    eventually(SOON, || straggler.proxy.requests() >= 1).await;
    let grant = straggler.proxy.seen().into_iter().next().expect("the grant");
    straggler.proxy.pass();
    // The release has been answered "not mine" at least once ..
    let answered = straggler.nodes[2].calls("evalsha");
    eventually(SOON, || straggler.nodes[2].calls("evalsha") > answered).await;
    // .. when the grant arrives after all, as from a buffer somewhere on the way.
    let words: Vec<_> =
        std::iter::once(grant.name.as_str()).chain(grant.arguments.iter().map(String::as_str)).collect();
    straggler.nodes[2].ask::<redis::Value>(&words);
    assert!(straggler.granted_at_the_third());
    straggler.nothing_is_left().await;
}

async fn b64_dropping_the_handle_takes_no_lock_away_and_leaves_no_key() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    let mut guards = Vec::new();
    for i in 0..10 {
        guards.push(locks.acquire(&format!("{NAME}/{i}"), SOON).await.expect("free"));
    }
    drop(locks);
    let held =
        || nodes.keys(&format!("{NAME}/*")).into_iter().flatten().map(|keys| keys.len()).collect::<Vec<_>>();
    eventually(SOON, || held() == [10, 10, 10]).await;
    for guard in &guards {
        guard.extend(LONG).await.expect("a guard does not need the handle");
    }
    drop(guards);
    eventually(SOON, || held() == [0, 0, 0]).await;
}

async fn b65_waiting_for_the_end_of_releases_ends_at_its_limit() {
    let proxied = Proxied::start(3);
    let locks = proxied.builder().patience(ms(300)).build().expect("a lock");
    warm(&locks).await;
    let guard = locks.acquire(NAME, SOON).await.expect("free");
    eventually(SOON, || proxied.nodes.count_with(NAME, &guard.owner().to_string()) == 3).await;
    proxied.all(|proxy| proxy.black_hole());
    drop(guard);
    let (drained, took) = timed(locks.drain(ms(500))).await;
    assert!(!drained, "no node can have answered");
    measured("b65", "drain with a limit of 500ms", took);
    assert!(ms(499) <= took && took < Duration::from_secs(3), "{took:?}");
    // The release goes on for as long as somebody lets it.
    proxied.all(|proxy| proxy.pass());
    assert!(locks.drain(Duration::from_secs(30)).await);
    assert!(!proxied.nodes.exists_anywhere(NAME));
}

async fn b66_a_wait_that_is_cancelled_is_never_an_acquisition() {
    let nodes = Cluster::start(3);
    let locks = locks(&nodes);
    warm(&locks).await;
    let holder = locks.acquire(NAME, SOON).await.expect("free");
    let owner = holder.owner().to_string();
    eventually(SOON, || nodes.count_with(NAME, &owner) == 3).await;
    for i in 0..50_u64 {
        let waiter = locks.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME, LONG).await });
        tokio::time::sleep(Duration::from_micros(i * 400)).await;
        waiting.abort();
        let joined = waiting.await;
        assert!(joined.is_err_and(|error| error.is_cancelled()), "acquired although another holds");
    }
    assert!(holder.is_held());
    assert_eq!(nodes.count_with(NAME, &owner), 3);
    holder.release().await;
    assert!(locks.drain(SOON).await);
    assert!(!nodes.exists_anywhere(NAME), "a cancelled waiter acquired after all");
}
