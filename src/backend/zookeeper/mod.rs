//! Locks on ZooKeeper: an ephemeral sequential znode for each acquisition, in order of their sequence numbers.
//!
//! `sessions` keeps the sessions, `place` is one acquisition. The session is the lease: when it ends, its znodes go. Sessions are
//! shared by all acquisitions with the same TTL, since a server takes 60 connections from one address by default, and opening
//! a session is a write of its own. So a lock's znode may outlive its TTL as long as this process lives; the keeper removes
//! it then. Nothing is ever found again by another session: a znode has its acquisition's owner value in its name, and counts
//! only if the session that created it is the one that asks (field report B89).

mod place;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Client, Error};

use self::place::{Znode, ZooKeeperPlace, in_order};
use self::sessions::{Sessions, node_error};
use super::queue::endpoint::Form;
use super::queue::{Prolonged, Service, Trouble, names};
use crate::lock::clock::Clock;
use crate::lock::error::ConfigError;
use crate::lock::options::least_ttl;
use crate::lock::report::{NodeAnswer, NodeError};
use crate::lock::{Capabilities, Inspection};
use crate::proto::message::Record;
use crate::proto::{Drift, Owner, Ttl};

const FORM: Form = Form { backend: "zookeeper", expected: "host[:port][,host[:port]..][/chroot]" };

/// ZooKeeper's usual port.
const PORT: u16 = 2181;

/// The TTL of the session that looks, and holds nothing.
const LOOKING: Ttl = match Ttl::from_millis(10_000) {
    Some(ttl) => ttl,
    None => Ttl::MAX,
};

/// ZooKeeper, as its servers are given.
#[derive(Debug)]
pub(crate) struct ZooKeeper {
    sessions: Arc<Sessions>,
}

impl ZooKeeper {
    pub(crate) fn new(connect: &str, patience: Duration, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        let (servers, chroot) = read(connect)?;
        Ok(Self { sessions: Arc::new(Sessions::new(servers, &chroot, patience, clock)) })
    }

    pub(crate) fn capabilities(drift: Drift) -> Capabilities {
        Capabilities {
            fair: true,
            native_token: true,
            fixed_ttl: true,
            // A session is renewed by who has its password.
            extend_by_owner: false,
            // A third of it is not validity.
            min_ttl: least_ttl(drift) * 3 / 2 + Duration::from_millis(1),
        }
    }

    /// The znodes of a queue, the first first.
    async fn list(&self, client: &Client, queue: &str) -> Result<Vec<Znode>, NodeError> {
        let folder = folder(queue);
        let listed = self.sessions.within(client.list_children(&folder)).await;
        match listed {
            Ok(names) => Ok(in_order(&folder, names)),
            Err(Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(node_error(&error)),
        }
    }
}

impl Service for ZooKeeper {
    type Place = ZooKeeperPlace;

    fn place(&self, queue: &str, owner: Owner, ttl: Ttl) -> ZooKeeperPlace {
        ZooKeeperPlace::new(Arc::clone(&self.sessions), folder(queue), owner, ttl)
    }

    fn endpoints(&self) -> Vec<String> {
        self.sessions.servers().to_vec()
    }

    async fn inspect(&self, queue: &str) -> Result<Inspection, NodeError> {
        let none = Inspection { holder: None, remaining: None, counter: None, record: Record::default() };
        let session = self.sessions.get(LOOKING).await.map_err(first)?;
        for znode in self.list(&session.client, queue).await? {
            match self.sessions.within(session.client.get_data(&znode.path)).await {
                Ok((data, stat)) => {
                    let holder = Some(String::from_utf8_lossy(&data).into_owned());
                    return Ok(Inspection { holder, counter: u64::try_from(stat.czxid).ok(), ..none });
                }
                // It has just gone: the next is first.
                Err(Error::NoNode) => {}
                Err(error) => return Err(node_error(&error)),
            }
        }
        Ok(none)
    }

    async fn evict(&self, queue: &str, owner: Owner) -> Result<bool, NodeError> {
        let session = self.sessions.get(LOOKING).await.map_err(first)?;
        let owner = owner.to_string();
        let znodes = self.list(&session.client, queue).await?;
        let Some(znode) = znodes.into_iter().find(|znode| znode.owner == owner) else { return Ok(false) };
        match self.sessions.within(session.client.delete(&znode.path, None)).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(node_error(&error)),
        }
    }

    async fn prolong(&self, _: &str, _: Owner, _: Duration) -> Prolonged {
        Prolonged::Impossible
    }
}

/// The znode that holds a queue.
fn folder(queue: &str) -> String {
    format!("/{}/{queue}", names::ROOT)
}

fn first(trouble: Trouble) -> NodeError {
    let said = match trouble {
        Trouble::Gone => None,
        Trouble::Failed(report) => report.0.into_iter().find_map(|said| match said.answer {
            NodeAnswer::Failed(error) => Some(error),
            _ => None,
        }),
    };
    said.unwrap_or_else(|| NodeError::NoAnswer("the session has ended".to_owned()))
}

/// Servers and chroot of a connect string.
fn read(connect: &str) -> Result<(Vec<String>, String), ConfigError> {
    let connect = connect.trim();
    let (servers, chroot) = match connect.find('/') {
        Some(slash) => connect.split_at(slash),
        None => (connect, ""),
    };
    let servers: Vec<_> = servers
        .split(',')
        .map(|server| FORM.host_and_port(connect, server.trim(), Some(PORT)))
        .collect::<Result<_, _>>()?;
    Form::distinct(&servers)?;
    let chroot = chroot.strip_suffix('/').unwrap_or(chroot);
    let steps = chroot.split('/').skip(1);
    for step in steps {
        if matches!(step, "" | "." | "..") || step.contains(char::is_control) {
            return Err(FORM.bad(connect, format!("{chroot:?} is no path of a znode")));
        }
    }
    Ok((servers, chroot.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::queue::Place as _;

    #[test]
    fn a_connect_string_is_servers_and_perhaps_a_chroot() {
        let servers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("a").unwrap(), (servers(&["a:2181"]), String::new()));
        assert_eq!(read(" a:1, b:2/locks/x/ ").unwrap(), (servers(&["a:1", "b:2"]), "/locks/x".to_owned()));
        for wrong in ["", ",", "a,,b", "a:1//x", "a:1/x/../y", "a:0", "a b"] {
            assert!(matches!(read(wrong), Err(ConfigError::BadEndpoint { .. })), "{wrong:?}");
        }
        assert!(matches!(read("a,a:2181"), Err(ConfigError::DuplicateNode { .. })));
    }

    #[test]
    fn the_shortest_ttl_leaves_validity() {
        let drift = Drift::default();
        let least = ZooKeeper::capabilities(drift).min_ttl;
        assert!(ZooKeeperPlace::margin(least, drift) < least);
    }
}
