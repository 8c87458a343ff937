//! Loopback ports that stay ours, also while the server behind them is down.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

/// Below the range from which the kernel draws the ports of outgoing connections (32768 and up, on Linux): otherwise a
/// client's own socket may sit on the port of a server that is about to be started again.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// A port that no other test, of this process or another, is given while this value lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Locked, not read: the kernel unlocks it when the process ends, however it ends.
    _claim: File,
}

impl Port {
    /// A port that is free now. What is not a test may still take it before the server does: see
    /// [`RedisServer::start`](super::RedisServer::start), which then takes another.
    pub(crate) fn reserve() -> Self {
        let tries = 2_000;
        (0..tries)
            .find_map(|_| Self::claim(fastrand::u16(RANGE)))
            .unwrap_or_else(|| panic!("no free port in {RANGE:?} after {tries} tries"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    fn claim(number: u16) -> Option<Self> {
        let folder = claims();
        std::fs::create_dir_all(&folder).ok()?;
        let claim = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(number.to_string()))
            .ok()?;
        claim.try_lock().ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

fn claims() -> PathBuf {
    std::env::temp_dir().join("redfence-test-ports")
}
