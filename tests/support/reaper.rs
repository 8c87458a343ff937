//! Ends the servers of a test process that could not do it itself: killed, aborted, or left by `process::exit`.
//!
//! A small shell reads pids and folders from a pipe whose other end only this process holds. When the process is gone, however
//! it went, the shell reads the end of the pipe kills what is still on its list, and removes
//! the folders that are left. (`PR_SET_PDEATHSIG` fires when the
//! *thread* that started the child ends, which is wrong for servers that outlive the thread of their test.)

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::wait_until;

const SIGNAL_LIMIT: Duration = Duration::from_secs(10);

const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids= folders=
while read -r sign what; do
    case $sign in
        +) pids="$pids $what" ;;
        -) left=
           for pid in $pids; do [ "$pid" = "$what" ] || left="$left $pid"; done
           pids=$left ;;
        folder) folders="$folders$what
" ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done
printf %s "$folders" | while read -r folder; do rm -rf "$folder"; done
"#;

struct Reaper {
    list: ChildStdin,
    _shell: Child,
}

static REAPER: LazyLock<Mutex<Reaper>> = LazyLock::new(|| {
    // A group of its own: Ctrl-C in the terminal must not end it before its work.
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sh starts");
    let list = shell.stdin.take().expect("stdin is piped");
    Mutex::new(Reaper { list, _shell: shell })
});

/// A child that does not outlive this process. Dropping it kills and reaps it, also when it is stopped.
#[derive(Debug)]
pub(crate) struct Mortal(Child);

impl Mortal {
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        note("", ""); // the reaper runs before the first child does
        let child = command.process_group(0).spawn()?;
        note("+", &child.id().to_string());
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether the child has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// SIGSTOP. When this returns it stands still.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_until(SIGNAL_LIMIT, || self.is_frozen());
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGSTOP is delivered a moment after it was sent; until then the process goes on.
    pub(crate) fn is_frozen(&self) -> bool {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.id())) else {
            return true; // no procfs: nothing to look at
        };
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("our own child can be signalled");
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let pid = self.0.id();
        let _ = self.0.kill();
        let _ = self.0.wait();
        note("-", &pid.to_string());
    }
}

/// Has a folder of ours removed if this process does not come to do it.
pub(crate) fn remove_at_the_end(folder: &Path) {
    note("folder", &folder.display().to_string());
}

fn note(sign: &str, what: &str) {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(reaper.list, "{sign} {what}").expect("the reaper reads");
}
