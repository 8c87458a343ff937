//! Back ends: each gives leases with tokens behind the face of `crate::lock`.

pub mod redlock;
