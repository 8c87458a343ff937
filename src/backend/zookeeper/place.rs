//! One acquisition on ZooKeeper: one znode of the session.
//!
//! Its `czxid` is the token: the number of the transaction that created it, which grows over all sessions, leaders and
//! re-creations of the queue, whereas the sequence number in its name starts anew with its parent.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, Error, Stat};

use super::sessions::{Session, Sessions};
use crate::backend::queue::{Entered, Manner, Place, Trouble};
use crate::proto::{Drift, FencingToken, Owner, Ttl};

/// Watches may die without a word: a queue is looked at again after this long, whatever they say.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ZooKeeperPlace {
    sessions: Arc<Sessions>,
    folder: String,
    owner: String,
    ttl: Ttl,
    session: OnceLock<Arc<Session>>,
    /// The znode's path, once it is known.
    path: OnceLock<String>,
}

/// A znode of a queue.
#[derive(Clone, Debug)]
pub(super) struct Znode {
    pub(super) path: String,
    pub(super) owner: String,
    sequence: i32,
}

/// The znodes of a queue, the first first; other names are not ours.
pub(super) fn in_order(folder: &str, names: Vec<String>) -> Vec<Znode> {
    let mut znodes: Vec<_> = names
        .into_iter()
        .filter_map(|name| {
            let (owner, sequence) = name.split_once('-')?;
            let sequence = sequence.parse().ok()?;
            Some(Znode { path: format!("{folder}/{name}"), owner: owner.to_owned(), sequence })
        })
        .collect();
    // Sequence numbers overflow into negative ones. Those in one queue are near each other, so the distance tells.
    if let Some(anchor) = znodes.first().map(|znode| znode.sequence) {
        znodes.sort_unstable_by_key(|znode| znode.sequence.wrapping_sub(anchor));
    }
    znodes
}

impl ZooKeeperPlace {
    pub(super) fn new(sessions: Arc<Sessions>, folder: String, owner: Owner, ttl: Ttl) -> Self {
        let owner = owner.to_string();
        Self { sessions, folder, owner, ttl, session: OnceLock::new(), path: OnceLock::new() }
    }

    /// The session that this place stands and falls with.
    fn session(&self) -> Result<&Arc<Session>, Trouble> {
        self.session.get().ok_or(Trouble::Gone)
    }

