//! What is kept of rows: files in a folder, found by what the row was made from.
//!
//! Two kinds. An *answer* is a row's facts; its key is a digest of what they follow from: canonical `.kir`, typed program,
//! machine and data files, and kbc itself. A *question* is what was asked for, with the digest of every file that was read for
//! it and the key that came of it: with it an answer is found without compiling. Entries are written beside their place and
//! renamed, so that a kill leaves whole ones. A folder that cannot be written is no error: nothing is kept then.
//!
//! The first line of an entry has its key and a digest of key and content. An entry that is not what its first line says
//! is not believed: its row is computed again, and the run says so.

use super::grid::{Point, Program};
use super::row::Facts;
use crate::analyse;
use crate::confine;
use crate::measure::Ready;
use crate::session::Session;
use kbc_diag::Diagnostic;
use kbc_ir::text::{PrintOptions, print};
use kbc_ir::{Body, Module};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Version of entries; it is a part of every key.
const FORM: &str = "kbc sweep cache 2";

/// A digest in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A folder of rows.
pub struct Cache {
    folder: PathBuf,
    /// Digest of the executable.
    kbc: String,
    /// Digests of files that were looked at in this run.
    files: Mutex<BTreeMap<String, Option<String>>>,
    /// Keys of entries that were not what they say.
    damaged: Mutex<BTreeSet<String>>,
}

/// What was asked for, and what came of it.
#[derive(Serialize, Deserialize)]
struct Question {
    /// Files that were read for it, with their digests.
    files: Vec<(String, String)>,
    /// The key of the answer.
    answer: String,
}

/// A key as it is put together of words, no two lists of which make the same.
struct Key(blake3::Hasher);

impl Key {
    /// One of this form of entries and this kbc.
    fn new(kbc: &str) -> Key {
        let mut key = Key(blake3::Hasher::new());
        key.word(FORM);
        key.word(kbc);
        key
    }

    fn word(&mut self, w: &str) {
        self.0.update(&(w.len() as u64).to_le_bytes());
        self.0.update(w.as_bytes());
    }

    fn hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// The first line of an entry.
fn head(key: &str, content: &[u8]) -> String {
    let mut sum = Key(blake3::Hasher::new());
    sum.word(FORM);
    sum.word(key);
    sum.0.update(content);
    format!("{FORM} {key} {}\n", sum.hex())
}

/// The content of the entry with a key, if its first line is that of both.
fn content<'b>(key: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let end = bytes.iter().position(|b| *b == b'\n')? + 1;
    let (first, content) = bytes.split_at(end);
    (first == head(key, content).as_bytes()).then_some(content)
}

/// The folder if nothing is said: that of `KBC_CACHE`, else `kbc` in the user's folder of caches; none without a home.
pub fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    named("KBC_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|d| d.join("kbc")))
        .or_else(|| named("HOME").map(|d| d.join(".cache").join("kbc")))
}

impl Cache {
    /// The cache of a folder; none if kbc cannot read itself, and none in a replay, which leaves nothing in folders of others.
    pub fn open(folder: PathBuf) -> Option<Cache> {
        if confine::is_on() {
            return None;
        }
        let kbc = digest(&fs::read(std::env::current_exe().ok()?).ok()?);
        Some(Cache { folder, kbc, files: Mutex::default(), damaged: Mutex::default() })
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        // A key may come from an entry.
        let (a, b) = key.split_at_checked(2).filter(|_| key.bytes().all(|b| b.is_ascii_hexdigit()))?;
        Some(self.folder.join(a).join(format!("{b}.json")))
    }

