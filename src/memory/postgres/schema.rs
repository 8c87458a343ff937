//! Tables and functions in the database, made by whoever comes first.

use tokio_postgres::types::Type;

use super::fault::Effect;
use super::link::Link;
use crate::memory::StoreError;

/// What makes the schema of one version into that of the next; the first makes it from nothing.
const STEPS: [&str; 1] = [include_str!("schema_1.sql")];

const KNOWN: i64 = STEPS.len() as i64;

/// Creates or migrates, if need be. Writes nothing otherwise.
pub(super) async fn prepare(link: &Link) -> Result<(), StoreError> {
    let found = version(link).await?;
    match usize::try_from(found) {
        Ok(done) if done == STEPS.len() => Ok(()),
        Ok(done) if done < STEPS.len() => migrate(link, done).await,
        _ => Err(StoreError::Schema { store: link.store().to_owned(), found, known: KNOWN }),
    }
}

/// One migrates, others wait. Steps that somebody else has done meanwhile fail on what is there already, and all is undone: so
/// it is looked at again.
async fn migrate(link: &Link, done: usize) -> Result<(), StoreError> {
    let steps = STEPS.iter().skip(done).copied().collect::<Vec<_>>().join("\n");
    let lock = "SELECT pg_advisory_xact_lock(8242550271131771238)";
    let all = format!("BEGIN; {lock}; {steps}; UPDATE redfence_store SET schema_version = {KNOWN}; COMMIT;");
    match link.batch(Effect::None, &all).await {
        Ok(()) => Ok(()),
        Err(_) if version(link).await? == KNOWN => Ok(()),
        Err(error) => Err(error),
    }
}

async fn version(link: &Link) -> Result<i64, StoreError> {
    let table = "SELECT to_regclass('redfence_store') IS NOT NULL";
    let rows = link.rows(Effect::None, table, &[]).await?;
    let exists: bool = rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
    if !exists {
        return Ok(0);
    }
    let rows =
        link.rows(Effect::None, "SELECT schema_version FROM redfence_store", &[] as &[(_, Type)]).await?;
    let version = rows.first().and_then(|row| row.try_get(0).ok());
    version.ok_or_else(|| link.strange(Effect::None, "redfence_store without a version"))
}
