//! A run as data: who did what, which messages were on their way, who believed what, and whose keys lived.
//!
//! The format is described in `docs/traces.md`. It knows of no host: the model, a simulation or a run on real nodes writes it, and
//! the explorer draws it.

mod difference;

use serde::{Deserialize, Serialize};

/// Name and version of the format.
pub const SCHEMA: &str = "redfence.trace/1";

/// The lane of the guarded resource.
pub const RESOURCE: &str = "resource";

/// A run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trace {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which scenario, simulation or run.
    pub scenario: String,
    /// What that shows, in one sentence.
    pub shows: String,
    /// The wrong edit of the protocol that was in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<String>,
    /// What was assumed, in words.
    pub assumptions: Vec<Assumption>,
    /// How time is counted.
    pub clock: Clock,
    /// Everybody who takes part, in the order in which they are drawn.
    pub lanes: Vec<Lane>,
    /// Where it begins.
    pub start: Moment,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What was sent, in the order of sending.
    pub messages: Vec<Message>,
}

/// One assumption.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Assumption {
    /// About what.
    pub name: String,
    /// What is assumed.
    pub value: String,
}

/// How time is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// The unit of all times in the trace.
    pub unit: Unit,
    /// Life of a key.
    pub ttl: Option<u64>,
    /// What holders take off for drift.
    pub margin: Option<u64>,
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// There is no time: a key may end at any moment.
    None,
    /// The model's.
    Tick,
    /// For simulations and live runs.
    Microsecond,
}

/// One who takes part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lane {
    /// By what everything else in the trace names it.
    pub id: String,
    /// What it is.
    pub kind: LaneKind,
}

/// What takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaneKind {
    /// Wants the lock.
    Client,
    /// Keeps keys.
    Node,
    /// Starts nodes or brings them back.
    Operator,
    /// What the lock protects.
    Resource,
}

/// All there is at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Time since the beginning, by a clock that is right.
    pub at: u64,
    /// The clients.
    pub clients: Vec<Client>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Those who start nodes or bring them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Operator>,
    /// What the lock protects, if anybody looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// Properties of the scenario that are about every moment and are false here.
    pub violated: Vec<String>,
}

/// A client at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Client {
    /// Its lane.
    pub lane: String,
    /// All of it in a few words.
    pub words: String,
    /// What it is doing, in words.
    pub does: String,
    /// Attempts begun.
    pub attempt: u64,
    /// Its token in this attempt.
    pub token: Option<u64>,
    /// Its own clock since the attempt began.
    pub clock: i64,
    /// `running`, `paused` or `stopped` (its clock stands still too).
    pub pace: String,
    /// Its session says that it has the lock.
    pub holds: bool,
    /// It is inside its validity, by its own clock.
    pub believes: bool,
    /// For how long still, by its own clock; nothing where there is no time.
    pub belief_left: Option<u64>,
    /// Somebody has written since it read.
    pub outdated: bool,
}

/// A node at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// Its lane.
    pub lane: String,
    /// All of it in a few words.
    pub words: String,
    /// The lock key, if there is one.
    pub key: Option<Key>,
    /// Its number: the counter, or the number of one that does not exist.
    pub number: u64,
    /// Largest number it ever gave or took.
    pub largest: u64,
    /// Its epoch; none if it is empty.
    pub epoch: Option<u64>,
    /// Claimed for this epoch by somebody who brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joining: Option<u64>,
    /// Answers nobody for this long.
    pub silent: u64,
}

/// A lock key at a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Key {
    /// Lane of the client that signed it.
    pub client: String,
    /// In which of its attempts.
    pub attempt: u64,
    /// How long it will live; nothing where there is no time, or if it has no TTL.
    pub left: Option<u64>,
}

/// An operator at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operator {
    /// Its lane.
    pub lane: String,
    /// What it is doing, in words.
    pub does: String,
}

/// The guarded resource at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resource {
    /// The largest token it has seen, or who claimed it last.
    pub mark: u64,
}

/// One step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Counted from 1.
    pub number: usize,
    /// Which of the possible actions it was, by index; only in traces of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<usize>,
    /// The same as data, for those who do the trace again elsewhere; only in traces of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<serde_json::Value>,
    /// What happened, in words.
    pub sentence: String,
    /// Whether it is a fault of the world.
    pub fault: bool,
    /// What is worth marking.
    pub marks: Vec<Mark>,
    /// Fields that are different afterwards.
    pub changes: Vec<Change>,
    /// Properties of the scenario about some moment that are true for the first time.
    pub reached: Vec<String>,
    /// All there is afterwards; what is violated there is in it.
    pub after: Moment,
}

/// Something worth marking at a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// On whose lane.
    pub lane: String,
    /// What kind of thing.
    pub kind: MarkKind,
    /// A few words.
    pub text: String,
}

/// What is worth marking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// A fault of the world.
    Fault,
    /// A client begins an attempt.
    Begins,
    /// A client has the lock.
    Wins,
    /// An attempt fails.
    Fails,
    /// A client's validity is over, or it has released.
    Ends,
    /// A key ends.
    KeyEnds,
    /// The resource refuses.
    Refused,
    /// An update is lost, or another harm is done.
    Damage,
}

/// A field that is different after a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Whose.
    pub lane: String,
    /// Which field of the moment.
    pub field: String,
    /// Before, as text.
    pub before: String,
    /// Afterwards, as text.
    pub after: String,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Lane of the sender.
    pub from: String,
    /// Lane of the receiver.
    pub to: String,
    /// What it says, short.
    pub label: String,
    /// Whether it answers another.
    pub answer: bool,
    /// The step at which it leaves; 0 for the beginning.
    pub sent: usize,
    /// The step at which it arrives; nothing if it is lost, ignored, or still on its way at the end.
    pub arrives: Option<usize>,
    /// The step at which it is lost, or arrives where nobody waits for it any more.
    pub lost: Option<usize>,
    /// The sender gave it up or sent it twice, and it is on its own.
    pub late: bool,
}

impl Trace {
    /// The moment after this many steps.
    pub fn moment(&self, steps: usize) -> &Moment {
        match steps.checked_sub(1).and_then(|index| self.steps.get(index)) {
            None => &self.start,
            Some(step) => &step.after,
        }
    }

    /// All moments, from the start.
    pub fn moments(&self) -> impl Iterator<Item = &Moment> {
        std::iter::once(&self.start).chain(self.steps.iter().map(|step| &step.after))
    }

    /// The first step after which a property of every moment is false.
    pub fn first_violation(&self) -> Option<usize> {
        self.moments().position(|moment| !moment.violated.is_empty())
    }

    /// The actions of which it is made; nothing if it is not of the model.
    pub fn path(&self) -> Option<Vec<usize>> {
        self.steps.iter().map(|step| step.action).collect()
    }
}
