//! The file: opened, recognised, and made what this version expects.

use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::extension;
use super::fault::{Fault, is_busy};
use super::thread::in_transaction;
use crate::memory::StoreError;

/// How long one access waits for others to be done with the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// "rdfn": says in the file's header whose it is.
const APPLICATION: i64 = 0x7264_666e;

/// What makes a file of one version into one of the next; the first makes it from nothing.
const STEPS: [&str; 1] = [include_str!("schema_1.sql")];

const KNOWN: i64 = STEPS.len() as i64;

/// Opens a file.
pub(super) fn open(path: &std::path::Path, store: &str) -> Result<Connection, Fault> {
    prepared(Connection::open(path)?, store)
}

/// Opens a store that is nowhere but in this connection.
pub(super) fn open_in_memory(store: &str) -> Result<Connection, Fault> {
    prepared(Connection::open_in_memory()?, store)
}

fn prepared(mut connection: Connection, store: &str) -> Result<Connection, Fault> {
    connection.busy_timeout(PATIENCE)?;
    extension::load(&connection)?;
    // A power loss does not take back what was answered: a mark that falls lets an old holder in again.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Two that create one file at once: SQLite does not wait where waiting would be a deadlock, and says "busy" at once.
    let (tries, pause) = (200, PATIENCE / 200);
    for _ in 1..tries {
        match create_or_migrate(&mut connection, store) {
            Err(Fault::Before(error) | Fault::Commit(error)) if is_busy(&error) => std::thread::sleep(pause),
            result => return result.map(|()| connection),
        }
    }
    create_or_migrate(&mut connection, store).map(|()| connection)
}

/// Writes nothing if the file is what it should be: everybody who opens it would wait for the one who writes.
fn create_or_migrate(connection: &mut Connection, store: &str) -> Result<(), Fault> {
    if version(&connection.transaction()?, store)? == KNOWN {
        return Ok(());
    }
    write_ahead(connection, store)?;
    in_transaction(connection, |transaction| {
        // Somebody else may have been faster.
        let found = version(transaction, store)?;
        migrate(transaction, found)
    })
}

fn migrate(transaction: &Transaction<'_>, found: i64) -> Result<(), Fault> {
    let done = usize::try_from(found).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", KNOWN)?;
    Ok(())
}

/// The version of our schema in a file that is ours, or empty. All is read in one transaction: whose file it is and what is in it
/// would not belong together if somebody made the schema in between.
fn version(transaction: &Transaction<'_>, store: &str) -> Result<i64, Fault> {
    let number = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (number("application_id")?, number("user_version")?);
    if application == APPLICATION {
        let newer = StoreError::Schema { store: store.to_owned(), found, known: KNOWN };
        return if found > KNOWN { Err(newer.into()) } else { Ok(found) };
    }
    let tables =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    if application == 0 && found == 0 && tables == 0 {
        return Ok(0);
    }
    Err(refused(store, "the database of another program"))
}

/// Readers and a writer do not wait for each other. The file remembers it.
fn write_ahead(connection: &Connection, store: &str) -> Result<(), Fault> {
    let mode =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
    match mode.as_str() {
        "wal" | "memory" => Ok(()),
        _ => Err(refused(store, "no write-ahead log here: is it on a network file system?")),
    }
}

fn refused(store: &str, why: &str) -> Fault {
    StoreError::Refused { store: store.to_owned(), source: why.into() }.into()
}
