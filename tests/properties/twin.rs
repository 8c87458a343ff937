//! A session written the naive way: keep every input, and ask the whole list again each time.
//!
//! It follows the text of the protocol's client (docs, section "Client"), not the code: no state is carried from input to
//! input but the list itself, time is plain numbers of microseconds, and nothing of `proto` is used but its vocabulary.

use std::collections::BTreeSet;

use redfence::proto::message::Stand;
use redfence::proto::session::{AcquireFailure, Config, Event, ExtendFailure, LostReason, Mode};
use redfence::proto::{FencingToken, Input, NodeId, Reply, Round, Timestamp, Ttl};

pub(crate) struct Twin<'a> {
    pub config: &'a Config,
    pub start: Timestamp,
    pub inputs: &'a [(Timestamp, Input)],
}

/// What the list says, up to its end. No release outcomes: those have rules of their own.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Story {
    pub events: Vec<Event>,
    /// Numbers the nodes were asked to rise to.
    pub confirms: Vec<u64>,
    /// The token and the end of belief, if it is held at the end of the list.
    pub held: Option<(Option<FencingToken>, Timestamp)>,
}

enum End {
    Won(Stand),
    Failed(AcquireFailure),
}

impl Twin<'_> {
    pub(crate) fn story(&self) -> Story {
        let end = (0..self.inputs.len()).find_map(|k| self.end_at(k).map(|end| (k, end)));
        let confirms = self.confirms(end.as_ref().map_or(self.inputs.len(), |(k, _)| *k));
        match end {
            None => Story { confirms, ..Story::default() },
            Some((_, End::Failed(reason))) => {
                Story { confirms, events: vec![Event::Failed(reason)], held: None }
            }
            Some((k, End::Won(stand))) => {
                let token = (self.config.mode == Mode::Fenced).then_some(FencingToken(stand.number));
                let valid_until = self.promise(self.start, self.config.ttl);
                let events = vec![Event::Acquired { token, valid_until }];
                let (more, held) = self.tenure(k + 1, valid_until);
                Story {
                    confirms,
                    events: events.into_iter().chain(more).collect(),
                    held: held.map(|until| (token, until)),
                }
            }
        }
    }

    fn needed(&self) -> usize {
        self.config.quorum.nodes() / 2 + 1
    }

    fn spare(&self) -> usize {
        self.config.quorum.nodes() - self.needed()
    }

    fn is_node(&self, node: NodeId) -> bool {
        node.index() < self.config.quorum.nodes()
    }

    /// `start + ttl - drift`, and not before `start`.
    fn promise(&self, start: Timestamp, ttl: Ttl) -> Timestamp {
        let ttl = i128::from(ttl.as_millis()) * 1_000;
        let drift = (ttl * i128::from(self.config.drift.rate_ppm) + 999_999) / 1_000_000
            + i128::try_from(self.config.drift.fixed.as_micros()).unwrap_or(i128::MAX);
        let span = u64::try_from((ttl - drift).max(0)).unwrap_or(u64::MAX);
        Timestamp::from_micros(start.as_micros() + span)
    }

    fn patience_over(&self, start: Timestamp, now: Timestamp) -> bool {
        u128::from(now.as_micros()) >= u128::from(start.as_micros()) + self.config.patience.as_micros()
    }

    /// Each node's latest word on the grant, among the first `k + 1` inputs.
    fn words(&self, k: usize) -> Vec<Reply> {
        let latest = |node: usize| {
            self.inputs[..=k].iter().rev().find_map(|(_, input)| match *input {
                Input::Reply { node: from, round: Round::Grant | Round::Confirm, reply }
                    if from.index() == node =>
                {
                    Some(reply)
                }
                _ => None,
            })
        };
        (0..self.config.quorum.nodes()).filter_map(latest).collect()
    }

    fn stands(&self, k: usize) -> Vec<Stand> {
        let stand = |word: Reply| if let Reply::Mine(stand) = word { Some(stand) } else { None };
        self.words(k).into_iter().filter_map(stand).collect()
    }

    fn agreed(&self, k: usize) -> Option<Stand> {
        let stands = self.stands(k);
        let votes = |stand: Stand| stands.iter().filter(|other| **other == stand).count();
        stands.iter().copied().find(|stand| votes(*stand) >= self.needed())
    }

    /// Whether input `k` is one at which the attempt is judged.
    fn judges(&self, k: usize) -> bool {
        match self.inputs[k].1 {
            Input::Wake => true,
            Input::Reply { node, round, .. } => {
                !self.is_node(node) || matches!(round, Round::Grant | Round::Confirm)
            }
            Input::Extend { .. } | Input::Release => false,
        }
    }

    fn end_at(&self, k: usize) -> Option<End> {
        let (now, input) = self.inputs[k];
        if input == Input::Release {
            return Some(End::Failed(AcquireFailure::GivenUp));
        }
        if !self.judges(k) {
            return None;
        }
        let too_late = now >= self.promise(self.start, self.config.ttl);
        if let Some(stand) = self.agreed(k) {
            let late = End::Failed(AcquireFailure::ValidityExhausted);
            return Some(if too_late { late } else { End::Won(stand) });
        }
        let words = self.words(k);
        let refused: Vec<_> = words.iter().filter(|word| !matches!(word, Reply::Mine(_))).collect();
        if refused.len() > self.spare() {
            let held_by_another = |word: &&&Reply| matches!(word, Reply::Taken { .. } | Reply::NotMine);
            let failed = refused.len() - refused.iter().filter(held_by_another).count();
            let hopeless = failed > self.spare();
            let reason = if hopeless { AcquireFailure::NoQuorum } else { AcquireFailure::Contended };
            return Some(End::Failed(reason));
        }
        if too_late {
            return Some(End::Failed(AcquireFailure::ValidityExhausted));
        }
        self.patience_over(self.start, now).then_some(End::Failed(AcquireFailure::NoQuorum))
    }

    /// What the nodes are asked to rise to before input `end`.
    fn confirms(&self, end: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        for k in (0..end).filter(|&k| self.judges(k)) {
            let stands = self.stands(k);
            let largest = stands.iter().map(|stand| stand.number).max().unwrap_or(0);
            if stands.len() >= self.needed() && sent.iter().all(|&before| before < largest) && largest > 0 {
                sent.push(largest);
            }
        }
        sent
    }

    /// What happens from input `from` on, the lock being held; and until when it is believed at the end.
    fn tenure(&self, from: usize, promised: Timestamp) -> (Vec<Event>, Option<Timestamp>) {
        let mut events = Vec::new();
        let mut until = promised;
        let mut rounds: Vec<(usize, Timestamp, Ttl)> = Vec::new();
        for k in from..self.inputs.len() {
            let (now, input) = self.inputs[k];
            let round = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
            let open = round > 0 && !ended(&events, round);
            let not_extended = |reason| Event::NotExtended { round, reason };
            if input == Input::Release {
                events.extend(open.then(|| not_extended(ExtendFailure::Released)));
                return (events, None);
            }
            if now >= until {
                events.extend(open.then(|| not_extended(ExtendFailure::Lost)));
                events.push(Event::Lost(LostReason::Expired));
                return (events, None);
            }
            if let Input::Extend { ttl } = input {
                events.extend(open.then(|| not_extended(ExtendFailure::Superseded)));
                rounds.push((k, now, ttl));
                continue;
            }
            let Some(&(asked, start, ttl)) = rounds.last() else { continue };
            let said = |before: usize, test: fn(&Reply) -> bool| self.said(asked..before, round, test);
            let extended = |before| said(before, |reply| *reply == Reply::Extended).len();
            let not_mine = said(k + 1, |reply| *reply == Reply::NotMine).len();
            let against = said(k + 1, |reply| *reply != Reply::Extended).len();
            if extended(k + 1) >= self.needed() && extended(k) < self.needed() {
                until = until.max(self.promise(start, ttl));
                events.push(Event::Extended { round, valid_until: until });
            } else if open && not_mine > self.spare() {
                events.push(not_extended(ExtendFailure::Lost));
            } else if open && (against > self.spare() || self.patience_over(start, now)) {
                events.push(not_extended(ExtendFailure::NoQuorum));
            }
            if not_mine > self.spare() {
                events.push(Event::Lost(LostReason::QuorumGone));
                return (events, None);
            }
        }
        (events, Some(until))
    }

    /// Nodes that have given such an answer to an extension.
    fn said(&self, inputs: std::ops::Range<usize>, round: u32, test: fn(&Reply) -> bool) -> BTreeSet<NodeId> {
        let fits = |(_, input): &(Timestamp, Input)| match *input {
            Input::Reply { node, round: Round::Extend(r), reply }
                if r == round && self.is_node(node) && test(&reply) =>
            {
                Some(node)
            }
            _ => None,
        };
        self.inputs[inputs].iter().filter_map(fits).collect()
    }
}

fn ended(events: &[Event], which: u32) -> bool {
    events.iter().any(|event| {
        matches!(event, Event::Extended { round, .. } | Event::NotExtended { round, .. } if *round == which)
    })
}
