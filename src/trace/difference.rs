//! What is different between two moments.

use super::{Change, Client, Key, Moment, RESOURCE};

impl Moment {
    /// Every field as lane, name and text, in a fixed order.
    pub fn fields(&self) -> Vec<(String, &'static str, String)> {
        let mut fields = Vec::new();
        for client in &self.clients {
            let mut add = |field, value: String| fields.push((client.lane.clone(), field, value));
            add("does", client.does.clone());
            add("believes", believes(client));
            add("token", optional(client.token));
            add("attempt", client.attempt.to_string());
            add("clock", client.clock.to_string());
            add("pace", client.pace.clone());
            add("read is outdated", yes(client.outdated));
        }
        for node in &self.nodes {
            let mut add = |field, value: String| fields.push((node.lane.clone(), field, value));
            add("key", node.key.as_ref().map_or("none".into(), key));
            add("number", node.number.to_string());
            add("largest number", node.largest.to_string());
            add("epoch", node.epoch.map_or("none: empty".into(), |epoch| epoch.to_string()));
            add("claimed for epoch", optional(node.joining));
            add("silent for", node.silent.to_string());
        }
        for operator in &self.operators {
            fields.push((operator.lane.clone(), "does", operator.does.clone()));
        }
        if let Some(resource) = &self.resource {
            fields.push((RESOURCE.into(), "largest token seen", resource.mark.to_string()));
        }
        fields
    }

    /// Fields that are different in `after`.
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let pairs = self.fields().into_iter().zip(after.fields());
        let different = pairs.filter(|((_, _, old), (_, _, new))| old != new);
        different
            .map(|((lane, field, before), (_, _, after))| Change { lane, field: field.into(), before, after })
            .collect()
    }
}

impl Moment {
    /// What is different in `after`, one line for each lane.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        self.lines()
            .into_iter()
            .zip(after.lines())
            .filter(|(old, new)| old != new)
            .map(|((lane, old), (_, new))| format!("{lane}: {old} -> {new}"))
            .collect()
    }

    fn lines(&self) -> Vec<(&str, String)> {
        let nodes = self.nodes.iter().map(|node| (node.lane.as_str(), node.words.clone()));
        let clients = self.clients.iter().map(|client| (client.lane.as_str(), client.words.clone()));
        let resource =
            self.resource.iter().map(|resource| (RESOURCE, format!("largest token seen {}", resource.mark)));
        nodes.chain(clients).chain(resource).collect()
    }
}

fn believes(client: &Client) -> String {
    match (client.believes, client.belief_left) {
        (false, _) => "no".into(),
        (true, None) => "yes".into(),
        (true, Some(left)) => format!("yes, for {left}"),
    }
}

fn key(key: &Key) -> String {
    let attempt = if key.attempt > 1 { format!(" (attempt {})", key.attempt) } else { String::new() };
    let left = key.left.map_or(String::new(), |left| format!(" for {left}"));
    format!("{}'s{attempt}{left}", key.client)
}

fn optional(number: Option<u64>) -> String {
    number.map_or("none".into(), |number| number.to_string())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}
