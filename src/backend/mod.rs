//! Back ends: each gives leases with tokens behind the face of `crate::lock`.
//!
//! `redlock` counts grants of independent Redis nodes; etcd and ZooKeeper each keep a queue (`queue`), and vote within
//! themselves. `choice` is one of them: an enum and not a trait, since the set is closed, and only Redlock has nodes to start,
//! to re-admit and to count.

#[cfg(feature = "redis")]
mod choice;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod queue;
pub mod redlock;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

#[cfg(feature = "redis")]
pub(crate) use choice::{Backend, Wait, Wanted};
#[cfg(feature = "etcd")]
pub(crate) use etcd::Etcd;
#[cfg(feature = "zookeeper")]
pub(crate) use zookeeper::ZooKeeper;
