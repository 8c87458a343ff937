//! What went wrong, and what that means for whoever asked.

use rusqlite::ErrorCode;

use crate::memory::StoreError;

/// Why a job on the connection did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Before the commit: all of it was undone.
    Before(rusqlite::Error),
    /// In the commit itself.
    Commit(rusqlite::Error),
    /// The store says no.
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Before(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    pub(super) fn told(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            Self::Store(error) => error,
            // A commit that finds the file busy leaves the transaction as it was, and it is undone then.
            Self::Commit(error) if !is_busy(&error) => StoreError::Unknown { store, source: error.into() },
            Self::Before(error) | Self::Commit(error) if may_pass(&error) => {
                StoreError::Unavailable { store, source: error.into() }
            }
            Self::Before(error) | Self::Commit(error) => StoreError::Refused { store, source: error.into() },
        }
    }
}

/// Somebody else has the file, and had it for longer than we wait.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn may_pass(error: &rusqlite::Error) -> bool {
    let passing = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
        )
    );
    passing || is_busy(error)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_a_commit_may_have_done_what_it_did_not_confirm() {
        let busy = [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED];
        for code in busy.into_iter().chain([ffi::SQLITE_IOERR, ffi::SQLITE_FULL]) {
            let told = Fault::Before(failure(code)).told("store");
            assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
        }
        let told = Fault::Before(failure(ffi::SQLITE_CORRUPT)).told("store");
        assert!(matches!(told, StoreError::Refused { .. }), "{told:?}");
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_FULL, ffi::SQLITE_CORRUPT] {
            let told = Fault::Commit(failure(code)).told("store");
            assert!(matches!(told, StoreError::Unknown { .. }), "{told:?}");
        }
        // A commit that found the file busy has not been done, and is undone.
        let told = Fault::Commit(failure(ffi::SQLITE_BUSY)).told("store");
        assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
    }
}
