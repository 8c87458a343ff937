//! How live histories are judged: holds that must not overlap, requests that must not go out, code that must not panic.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use redfence::LockGuard;
use redfence::invariants::{Acquisition, History, judge};
use redfence::lock::error::AcquireError;
use redfence::lock::report::NodeAnswer;
use redfence::proto::{FencingToken, Owner, Timestamp};

use crate::support::{Cluster, Proxy, Seen, Stopwatch};

/// The short form of a long test, or with `REDFENCE_SOAK=1` its full length.
pub(crate) fn soak<T>(short: T, long: T) -> T {
    if std::env::var_os("REDFENCE_SOAK").is_some_and(|value| value == "1") { long } else { short }
}

/// Who believed to hold the lock, and when, on one clock.
#[derive(Debug)]
pub(crate) struct Holds {
    watch: Stopwatch,
    ended: Mutex<Vec<Hold>>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    who: usize,
    token: FencingToken,
    from: Duration,
    until: Duration,
}

/// A hold that goes on.
pub(crate) struct Begun {
    hold: Hold,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self { watch: Stopwatch::start(), ended: Mutex::default() }
    }

    /// To be called when `who` has the lock.
    pub(crate) fn begin(&self, who: usize, guard: &LockGuard) -> Begun {
        let from = self.watch.elapsed();
        let token = guard.token().expect("fenced");
        Begun { hold: Hold { who, token, from, until: from + guard.remaining() } }
    }

    /// To be called before the release. A lease that ended earlier has ended the hold.
    pub(crate) fn end(&self, Begun { mut hold }: Begun) {
        hold.until = hold.until.min(self.watch.elapsed());
        self.ended.lock().expect("no panic").push(hold);
    }

    /// No two holds overlap, and tokens rise from each to the next, as the model judges it. Answers how many there were.
    pub(crate) fn judge(self) -> usize {
        let holds = self.ended.into_inner().expect("no panic");
        let at = |time: Duration| Timestamp::from_micros(time.as_micros() as u64);
        let acquisition = |hold: &Hold| Acquisition {
            owner: Owner(hold.who as u128),
            begun: at(hold.from),
            won: at(hold.from),
            token: Some(hold.token),
            until: at(hold.until),
        };
        let history = History { acquisitions: holds.iter().map(acquisition).collect(), writes: Vec::new() };
        let wrong = judge(&history);
        assert!(wrong.is_empty(), "{wrong:?} in {holds:?}");
        holds.len()
    }
}

/// Bounds on how long a key lives still: `ttl` was given to it at some moment after the watch was started.
#[derive(Clone, Copy)]
pub(crate) struct Life {
    watch: Stopwatch,
    ttl: Duration,
}

impl Life {
    /// To be made just before `ttl` is asked for.
    pub(crate) fn of(ttl: Duration) -> Self {
        Self { watch: Stopwatch::start(), ttl }
    }

    /// Whether the TTL is over, give or take a clock tick.
    pub(crate) fn is_over(self) -> bool {
        self.watch.elapsed() + Duration::from_millis(2) >= self.ttl
    }

    /// Every node that has the key lets it live for what is left of the TTL: not longer, and not shorter than the time that
    /// has passed since explains. Answers how many nodes have it.
    #[track_caller]
    pub(crate) fn check(self, nodes: &Cluster, key: &str) -> usize {
        let left: Vec<_> = nodes.pttl(key).into_iter().flatten().filter(|&left| left != -2).collect();
        let passed = self.watch.elapsed() + Duration::from_millis(2);
        let most = i64::try_from(self.ttl.as_millis()).expect("a TTL");
        let least = i64::try_from(self.ttl.saturating_sub(passed).as_millis()).expect("a TTL");
        let right = left.iter().all(|left| (least..=most).contains(left));
        assert!(right, "keys live for {left:?} ms, and should for {least} to {most}");
        left.len()
    }
}

/// How many nodes have the key with this guard's signature.
pub(crate) fn signed(nodes: &Cluster, guard: &LockGuard) -> usize {
    nodes.count_with(guard.resource(), &guard.owner().to_string())
}

/// Attempts to acquire that came by this proxy.
pub(crate) fn acquires(proxy: &Proxy) -> usize {
    count(proxy, |words| matches!(words, [_, "3", _, _, _, _owner, _ttl, _hint]))
}

/// Extensions that came by this proxy.
pub(crate) fn extends(proxy: &Proxy) -> usize {
    count(proxy, |words| matches!(words, [_, "1", _, _owner, ttl] if ttl.parse::<u64>().is_ok()))
}

/// Releases that came by this proxy.
pub(crate) fn releases(proxy: &Proxy) -> usize {
    count(proxy, |words| matches!(words, [_, "1", _, _owner, channel] if channel.parse::<u64>().is_err()))
}

/// Script calls, told apart by their keys and arguments.
fn count(proxy: &Proxy, is_one: impl Fn(&[&str]) -> bool) -> usize {
    let is_call = |seen: &Seen| {
        let words: Vec<_> = seen.arguments.iter().map(String::as_str).collect();
        seen.name == "EVALSHA" && is_one(&words)
    };
    proxy.seen().iter().filter(|seen| is_call(seen)).count()
}

/// Which nodes said so, by their places.
pub(crate) fn places(error: &AcquireError, said: impl Fn(&NodeAnswer) -> bool) -> Vec<usize> {
    let report = error.report().expect("nodes were asked");
    report.0.iter().filter(|line| said(&line.answer)).map(|line| line.node.index()).collect()
}

/// Panics in the library's own code so far, in any thread. A panic in a background task would be lost otherwise.
pub(crate) fn library_panics() -> usize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            let ours = panic.location().is_some_and(|place| place.file().starts_with("src/"));
            PANICS.fetch_add(usize::from(ours), Ordering::Relaxed);
            before(panic);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}
