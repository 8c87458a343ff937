//! What goes wrong on purpose in an experiment, what it needs, and what to expect of it.

use std::fmt;
use std::time::Duration;

/// With a fault the TTL is what everybody waits for: short. Long enough for a slow machine not to add faults of its own.
const SHORT_TTL: Duration = Duration::from_millis(300);

/// Long enough for others to get the lock beside a holder whose lease still runs.
const LONG_TTL: Duration = Duration::from_secs(2);

/// What goes wrong on purpose, several times in each run (a pause: once).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// In each run, the worker that holds the lock when a third of the work is done stands still for twice its TTL, between its
    /// last look at the lease and its write, as in a long garbage collection or on a suspended machine, and then goes on as if
    /// nothing had happened.
    Pause,
    /// A minority of the nodes goes away, with all connections, and comes back with its data.
    NodeRestart,
    /// A minority of the nodes loses its data. Fenced, it does not vote until it is re-admitted, which is done a TTL later;
    /// classic, it votes at once, as if new.
    NodeEmpty,
    /// A minority of the nodes answers nothing for a while; connections stay open, and what was asked is done late.
    NodeHang,
    /// Nobody reaches a minority of the nodes.
    PartitionMinority,
    /// Nobody reaches a majority of the nodes: all wait until it is back.
    PartitionMajority,
    /// While a worker takes its time with the lock, the clocks of a majority of the nodes jump past its TTL: its keys end, it
    /// believes on, and others get the lock beside it.
    ClockJump,
    /// Every request and every answer takes up to 20 ms longer.
    Delay,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pause,
        Self::NodeRestart,
        Self::NodeEmpty,
        Self::NodeHang,
        Self::PartitionMinority,
        Self::PartitionMajority,
        Self::ClockJump,
        Self::Delay,
    ];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::NodeRestart => "node-restart",
            Self::NodeEmpty => "node-empty",
            Self::NodeHang => "node-hang",
            Self::PartitionMinority => "partition-minority",
            Self::PartitionMajority => "partition-majority",
            Self::ClockJump => "clock-jump",
            Self::Delay => "delay",
        }
    }

    /// What happens, and what to expect of the strategies.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Pause => {
                "the holder stands still for twice the TTL just before it writes: classic loses updates, fenced none"
            }
            Self::NodeRestart => "a minority of nodes goes away and comes back with its data: nobody loses",
            Self::NodeEmpty => {
                "a minority of nodes loses its data: classic may lose (the nodes vote as if new), fenced does not (they wait for re-admission)"
            }
            Self::NodeHang => "a minority of nodes answers nothing for a while: nobody loses",
            Self::PartitionMinority => "nobody reaches a minority of nodes: nobody loses",
            Self::PartitionMajority => "nobody reaches a majority of nodes: all wait, nobody loses",
            Self::ClockJump => {
                "the clocks of a majority jump past the TTL under a holder: classic loses updates, fenced none"
            }
            Self::Delay => "every message takes up to 20 ms longer: nobody loses",
        }
    }

    /// Whether it is done to the nodes themselves, which must be in this process then.
    pub const fn needs_embedded_nodes(self) -> bool {
        matches!(self, Self::NodeRestart | Self::NodeEmpty | Self::ClockJump)
    }

    /// Whether it is done to the connections, which must be plain TCP then.
    pub const fn needs_tcp(self) -> bool {
        matches!(self, Self::NodeHang | Self::PartitionMinority | Self::PartitionMajority | Self::Delay)
    }

    /// The fewest nodes with which it makes sense: a minority of less than three is nobody.
    pub const fn least_nodes(self) -> usize {
        match self {
            Self::NodeRestart | Self::NodeEmpty | Self::NodeHang | Self::PartitionMinority => 3,
            Self::Pause | Self::PartitionMajority | Self::ClockJump | Self::Delay => 1,
        }
    }

    /// A TTL under which it shows within seconds.
    pub const fn sensible_ttl(self) -> Duration {
        match self {
            Self::ClockJump => LONG_TTL,
            _ => SHORT_TTL,
        }
    }

    /// Whether a holder may lose its lock without knowing: then a lock alone does not protect the counter.
    pub const fn ends_exclusion(self) -> bool {
        matches!(self, Self::Pause | Self::NodeEmpty | Self::ClockJump)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
