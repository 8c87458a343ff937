//! Runs tests that need something which may be missing: then they are ignored and say why.
//!
//! With `REDFENCE_REQUIRE_LIVE=1`, as the test command sets it, a missing server fails the tests instead: a run that was
//! meant to be live cannot pass by skipping.

use std::any::Any;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use super::require_redis;

/// Longer than any honest live test takes on two busy cores; a test that hangs shall fail, not stop the run.
const LIMIT: Duration = Duration::from_secs(180);

/// What a test function may answer: nothing, or a result so that it can use `?`.
pub(crate) trait TestOutcome {
    fn outcome(self) -> Result<(), String>;
}

impl TestOutcome for () {
    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: std::fmt::Debug> TestOutcome for Result<(), E> {
    fn outcome(self) -> Result<(), String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// One live test.
pub(crate) struct Live {
    name: String,
    needs: fn() -> Result<(), String>,
    possible: fn() -> Result<(), String>,
    limit: Duration,
    body: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

impl Live {
    pub(crate) fn sync<V: TestOutcome>(name: &str, test: impl FnOnce() -> V + Send + 'static) -> Self {
        Self {
            name: name.into(),
            needs: require_redis,
            possible: || Ok(()),
            limit: LIMIT,
            body: Box::new(|| test().outcome()),
        }
    }

    /// On a current-thread runtime: the strictest one for work that must go on in the background.
    pub(crate) fn current_thread<V: TestOutcome, F: Future<Output = V>>(
        name: &str,
        test: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self::on(name, tokio::runtime::Builder::new_current_thread, test)
    }

    /// On a runtime with two worker threads.
    pub(crate) fn multi_thread<V: TestOutcome, F: Future<Output = V>>(
        name: &str,
        test: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        let two_workers = || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        };
        Self::on(name, two_workers, test)
    }

    fn on<V: TestOutcome, F: Future<Output = V>>(
        name: &str,
        runtime: impl FnOnce() -> tokio::runtime::Builder + Send + 'static,
        test: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self::sync(name, move || run_on(runtime(), Box::pin(async move { test().await.outcome() })))
    }

    /// Another requirement than a Redis server.
    pub(crate) fn needing(mut self, needs: fn() -> Result<(), String>) -> Self {
        self.needs = needs;
        self
    }

    /// Ignored where this is missing, also when live tests are required: not every machine can be had to allow it.
    pub(crate) fn where_possible(mut self, possible: fn() -> Result<(), String>) -> Self {
        self.possible = possible;
        self
    }

    /// Another time limit.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn into_trial(self) -> Trial {
        let name = self.name.clone();
        Trial::ignorable_test(name, move || self.run())
    }

    fn run(self) -> Result<Completion, Failed> {
        match (self.needs)() {
            Err(reason) if live_required() => {
                Err(format!("REDFENCE_REQUIRE_LIVE is set, but {reason}").into())
            }
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(()) if let Err(reason) = (self.possible)() => Ok(Completion::ignored_with(reason)),
            Ok(()) => self.run_body().map(|()| Completion::Completed).map_err(Failed::from),
        }
    }

    /// On a thread of its own, named after the test, so that a test that hangs can be given up.
    fn run_body(self) -> Result<(), String> {
        let (send, answer) = sync_channel(1);
        let body = self.body;
        std::thread::Builder::new()
            .name(self.name)
            .spawn(move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                let _ = send.send(outcome.unwrap_or_else(|panic| Err(message(&*panic))));
            })
            .map_err(|error| format!("no thread: {error}"))?;
        match answer.recv_timeout(self.limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(format!("still running after {:?}", self.limit)),
            Err(RecvTimeoutError::Disconnected) => Err("the thread of the test is gone".into()),
        }
    }
}

/// The future has no type of its own here, or a runtime would be compiled for each of more than a hundred tests.
fn run_on(
    mut runtime: tokio::runtime::Builder,
    test: Pin<Box<dyn Future<Output = Result<(), String>> + '_>>,
) -> Result<(), String> {
    let runtime = runtime.enable_all().build().map_err(|error| format!("no runtime: {error}"))?;
    let outcome = runtime.block_on(test);
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Whether a missing server is a failure.
pub(crate) fn live_required() -> bool {
    std::env::var_os("REDFENCE_REQUIRE_LIVE").is_some_and(|value| value == "1")
}

/// Runs the tests as `cargo test` would, with its arguments and its closing line, and ends the process.
pub(crate) fn run_live(tests: Vec<Live>) -> ! {
    conclude_live(tests).exit()
}

/// The same for tests that wait for servers more than they compute: so many at a time, if the arguments do not say.
pub(crate) fn run_live_at_once(tests: Vec<Live>, threads: usize) -> ! {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(threads);
    conclude(&arguments, tests).exit()
}

/// The same for a binary that has something to say at the end.
pub(crate) fn conclude_live(tests: Vec<Live>) -> Conclusion {
    conclude(&Arguments::from_args(), tests)
}

fn conclude(arguments: &Arguments, tests: Vec<Live>) -> Conclusion {
    libtest_mimic::run(arguments, tests.into_iter().map(Live::into_trial).collect())
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".into())
}

/// Lists test functions by the runtime they want, named by module and function:
/// `live_tests![sync: one, two; current_thread: three; multi_thread: four]`.
#[allow(unused_macros, reason = "some files name their tests themselves")]
macro_rules! live_tests {
    ($($runtime:ident: $($test:ident),+ $(,)?);* $(;)?) => {
        vec![$($($crate::support::Live::$runtime(
            &$crate::support::test_name(module_path!(), stringify!($test)),
            $test,
        )),+),*]
    };
}
pub(crate) use live_tests;

/// `live::waiting` and `wakes` give `waiting::wakes`: the binary's own name is said by cargo.
pub(crate) fn test_name(module: &str, test: &str) -> String {
    module.split_once("::").map_or_else(|| test.to_owned(), |(_, module)| format!("{module}::{test}"))
}
