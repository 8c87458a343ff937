//! Ends the servers of a test process that could not do it itself: killed, aborted, or left by `process::exit`.
//!
//! A small shell reads the pids from a pipe whose other end only this process holds. When the process is gone, however
//! it went, the shell reads the end of the pipe and kills what is still on its list. (`PR_SET_PDEATHSIG` fires when the
//! *thread* that started the child ends, which is wrong for servers that outlive the thread of their test.)

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=
while read -r sign pid; do
    case $sign in
        +) pids="$pids $pid" ;;
        -) left=
           for p in $pids; do [ "$p" = "$pid" ] || left="$left $p"; done
           pids=$left ;;
    esac
done
for p in $pids; do kill -9 "$p"; done
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
        note("", 0);
        let child = command.process_group(0).spawn()?;
        note("+", child.id());
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether the child has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
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
        note("-", pid);
    }
}

/// One line to the reaper; an empty sign only makes sure that it runs before the first child does.
fn note(sign: &str, pid: u32) {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(reaper.list, "{sign} {pid}").expect("the reaper reads");
}
