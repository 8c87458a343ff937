//! Where everything goes.

use super::parts::shown;
use crate::trace::{LaneKind, Moment, Trace};

/// Width of the column of sentences.
const TEXT: i32 = 348;
/// The same without sentences.
const BARE: i32 = 44;
/// Letters of a sentence on one line; fewer where they are bold.
const LETTERS: usize = 50;
const BOLD: usize = 44;
const CLIENT: i32 = 84;
const NODE: i32 = 92;
const HEAD: i32 = 92;
/// The same without title and legend.
const BARE_HEAD: i32 = 42;
/// Below the last step: how bars go on.
const TAIL: i32 = 46;
const LINE: i32 = 15;

/// A run of moments: from the step that begins it to the one that ends it, or to the end of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: Option<usize>,
}

/// A client's belief, by number of the client.
pub(super) struct Belief {
    pub(super) client: usize,
    pub(super) span: Span,
    /// Nodes whose keys it rests on.
    pub(super) nodes: Vec<usize>,
    /// How long it would go on after the end.
    pub(super) left: Option<u64>,
}

/// A key at a node, by number of the node and of the client.
pub(super) struct Held {
    pub(super) node: usize,
    pub(super) client: usize,
    pub(super) span: Span,
    pub(super) left: Option<u64>,
}

/// Where everything goes.
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    /// Without sentences.
    pub(super) bare: bool,
    /// Where the lanes begin.
    left: i32,
    /// Middle of each lane.
    lanes: Vec<(String, i32)>,
    clients: Vec<String>,
    nodes: Vec<String>,
    /// Upper and lower edge of each step's row, from the start.
    rows: Vec<(i32, i32)>,
    /// The text of each step, line by line.
    pub(super) texts: Vec<Vec<String>>,
    pub(super) beliefs: Vec<Belief>,
    pub(super) keys: Vec<Held>,
    /// Moments at which more than one believes.
    pub(super) overlaps: Vec<Span>,
}

impl Layout {
    /// For this trace.
    pub(super) fn new(trace: &Trace, bare: bool) -> Self {
        let left = if bare { BARE } else { TEXT };
        let mut x = left;
        let lanes: Vec<(String, i32)> = trace
            .lanes
            .iter()
            .map(|lane| {
                let width = if lane.kind == LaneKind::Node { NODE } else { CLIENT };
                x += width;
                (lane.id.clone(), x - width / 2)
            })
            .collect();
        let of = |kind| trace.lanes.iter().filter(move |lane| lane.kind == kind).map(|lane| lane.id.clone());
        let texts: Vec<Vec<String>> = trace
            .steps
            .iter()
            .map(|step| wrap(&step.sentence, if step.fault { BOLD } else { LETTERS }))
            .collect();
        let head = if bare { BARE_HEAD } else { HEAD };
        let mut y = head + 28;
        let mut rows = vec![(head, y)];
        for (step, text) in trace.steps.iter().zip(&texts) {
            let harms = newly(trace.moment(step.number - 1), &step.after).count();
            let lines = i32::try_from(text.len() + harms).unwrap_or(i32::MAX / LINE);
            let row = if bare { 30 } else { (lines * LINE + 11).max(30) };
            rows.push((y, y + row));
            y += row;
        }
        let mut layout = Self {
            width: x + 56,
            height: y + TAIL + 24,
            bare,
            left,
            lanes,
            clients: of(LaneKind::Client).collect(),
            nodes: of(LaneKind::Node).collect(),
            rows,
            texts,
            beliefs: Vec::new(),
            keys: Vec::new(),
            overlaps: overlaps(trace),
        };
        layout.keys = layout.keys_of(trace);
        layout.beliefs = layout.beliefs_of(trace);
        layout
    }

    /// Middle of a lane.
    pub(super) fn x(&self, lane: &str) -> Option<i32> {
        self.lanes.iter().find(|(id, _)| id == lane).map(|(_, x)| *x)
    }

    /// Where the lanes begin and end.
    pub(super) fn across(&self) -> (i32, i32) {
        (self.left, self.width - 56)
    }

    /// Height of a step, 0 for the start.
    pub(super) fn y(&self, step: usize) -> i32 {
        let (top, bottom) = self.row(step);
        (top + bottom) / 2
    }

    /// Upper and lower edge of a step's row.
    pub(super) fn row(&self, step: usize) -> (i32, i32) {
        self.rows.get(step).copied().unwrap_or((HEAD, HEAD))
    }

    /// Where bars that do not end are cut.
    pub(super) fn bottom(&self) -> i32 {
        self.height - 24
    }

    /// Upper and lower end of a bar.
    pub(super) fn ends(&self, span: Span) -> (i32, i32) {
        (self.y(span.from), span.to.map_or(self.bottom() - 12, |step| self.y(step)))
    }

