//! Locks on etcd: a lease and a key for each acquisition, in order of their create revisions.
//!
//! `members` asks the members, `place` is one acquisition. Not etcd's own Lock service: its waiters are given the lock although
//! their lease has ended (field report B82), and its Unlock, repeated, removes a newer lock of the same lease.

mod members;
mod place;

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, KeyValue, LeaseTimeToLiveResponse, SortOrder, SortTarget};
use redis::TlsCertificates;

use self::members::Members;
use self::place::EtcdPlace;
use super::queue::{Prolonged, Service, names};
use crate::lock::clock::Entropy;
use crate::lock::error::ConfigError;
use crate::lock::options::least_ttl;
use crate::lock::report::NodeError;
use crate::lock::{Capabilities, Inspection};
use crate::proto::message::Record;
use crate::proto::{Drift, Owner, Ttl};

/// etcd, as its members are given.
#[derive(Debug)]
pub(crate) struct Etcd {
    members: Arc<Members>,
    entropy: Arc<dyn Entropy>,
}

impl Etcd {
    pub(crate) fn new(
        urls: &[&str],
        tls: &TlsCertificates,
        patience: Duration,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { members: Arc::new(Members::new(urls, tls, patience)?), entropy })
    }

    pub(crate) fn capabilities(drift: Drift) -> Capabilities {
        Capabilities {
            fair: true,
            native_token: true,
            fixed_ttl: true,
            extend_by_owner: true,
            // A lease counts whole seconds.
            min_ttl: Duration::from_secs(1).max(least_ttl(drift)),
        }
    }

    /// The keys of a queue, the first first.
    async fn list(&self, queue: &str) -> Result<Vec<KeyValue>, NodeError> {
        let folder = folder(queue);
        let listed = self.members.ask(move |mut etcd| {
            let folder = folder.clone();
            async move { etcd.get(folder, Some(in_order())).await }
        });
        Ok(listed.await.map_err(members::Failed::into_first)?.take_kvs())
    }

    async fn life(&self, lease: i64) -> Result<LeaseTimeToLiveResponse, NodeError> {
        let life =
            self.members.ask(move |mut etcd| async move { etcd.lease_time_to_live(lease, None).await });
        life.await.map_err(members::Failed::into_first)
    }

    async fn of_owner(&self, queue: &str, owner: Owner) -> Result<Option<(usize, KeyValue)>, NodeError> {
        let owner = owner.to_string();
        let mut keys = self.list(queue).await?.into_iter().enumerate();
        Ok(keys.find(|(_, key)| key.value() == owner.as_bytes()))
    }
}

impl Service for Etcd {
    type Place = EtcdPlace;

    fn place(&self, queue: &str, owner: Owner, ttl: Ttl) -> EtcdPlace {
        // Chosen here, so that a lease can be revoked although the answer to its grant was lost. Positive, and not zero, which
        // would ask etcd to choose.
        #[expect(clippy::cast_possible_truncation, reason = "as many random bits as a lease id has")]
        let lease = (self.entropy.owner().0 as i64 & i64::MAX).max(1);
        EtcdPlace::new(Arc::clone(&self.members), folder(queue), owner, lease, ttl)
    }

    fn endpoints(&self) -> Vec<String> {
        self.members.addresses()
    }

    async fn inspect(&self, queue: &str) -> Result<Inspection, NodeError> {
        let Some(first) = self.list(queue).await?.into_iter().next() else {
            return Ok(Inspection {
                holder: None,
                remaining: None,
                counter: None,
                record: Record::default(),
            });
        };
        let life = self.life(first.lease()).await?;
        Ok(Inspection {
            holder: Some(String::from_utf8_lossy(first.value()).into_owned()),
            remaining: u64::try_from(life.ttl()).ok().map(Duration::from_secs),
            counter: u64::try_from(first.create_revision()).ok(),
            record: Record::default(),
        })
    }

    async fn evict(&self, queue: &str, owner: Owner) -> Result<bool, NodeError> {
        let Some((_, key)) = self.of_owner(queue, owner).await? else { return Ok(false) };
        let lease = key.lease();
        // A lease of ours has one key, so this removes that key and nothing else.
        let revoked = self.members.ask(move |mut etcd| async move { etcd.lease_revoke(lease).await }).await;
        match revoked {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_not_found() => Ok(false),
            Err(failed) => Err(failed.into_first()),
        }
    }

    async fn prolong(&self, queue: &str, owner: Owner, ttl: Duration) -> Prolonged {
        let first = match self.of_owner(queue, owner).await {
            Ok(Some((0, key))) => key,
            Ok(_) => return Prolonged::NotFirst,
            Err(error) => return Prolonged::Failed(error),
        };
        let granted = match self.life(first.lease()).await {
            Ok(life) => Duration::from_secs(u64::try_from(life.granted_ttl()).unwrap_or(0)),
            Err(error) => return Prolonged::Failed(error),
        };
        if ttl > granted {
            return Prolonged::Shorter { granted };
        }
        match place::keep_alive(&self.members, first.lease()).await {
            Ok(()) => Prolonged::Done,
            Err(failed) if failed.is_not_found() => Prolonged::NotFirst,
            Err(failed) => Prolonged::Failed(failed.into_first()),
        }
    }
}

/// The prefix of a queue's keys.
fn folder(queue: &str) -> String {
    format!("{}/{queue}/", names::ROOT)
}

fn in_order() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend)
}
