//! What every session keeps to, whatever it is told: a host that watches, and complains.

use std::time::Duration;

use redfence::proto::message::Stand;
use redfence::proto::session::{Config, Event, Mode};
use redfence::proto::{Input, NodeSet, Output, Owner, Reply, Request, Round, Session, Timestamp, Ttl};

/// A session, and all that has passed between it and its host.
pub(crate) struct Watched {
    pub config: Config,
    pub session: Session,
    pub start: Timestamp,
    pub inputs: Vec<(Timestamp, Input)>,
    pub outputs: Vec<(Timestamp, Output)>,
}

impl Watched {
    pub(crate) fn start(config: Config, owner: Owner, hint: u64, start: Timestamp) -> Self {
        let mut outputs = Vec::new();
        let session = Session::new(&config, owner, hint, start, &mut outputs);
        let outputs = outputs.into_iter().map(|output| (start, output)).collect();
        Self { config, session, start, inputs: Vec::new(), outputs }
    }

    /// Hands in one input and checks what comes out; returns it.
    pub(crate) fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.session.handle(&self.config, now, input, &mut outputs);
        self.inputs.push((now, input));
        for &output in &outputs {
            self.check(now, output);
            self.outputs.push((now, output));
        }
        if let Some((_, until)) = self.session.held() {
            assert!(now < until, "at {now} it still believes until {until}");
        }
        outputs
    }

    /// Wakes it when it asks for it; whether it asked.
    pub(crate) fn wake(&mut self, no_earlier: Timestamp) -> Option<Vec<Output>> {
        let at = self.session.poll_timeout(&self.config)?.max(no_earlier);
        let outputs = self.handle(at, Input::Wake);
        if let Some(next) = self.session.poll_timeout(&self.config) {
            assert!(next > at, "woken at {at}, it asks to be woken at {next}");
        }
        Some(outputs)
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let event = |(_, output): &(Timestamp, Output)| match output {
            Output::Event(event) => Some(*event),
            Output::Send { .. } => None,
        };
        self.outputs.iter().filter_map(event).collect()
    }

    fn sent(&self) -> impl Iterator<Item = (Timestamp, NodeSet, Round, Request)> {
        self.outputs.iter().filter_map(|(at, output)| match *output {
            Output::Send { to, round, request } => Some((*at, to, round, request)),
            Output::Event(_) => None,
        })
    }

    fn all(&self) -> NodeSet {
        NodeSet::first(self.config.quorum.nodes())
    }

    fn released_everywhere(&self) -> bool {
        let everywhere = |(_, to, round, _)| to == self.all() && round == Round::Release;
        self.sent().any(everywhere)
    }

    /// One more output, the earlier ones being in `self.outputs`.
    fn check(&self, now: Timestamp, output: Output) {
        let events = self.events();
        let before = |test: fn(&Event) -> bool| events.iter().filter(|event| test(event)).count();
        match output {
            Output::Send { to, round, request } => self.check_request(to, round, request),
            Output::Event(Event::Acquired { token, valid_until }) => {
                assert_eq!(before(|_| true), 0, "the first thing that happens");
                self.check_win(now, token.map(|token| token.0), valid_until);
            }
            Output::Event(Event::Failed(_)) => {
                assert_eq!(before(|_| true), 0, "the first thing that happens");
                assert!(self.released_everywhere(), "a failure without a release to every node");
            }
            Output::Event(Event::Extended { round, valid_until }) => self.check_extension(round, valid_until),
            Output::Event(Event::NotExtended { round, .. }) => {
                let same = |event: &Event| matches!(event, Event::NotExtended { round: r, .. } | Event::Extended { round: r, .. } if *r == round);
                assert!(!events.iter().any(same), "extension {round} ends twice");
            }
            Output::Event(Event::Lost(_)) => {
                assert_eq!(before(|event| matches!(event, Event::Acquired { .. })), 1);
                assert_eq!(before(|event| matches!(event, Event::Lost(_) | Event::Released(_))), 0);
            }
            Output::Event(Event::Released(_)) => {
                assert_eq!(before(|event| matches!(event, Event::Acquired { .. })), 1);
                assert_eq!(before(|event| matches!(event, Event::Released(_))), 0);
                assert!(self.released_everywhere(), "a release that asks nobody");
            }
        }
    }

    fn check_request(&self, to: NodeSet, round: Round, request: Request) {
        assert!(!to.is_empty() && to.without(self.all()).is_empty(), "sent to {to}");
        let releasing = self.sent().any(|(_, _, round, _)| round == Round::Release);
        let held = self.events().iter().any(|event| matches!(event, Event::Acquired { .. }));
        match (round, request) {
            (Round::Release, Request::Release { .. }) => {}
            (Round::Confirm, Request::Confirm { number, .. }) => {
                assert!(!releasing && !held, "a confirm after the verdict");
                let told = |(_, input): &(Timestamp, Input)| matches!(*input, Input::Reply { reply: Reply::Mine(stand), .. } if stand.number == number);
                assert!(self.inputs.iter().any(told), "no node has told {number}");
            }
            (Round::Extend(_), Request::Extend { .. }) => {
                assert!(!releasing && held, "an extension of what is not held");
            }
            _ => panic!("{request} sent as {round}"),
        }
    }

    fn check_win(&self, now: Timestamp, token: Option<u64>, valid_until: Timestamp) {
        assert!(now < valid_until, "won with no validity left");
        assert!(valid_until <= self.latest_end(self.start, self.config.ttl));
        assert_eq!(token.is_some(), self.config.mode == Mode::Fenced);
        // Every node's latest word; a quorum of them must be one stand, and its number the token.
        let mut words: [Option<Stand>; 16] = [None; 16];
        for (_, input) in &self.inputs {
            if let Input::Reply { node, round: Round::Grant | Round::Confirm, reply } = *input {
                words[node.index()] = if let Reply::Mine(stand) = reply { Some(stand) } else { None };
            }
        }
        let words = &words[..self.config.quorum.nodes()];
        let agree = |stand: &Stand| words.iter().flatten().filter(|word| *word == stand).count();
        let wins = |stand: &&Stand| {
            agree(stand) > words.len() / 2 && token.is_none_or(|token| token == stand.number)
        };
        assert!(words.iter().flatten().any(|stand| wins(&stand)), "{token:?} won with {words:?}");
    }

    fn check_extension(&self, round: u32, valid_until: Timestamp) {
        let asked = self.sent().find(|(_, _, sent, _)| *sent == Round::Extend(round));
        let Some((start, _, _, Request::Extend { ttl, .. })) = asked else {
            panic!("extension {round} was never asked for")
        };
        let promised = self.events().iter().rev().find_map(|event| match *event {
            Event::Acquired { valid_until, .. } | Event::Extended { valid_until, .. } => Some(valid_until),
            _ => None,
        });
        let promised = promised.expect("extended before it was acquired");
        assert!(valid_until >= promised, "an extension that takes back");
        assert!(valid_until <= promised.max(self.latest_end(start, ttl)), "more than the keys can live");
    }

    /// Start + TTL - drift, computed in seconds of a hundred nanoseconds' slack.
    fn latest_end(&self, start: Timestamp, ttl: Ttl) -> Timestamp {
        let share = ttl.as_duration().as_secs_f64() * f64::from(self.config.drift.rate_ppm) / 1e6;
        let drift = self.config.drift.fixed + Duration::from_secs_f64(share);
        start + (ttl.as_duration() + Duration::from_nanos(100)).saturating_sub(drift)
    }
}
