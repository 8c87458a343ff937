//! What the agents are to add: documents of our own, or the user's with vectors of the user's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::AgentsError;
use super::embedding::embed;
use crate::memory::MAX_DIMENSION;

/// Most documents of one run.
pub const MAX_DOCUMENTS: u32 = 100_000;

/// Longest key of a document, in bytes: it is part of longer keys.
const MAX_KEY_BYTES: usize = 400;

/// What our own documents are about; each has a list of its documents that the agents keep by version.
const TOPICS: [(&str, [&str; 6]); 5] = [
    ("locks", ["quorum", "lease", "owner", "majority", "validity", "release"]),
    ("fencing", ["token", "stale", "write", "refused", "larger", "counter"]),
    ("queues", ["task", "claim", "worker", "once", "retry", "order"]),
    ("budgets", ["tokens", "spend", "reserve", "settle", "limit", "account"]),
    ("search", ["vector", "embedding", "nearest", "distance", "index", "neighbour"]),
];

/// What is asked of the store when all is done, unless the user asks something else.
pub const DEFAULT_QUERY: &str = "fencing: a stale write is refused, its token is no longer the larger one";

/// One task: a document that is to be in the store once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Document {
    /// Its name, without the store's prefix.
    pub key: String,
    /// Which list it belongs in.
    pub topic: String,
    /// What it says.
    pub text: String,
    /// The user's vector; without one, [`embed`] makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Vec<f32>>,
}

impl Document {
    /// Its vector.
    pub fn vector(&self) -> Vec<f32> {
        self.embedding.clone().unwrap_or_else(|| embed(&self.text))
    }
}

/// All documents of one run, and what is asked of the store in the end.
#[derive(Clone, PartialEq, Debug)]
pub struct Corpus {
    documents: Vec<Document>,
    query: Vec<f32>,
}

/// A line of the user's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    key: String,
    text: String,
    embedding: Vec<f32>,
}

impl Corpus {
    /// So many documents of our own, and a search for what is near to this text.
    ///
    /// # Errors
    /// [`AgentsError::OutOfRange`].
    pub fn made(documents: u32, query: &str) -> Result<Self, AgentsError> {
        if documents == 0 || documents > MAX_DOCUMENTS {
            let (given, most) = (u64::from(documents), u64::from(MAX_DOCUMENTS));
            return Err(AgentsError::OutOfRange { what: "documents", given, most });
        }
        Ok(Self { documents: (1..=documents).map(made).collect(), query: embed(query) })
    }

    /// The user's own: one JSON object `{"key": .., "text": .., "embedding": [..]}` on each line. The search is for what is near to
    /// the first of them.
    ///
    /// # Errors
    /// [`AgentsError::Vectors`] names the line.
    pub fn given(lines: &str) -> Result<Self, AgentsError> {
        let mut documents = Vec::new();
        let (mut keys, mut dimension) = (BTreeSet::new(), None);
        for (number, line) in (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |problem: String| AgentsError::Vectors { line: number, problem };
            let given: Given = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            check(&given, *dimension.get_or_insert(given.embedding.len())).map_err(wrong)?;
            if !keys.insert(given.key.clone()) {
                return Err(wrong(format!("key {:?} is there twice", given.key)));
            }
            let topic = TOPICS[documents.len() % TOPICS.len()].0.to_owned();
            let embedding = Some(given.embedding);
            documents.push(Document { key: given.key, topic, text: given.text, embedding });
        }
        let Some(first) = documents.first() else {
            return Err(AgentsError::Vectors { line: 1, problem: "no documents".to_owned() });
        };
        if documents.len() > MAX_DOCUMENTS as usize {
            let (given, most) = (documents.len() as u64, u64::from(MAX_DOCUMENTS));
            return Err(AgentsError::OutOfRange { what: "documents", given, most });
        }
        let query = first.vector();
        Ok(Self { documents, query })
    }

