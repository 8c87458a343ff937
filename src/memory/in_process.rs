//! Memory inside this process: for tests, and for tasks of one process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::fence::{BackendId, Fence};
use super::guarded::{Guarded, Read, Written};
use super::store::{Change, Store, StoreError, admit_backend, checked_key, checked_value};

/// Values in this process; clones share them. Ends with the process.
#[derive(Clone, Debug, Default)]
pub struct InProcessStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    backend: Option<BackendId>,
    values: BTreeMap<String, Guarded<Vec<u8>>>,
}

impl InProcessStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self, fence: Option<&Fence>) -> Result<(), StoreError> {
        if admit_backend(self.backend.as_ref(), fence)? {
            self.backend = fence.map(|fence| fence.backend.clone());
        }
        Ok(())
    }

    fn value(&mut self, key: &str) -> &mut Guarded<Vec<u8>> {
        self.values.entry(key.to_owned()).or_default()
    }
}

#[async_trait]
impl Store for InProcessStore {
    async fn read(&self, key: &str, fence: Option<&Fence>) -> Result<Read<Vec<u8>>, StoreError> {
        let key = checked_key(key)?;
        let mut state = self.state();
        state.admit(fence)?;
        // A look at what is not there leaves nothing behind.
        if fence.is_none() && !state.values.contains_key(key) {
            return Ok(Read::Missing { version: 0 });
        }
        Ok(state.value(key).read(fence.map(|fence| fence.token)))
    }

    async fn write(&self, key: &str, change: Change<'_>) -> Result<Written<Vec<u8>>, StoreError> {
        let key = checked_key(key)?;
        let value = checked_value(change.value)?;
        let mut state = self.state();
        state.admit(change.fence)?;
        let token = change.fence.map(|fence| fence.token);
        let guarded = state.value(key);
        Ok(match value {
            Some(value) => guarded.write(value.to_vec(), token, change.expected, change.operation),
            None => guarded.remove(token, change.expected, change.operation),
        })
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.state();
        let keys = state.values.range::<str, _>((from, Bound::Unbounded));
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        Ok(keys.filter(|(_, value)| value.value().is_some()).take(most).map(|(key, _)| key.clone()).collect())
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        self.state().values.remove(checked_key(key)?);
        Ok(())
    }

    async fn backend(&self) -> Result<Option<BackendId>, StoreError> {
        Ok(self.state().backend.clone())
    }

    async fn change_backend(&self, from: &BackendId, to: &BackendId) -> Result<(), StoreError> {
        let mut state = self.state();
        match &state.backend {
            Some(stored) if stored == to => return Ok(()),
            Some(stored) if stored != from => {
                return Err(StoreError::OtherBackend { stored: stored.clone(), shown: from.clone() });
            }
            _ => {}
        }
        state.backend = Some(to.clone());
        state.values.values_mut().for_each(Guarded::forget_tokens);
        Ok(())
    }
}
