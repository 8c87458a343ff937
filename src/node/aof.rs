//! The log: what was changed, as commands, so that a node's data outlive its process.
//!
//! The format is that of Redis' append-only file, so `redis-server` and `redis-check-aof` read it. Several changes made by one request
//! stand between MULTI and EXEC: after a crash there are all of them or none. Nothing is told to anybody before the log
//! has reached the disk, so a torn end holds only what nobody was promised, and is cut off at the start.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};

use super::keyspace::Effect;
use super::reply::{Reply, Resp};
use super::request::Requests;

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    /// Bytes written so far.
    written: AtomicU64,
    /// Bytes known to be on the disk. The lock is held while the disk works: those who come meanwhile find it done.
    synced: Mutex<u64>,
}

impl Log {
    /// Opens the log at `path`, or begins one, and hands every whole command in it to `redo`, which answers what was
    /// wrong with it.
    pub(crate) fn open(path: &Path, redo: impl FnMut(&[Bytes]) -> Result<(), String>) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another node uses this log")
            }
            std::fs::TryLockError::Error(error) => error,
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = replay(&bytes, redo)?;
        if whole < bytes.len() {
            tracing::warn!(path = %path.display(), bytes = bytes.len() - whole, "log: torn end cut off");
            file.set_len(whole as u64)?;
        }
        file.seek(io::SeekFrom::Start(whole as u64))?;
        file.sync_all()?;
        if let Some(folder) = path.parent() {
            // The name must be on the disk as well. Folders that cannot be opened (not Unix) are synced by the system.
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder).and_then(|folder| folder.sync_all()).unwrap_or_default();
        }
        Ok(Self { file, written: AtomicU64::new(whole as u64), synced: Mutex::new(whole as u64) })
    }

    /// Writes the changes of one request. They count only after [`Log::sync`].
    pub(crate) fn append(&self, effects: Vec<Effect>) -> io::Result<()> {
        let transaction = effects.len() > 1;
        let frame = |name: &'static [u8]| vec![Bytes::from_static(name)];
        let (head, tail) = (frame(b"MULTI"), frame(b"EXEC"));
        let all = transaction.then_some(head).into_iter().chain(effects).chain(transaction.then_some(tail));
        let mut out = BytesMut::new();
        for effect in all {
            let words = effect.into_iter().map(Reply::Bulk).collect();
            Reply::Array(words)
                .encode(Resp::V2, &mut out)
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        (&self.file).write_all(&out)?;
        self.written.fetch_add(out.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Whether everything written is on the disk already.
    pub(crate) fn is_synced(&self) -> bool {
        // If someone else is at it now, wait for them.
        self.synced.try_lock().is_ok_and(|synced| *synced >= self.written.load(Ordering::Acquire))
    }

    /// Returns when everything written before the call is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let wanted = self.written.load(Ordering::Acquire);
        let mut synced = self.synced.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *synced < wanted {
            let reached = self.written.load(Ordering::Acquire);
            self.file.sync_data()?;
            *synced = reached;
        }
        Ok(())
    }
}

fn corrupt(at: usize, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("log damaged at byte {at}: {why}"))
}

/// Redoes every whole command or transaction; where the last one ends.
fn replay(bytes: &[u8], mut redo: impl FnMut(&[Bytes]) -> Result<(), String>) -> io::Result<usize> {
    let (mut requests, mut input) = (Requests::default(), BytesMut::from(bytes));
    let mut whole = 0;
    let mut transaction: Option<Vec<Vec<Bytes>>> = None;
    while let Some(words) = requests.next(&mut input).map_err(|error| corrupt(whole, &error.0))? {
        let mut redo = |words: &[Bytes]| redo(words).map_err(|why| corrupt(whole, &why));
        match (words[0].to_ascii_uppercase().as_slice(), &mut transaction) {
            (b"MULTI", None) => transaction = Some(Vec::new()),
            (b"EXEC", Some(_)) => {
                transaction.take().into_iter().flatten().try_for_each(|words| redo(&words))?
            }
            (_, Some(waiting)) => waiting.push(words),
            (_, None) => redo(&words)?,
        }
        if transaction.is_none() {
            whole = bytes.len() - input.len();
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Effect {
        text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    fn reopen(path: &Path) -> (Log, Vec<String>) {
        let mut found = Vec::new();
        let log = Log::open(path, |words| {
            found.push(words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "));
            Ok(())
        });
        (log.unwrap(), found)
    }

    #[test]
    fn what_was_written_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, found) = reopen(&path);
        assert_eq!(found, [""; 0]);
        log.append(vec![words("SET a 1")]).unwrap();
        log.append(vec![words("SET b 2"), words("DEL a")]).unwrap();
        assert!(!log.is_synced());
        log.sync().unwrap();
        assert!(log.is_synced());
        drop(log);
        assert_eq!(reopen(&path).1, ["SET a 1", "SET b 2", "DEL a"]);
    }

    #[test]
    fn a_torn_end_is_cut_wherever_it_is_torn_and_a_transaction_is_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = reopen(&path);
        log.append(vec![words("SET a 1")]).unwrap();
        let first = std::fs::metadata(&path).unwrap().len();
        log.append(vec![words("SET b 2"), words("DEL a")]).unwrap();
        drop(log);
        let bytes = std::fs::read(&path).unwrap();
        for cut in usize::try_from(first).unwrap()..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let (log, found) = reopen(&path);
            assert_eq!(found, ["SET a 1"], "cut at {cut}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), first, "cut at {cut}");
            log.append(vec![words("SET c 3")]).unwrap();
            drop(log);
            assert_eq!(reopen(&path).1, ["SET a 1", "SET c 3"], "cut at {cut}");
        }
    }

    #[test]
    fn damage_before_the_end_is_not_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, b"*1\r\n+oops\r\n*1\r\n$4\r\nPING\r\n").unwrap();
        let error = Log::open(&path, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "log damaged at byte 0: expected '$', got '+'");
    }

    #[test]
    fn two_nodes_cannot_share_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _first = reopen(&path);
        let error = Log::open(&path, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "another node uses this log");
    }
}