    /// The documents.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// What is searched for.
    pub fn query(&self) -> &[f32] {
        &self.query
    }
}

fn check(given: &Given, dimension: usize) -> Result<(), String> {
    let (bytes, numbers) = (given.key.len(), given.embedding.len());
    if bytes == 0 || bytes > MAX_KEY_BYTES || given.key.contains('\0') {
        return Err(format!("a key of {bytes} bytes: it must have 1 to {MAX_KEY_BYTES}, none of them zero"));
    }
    if numbers == 0 || numbers > MAX_DIMENSION {
        return Err(format!("an embedding of {numbers} numbers: it must have 1 to {MAX_DIMENSION}"));
    }
    if numbers != dimension {
        return Err(format!("an embedding of {numbers} numbers, after others of {dimension}"));
    }
    match given.embedding.iter().all(|number| number.is_finite()) {
        true => Ok(()),
        false => Err("an embedding with a number that is too large".to_owned()),
    }
}

/// The document of this number: always the same.
fn made(number: u32) -> Document {
    let place = number as usize;
    let (topic, words) = TOPICS[place % TOPICS.len()];
    let word = |step: usize| words[(place / TOPICS.len() + step) % words.len()];
    let text = format!(
        "Note {number} about {topic}. What an agent learnt of {} and {}: {} comes before {}.",
        word(0),
        word(1),
        word([2, 4, 5][place / 30 % 3]),
        word(3),
    );
    Document { key: format!("{number:05}"), topic: topic.to_owned(), text, embedding: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(lines: &str) -> String {
        Corpus::given(lines).unwrap_err().to_string()
    }

    #[test]
    fn our_own_documents_differ_and_stay_the_same() {
        let corpus = Corpus::made(300, DEFAULT_QUERY).unwrap();
        let keys: BTreeSet<_> = corpus.documents().iter().map(|document| &document.key).collect();
        let texts: BTreeSet<_> = corpus.documents().iter().map(|document| &document.text).collect();
        assert_eq!((keys.len(), texts.len()), (300, 300));
        assert_eq!(corpus, Corpus::made(300, DEFAULT_QUERY).unwrap());
        for wrong in [0, MAX_DOCUMENTS + 1] {
            assert!(matches!(Corpus::made(wrong, ""), Err(AgentsError::OutOfRange { .. })));
        }
    }

    #[test]
    fn the_users_vectors_are_taken_as_they_are() {
        let lines = "{\"key\":\"a\",\"text\":\"x\",\"embedding\":[1,0]}\n\n{\"key\":\"b\",\"text\":\"y\",\"embedding\":[0,0.5]}\n";
        let corpus = Corpus::given(lines).unwrap();
        assert_eq!(corpus.documents()[1].vector(), [0.0, 0.5]);
        assert_eq!(corpus.query(), [1.0, 0.0]);
    }

    #[test]
    fn what_is_wrong_with_a_vector_is_told_with_its_line() {
        assert_eq!(refused(""), "vectors, line 1: no documents");
        let good = r#"{"key":"a","text":"x","embedding":[1,0]}"#;
        assert!(refused(&format!("{good}\nx")).starts_with("vectors, line 2: expected"));
        assert!(refused(&format!("{good}\n{good}")).contains(r#"line 2: key "a" is there twice"#));
        assert!(refused(r#"{"key":"","text":"","embedding":[1]}"#).contains("a key of 0 bytes"));
        assert!(refused(r#"{"key":"a","text":"","embedding":[]}"#).contains("an embedding of 0 numbers"));
        assert!(refused(r#"{"key":"a","text":"","embedding":[1e39]}"#).contains("line 1:"));
        assert!(
            refused(&format!("{good}\n{}", r#"{"key":"b","text":"","embedding":[1]}"#))
                .contains("line 2: an embedding of 1 numbers, after others of 2")
        );
        assert!(refused(r#"{"key":"a","text":"","vector":[1]}"#).contains("unknown field"));
    }
}
