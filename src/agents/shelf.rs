//! What is where in the store: tasks, documents, lists of topics; filling it, and counting in the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::report::{Documents, Found, Hit};
use super::{AgentsError, Corpus, Document};
use crate::memory::recipes::TaskQueue;
use crate::memory::{Change, Edit, Fence, Read, SharedMemory, SqliteStore, Store, Strategy, Written};

const TASKS: &str = "tasks";
const DOCUMENTS: &str = "documents/";
const TOPICS: &str = "topics/";
const MANIFEST: &str = "manifest";

/// How many keys are asked for in one go.
const PAGE: usize = 1_000;

/// Documents that a search answers.
const HITS: usize = 5;

/// The store of one run. Clones share it.
#[derive(Clone, Debug)]
pub struct Shelf {
    store: SqliteStore,
    memory: SharedMemory,
    queue: TaskQueue,
}

/// What is to be there in the end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Manifest {
    /// Key and topic.
    documents: BTreeMap<String, String>,
    query: Vec<f32>,
}

/// What is stored of a document, beside its embedding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stored {
    text: String,
    by: String,
}

impl Shelf {
    /// The store in this file, which is created if it is not there.
    ///
    /// # Errors
    /// [`AgentsError::Memory`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, AgentsError> {
        let store = SqliteStore::open(path).await?;
        let memory = SharedMemory::shared(Arc::new(store.clone()));
        let queue = TaskQueue::new(memory.clone(), TASKS);
        Ok(Self { store, memory, queue })
    }

    /// Adds a task for each document; true if this store had none before. Doing it again completes what was begun.
    ///
    /// # Errors
    /// [`AgentsError::AlreadyThere`] if it holds other documents.
    pub async fn fill(&self, corpus: &Corpus) -> Result<bool, AgentsError> {
        let pairs = corpus.documents().iter().map(|document| (document.key.clone(), document.topic.clone()));
        let manifest = Manifest { documents: pairs.collect(), query: corpus.query().to_vec() };
        let value = serde_json::to_vec(&manifest)?;
        let fresh = match self.store.write(MANIFEST, Change::set(&value).expecting(0)).await? {
            Written::Applied { .. } => true,
            Written::Conflict { value: there, .. } if there == value => false,
            _ => return Err(AgentsError::AlreadyThere),
        };
        for document in corpus.documents() {
            self.queue.add(&document.key, &serde_json::to_vec(document)?).await?;
        }
        Ok(fresh)
    }

    /// Whether it was filled.
    ///
    /// # Errors
    /// [`AgentsError::NotFilled`].
    pub async fn require_filled(&self) -> Result<(), AgentsError> {
        self.manifest().await.map(drop)
    }

    /// Counts what is there, and searches.
    ///
    /// # Errors
    /// [`AgentsError::NotFilled`].
    pub async fn check(&self) -> Result<Found, AgentsError> {
        let manifest = self.manifest().await?;
        let (versions, listed) = (self.versions().await?, self.listed().await?);
        let mut documents =
            Documents { expected: manifest.documents.len() as u64, present: 0, lost: 0, doubled: 0 };
        for (key, topic) in &manifest.documents {
            let version = versions.get(key).copied().unwrap_or(0);
            let times = listed.get(key).map_or(0, |topics| topics.iter().filter(|it| *it == topic).count());
            documents.present += u64::from(version > 0);
            documents.lost += u64::from(version == 0 || times == 0);
            documents.doubled += u64::from(version > 1 || times > 1);
        }
        let open_tasks = self.queue.open_tasks().await? as u64;
        Ok(Found { documents, open_tasks, search: self.search(&manifest.query).await? })
    }

    pub(super) fn queue(&self) -> &TaskQueue {
        &self.queue
    }

    /// Reads under a token, which the store remembers.
    pub(super) async fn look(&self, key: &str, fence: &Fence) -> Result<Read<Vec<u8>>, AgentsError> {
        Ok(self.store.read(&document_key(key), Some(fence)).await?)
    }

    /// Writes text and embedding, or neither: under the token, if nobody has written since this version.
    pub(super) async fn put(
        &self,
        document: &Document,
        by: &str,
        fence: &Fence,
        version: u64,
    ) -> Result<Written<Vec<u8>>, AgentsError> {
        let value = serde_json::to_vec(&Stored { text: document.text.clone(), by: by.to_owned() })?;
        let (key, vector) = (document_key(&document.key), document.vector());
        // One operation for all tries: what was done and not answered is not done again.
        let change = Change::set(&value).under(fence).expecting(version);
        let mut tries = 8;
        loop {
            match self.store.write_document(&key, change, Some(&vector)).await {
                Err(error) if error.is_retryable() && tries > 0 => tries -= 1,
                ended => return Ok(ended?),
            }
        }
    }

    /// Adds a document to the list of its topic, by version: `think` comes between reading and writing. Answers how often others
    /// had written meanwhile.
    pub(super) async fn list<F: Future<Output = ()>>(
        &self,
        document: &Document,
        mut think: impl FnMut() -> F,
    ) -> Result<u32, AgentsError> {
        let topic = topic_key(&document.topic);
        let updated = self.memory.update(&topic, Strategy::Optimistic, |value| {
            let (thinking, key) = (think(), document.key.clone());
            async move {
                let mut keys = parsed_list(value)?;
                if keys.contains(&key) {
                    return Ok(Edit::Keep);
                }
                thinking.await;
                keys.push(key);
                Ok(Edit::Set(serde_json::to_vec(&keys)?))
            }
        });
        let updated = updated.await.map_err(|error: crate::memory::UpdateError<serde_json::Error>| error)?;
        Ok(updated.conflicts)
    }

    async fn manifest(&self) -> Result<Manifest, AgentsError> {
        let value = self.memory.get(MANIFEST).await?.ok_or(AgentsError::NotFilled)?;
        Ok(serde_json::from_slice(&value)?)
    }

    /// How often each document was written.
    async fn versions(&self) -> Result<BTreeMap<String, u64>, AgentsError> {
        let mut versions = BTreeMap::new();
        for key in self.keys(DOCUMENTS).await? {
            if let Read::Value { version, .. } = self.store.read(&key, None).await? {
                versions.insert(bare(&key, DOCUMENTS), version);
            }
        }
        Ok(versions)
    }

    /// The topics that list each document, as often as they do.
    async fn listed(&self) -> Result<BTreeMap<String, Vec<String>>, AgentsError> {
        let mut listed = BTreeMap::<_, Vec<_>>::new();
        for topic in self.keys(TOPICS).await? {
            for key in parsed_list(self.memory.get(&topic).await?)? {
                listed.entry(key).or_default().push(bare(&topic, TOPICS));
            }
        }
        Ok(listed)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, AgentsError> {
        let mut all = Vec::new();
        loop {
            let page = self.store.keys(prefix, all.last().map(String::as_str), PAGE).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    async fn search(&self, query: &[f32]) -> Result<Vec<Hit>, AgentsError> {
        let near = self.store.nearest(query, HITS).await?;
        let hit = |neighbour: crate::memory::Neighbour| {
            let stored: Stored = serde_json::from_slice(&neighbour.value)?;
            let key = bare(&neighbour.key, DOCUMENTS);
            Ok(Hit { key, distance: neighbour.distance, text: stored.text })
        };
        near.into_iter().map(hit).collect()
    }
}

fn document_key(key: &str) -> String {
    format!("{DOCUMENTS}{key}")
}

fn topic_key(topic: &str) -> String {
    format!("{TOPICS}{topic}")
}

fn bare(key: &str, prefix: &str) -> String {
    key.strip_prefix(prefix).unwrap_or(key).to_owned()
}

fn parsed_list(value: Option<Vec<u8>>) -> Result<Vec<String>, serde_json::Error> {
    value.map_or(Ok(Vec::new()), |value| serde_json::from_slice(&value))
}
