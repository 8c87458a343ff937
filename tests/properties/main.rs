//! What the protocol promises, for inputs that nobody thought of.
//!
//! * `session`: any sequence of inputs, sensible or not, in any order. The session agrees with a naive twin (`twin`) that
//!   keeps the whole list and counts anew, keeps the rules written in `rules`, and never wakes its host in vain.
//! * `cluster`: sessions and reference nodes in virtual time, with losses, delays, overtaking and wiped nodes. No two believe
//!   at once, tokens grow, and no key is left behind.
//! * `first_start`: two starts at once, interleaved in every way, beside nodes in every condition.

mod cluster;
mod first_start;
mod rules;
mod session;
mod twin;
