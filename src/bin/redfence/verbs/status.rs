//! `redfence status`: who holds a lock, as every node sees it. Changes nothing.

use std::collections::BTreeMap;

use redfence::lock::Inspection;
use redfence::lock::report::NodeError;
use redfence::proto::Quorum;
use serde::Serialize;

use crate::args::{Global, ModeArg, StatusArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{nodes, output};

/// One node.
#[derive(Debug, Serialize)]
struct NodeStatus {
    node: String,
    /// `held`, `free`, `not a lock`, `refused` or `unreachable`.
    state: &'static str,
    /// Signs the key there.
    owner: Option<String>,
    ms_left: Option<u64>,
    /// The resource's number there.
    number: Option<u64>,
    epoch: Option<u64>,
    /// Fresh, or it lost its data: it answers, and does not vote for fenced locks.
    empty: bool,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Status {
    schema: &'static str,
    resource: String,
    #[serde(flatten)]
    verdict: Verdict,
    needed: usize,
    nodes: Vec<NodeStatus>,
}

/// What the nodes say together.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Verdict {
    /// `held`, `free`, `not a lock` or `unknown`.
    state: &'static str,
    owner: Option<String>,
    /// For how long a quorum of keys lives still, unless extended or released.
    ms_left: Option<u64>,
    /// How many nodes hold the owner's key.
    held_on: usize,
}

pub(crate) async fn run(global: &Global, args: StatusArgs) -> Result<Exit, Failure> {
    let locks = nodes::lock(global)?;
    let quorum = locks.quorum();
    let mut nodes: Vec<_> = locks.inspect(&args.resource).await?.into_iter().map(node_status).collect();
    if locks.backend_name() != "redlock" {
        // Only Redis nodes have an epoch to be without.
        nodes.iter_mut().for_each(|node| node.empty = false);
    }
    let verdict = verdict(&nodes, quorum);
    let state = verdict.state;
    let status = Status {
        schema: "redfence.status/1",
        resource: args.resource.clone(),
        verdict,
        needed: quorum.needed(),
        nodes,
    };
    match global.json {
        true => output::json(&status)?,
        false => print(&status, global.mode()),
    }
    match state {
        NOT_A_LOCK => {
            let what =
                format!("{:?} is not a lock on so many nodes that no quorum is possible", args.resource);
            let next = "choose another resource name, or a --prefix";
            Err(Failure::new(Exit::Configuration, what).next(next))
        }
        "unknown" => {
            let mute = status.nodes.iter().filter(|node| node.is_mute()).count();
            let refused = status.nodes.iter().any(|node| node.state == "refused");
            let of = quorum.nodes();
            let what =
                format!("{mute} of {of} nodes did not tell: whether {:?} is held is unknown", args.resource);
            let next = match refused {
                true => "change what the nodes complain about, and start those that do not answer",
                false => "start the nodes that do not answer",
            };
            Err(Failure::new(Exit::NoQuorum, what).next(next))
        }
        _ => Ok(Exit::Ok),
    }
}

fn node_status((node, said): (String, Result<Inspection, NodeError>)) -> NodeStatus {
    match said {
        Ok(seen) => NodeStatus {
            node,
            state: if seen.holder.is_some() { "held" } else { "free" },
            ms_left: seen.remaining.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            owner: seen.holder,
            number: seen.counter,
            epoch: seen.record.epoch,
            empty: seen.record.epoch.is_none(),
            error: None,
        },
        Err(error) => NodeStatus {
            node,
            state: match &error {
                NodeError::NotALock(_) => NOT_A_LOCK,
                error if error.is_permanent() => "refused",
                _ => "unreachable",
            },
            owner: None,
            ms_left: None,
            number: None,
            epoch: None,
            empty: false,
            error: Some(error.to_string()),
        },
    }
}

/// The key holds something else.
const NOT_A_LOCK: &str = "not a lock";

impl NodeStatus {
    /// It has not told whether a lock is there.
    fn is_mute(&self) -> bool {
        self.error.is_some() && self.state != NOT_A_LOCK
    }
}

/// A key without a TTL lives longer than any other.
const NO_TTL: u64 = u64::MAX;

/// Held if a quorum holds one owner's key; unknown while the silent nodes could make it one.
fn verdict(nodes: &[NodeStatus], quorum: Quorum) -> Verdict {
    let mut holders = BTreeMap::<&str, Vec<u64>>::new();
    for node in nodes {
        if let Some(owner) = &node.owner {
            holders.entry(owner).or_default().push(node.ms_left.unwrap_or(NO_TTL));
        }
    }
    let silent = nodes.iter().filter(|node| node.is_mute()).count();
    if nodes.iter().filter(|node| node.state == NOT_A_LOCK).count() > quorum.spare() {
        return Verdict { state: NOT_A_LOCK, owner: None, ms_left: None, held_on: 0 };
    }
    let most = holders.into_iter().max_by_key(|(_, lives)| lives.len());
    let Some((owner, mut lives)) = most else {
        let state = if silent >= quorum.needed() { "unknown" } else { "free" };
        return Verdict { state, owner: None, ms_left: None, held_on: 0 };
    };
    lives.sort_unstable_by(|a, b| b.cmp(a));
    let (owner, held_on) = (Some(owner.to_owned()), lives.len());
    match lives.get(quorum.needed() - 1) {
        Some(&left) => {
            let ms_left = Some(left).filter(|&left| left < NO_TTL);
            Verdict { state: "held", owner, ms_left, held_on }
        }
        None if held_on + silent >= quorum.needed() => {
            Verdict { state: "unknown", owner, ms_left: None, held_on }
        }
        None => Verdict { state: "free", owner: None, ms_left: None, held_on },
    }
}

fn print(status: &Status, mode: ModeArg) {
    let mut table = output::table(&["node", "lock", "owner", "left", "number", "epoch"]);
    // Whole lines: what they hold is copied and searched.
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    let text = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    for node in &status.nodes {
        let state = match (&node.error, node.empty) {
            (Some(error), _) => error.clone(),
            (None, true) if mode == ModeArg::Fenced => format!("{}; empty node: does not vote", node.state),
            (None, _) => node.state.to_owned(),
        };
        let left = node.ms_left.map_or("-".to_owned(), |left| format!("{left} ms"));
        let owner = node.owner.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([node.node.clone(), state, owner, left, text(node.number), text(node.epoch)]);
    }
    output::line(table);
    let Status { resource, verdict, needed, nodes, .. } = status;
    let on = format!("{} of {} nodes, {needed} make a quorum", verdict.held_on, nodes.len());
    match (verdict.state, verdict.ms_left) {
        ("held", Some(left)) => output::line(format_args!("{resource}: held on {on}; {left} ms left")),
        ("held", None) => {
            output::line(format_args!("{resource}: held on {on}, for ever: the keys have no TTL"))
        }
        ("free", _) if verdict.held_on > 0 => {
            output::line(format_args!(
                "{resource}: free; one key on {on}: somebody is trying, or was cut off"
            ));
        }
        (state, _) => output::line(format_args!("{resource}: {state} ({on})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: &str, left: u64) -> NodeStatus {
        NodeStatus { state: "held", owner: Some(owner.to_owned()), ms_left: Some(left), ..free() }
    }

    fn free() -> NodeStatus {
        NodeStatus {
            node: String::new(),
            state: "free",
            owner: None,
            ms_left: None,
            number: None,
            epoch: Some(1),
            empty: false,
            error: None,
        }
    }

    fn silent() -> NodeStatus {
        NodeStatus { state: "unreachable", error: Some("away".to_owned()), ..free() }
    }

    #[test]
    fn a_lock_is_held_for_as_long_as_a_quorum_of_its_keys_lives() {
        // B81: the first node is away, and the lock is held all the same.
        let nodes = [silent(), held("a", 30), held("a", 10), held("a", 20), held("b", 99)];
        let expected = Verdict { state: "held", owner: Some("a".to_owned()), ms_left: Some(10), held_on: 3 };
        assert_eq!(verdict(&nodes, Quorum::of(5)), expected);
    }

    #[test]
    fn silent_nodes_make_it_unknown_only_if_they_could_change_it() {
        let state = |nodes: &[NodeStatus]| verdict(nodes, Quorum::of(nodes.len())).state;
        assert_eq!(state(&[silent(), silent(), held("a", 1), free(), free()]), "unknown");
        assert_eq!(state(&[silent(), free(), held("a", 1), free(), free()]), "free");
        assert_eq!(state(&[silent(), silent(), free(), free(), free()]), "free");
        assert_eq!(state(&[silent(), silent(), silent(), free(), free()]), "unknown");
        assert_eq!(state(&[held("a", 1), held("a", 1), held("b", 1), held("b", 1), free()]), "free");
    }

    #[test]
    fn a_key_of_another_kind_is_an_answer() {
        // B10: application data under the name of the lock.
        let state = |nodes: &[NodeStatus]| verdict(nodes, Quorum::of(nodes.len())).state;
        let other = || NodeStatus { state: NOT_A_LOCK, ..silent() };
        assert_eq!(state(&[other(), other(), free()]), NOT_A_LOCK);
        assert_eq!(state(&[other(), free(), free()]), "free");
        assert_eq!(state(&[other(), held("a", 1), held("a", 1)]), "held");
        assert_eq!(state(&[other(), silent(), free()]), "free");
        assert_eq!(state(&[other(), silent(), held("a", 1)]), "unknown");
    }
}
