//! What was found out about a machine, kept with it.
//!
//! Owns the keeping alone: results that follow from a machine and a question, found once for it and all its copies. A machine that is
//! changed begins anew. What they are is their finders': the searches of [`crate::bounds`].

use super::Topology;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A question: what is asked, and of whom.
type Key = (&'static str, Vec<u32>);
/// Results by question.
type Results = BTreeMap<Key, Arc<dyn Any + Send + Sync>>;

/// Results, shared by copies.
#[derive(Clone, Default)]
pub(super) struct Memo(Arc<Mutex<Results>>);

/// They follow from the rest of a machine.
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
    /// What `find` finds: it follows from the machine, `what` and `of`, and is found once for each of these.
    pub(crate) fn remembered<T: Send + Sync + 'static>(
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
        // Not under the lock: it may take long, and ask for other things.
        let found = Arc::new(find());
        list().insert(key, found.clone());
        found
    }
}
