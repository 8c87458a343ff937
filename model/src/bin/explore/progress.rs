//! How far a search is, on a terminal.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redfence_model::check::{Control, Progress};

const PERIOD: Duration = Duration::from_millis(250);

/// A line on stderr while a search runs; wiped when dropped.
pub(crate) struct Shown {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Shown {
    /// Shows the progress of the searches under this control.
    pub(crate) fn start(title: String, control: &Control) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (ended, progress) = (done.clone(), control.progress.clone());
        let thread = std::thread::spawn(move || show(&title, &progress, &ended));
        Self { done, thread: Some(thread) }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn show(title: &str, progress: &Progress, ended: &AtomicBool) {
    let mut last = 0;
    while !ended.load(Ordering::Relaxed) {
        std::thread::park_timeout(PERIOD);
        let states = progress.states.load(Ordering::Relaxed);
        let frontier = progress.frontier.load(Ordering::Relaxed);
        let depth = progress.depth.load(Ordering::Relaxed);
        let rate = states.saturating_sub(last) * 1_000 / PERIOD.as_millis() as u64;
        last = states;
        eprint!("\r\x1b[K{title}: {states} states, {rate}/s, depth {depth}, frontier {frontier}");
        let _ = std::io::stderr().flush();
    }
    eprint!("\r\x1b[K");
    let _ = std::io::stderr().flush();
}