    fn load<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let path = self.path(key)?;
        // Nothing but a file is read: a pipe or a device may never end.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let found = content(key, &bytes).and_then(|c| serde_json::from_slice(c).ok());
        if found.is_none() {
            self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        }
        found
    }

    fn keep<T: Serialize>(&self, key: &str, value: &T) {
        let Some(path) = self.path(key) else { return };
        let Some(dir) = path.parent() else { return };
        let Ok(text) = serde_json::to_vec(value) else { return };
        // One that fails is done again another time.
        let _ = fs::create_dir_all(dir)
            .and_then(|()| {
                let mut new = tempfile::NamedTempFile::new_in(dir)?;
                std::io::Write::write_all(&mut new, head(key, &text).as_bytes())?;
                std::io::Write::write_all(&mut new, &text)?;
                new.persist(&path).map_err(|e| e.error)
            })
            .map(drop);
    }

    /// What is to be said of entries that were not what they say, since the last time.
    pub fn damaged(&self) -> Option<Diagnostic> {
        let keys = std::mem::take(&mut *self.damaged.lock().unwrap_or_else(PoisonError::into_inner));
        let first = self.path(keys.first()?)?;
        let (n, were) = (keys.len(), if keys.len() == 1 { "entry was" } else { "entries were" });
        let title = format!("{n} {were} damaged in the cache {}", self.folder.display());
        Some(
            Diagnostic::warning("E592", title)
                .note(format!("the first one: {}", first.display()))
                .note("what they were about was computed again, and they were written anew"),
        )
    }

    /// The key of what a row asks for. `sweep` is the path of its file, which paths are relative to.
    pub fn question(&self, sweep: &str, point: &Point) -> String {
        let mut key = Key::new(&self.kbc);
        let mut word = |w: &str| key.word(w);
        word(sweep);
        match &point.program {
            Program::File(f) => ["file", f].map(&mut word),
            Program::Text(t) => ["text", t].map(&mut word),
            Program::Ccl(f) => ["ccl", f].map(&mut word),
        };
        for option in [&point.named, &point.topology] {
            word(option.as_ref().map_or("none", |_| "some"));
            word(option.as_deref().unwrap_or(""));
        }
        for list in [&point.set, &point.define, &point.using] {
            word(&list.len().to_string());
            list.iter().for_each(|w| word(w));
        }
        key.hex()
    }

    fn of_file(&self, path: &str) -> Option<String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.entry(path.to_owned());
        known.or_insert_with(|| fs::read(Path::new(path)).ok().map(|b| digest(&b))).clone()
    }

    /// What is known of a question, if every file that was read for it is as it was.
    pub fn known(&self, question: &str) -> Option<Facts> {
        let q: Question = self.load(question)?;
        let same = q.files.iter().all(|(path, digest)| self.of_file(path).as_ref() == Some(digest));
        if same { self.load(&q.answer) } else { None }
    }

    /// What is known of a schedule.
    pub fn answered(&self, answer: &str) -> Option<Facts> {
        self.load(answer)
    }

    /// The key of what a row follows from. A program's text is in its typed program; machine and data files count as they are.
    pub fn answer(&self, session: &Session, ready: &Ready) -> String {
        let mut key = Key::new(&self.kbc);
        let mut word = |w: &str| key.word(w);
        let options = PrintOptions::default();
        word(&print(ready.module(), &options));
        if let Ready::Program(built) = ready {
            let typed = Body::Graph(built.typed.clone());
            word(&print(&Module { body: typed, ..built.module.clone() }, &options));
            if let Some(local) = &built.local {
                word(&print(&Module { body: Body::Local(local.clone()), ..built.module.clone() }, &options));
            }
            word(&format!("{:?}", built.placements));
            // A schedule is the same whether somebody asked for its algorithm; the row says which.
            word(&format!("{:?}", analyse::asked(built)));
        }
        word(&ready.topology().to_string());
        for (path, digest) in session.touched() {
            if !path.ends_with(".kb") && !path.ends_with(".kir") {
                word(&digest);
            }
        }
        key.hex()
    }

    /// Keeps what a row found under its own key, and that key under what was asked for.
    pub fn put(&self, session: &Session, question: &str, answer: &str, facts: &Facts) {
        self.keep(answer, facts);
        self.link(session, question, answer);
    }

    /// Keeps the way from what was asked for to an answer that is there.
    pub fn link(&self, session: &Session, question: &str, answer: &str) {
        self.keep(
            question,
            &Question { files: session.touched().into_iter().collect(), answer: answer.to_owned() },
        );
    }
}
