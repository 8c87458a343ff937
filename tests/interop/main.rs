//! Other Redlock clients on the same nodes: each locks, and each and this lock exclude one another.

#[path = "../support/mod.rs"]
mod support;

mod clients;
mod exclusion;

use std::time::Duration;

use clients::Client;
use support::{Cluster, Live, wait_until};

fn main() {
    let mut tests = self::tests(Client::RedlockPy, "redlock_py", || Client::RedlockPy.require());
    tests.extend(self::tests(Client::NodeRedlock4, "node_redlock_4", || Client::NodeRedlock4.require()));
    tests.extend(self::tests(Client::NodeRedlock5, "node_redlock_5", || Client::NodeRedlock5.require()));
    tests.push(
        Live::multi_thread("all::never_two_inside", exclusion::never_two_inside).needing(Client::require_all),
    );
    support::run_live(tests);
}

fn tests(client: Client, name: &str, needs: fn() -> Result<(), String>) -> Vec<Live> {
    let test = |what: &str| format!("{name}::{what}");
    let tests = [
        Live::sync(&test("locks_and_releases"), move || locks_and_releases(client)),
        Live::sync(&test("leaves_its_keys_to_the_ttl"), move || leaves_its_keys_to_the_ttl(client)),
        Live::multi_thread(&test("keeps_us_out"), move || exclusion::keeps_us_out(client)),
        Live::multi_thread(&test("is_kept_out_by_us"), move || exclusion::is_kept_out_by_us(client)),
        Live::multi_thread(&test("cannot_release_ours"), move || exclusion::cannot_release_ours(client)),
        Live::multi_thread(&test("takes_turns_with_us"), move || exclusion::takes_turns_with_us(client)),
    ];
    tests.into_iter().map(|test| test.needing(needs)).collect()
}

const TTL: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);

fn locks_and_releases(client: Client) {
    let nodes = Cluster::start(3);
    let held = client.try_acquire(&nodes, "resource", TTL).expect("a free lock");
    assert_eq!(nodes.count_with("resource", &held.value), 3);
    assert!(client.try_acquire(&nodes, "resource", TTL).is_none(), "a second holder");
    assert_eq!(nodes.count_with("resource", &held.value), 3);
    held.release();
    assert!(!nodes.exists_anywhere("resource"));
}

/// A client that ends without a release: what our own waiting has to outlast.
fn leaves_its_keys_to_the_ttl(client: Client) {
    let nodes = Cluster::start(3);
    let held = client.try_acquire(&nodes, "resource", Duration::from_secs(3)).expect("a free lock");
    drop(held);
    wait_until(SOON, || !nodes.exists_anywhere("resource"));
}
