//! A run of the model as data. The format is `redfence::trace`, described in `docs/traces.md`; it knows nothing of the model: a
//! simulation or a run on real nodes writes it too, and the drawing is made from it alone.

mod messages;
mod moment;
mod path;
mod record;

pub use path::{Choice, Error, choices, follow, record, shortest};
pub use redfence::trace::*;
