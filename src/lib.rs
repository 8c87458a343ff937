//! A distributed lock on a quorum of independent Redis nodes, with fencing tokens minted by that same quorum.

pub mod proto;
