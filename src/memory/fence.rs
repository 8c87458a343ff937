//! A token, and whose token it is.

use std::fmt;
use std::sync::Arc;

use crate::proto::FencingToken;

/// Names the lock service that numbers its holders: a cluster of nodes, an etcd cluster, a ZooKeeper ensemble.
///
/// Tokens of one back end are ordered; between two of them "larger" says nothing. So a store notes beside the largest token
/// whose token it was, and refuses others' until it is moved ([`change_backend`](super::Store::change_backend)).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BackendId(Arc<str>);

impl BackendId {
    /// A back end by its name: any text that stays the same for as long as its tokens go on rising, and no longer.
    ///
    /// A cluster that begins again at 0 is another back end, and needs another name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a holder shows to a store: its fencing token, and the back end that minted it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    /// Whose token.
    pub backend: BackendId,
    /// The token.
    pub token: FencingToken,
}

impl Fence {
    /// A token of a back end.
    pub const fn new(backend: BackendId, token: FencingToken) -> Self {
        Self { backend, token }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.token.0, self.backend)
    }
}
