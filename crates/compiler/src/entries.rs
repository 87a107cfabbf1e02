//! Entries: what kbc keeps from one run to another, found by a key.
//!
//! A [`Key`] is a digest of everything that the content follows from. Whoever surrounds the
//! compilation keeps the entries ([`Entries`]), as files for example.
//!
//! The first line of an entry has the form of its content, its key, and a digest of key and
//! content. An entry is used only if they match.

use kbc_diag::Diagnostic;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Keeps entries by their keys.
pub trait Entries: Send + Sync {
    /// Returns an entry as it was kept; `None` if there is none.
    fn load(&self, key: &str) -> Option<Vec<u8>>;

    /// Keeps an entry, all of it or nothing. One that cannot be kept is computed again another
    /// time.
    fn keep(&self, key: &str, entry: &[u8]);

    /// Names an entry in messages.
    fn name(&self, key: &str) -> String;

    /// Names all entries together in messages.
    fn place(&self) -> String;
}

/// A key under construction from words. Different lists of words give different keys.
pub struct Key {
    of: blake3::Hasher,
}

impl Key {
    /// Creates a key for a form of content, with its version: `kbc sweep cache 3`.
    pub fn new(form: &'static str) -> Key {
        let mut key = Key { of: blake3::Hasher::new() };
        key.word(form);
        key
    }

    /// Adds a word.
    pub fn word(&mut self, w: &str) {
        self.of.update(&(w.len() as u64).to_le_bytes());
        self.of.update(w.as_bytes());
    }

    /// Returns the key in hexadecimal.
    pub fn hex(&self) -> String {
        self.of.finalize().to_hex().to_string()
    }

    /// Returns the first line of an entry of this form.
    fn head(form: &'static str, key: &str, content: &[u8]) -> String {
        let mut sum = Key::new(form);
        sum.word(key);
        sum.of.update(content);
        format!("{form} {key} {}\n", sum.hex())
    }
}

/// What the entry of a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeptEntry<T> {
    /// There is none.
    Missing,
    /// There is one, and it is not what was kept.
    Damaged,
    /// The content.
    Found(T),
}

/// Returns the content of the entry with a key.
pub fn load<T: DeserializeOwned>(entries: &dyn Entries, form: &'static str, key: &str) -> KeptEntry<T> {
    let Some(bytes) = entries.load(key) else { return KeptEntry::Missing };
    content(form, key, &bytes)
        .and_then(|c| serde_json::from_slice(c).ok())
        .map_or(KeptEntry::Damaged, KeptEntry::Found)
}

/// Keeps a value as the content of the entry with a key.
pub fn keep<T: Serialize>(entries: &dyn Entries, form: &'static str, key: &str, value: &T) {
    let Ok(text) = serde_json::to_vec(value) else { return };
    entries.keep(key, &[Key::head(form, key, &text).as_bytes(), &text].concat());
}

/// Returns the content of an entry, if its first line matches key and content.
fn content<'b>(form: &'static str, key: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let end = bytes.iter().position(|b| *b == b'\n')? + 1;
    let (first, content) = bytes.split_at(end);
    (first == Key::head(form, key, content).as_bytes()).then_some(content)
}

/// Returns a warning about damaged entries, if there are some. `done` says what kbc did about them.
pub fn damaged(entries: &dyn Entries, keys: &[String], done: &str) -> Option<Diagnostic> {
    let first = entries.name(keys.first()?);
    let (n, were) = (keys.len(), if keys.len() == 1 { "entry was" } else { "entries were" });
    let title = format!("{n} {were} damaged in the cache {}", entries.place());
    Some(Diagnostic::warning("E592", title).note(format!("the first one: {first}")).note(done.to_owned()))
}
