//! Memoisation of results about a machine.
//!
//! This module owns the storage. A result follows from a machine and a key, and is computed once
//! for the machine and all its copies. A change of the machine discards the results. The results
//! themselves belong to their callers, such as the searches of [`crate::bounds`].

use super::Topology;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The key of a result: a question, and the numbers that it is about.
type Key = (&'static str, Vec<u32>);
/// Results by key.
type Results = BTreeMap<Key, Arc<dyn Any + Send + Sync>>;

/// Memoised results, shared by the copies of a machine.
#[derive(Clone, Default)]
pub(super) struct Memo(Arc<Mutex<Results>>);

/// All memos are equal, because results follow from the other fields of a machine.
impl PartialEq for Memo {
    fn eq(&self, _: &Memo) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

impl Topology {
    /// Returns the result of `find`, computed once for each `what` and `of`. It must follow from
    /// the machine, `what` and `of` alone.
    pub(crate) fn memoised<T: Send + Sync + 'static>(
        &self,
        what: &'static str,
        of: Vec<u32>,
        find: impl FnOnce() -> T,
    ) -> Arc<T> {
        let list = || self.memo.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (what, of);
        let known = list().get(&key).cloned();
        if let Some(known) = known.and_then(|k| k.downcast::<T>().ok()) {
            return known;
        }
        // `find` runs without the lock, because it may take long and request other results.
        let found = Arc::new(find());
        list().insert(key, found.clone());
        found
    }
}
