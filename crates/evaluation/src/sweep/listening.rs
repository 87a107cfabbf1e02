//! Listening: an environment that keeps messages and takes the digest of every file that is read.

use kbc_compiler::entries::Entries;
use kbc_compiler::workspace::{Environment, PathKind, Stage};
use kbc_diag::{Diagnostics, SourceMap};
use kbc_ir::Module;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes the digest of a file's content.
pub type Digest = fn(&[u8]) -> String;

/// An environment around another one.
pub struct Listening {
    inner: Arc<dyn Environment>,
    digest: Digest,
    heard: Mutex<Vec<String>>,
    files: Mutex<BTreeMap<String, String>>,
}

impl Listening {
    /// Listens to what goes to `inner`.
    pub fn new(inner: Arc<dyn Environment>, digest: Digest) -> Self {
        Listening { inner, digest, heard: Mutex::default(), files: Mutex::default() }
    }

    /// Returns the messages kept since the last time.
    pub fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the files that were read, with their digests.
    pub fn touched(&self) -> BTreeMap<String, String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, path: &str, bytes: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        let bytes = bytes?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(path.to_owned(), (self.digest)(&bytes));
        Ok(bytes)
    }
}

impl Environment for Listening {
    fn text(&self, path: &str) -> io::Result<Vec<u8>> {
        let bytes = self.inner.text(path);
        if path == "-" { bytes } else { self.note(path, bytes) }
    }

    fn data(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.note(&path.to_string_lossy(), self.inner.data(path))
    }

    fn same_file(&self, a: &Path, b: &Path) -> Option<bool> {
        self.inner.same_file(a, b)
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        self.inner.kind(path)
    }

    fn entries(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.entries(folder)
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        self.inner.absolute(path)
    }

    fn messages(&self, list: &Diagnostics, map: &SourceMap) {
        let lines = self.inner.lines(list, map);
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    fn lines(&self, list: &Diagnostics, map: &SourceMap) -> Vec<String> {
        self.inner.lines(list, map)
    }

    fn memory(&self) -> Option<u64> {
        self.inner.memory()
    }

    fn cache(&self) -> Option<&dyn Entries> {
        self.inner.cache()
    }

    fn stage(&self, stage: Stage) {
        self.inner.stage(stage);
    }

    fn was_read(&self, name: &str, text: &Arc<String>) {
        self.inner.was_read(name, text);
    }

    fn module(&self, rest: &str, module: &Module) {
        self.inner.module(rest, module);
    }

    fn pass(&self, name: &str) {
        self.inner.pass(name);
    }

    fn thread(&self) -> Box<dyn FnOnce() + Send> {
        self.inner.thread()
    }

    fn begin_separate_record(&self, command: &[String]) {
        self.inner.begin_separate_record(command);
    }
}
