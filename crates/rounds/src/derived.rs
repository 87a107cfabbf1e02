//! Derived results: what other modules find out about a library and keep with it until it changes.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Results of one type. The library does not know the type, because the module that defines it
/// knows the library. A copy of a library has none, because it is made to be changed.
#[derive(Default)]
pub(crate) struct DerivedResults(Mutex<Option<Box<dyn Any + Send>>>);

impl DerivedResults {
    /// Drops the results.
    pub fn clear(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Calls `f` with the results. There are none of the type in the beginning.
    pub fn with<T: Any + Send + Default, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_or_insert_with(|| Box::new(T::default()));
        match kept.downcast_mut() {
            Some(results) => f(results),
            None => f(&mut T::default()),
        }
    }
}

impl Clone for DerivedResults {
    fn clone(&self) -> DerivedResults {
        DerivedResults::default()
    }
}

impl fmt::Debug for DerivedResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DerivedResults")
    }
}
