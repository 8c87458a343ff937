//! sqlite-vec, for one connection.

use std::ffi::{CStr, c_char, c_int};

use rusqlite::{Connection, ffi};

/// What the extension's entry point is in C; the crate declares it without arguments.
type Entry =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

/// Makes `vec0` tables known to this connection.
///
/// Not through `sqlite3_auto_extension`: that would add them to every later connection of this process, also to those of others.
#[allow(unsafe_code, reason = "SQLite takes extensions as C functions; nothing safe calls one")]
pub(super) fn load(connection: &Connection) -> rusqlite::Result<()> {
    let mut problem: *mut c_char = std::ptr::null_mut();
    // SAFETY: the function is what `Entry` says (sqlite-vec.c, `sqlite3_vec_init`), and is linked in with SQLITE_CORE, so it does
    // not look at the third argument. The handle is open for as long as `connection` is borrowed.
    let code = unsafe {
        let entry = std::mem::transmute::<*const (), Entry>(sqlite_vec::sqlite3_vec_init as *const ());
        entry(connection.handle(), &raw mut problem, std::ptr::null())
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    let told = (!problem.is_null()).then(|| {
        // SAFETY: the text is the extension's, ends with a zero, and is ours to free, which is done once.
        unsafe {
            let text = CStr::from_ptr(problem).to_string_lossy().into_owned();
            ffi::sqlite3_free(problem.cast());
            text
        }
    });
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), told))
}
