//! A wall clock of its own for one server, set by the test while the server runs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::require_redis;

/// Whether a server can be given a clock of its own here.
pub(crate) fn require_own_clock() -> Result<(), String> {
    require_redis()?;
    if !cfg!(target_os = "linux") {
        return Err("a clock of its own for a server needs Linux".into());
    }
    let compiler = Command::new("cc").arg("--version").output();
    compiler.map(|_| ()).map_err(|error| format!("cc cannot be run ({error}): a server's own clock is in C"))
}

#[derive(Debug)]
pub(crate) struct OwnClock {
    path: PathBuf,
    file: File,
    library: PathBuf,
}

impl OwnClock {
    pub(crate) fn create(folder: &Path) -> Self {
        let library = folder.join("shifted_clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/shifted_clock.c");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        let compiled = compiled.expect("cc runs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

        let path = folder.join("clock");
        let file = OpenOptions::new().create_new(true).write(true).open(&path).expect("a file for the clock");
        let clock = Self { path, file, library };
        clock.set(0);
        clock
    }

    /// Ahead of this machine's clock by `ms`, behind it if negative: from now on, also after a restart.
    pub(crate) fn set(&self, ms: i64) {
        self.file.write_all_at(&(ms * 1000).to_ne_bytes(), 0).expect("the clock can be set");
    }

    /// What the server has to be started with.
    pub(crate) fn environment(&self) -> [(&str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("REDFENCE_CLOCK", &self.path)]
    }
}
