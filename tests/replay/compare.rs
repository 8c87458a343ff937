//! What of a live moment must be as in the model.

use redfence::trace::{Client, Moment, Node};

/// In words: where the live moment is not what is expected.
///
/// Compared is who believes, with which token and on which read, whose keys the nodes hold, and their numbers. Times are not: the
/// model's are whole ticks. In classic mode nodes keep no numbers.
pub(crate) fn differences(model: &Moment, live: &Moment, property: &str, fenced: bool) -> Vec<String> {
    let mut different = Vec::new();
    let mut same = |lane: &str, what: &str, model: String, live: String| {
        if model != live {
            different.push(format!("{lane}: {what} {live}, in the model {model}"));
        }
    };
    for (model, live) in model.clients.iter().zip(&live.clients) {
        same(&model.lane, "", client(model, fenced), client(live, fenced));
    }
    for (model, live) in model.nodes.iter().zip(&live.nodes) {
        same(&model.lane, "", node(model, fenced), node(live, fenced));
    }
    let violated = |moment: &Moment| moment.violated.iter().any(|name| name == property);
    same(property, "violated:", violated(model).to_string(), violated(live).to_string());
    different
}

fn client(client: &Client, fenced: bool) -> String {
    let token = client.token.filter(|_| fenced && client.believes);
    format!(
        "attempt {}, believes {}, token {token:?}, outdated {}",
        client.attempt, client.believes, client.outdated
    )
}

fn node(node: &Node, fenced: bool) -> String {
    let key = node.key.as_ref().map(|key| format!("{}'s of attempt {}", key.client, key.attempt));
    match fenced {
        true => format!(
            "key {key:?}, number {}, largest {}, empty {}",
            node.number,
            node.largest,
            node.epoch.is_none()
        ),
        false => format!("key {key:?}"),
    }
}
