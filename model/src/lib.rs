//! The model of the redfence lock.