    /// Where a client's key is drawn on the lane of a node.
    pub(super) fn key_x(&self, node: usize, client: usize) -> i32 {
        let middle = self.nodes.get(node).and_then(|lane| self.x(lane)).unwrap_or(0);
        let offset = |index: usize| i32::try_from(index).unwrap_or(0) * 24;
        middle + offset(client) - offset(self.clients.len().saturating_sub(1)) / 2
    }

    /// Whether this is the lane of a node.
    pub(super) fn is_node(&self, lane: &str) -> bool {
        self.nodes.iter().any(|node| node == lane)
    }

    /// Middle of a client's lane.
    pub(super) fn client_x(&self, client: usize) -> i32 {
        self.clients.get(client).and_then(|lane| self.x(lane)).unwrap_or(0)
    }

    /// Number of clients and nodes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.clients.len(), self.nodes.len())
    }

    /// By which colour a lane goes: that of its client.
    pub(super) fn colour(&self, lane: &str) -> &'static str {
        self.clients.iter().position(|client| client == lane).map_or("", colour)
    }

    fn keys_of(&self, trace: &Trace) -> Vec<Held> {
        let mut keys = Vec::new();
        for (node, lane) in self.nodes.iter().enumerate() {
            let key = |moment: &Moment| {
                let keeper = moment.nodes.iter().find(|keeper| keeper.lane == *lane)?;
                keeper.key.as_ref().map(|key| (key.client.clone(), key.attempt))
            };
            for ((owner, _), span) in spans(trace, key) {
                let Some(client) = self.clients.iter().position(|client| *client == owner) else { continue };
                let last = trace.moment(trace.steps.len());
                let keeper = last.nodes.iter().find(|keeper| keeper.lane == *lane);
                let left = keeper.and_then(|keeper| keeper.key.as_ref()?.left).filter(|_| span.to.is_none());
                let left = left.map(|left| shown(trace, left));
                keys.push(Held { node, client, span, left });
            }
        }
        keys
    }

    fn beliefs_of(&self, trace: &Trace) -> Vec<Belief> {
        let mut beliefs = Vec::new();
        for (client, lane) in self.clients.iter().enumerate() {
            let of = |moment: &Moment| moment.clients.iter().find(|client| client.lane == *lane).cloned();
            let belief = |moment: &Moment| of(moment).filter(|client| client.believes).map(|c| c.attempt);
            for (_, span) in spans(trace, belief) {
                let before = |key: &&Held| key.client == client && key.span.from <= span.from;
                let mut nodes: Vec<usize> = self.keys.iter().filter(before).map(|key| key.node).collect();
                nodes.dedup();
                let last = of(trace.moment(trace.steps.len()));
                let left = last.and_then(|client| client.belief_left).filter(|_| span.to.is_none());
                let left = left.map(|left| shown(trace, left));
                beliefs.push(Belief { client, span, nodes, left });
            }
        }
        beliefs
    }
}

/// The class of a client's colour.
pub(super) fn colour(client: usize) -> &'static str {
    ["a", "b", "c"][client % 3]
}

/// Properties that are violated afterwards and were not before.
pub(super) fn newly<'a>(before: &'a Moment, after: &'a Moment) -> impl Iterator<Item = &'a String> {
    after.violated.iter().filter(|name| !before.violated.contains(name))
}

/// Runs of moments with one value.
fn spans<K: PartialEq>(trace: &Trace, value: impl Fn(&Moment) -> Option<K>) -> Vec<(K, Span)> {
    let mut spans: Vec<(K, Span)> = Vec::new();
    for (step, moment) in trace.moments().enumerate() {
        let now = value(moment);
        if let Some((open, span)) = spans.last_mut()
            && span.to.is_none()
        {
            if now.as_ref() == Some(open) {
                continue;
            }
            span.to = Some(step);
        }
        spans.extend(now.map(|value| (value, Span { from: step, to: None })));
    }
    spans
}

fn overlaps(trace: &Trace) -> Vec<Span> {
    let two = |moment: &Moment| {
        (moment.clients.iter().filter(|client| client.believes).count() > 1
            && moment.violated.iter().any(|name| name == "belief"))
        .then_some(())
    };
    spans(trace, two).into_iter().map(|((), span)| span).collect()
}

/// A sentence in lines.
fn wrap(sentence: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in sentence.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > letters {
            lines.push(word.into());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_broken_between_words() {
        let sentence =
            "B hears from node 0: granted, number 2; B asks all nodes to rise to 2, and waits for them";
        let lines = wrap(sentence, LETTERS);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.chars().count() <= LETTERS), "{lines:?}");
        assert_eq!(lines.join(" "), sentence);
    }
}
