//! Everything that happened, in the order in which it was simulated, and one number that stands for all of it.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redfence::lock::record::{Recorder, Step};
use redfence::proto::session::Config;
use redfence::proto::{Input, Output, Owner, Timestamp};

use super::Host;
use super::clock::TrueTime;
use super::gate::Pause;
use super::memory::Access;
use super::tap::Served;

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Entry {
    /// True time, microseconds.
    pub(crate) at: u64,
    /// Where.
    pub(crate) host: Host,
    pub(crate) what: What,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum What {
    /// The world did something to this host, or to a link of it.
    Fault(String),
    /// A marked point stopped the process.
    Paused(Pause),
    /// The process ended without warning.
    Crashed,
    Restarted,
    /// A node's data are gone.
    Wiped,
    /// A node has read a request of ours, and will answer this.
    Served(Box<Served>),
    /// A node has read another command, at this time of its clock.
    Touched(u64),
    /// A worker's attempt began.
    Begun {
        owner: Owner,
        resource: String,
        config: Box<Config>,
        hint: u64,
        now: Timestamp,
    },
    /// A worker's state machine was told something.
    Input {
        owner: Owner,
        now: Timestamp,
        input: Input,
    },
    /// And answered.
    Outputs {
        owner: Owner,
        outputs: Vec<Output>,
    },
    /// The memory has answered an access.
    Access(Access),
    /// A worker, or the operator, has something to say.
    Note(String),
    /// One more update of a worker is known to be done.
    Done(u64),
}

/// The log of one world. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log {
    time: TrueTime,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    entries: Vec<Entry>,
    // Fixed keys: the same in every process.
    hash: DefaultHasher,
    /// The moment of the last entry, and how many there are of it.
    moment: (u64, u32),
    /// The host that never came to rest.
    restless: Option<Host>,
}

/// No host has so much to do at one moment, unless it never comes to rest.
const MOST_AT_ONCE: u32 = 50_000;

impl Log {
    pub(crate) fn new(time: &TrueTime) -> Self {
        let inner = Inner { entries: Vec::new(), hash: DefaultHasher::new(), moment: (0, 0), restless: None };
        Self { time: time.clone(), inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, host: Host, what: What) {
        let entry = Entry { at: self.time.now(), host, what };
        let mut inner = self.inner();
        entry.hash(&mut inner.hash);
        inner.moment =
            if inner.moment.0 == entry.at { (entry.at, inner.moment.1 + 1) } else { (entry.at, 0) };
        inner.entries.push(entry);
        if inner.moment.1 > MOST_AT_ONCE {
            inner.restless = Some(host);
            drop(inner);
            // Time would never go on: this ends the task that is to blame.
            panic!("{host} does not come to rest");
        }
    }

    /// A host that had something to do for ever at one moment.
    pub(crate) fn restless(&self) -> Option<Host> {
        self.inner().restless
    }

    pub(crate) fn note(&self, host: Host, text: impl Into<String>) {
        self.add(host, What::Note(text.into()));
    }

    /// One number for all that has happened.
    pub(crate) fn hash(&self) -> u64 {
        self.inner().hash.finish()
    }

    /// All that has happened; the log is empty afterwards.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.inner().entries)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.inner().entries.len()
    }

    /// How many entries satisfy `wanted`.
    pub(crate) fn count(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.inner().entries.iter().filter(|entry| wanted(entry)).count()
    }

    /// What `wanted` picks out.
    pub(crate) fn collect<T>(&self, wanted: impl Fn(&Entry) -> Option<T>) -> Vec<T> {
        self.inner().entries.iter().filter_map(wanted).collect()
    }

    /// Whether anything from this time on satisfies `wanted`.
    pub(crate) fn contains(&self, since: u64, wanted: impl Fn(&Entry) -> bool) -> bool {
        self.inner().entries.iter().rev().take_while(|entry| entry.at >= since).any(wanted)
    }
}

/// Hears a worker's attempts.
#[derive(Clone)]
pub(crate) struct Ear {
    pub(crate) host: Host,
    pub(crate) log: Log,
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ear({})", self.host)
    }
}

impl Recorder for Ear {
    fn record(&self, owner: Owner, step: Step<'_>) {
        let what = match step {
            Step::Begun { resource, config, hint, now } => {
                let (resource, config) = (resource.to_owned(), Box::new(*config));
                What::Begun { owner, resource, config, hint, now }
            }
            Step::Input { now, input } => What::Input { owner, now, input },
            Step::Outputs(outputs) => What::Outputs { owner, outputs: outputs.to_vec() },
        };
        self.log.add(self.host, what);
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}ms {:<9}", self.at as f64 / 1e3, self.host.to_string())?;
        match &self.what {
            What::Fault(text) => write!(f, "! {text}"),
            What::Paused(pause) => write!(
                f,
                "! paused at {:?} for {}ms{}",
                pause.point,
                pause.micros / 1_000,
                if pause.with_clock { ", clock too" } else { "" }
            ),
            What::Crashed => f.write_str("! crashed"),
            What::Restarted => f.write_str("! restarted"),
            What::Wiped => f.write_str("! lost its data"),
            What::Served(served) => write!(f, "{served}"),
            What::Touched(millis) => write!(f, "reads a command of the client's own, its clock {millis}ms"),
            What::Begun { owner, resource, hint, now, .. } => {
                write!(f, "{} begins on {resource}, hint {hint}, its clock {now}", owner.short())
            }
            What::Input { owner, now, input } => write!(f, "{} <- {input:?} at {now}", owner.short()),
            What::Outputs { owner, outputs } => write!(f, "{} -> {outputs:?}", owner.short()),
            What::Access(access) => write!(f, "{access}"),
            What::Note(text) => write!(f, "{text}"),
            What::Done(number) => write!(f, "update {number} is done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_never_comes_to_rest_is_stopped_and_named() {
        let log = Log::new(&TrueTime::default());
        let busy = || (0..MOST_AT_ONCE).for_each(|_| log.add(Host::Worker(3), What::Done(0)));
        busy();
        assert_eq!(log.restless(), None, "a busy moment");
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(busy));
        assert!(stopped.is_err() && log.restless() == Some(Host::Worker(3)));
    }
}
