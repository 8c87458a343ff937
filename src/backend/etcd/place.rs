//! One acquisition on etcd: one lease, one key.
//!
//! The key is created in a transaction that also lists the queue, so an acquisition that need not wait takes two requests.
//! Its create revision is the token: unique, in queue order, and something a later transaction can compare.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetResponse, KeyValue, LeaseGrantOptions, PutOptions, Txn, TxnOp, TxnOpResponse,
    WatchOptions, WatchStream,
};

use super::in_order;
use super::members::{Failed, Members};
use crate::backend::queue::{Entered, Manner, Place, Trouble};
use crate::proto::{Drift, FencingToken, Owner, Ttl};

/// Watches may die without a word: a queue is looked at again after this long, whatever they say.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct EtcdPlace {
    members: Arc<Members>,
    folder: String,
    key: String,
    owner: String,
    lease: i64,
    ttl: Ttl,
    /// The key's create revision; 0 until it is known.
    revision: AtomicI64,
}

/// The queue at one moment, as far as it concerns us.
struct Look {
    /// The moment.
    revision: i64,
    mine: Option<KeyValue>,
    before: Option<KeyValue>,
}

impl EtcdPlace {
    pub(super) fn new(members: Arc<Members>, folder: String, owner: Owner, lease: i64, ttl: Ttl) -> Self {
        let key = format!("{folder}{lease:016x}");
        let (owner, revision) = (owner.to_string(), AtomicI64::new(0));
        Self { members, folder, key, owner, lease, ttl, revision }
    }

    /// The TTL granted.
    async fn grant(&self) -> Result<Duration, Failed> {
        let (lease, seconds) = (self.lease, self.ttl.as_millis().div_ceil(1000));
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let options = LeaseGrantOptions::new().with_id(lease);
        let granted = self
            .members
            .ask(move |mut etcd| {
                let options = options.clone();
                async move {
                    match etcd.lease_grant(seconds, Some(options)).await {
                        Ok(granted) => {
                            Ok((granted.header().map(|header| header.cluster_id()), granted.ttl()))
                        }
                        // The first of two tries was done, and only its answer is missing.
                        Err(error) if is_there_already(&error) => {
                            let life = etcd.lease_time_to_live(lease, None).await?;
                            Ok((None, life.granted_ttl()))
                        }
                        Err(error) => Err(error),
                    }
                }
            })
            .await?;
        if let Some(cluster) = granted.0 {
            self.members.met(cluster);
        }
        Ok(Duration::from_secs(u64::try_from(granted.1).unwrap_or(0)))
    }

    /// Creates the key, if it is not there, and looks at the queue at that very moment.
    async fn line_up(&self, manner: Manner) -> Result<Look, Failed> {
        let absent = Compare::create_revision(self.key.as_str(), CompareOp::Equal, 0);
        let free = Compare::create_revision(self.folder.as_str(), CompareOp::Equal, 0).with_prefix();
        let put = TxnOp::put(
            self.key.as_str(),
            self.owner.as_str(),
            Some(PutOptions::new().with_lease(self.lease)),
        );
        let list = TxnOp::get(self.folder.as_str(), Some(in_order()));
        let condition = match manner {
            Manner::Queue => absent,
            Manner::OnlyIfFree => free,
        };
        let txn = Txn::new().when([condition]).and_then([put, list.clone()]).or_else([list]);
        let done = self.members.ask(move |mut etcd| {
            let txn = txn.clone();
            async move { etcd.txn(txn).await }
        });
        let mut lists = done.await?.op_responses().into_iter().filter_map(|response| match response {
            TxnOpResponse::Get(list) => Some(list),
            _ => None,
        });
        Ok(self.look_at(lists.next_back()))
    }

    async fn look(&self) -> Result<Look, Failed> {
        let folder = self.folder.clone();
        let listed = self.members.ask(move |mut etcd| {
            let folder = folder.clone();
            async move { etcd.get(folder, Some(in_order())).await }
        });
        Ok(self.look_at(Some(listed.await?)))
    }

    fn look_at(&self, list: Option<GetResponse>) -> Look {
        let Some(mut list) = list else { return Look { revision: 0, mine: None, before: None } };
        let revision = list.header().map_or(0, |header| header.revision());
        let mut keys = list.take_kvs();
        let mine = keys.iter().position(|key| key.key() == self.key.as_bytes());
        let before = mine.and_then(|index| index.checked_sub(1)).map(|index| keys[index].clone());
        Look { revision, mine: mine.map(|index| keys.swap_remove(index)), before }
    }

