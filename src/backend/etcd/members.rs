//! The members of one etcd cluster, each with a connection of its own.
//!
//! A question goes to the member that answered last. One that is slow, frozen or gone costs a share of the patience once:
//! then the next is asked as well, and who answers first is asked first from then on. So every question must be one that may be
//! done twice. (The client's own balancing picks a member at random: with one of three frozen, every third request hangs.)

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::TlsCertificates;

use crate::backend::queue::endpoint::Form;
use crate::lock::error::ConfigError;
use crate::lock::report::{NodeAnswer, NodeError, NodeReport, Report};
use crate::proto::NodeId;

const FORM: Form = Form { backend: "etcd", expected: "http://[user:password@]host:port, or https://.." };

/// Pings on connections that wait for something. Members close a connection that pings more often than every 5 s.
const PING: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Members {
    all: Vec<Member>,
    /// Who answered last.
    preferred: AtomicUsize,
    /// As the members say; 0 until one has. The place to take this back end's identity from.
    cluster: AtomicU64,
    patience: Duration,
}

struct Member {
    /// Without credentials.
    address: String,
    options: ConnectOptions,
    /// Given up when a question stays without an answer: a connection that died without a word is found this way.
    client: Mutex<Option<(u64, Client)>>,
    opened: AtomicU64,
}

/// No member gave an answer that counts.
#[derive(Debug)]
pub(super) struct Failed {
    report: Report,
    not_found: bool,
}

/// What one member said.
enum Outcome<T> {
    Answer(T),
    /// A refusal that every member would repeat.
    Refusal(Code, NodeError),
    Silence(NodeError),
}

/// gRPC status codes that mean something here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    NotFound,
    Other,
}