    /// Creates the znode, and the folders above it where they are missing.
    async fn create(&self, session: &Session) -> Result<Stat, Error> {
        let prefix = format!("{}/{}-", self.folder, self.owner);
        let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        loop {
            let created = session.client.create(&prefix, self.owner.as_bytes(), &mode);
            match self.sessions.within(created).await {
                Ok((stat, sequence)) => {
                    let _ = self.path.set(format!("{prefix}{sequence}"));
                    return Ok(stat);
                }
                Err(Error::NoNode) => self.sessions.within(self.make_folder(session)).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Containers, which the servers remove when they are empty again.
    async fn make_folder(&self, session: &Session) -> Result<(), Error> {
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        match session.client.mkdir(&self.folder, &container).await {
            // Servers before 3.5.
            Err(Error::Unimplemented) => {
                let plain = CreateMode::Persistent.with_acls(Acls::anyone_all());
                session.client.mkdir(&self.folder, &plain).await
            }
            made => made,
        }
    }

    async fn list(&self, session: &Session) -> Result<Vec<Znode>, Error> {
        match self.sessions.within(session.client.list_children(&self.folder)).await {
            Ok(names) => Ok(in_order(&self.folder, names)),
            Err(Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Looks for a znode of ours whose creation was not answered.
    ///
    /// After a `sync`, a list shows all that this session has done: requests are served in order, and what a server that we
    /// are no longer connected to has not passed on yet is refused by the leader, because the session has moved.
    async fn find(&self, session: &Session) -> Result<Option<Znode>, Error> {
        match self.sessions.within(session.client.sync(&self.folder)).await {
            Ok(()) | Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
        let znodes = self.list(session).await?;
        Ok(znodes.into_iter().find(|znode| znode.owner == self.owner))
    }

    /// Waits until the place, or the one before it, is gone; or until nothing can be said about them.
    ///
    /// Watches on children, which such znodes never have: they fire when the znode goes, and not at each renewal.
    async fn change(&self, session: &Session, mine: &str, before: &str) -> Result<(), Error> {
        let (_, own) = self.sessions.within(session.client.list_and_watch_children(mine)).await?;
        let other = self.sessions.within(session.client.list_and_watch_children(before)).await;
        let (_, other) = match other {
            Err(Error::NoNode) => return Ok(()),
            other => other?,
        };
        tokio::select! {
            _ = own.changed() => {}
            _ = other.changed() => {}
            () = session.over() => {}
        }
        Ok(())
    }

    /// What an error says before there is a place that could be lost: at worst, that another session is needed.
    async fn not_entered(&self, session: &Arc<Session>, error: Error) -> Trouble {
        match self.trouble(session, error.clone()).await {
            Trouble::Gone => self.sessions.failed(&error),
            failed => failed,
        }
    }

    /// What an error says about the place.
    async fn trouble(&self, session: &Arc<Session>, error: Error) -> Trouble {
        match error {
            Error::SessionExpired | Error::ClientClosed | Error::SessionMoved => Trouble::Gone,
            Error::UnexpectedError(_) => {
                self.sessions.retire(self.ttl, session).await;
                self.sessions.failed(&error)
            }
            _ if session.is_over() => Trouble::Gone,
            _ => self.sessions.failed(&error),
        }
    }
}

impl Place for ZooKeeperPlace {
    /// The client pings for the session, and would for as long as the process lives.
    const NEEDS_RENEWAL: bool = false;

    /// A third, beside the drift. A server that hears from a session tells the leader, who counts, within half a tick; and a
    /// quiet session pings after 0.15 of its timeout. So at worst the leader has last heard of it that much before the
    /// request that a holder goes by was sent, if the server is cut off from the leader just then. With a timeout of three
    /// ticks or more that is less than a third.
    fn margin(granted: Duration, drift: Drift) -> Duration {
        let drift = Ttl::from_duration(granted).map_or(drift.fixed, |ttl| drift.margin(ttl));
        granted / 3 + drift
    }

    async fn enter(&self, manner: Manner) -> Result<Option<Entered>, Trouble> {
        let session = self.sessions.get(self.ttl).await?;
        let session = self.session.get_or_init(|| session);
        if manner == Manner::OnlyIfFree {
            match self.list(session).await {
                Ok(znodes) if !znodes.is_empty() => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(self.not_entered(session, error).await),
            }
        }
        let stat = match self.create(session).await {
            Ok(stat) => stat,
            Err(error) => return Err(self.not_entered(session, error).await),
        };
        if stat.ephemeral_owner != session.client.session_id().0 {
            return Err(Trouble::Gone);
        }
        let znodes = match self.list(session).await {
            Ok(znodes) => znodes,
            Err(error) => return Err(self.not_entered(session, error).await),
        };
        let place = znodes.iter().position(|znode| znode.owner == self.owner).ok_or(Trouble::Gone)?;
        if place > 0 && manner == Manner::OnlyIfFree {
            // Somebody was quicker.
            self.leave().await?;
            return Ok(None);
        }
        let token = FencingToken(u64::try_from(stat.czxid).unwrap_or(0));
        Ok(Some(Entered { token, granted: session.granted(), first: place == 0 }))
    }

    async fn turn(&self) -> Result<(), Trouble> {
        let session = self.session()?;
        loop {
            let looked = async {
                let znodes = self.list(session).await?;
                let Some(place) = znodes.iter().position(|znode| znode.owner == self.owner) else {
                    return Ok(Some(Err(Trouble::Gone)));
                };
                let Some(before) = place.checked_sub(1) else { return Ok(Some(Ok(()))) };
                let change = self.change(session, &znodes[place].path, &znodes[before].path);
                tokio::time::timeout(LOOK_AGAIN, change).await.unwrap_or(Ok(()))?;
                Ok(None)
            };
            match looked.await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(Error::NoNode) => return Err(Trouble::Gone),
                Err(error) => return Err(self.trouble(session, error).await),
            }
        }
    }

    /// A write: a server that is cut off from the others would go on answering reads.
    async fn renew(&self) -> Result<(), Trouble> {
        let session = self.session()?;
        let path = self.path.get().ok_or(Trouble::Gone)?;
        match self.sessions.within(session.client.set_data(path, self.owner.as_bytes(), None)).await {
            Ok(stat) if stat.ephemeral_owner == session.client.session_id().0 => Ok(()),
            Ok(_) | Err(Error::NoNode) => Err(Trouble::Gone),
            Err(error) => Err(self.trouble(session, error).await),
        }
    }

    async fn gone(&self) {
        let (Ok(session), Some(path)) = (self.session(), self.path.get()) else { return };
        loop {
            match session.client.list_and_watch_children(path).await {
                Ok((_, watcher)) => tokio::select! {
                    _ = watcher.changed() => {}
                    () = session.over() => return,
                },
                Err(Error::NoNode) => return,
                Err(_) if session.is_over() => return,
                // Silence proves nothing.
                Err(_) => {
                    session.connected().await;
                    self.sessions.clock().sleep(self.sessions.patience() / 10).await;
                }
            }
        }
    }

    async fn leave(&self) -> Result<bool, Trouble> {
        // Without a session nothing was ever created.
        let Some(session) = self.session.get() else { return Ok(false) };
        let path = match self.path.get() {
            Some(path) => path.clone(),
            None => match self.find(session).await {
                Ok(Some(znode)) => znode.path,
                Ok(None) => return Ok(false),
                Err(error) => return Err(self.trouble(session, error).await),
            },
        };
        match self.sessions.within(session.client.delete(&path, None)).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(self.trouble(session, error).await),
        }
    }

    async fn tidy(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_in_order_of_its_sequence_numbers_over_their_overflow() {
        let names = ["c--2147483648", "x", "b-2147483647", "y-z", "a-2147483646", "d--2147483647"];
        let owners = |names: Vec<String>| {
            in_order("/f", names).into_iter().map(|znode| znode.owner).collect::<Vec<_>>().concat()
        };
        // Whichever comes first in the list: it is not sorted.
        assert_eq!(owners(vec!["a-0000000007".to_owned(), "b-0000000003".to_owned()]), "ba");
        for turn in 0..names.len() {
            let mut list: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            list.rotate_left(turn);
            assert_eq!(owners(list), "abcd", "rotated by {turn}");
        }
    }
}
