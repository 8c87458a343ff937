//! Every store answers as [`Guarded`](redfence::memory::Guarded) says: one list of cases, run against all of them.
//!
//! A case is named `store::case`. With `REDFENCE_MEMORY_TABLE=1` a table of cases and stores, and one of how fast they are,
//! is printed at the end.

#[path = "../support/mod.rs"]
mod support;

mod backends;
mod case;
mod child;
#[cfg(feature = "sqlite")]
mod documents;
mod history;
mod inputs;
mod lost;
mod operations;
mod order;
#[cfg(feature = "postgres")]
mod postgres;
mod race;
mod redis_server;
#[cfg(feature = "sqlite")]
mod sqlite;
mod subject;
mod table;

fn main() {
    child::play();
    let mut cases = [
        order::cases(),
        history::cases(),
        race::cases(),
        operations::cases(),
        inputs::cases(),
        backends::cases(),
        lost::cases(),
        redis_server::cases(),
    ]
    .concat();
    #[cfg(feature = "sqlite")]
    cases.extend([documents::cases(), sqlite::cases()].concat());
    #[cfg(feature = "postgres")]
    cases.extend(postgres::cases());
    let conclusion = support::conclude_live(case::tests(&cases));
    table::print(&cases);
    subject::stop_shared_servers();
    conclusion.exit();
}