impl Members {
    pub(super) fn new(urls: &[&str], tls: &TlsCertificates, patience: Duration) -> Result<Self, ConfigError> {
        let all: Vec<_> = urls.iter().map(|url| Member::new(url, tls, patience)).collect::<Result<_, _>>()?;
        let addresses: Vec<_> = all.iter().map(|member| member.address.clone()).collect();
        Form::distinct(&addresses)?;
        Ok(Self { all, preferred: AtomicUsize::new(0), cluster: AtomicU64::new(0), patience })
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.all.iter().map(|member| member.address.clone()).collect()
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Asks until a member has answered, for at most the patience. Dropping the future takes back what is under way.
    pub(super) async fn ask<T, F>(&self, question: impl Fn(Client) -> F) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut order = (0..self.all.len()).map(|step| (first + step) % self.all.len());
        let mut failed = Failed { report: self.silence(), not_found: false };
        let mut open = FuturesUnordered::new();
        let mut asked = 0;
        // Each member is given its share before the next is asked too; the last has what is left.
        let share = self.patience / u32::try_from(self.all.len()).unwrap_or(1);
        let end = tokio::time::Instant::now() + self.patience;
        loop {
            if let Some(index) = order.next() {
                asked += 1;
                let question = &question;
                open.push(async move { (index, self.all[index].ask(question).await) });
            }
            let until = if asked == self.all.len() { end } else { tokio::time::Instant::now() + share };
            while let Ok(Some((index, outcome))) = tokio::time::timeout_at(until, open.next()).await {
                match outcome {
                    Outcome::Answer(answer) => {
                        self.preferred.store(index, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Outcome::Refusal(code, error) => {
                        failed.report.0[index].answer = NodeAnswer::Failed(error);
                        failed.not_found = code == Code::NotFound;
                        return Err(failed);
                    }
                    Outcome::Silence(error) => failed.report.0[index].answer = NodeAnswer::Failed(error),
                }
            }
            if asked == self.all.len() {
                break;
            }
        }
        drop(open);
        let mute = failed.report.0.iter_mut().filter(|said| said.answer == NodeAnswer::Silent);
        for said in mute {
            let reason = format!("nothing within {:?}", self.patience);
            said.answer = NodeAnswer::Failed(NodeError::NoAnswer(reason));
            self.all[said.node.index()].hang_up(None);
        }
        Err(failed)
    }

    /// A connection to the member that answered last, for what takes its time.
    pub(super) async fn client(&self) -> Result<Client, Error> {
        let index = self.preferred.load(Ordering::Relaxed);
        self.all[index].client().await.map(|(_, client)| client)
    }

    pub(super) fn met(&self, cluster: u64) {
        self.cluster.store(cluster, Ordering::Relaxed);
    }

    fn silence(&self) -> Report {
        let line = |(index, member): (usize, &Member)| NodeReport {
            node: NodeId::new(index),
            address: member.address.clone(),
            answer: NodeAnswer::Silent,
        };
        Report(self.all.iter().enumerate().map(line).collect())
    }
}

impl Member {
    fn new(url: &str, tls: &TlsCertificates, patience: Duration) -> Result<Self, ConfigError> {
        let url = url.trim();
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return Err(FORM.bad(url, "not http:// or https://")),
            None => return Err(FORM.bad(url, "no scheme")),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let host = FORM.host_and_port(url, rest.strip_suffix('/').unwrap_or(rest), None)?;
        let address = format!("{scheme}://{host}");
        let connect = patience.max(Duration::from_millis(200));
        let mut options = ConnectOptions::new()
            .with_connect_timeout(connect)
            .with_keep_alive(PING, connect)
            .with_tcp_keepalive(PING);
        if let Some(user) = user {
            let (name, password) = user.split_once(':').ok_or_else(|| FORM.bad(url, "no password"))?;
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        match scheme {
            "https" => options = options.with_tls(trust(tls)),
            _ if tls.root_cert.is_some() || tls.client_tls.is_some() => {
                return Err(FORM.bad(url, "TLS certificates are given, so it must be https://"));
            }
            _ => {}
        }
        Ok(Self { address, options, client: Mutex::default(), opened: AtomicU64::new(0) })
    }

    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        question: impl Fn(Client) -> F,
    ) -> Outcome<T> {
        let (opened, client) = match self.client().await {
            Ok(client) => client,
            Err(error) => return outcome(Err(error)),
        };
        let outcome = outcome(question(client).await);
        if matches!(outcome, Outcome::Silence(_)) {
            self.hang_up(Some(opened));
        }
        outcome
    }

    async fn client(&self) -> Result<(u64, Client), Error> {
        if let Some(client) = self.client.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            return Ok(client.clone());
        }
        let client = Client::connect([&self.address], Some(self.options.clone())).await?;
        let opened = self.opened.fetch_add(1, Ordering::Relaxed);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some((opened, client.clone()));
        Ok((opened, client))
    }

    /// The next question opens a new connection, unless somebody has done so already.
    fn hang_up(&self, opened: Option<u64>) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.as_ref().is_some_and(|(number, _)| opened.is_none_or(|opened| opened == *number)) {
            *client = None;
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Failed {
    pub(super) fn is_not_found(&self) -> bool {
        self.not_found
    }

    pub(super) fn report(self) -> Report {
        self.report
    }

    /// What the first member that said something said.
    pub(super) fn into_first(self) -> NodeError {
        let said = self.report.0.into_iter().find_map(|said| match said.answer {
            NodeAnswer::Failed(error) => Some(error),
            _ => None,
        });
        said.unwrap_or_else(|| NodeError::NoAnswer("no member was asked".to_owned()))
    }
}

fn outcome<T>(answer: Result<T, Error>) -> Outcome<T> {
    let error = match answer {
        Ok(answer) => return Outcome::Answer(answer),
        Err(error) => error,
    };
    let Error::GRpcStatus(status) = &error else {
        return match error {
            // How the client says that a lease to be kept alive is not there.
            Error::LeaseKeepAliveError(why) => Outcome::Refusal(Code::NotFound, NodeError::Other(why)),
            error => Outcome::Silence(NodeError::Unreachable(error.to_string())),
        };
    };
    let (code, message) = (i32::from(status.code()), status.message().to_owned());
    match code {
        5 => Outcome::Refusal(Code::NotFound, NodeError::Other(message)),
        7 => Outcome::Refusal(Code::Other, NodeError::Denied(message)),
        16 => Outcome::Refusal(Code::Other, NodeError::Authentication(message)),
        // The member itself speaks: no leader, too busy, its own time is over. Another may be better off.
        _ if message.starts_with("etcdserver: ") && matches!(code, 4 | 8 | 14) => {
            Outcome::Silence(NodeError::Other(message))
        }
        14 => Outcome::Silence(NodeError::Unreachable(message)),
        // Cancelled, unknown, deadline: the member may have done it.
        1 | 2 | 4 => Outcome::Silence(NodeError::NoAnswer(message)),
        _ => Outcome::Refusal(Code::Other, NodeError::Other(message)),
    }
}

fn trust(tls: &TlsCertificates) -> TlsOptions {
    let mut options = TlsOptions::new();
    options = match &tls.root_cert {
        Some(pem) => options.ca_certificate(Certificate::from_pem(pem)),
        None => options.with_enabled_roots(),
    };
    match &tls.client_tls {
        Some(shown) => options.identity(Identity::from_pem(&shown.client_cert, &shown.client_key)),
        None => options,
    }
}
