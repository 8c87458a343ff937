//! A node's connection, listened to: which requests of ours it has read, when, and what it answered.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use redfence::backend::redlock::scripts::Script;
use redfence::proto::{Owner, Request, Ttl};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::clock::HostClock;
use super::log::{Log, What};
use super::resp::{Frame, Frames};
use super::{Host, node_millis};

/// What a node has done about one request. A node does a request in the moment in which it reads it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Served {
    /// The node's clock, milliseconds since 1970.
    pub(crate) millis: u64,
    /// The lock key; empty for requests about the node itself.
    pub(crate) resource: String,
    pub(crate) request: Request,
    /// By the digest of its script, which the node may not know.
    pub(crate) by_digest: bool,
    /// `None`: it is not yet answered; a later entry of the same number tells the answer.
    pub(crate) answer: Option<Frame>,
    /// Names the request among all of its node.
    pub(crate) number: (u64, u64),
}

impl Served {
    /// Who signs the request; `None` if it is about the node itself.
    pub(crate) const fn owner(&self) -> Option<Owner> {
        self.request.owner()
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            None => write!(f, "reads {:?} on {:?}", self.request, self.resource),
            Some(answer) => write!(f, "answers {answer:?} to {:?}", self.request),
        }
    }
}

static SCRIPTS: LazyLock<BTreeMap<String, Script>> = LazyLock::new(|| {
    let digest = |script: Script| redis::Script::new(script.text()).get_hash().to_owned();
    Script::ALL.into_iter().map(|script| (digest(script), script)).collect()
});

/// The request behind the words of a command, and its lock key; `None` if it is none of ours.
fn request(words: &[String]) -> Option<(String, Request)> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().ok();
    let ttl = |word: &str| word.parse().ok().and_then(Ttl::from_millis);
    if let ["SET", key, owner, "NX", "PX", life] = words[..] {
        return Some((
            key.to_owned(),
            Request::AcquireClassic { owner: owner.parse().ok()?, ttl: ttl(life)? },
        ));
    }
    let (script, keys, argv) = match words[..] {
        ["EVALSHA", digest, keys, ref rest @ ..] => (*SCRIPTS.get(digest)?, keys, rest),
        ["EVAL", text, keys, ref rest @ ..] => {
            (Script::ALL.into_iter().find(|script| script.text() == text)?, keys, rest)
        }
        _ => return None,
    };
    let (keys, argv) = argv.split_at_checked(keys.parse().ok()?)?;
    let resource = match script {
        Script::Init | Script::Readmit => String::new(),
        _ => (*keys.first()?).to_owned(),
    };
    let request = match (script, argv) {
        (Script::Acquire, &[owner, life, hint]) => {
            Request::Acquire { owner: owner.parse().ok()?, ttl: ttl(life)?, hint: number(hint)? }
        }
        (Script::Confirm, &[owner, to]) => {
            Request::Confirm { owner: owner.parse().ok()?, number: number(to)? }
        }
        (Script::Extend, &[owner, life]) => Request::Extend { owner: owner.parse().ok()?, ttl: ttl(life)? },
        (Script::Release, &[owner, _]) => Request::Release { owner: owner.parse().ok()? },
        (Script::Inspect, &[]) => Request::Inspect,
        (Script::Init, &[epoch, floor]) => Request::Init { epoch: number(epoch)?, floor: number(floor)? },
        (Script::Readmit, &["claim", epoch, _]) => Request::Claim { epoch: number(epoch)? },
        (Script::Readmit, &["raise", epoch, _]) => Request::Raise { epoch: number(epoch)? },
        (Script::Readmit, &["admit", epoch, floor]) => {
            Request::Admit { epoch: number(epoch)?, floor: number(floor)? }
        }
        _ => return None,
    };
    Some((resource, request))
}

/// A stream into a node, listened to.
pub(crate) struct Tap<S> {
    stream: S,
    node: Host,
    clock: HostClock,
    log: Log,
    connection: u64,
    seen: u64,
    requests: Frames,
    answers: Frames,
    /// Commands that are not answered; those of ours with what was asked.
    open: VecDeque<Option<Served>>,
    /// Told when the node has an epoch.
    started: Box<dyn Fn() + Send>,
}

impl<S> Tap<S> {
    pub(crate) fn new(
        stream: S,
        node: Host,
        clock: &HostClock,
        log: &Log,
        connection: u64,
        started: impl Fn() + Send + 'static,
    ) -> Self {
        let (clock, log) = (clock.clone(), log.clone());
        let (requests, answers) = (Frames::default(), Frames::default());
        Self {
            stream,
            node,
            clock,
            log,
            connection,
            seen: 0,
            requests,
            answers,
            open: VecDeque::new(),
            started: Box::new(started),
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        for frame in self.requests.feed(bytes) {
            let words = frame.words();
            // Answered by pushes, outside the order; but the node looks at its clock for them as for all commands.
            if matches!(words.first().map(String::as_str), Some("SUBSCRIBE" | "UNSUBSCRIBE")) {
                self.log.add(self.node, What::Touched(node_millis(&self.clock)));
                continue;
            }
            self.seen += 1;
            let served = request(&words).map(|(resource, request)| Served {
                millis: node_millis(&self.clock),
                resource,
                request,
                by_digest: words[0] == "EVALSHA",
                answer: None,
                number: (self.connection, self.seen),
            });
            self.log.add(
                self.node,
                match &served {
                    Some(served) => What::Served(Box::new(served.clone())),
                    None => What::Touched(node_millis(&self.clock)),
                },
            );
            self.open.push_back(served);
        }
    }

    fn said(&mut self, bytes: &[u8]) {
        for frame in self.answers.feed(bytes) {
            if matches!(frame, Frame::Push(_)) {
                continue;
            }
            if let Some(Some(mut served)) = self.open.pop_front() {
                let about_epoch = matches!(served.request, Request::Init { .. } | Request::Admit { .. });
                let epoch = match &frame {
                    Frame::Array(parts) => parts.first(),
                    _ => None,
                };
                if about_epoch && matches!(epoch, Some(Frame::Int(0..))) {
                    (self.started)();
                }
                served.answer = Some(frame);
                self.log.add(self.node, What::Served(Box::new(served)));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        if matches!(polled, Poll::Ready(Ok(()))) {
            this.heard(&buf.filled()[before..]);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = polled {
            this.said(&buf[..written]);
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