    /// Watches both keys from the moment after a look, so that nothing in between is missed.
    async fn watch(&self, after: i64, other: Option<&[u8]>) -> Result<WatchStream, etcd_client::Error> {
        let options = || Some(WatchOptions::new().with_start_revision(after + 1));
        let mut etcd = self.members.client().await?;
        let mut stream = etcd.watch(self.key.as_str(), options()).await?;
        if let Some(other) = other {
            stream.watch(other, options()).await?;
        }
        Ok(stream)
    }

    /// Waits until one of the keys has changed, or nothing can be said about them.
    async fn change(&self, after: i64, other: Option<&[u8]>) {
        let Ok(Ok(mut stream)) =
            tokio::time::timeout(self.members.patience(), self.watch(after, other)).await
        else {
            return tokio::time::sleep(self.members.patience()).await;
        };
        while let Ok(Some(message)) = stream.message().await {
            if message.canceled() || !message.events().is_empty() {
                return;
            }
        }
        // The stream is broken: a member that breaks each one at once must not be asked without a pause.
        tokio::time::sleep(self.members.patience() / 10).await;
    }
}

impl Place for EtcdPlace {
    const NEEDS_RENEWAL: bool = true;

    fn margin(granted: Duration, drift: Drift) -> Duration {
        Ttl::from_duration(granted).map_or(drift.fixed, |ttl| drift.margin(ttl))
    }

    async fn enter(&self, manner: Manner) -> Result<Option<Entered>, Trouble> {
        let granted = self.grant().await.map_err(failed)?;
        let look = self.line_up(manner).await.map_err(failed)?;
        let Some(mine) = look.mine else {
            return match manner {
                Manner::OnlyIfFree => {
                    // The lease has no key, and is in nobody's way: if this fails, its TTL ends it.
                    let _ = self.revoke().await;
                    Ok(None)
                }
                Manner::Queue => Err(Trouble::Gone),
            };
        };
        self.revision.store(mine.create_revision(), Ordering::Release);
        let token = FencingToken(u64::try_from(mine.create_revision()).unwrap_or(0));
        Ok(Some(Entered { token, granted, first: look.before.is_none() }))
    }

    async fn turn(&self) -> Result<(), Trouble> {
        loop {
            let look = self.look().await.map_err(failed)?;
            match (look.mine, look.before) {
                (None, _) => return Err(Trouble::Gone),
                (Some(_), None) => return Ok(()),
                (Some(_), Some(before)) => {
                    let change = self.change(look.revision, Some(before.key()));
                    let _ = tokio::time::timeout(LOOK_AGAIN, change).await;
                }
            }
        }
    }

    async fn renew(&self) -> Result<(), Trouble> {
        keep_alive(&self.members, self.lease).await.map_err(gone_or_failed)
    }

    async fn gone(&self) {
        loop {
            match self.look().await {
                Ok(look) if look.mine.is_none() => return,
                Ok(look) => self.change(look.revision, None).await,
                // Silence proves nothing.
                Err(_) => tokio::time::sleep(self.members.patience()).await,
            }
        }
    }

    async fn leave(&self) -> Result<bool, Trouble> {
        // Only this key and only this life of it, however often it is asked and however late. 0 if our key's revision never
        // reached us: then there is nothing to compare, and revoking the lease removes what there is.
        let revision = self.revision.load(Ordering::Acquire);
        let mine = Compare::create_revision(self.key.as_str(), CompareOp::Equal, revision);
        let txn = Txn::new().when([mine]).and_then([TxnOp::delete(self.key.as_str(), None)]);
        if revision != 0 {
            let done = self.members.ask(move |mut etcd| {
                let txn = txn.clone();
                async move { etcd.txn(txn).await }
            });
            return Ok(done.await.map_err(failed)?.succeeded());
        }
        match self.revoke().await {
            Ok(()) => Ok(false),
            Err(failed) if failed.is_not_found() => Ok(false),
            Err(failed) => Err(Trouble::Failed(failed.report())),
        }
    }

    async fn tidy(&self) {
        let _ = self.revoke().await;
    }
}

impl EtcdPlace {
    async fn revoke(&self) -> Result<(), Failed> {
        let lease = self.lease;
        self.members.ask(move |mut etcd| async move { etcd.lease_revoke(lease).await }).await.map(drop)
    }
}

/// One sign of life, confirmed.
pub(super) async fn keep_alive(members: &Members, lease: i64) -> Result<(), Failed> {
    // The stream is dropped after its first answer: that one came for this question.
    members.ask(move |mut etcd| async move { etcd.lease_keep_alive(lease).await }).await.map(drop)
}

fn is_there_already(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status) if status.message().contains("lease already exists"))
}

fn failed(failed: Failed) -> Trouble {
    Trouble::Failed(failed.report())
}

/// "Not found" is about the lease.
fn gone_or_failed(failed: Failed) -> Trouble {
    if failed.is_not_found() { Trouble::Gone } else { Trouble::Failed(failed.report()) }
}
