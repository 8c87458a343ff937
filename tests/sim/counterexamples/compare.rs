//! What both worlds show, step by step.

use redfence::proto::{Event, FencingToken, Output};
use redfence::trace::Moment;

use super::RESOURCE;
use super::stage::{Action, Replay};
use crate::judge;
use crate::moments::Moments;
use crate::world::Host;
use crate::world::log::{Entry, What};
use crate::world::memory::{Ask, Said};

/// What both worlds show after one step.
pub(super) struct Compared {
    sentence: String,
    model: Shown,
    pub(super) here: Shown,
}

/// By position: clients, nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    pub(super) believes: Vec<bool>,
    /// Which client's key lives, in which attempt.
    keys: Vec<Option<(usize, u64)>>,
    /// Since the beginning; what a node that lost its data starts from is not compared.
    numbers: Vec<u64>,
    violated: bool,
}

/// A file that has been done again.
pub(super) struct Replayed {
    pub(super) steps: Vec<Compared>,
    entries: Vec<Entry>,
    pub(super) problems: Vec<String>,
}

impl Replay {
    /// Does all of it, and whatever `afterwards` adds.
    pub(super) fn finish(mut self, property: &str, afterwards: &[Action]) -> Replayed {
        self.take_all();
        let compared = self.stops.len();
        afterwards.iter().for_each(|action| self.take(*action));
        let entries = self.world.log.take();
        let findings = judge::judge(&entries, &self.world);
        let mut moments = Moments::new(&entries, &self.world, RESOURCE);
        let mut seen = 0;
        let mut here: Vec<(Moment, bool)> = Vec::new();
        for &(upto, time) in &self.stops {
            entries[seen..upto].iter().for_each(|entry| moments.see(entry));
            seen = upto;
            let broken = judge::judge(&entries[..upto], &self.world).by_property().contains_key(property);
            // Just before, as clocks go: the next step may begin in the very same moment, with a jump of one.
            here.push((moments.at(time - 1), broken));
        }
        let mut steps = Vec::new();
        for (number, (moment, broken)) in here.iter().enumerate() {
            let sentence = match number {
                0 => "the start".to_owned(),
                _ if number >= compared => "afterwards".to_owned(),
                _ => self.trace.steps[number - 1].sentence.clone(),
            };
            let model = self.trace.moment(number.min(compared - 1));
            let violated =
                self.trace.moments().take(number + 1).any(|at| at.violated.iter().any(|p| p == property));
            steps.push(Compared {
                sentence,
                model: Shown::new(model, &self.trace.start, violated),
                here: Shown::new(moment, &here[0].0, *broken),
            });
        }
        self.missed.extend(findings.problems);
        Replayed { steps, entries, problems: self.missed }
    }
}

impl Shown {
    fn new(moment: &Moment, start: &Moment, violated: bool) -> Self {
        let client = |lane: &str| moment.clients.iter().position(|client| client.lane == lane);
        let keys = moment.nodes.iter().map(|node| {
            let key = node.key.as_ref()?;
            Some((client(&key.client)?, key.attempt))
        });
        let number = |(now, then): (&redfence::trace::Node, &redfence::trace::Node)| {
            now.number.saturating_sub(then.number)
        };
        Self {
            believes: moment.clients.iter().map(|client| client.believes).collect(),
            keys: keys.collect(),
            numbers: moment.nodes.iter().zip(&start.nodes).map(number).collect(),
            violated,
        }
    }
}

impl Replayed {
    /// The first step after which the two worlds differ, counted as in the file.
    fn first_difference(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.model != step.here)
    }

    pub(super) fn is_violated(&self) -> bool {
        self.steps.last().is_some_and(|step| step.here.violated)
    }

    /// The token that this client has won with.
    pub(super) fn won(&self, client: u8) -> Option<Option<FencingToken>> {
        self.entries.iter().find_map(|entry| match &entry.what {
            What::Outputs { owner, outputs } if entry.host == Host::Worker(client) => {
                let about = |begun: &Entry| match &begun.what {
                    What::Begun { owner: whose, resource, .. } => whose == owner && resource == RESOURCE,
                    _ => false,
                };
                let won = outputs.iter().find_map(|output| match output {
                    Output::Event(Event::Acquired { token, .. }) => Some(*token),
                    _ => None,
                });
                won.filter(|_| self.entries.iter().any(about))
            }
            _ => None,
        })
    }

    /// Who was refused by the memory, and whether at a read.
    pub(super) fn fenced(&self) -> Vec<(Host, bool)> {
        let fenced = self.entries.iter().filter_map(|entry| match &entry.what {
            What::Access(access) if access.said == Said::Fenced => {
                Some((access.from?, matches!(access.ask, Ask::Read)))
            }
            _ => None,
        });
        fenced.collect()
    }

    /// Everything, for a test that fails.
    pub(super) fn tell(&self) -> String {
        let entries: Vec<_> = self.entries.iter().map(ToString::to_string).collect();
        let steps = self.steps.iter().enumerate().map(|(number, Compared { sentence, model, here })| {
            let differs = if model == here { "" } else { "   <-- differs" };
            format!("{number} {sentence}{differs}\n    model {model:?}\n    here  {here:?}")
        });
        format!("{}\n{}\n{:?}", entries.join("\n"), steps.collect::<Vec<_>>().join("\n"), self.problems)
    }

    /// The simulation has done what the model did, step by step, and the judge finds the same.
    pub(super) fn assert_same(&self, violated: bool) {
        assert_eq!(self.problems, Vec::<String>::new(), "{}", self.tell());
        assert_eq!(self.first_difference(), None, "{}", self.tell());
        assert_eq!(self.is_violated(), violated, "{}", self.tell());
    }

    /// The same up to that step, at which the two worlds part; nothing is violated.
    pub(super) fn assert_averted_at(&self, step: usize) {
        assert_eq!(self.problems, Vec::<String>::new(), "{}", self.tell());
        assert_eq!(self.first_difference(), Some(step), "{}", self.tell());
        assert!(!self.is_violated(), "{}", self.tell());
    }
}
