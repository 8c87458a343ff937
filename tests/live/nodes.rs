//! The nodes themselves: what all other live tests stand on.

use crate::support::{Cluster, Live, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    live_tests![sync: five_independent_nodes_keep_their_own_keys]
}

fn five_independent_nodes_keep_their_own_keys() {
    let nodes = Cluster::start(5);
    for (i, node) in nodes.iter().enumerate() {
        node.ask::<()>(&["SET", "resource", &format!("owner {i}"), "NX", "PX", "60000"]);
    }
    let owners: Vec<_> = (0..5).map(|i| Some(format!("owner {i}"))).collect();
    assert_eq!(nodes.get("resource"), owners);
    assert!(nodes.pttl("resource").into_iter().all(|left| left.is_some_and(|ms| 0 < ms && ms <= 60_000)));
}
