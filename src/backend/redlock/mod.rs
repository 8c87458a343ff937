//! Redlock with fencing tokens, on a quorum of independent Redis nodes.

pub mod scripts;
