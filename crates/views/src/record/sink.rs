//! Sinks: where the records of a run go. The caller opens them; the command line writes files, and
//! [`InMemory`] keeps bytes.

use kbc_diag::Diagnostic;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A record that is being written. If it is dropped before it is kept, nothing of it remains.
pub trait Sink: Write {
    /// Puts the finished record into its place.
    ///
    /// # Errors
    /// Returns E410 if it cannot be written.
    fn keep(self: Box<Self>) -> Result<(), Diagnostic>;
}

/// Opens sinks for the paths of records.
pub trait Sinks {
    /// Opens the sink of a path; `-` is standard output.
    ///
    /// # Errors
    /// Returns E410 if it cannot be opened.
    fn open(&self, path: &str) -> Result<Box<dyn Sink>, Diagnostic>;

    /// Returns the message for a sink of this path that failed while it was written (E410).
    fn failure(&self, path: &str, error: &io::Error) -> Diagnostic {
        Diagnostic::error("E410", format!("cannot write {path}: {error}"))
    }
}

/// Sinks that keep records in memory, by their paths.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl InMemory {
    /// Returns the records that were kept, and forgets them.
    pub fn take(&self) -> BTreeMap<String, Vec<u8>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sinks for InMemory {
    fn open(&self, path: &str) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(Box::new(Buffer { path: path.to_owned(), bytes: vec![], of: self.clone() }))
    }
}

/// A record in memory.
struct Buffer {
    path: String,
    bytes: Vec<u8>,
    of: InMemory,
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Buffer {
    fn keep(self: Box<Self>) -> Result<(), Diagnostic> {
        let Buffer { path, bytes, of } = *self;
        of.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path, bytes);
        Ok(())
    }
}
