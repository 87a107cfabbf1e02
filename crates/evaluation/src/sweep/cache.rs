//! The cache of sweep rows: entries that are found by what a row was made from.
//!
//! There are two kinds of entries.
//!
//! * An *answer* holds a row's facts. Its key is a digest of everything that determines them:
//!   canonical `.kir`, typed program, machine and data files, and the executable of kbc.
//! * A *question* holds the digest of every file that was read for a request, and the key of the
//!   answer. It leads to the answer without compiling.
//!
//! The caller keeps the entries ([`RowEntries`]). If it cannot, nothing is cached and there is no
//! error.
//!
//! If an entry is damaged, its row is computed again, and the run prints a warning (E592).

use super::request::{RowProgram, RowRequest};
use super::row::Facts;
use kbc_compiler::analyse;
use kbc_compiler::entries::{self, Entries, KeptEntry, Key};
use kbc_compiler::measure::MeasuredSchedule;
use kbc_diag::Diagnostic;
use kbc_ir::text::{PrintOptions, print};
use kbc_ir::{Body, Module};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Version of the format of entries, which is a part of every key.
const FORM: &str = "kbc sweep cache 3";

/// Returns a digest in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Keeps entries, and reads the files that rows were made from.
pub trait RowEntries: Entries {
    /// Returns the content of a file; `None` if it cannot be read.
    fn file(&self, path: &str) -> Option<Vec<u8>>;
}

/// Cached rows.
pub struct Cache {
    entries: Box<dyn RowEntries>,
    /// Digest of the executable.
    kbc: String,
    /// Digests of the files that were read in this run.
    files: Mutex<BTreeMap<String, Option<String>>>,
    /// Keys of damaged entries.
    damaged: Mutex<BTreeSet<String>>,
}

/// The content of a question.
#[derive(Serialize, Deserialize)]
struct Question {
    /// Files that were read for it, with their digests.
    files: Vec<(String, String)>,
    /// The key of the answer.
    answer: String,
}

impl Cache {
    /// Creates a cache over entries. `kbc` is the digest of the executable: rows of another one are
    /// not found, because it may compute something else.
    pub fn new(entries: Box<dyn RowEntries>, kbc: String) -> Cache {
        Cache { entries, kbc, files: Mutex::default(), damaged: Mutex::default() }
    }

    fn load<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        match entries::load(&*self.entries, FORM, key) {
            KeptEntry::Missing => None,
            KeptEntry::Damaged => {
                self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
                None
            }
            KeptEntry::Found(value) => Some(value),
        }
    }

    fn keep<T: Serialize>(&self, key: &str, value: &T) {
        entries::keep(&*self.entries, FORM, key, value);
    }

    /// Begins a key of this kbc.
    fn key(&self) -> Key {
        let mut key = Key::new(FORM);
        key.word(&self.kbc);
        key
    }

    /// Returns a warning about the damaged entries found since the last call.
    pub fn damaged(&self) -> Option<Diagnostic> {
        let keys = std::mem::take(&mut *self.damaged.lock().unwrap_or_else(PoisonError::into_inner));
        let keys: Vec<String> = keys.into_iter().collect();
        entries::damaged(&*self.entries, &keys, "kbc computed these rows again and rewrote the entries")
    }

    /// Returns the key of a row's request. `sweep` is the path of the sweep file, to which other
    /// paths are relative.
    pub fn question(&self, sweep: &str, point: &RowRequest) -> String {
        let mut key = self.key();
        let mut word = |w: &str| key.word(w);
        word(sweep);
        match &point.program {
            RowProgram::File(f) => ["file", f].map(&mut word),
            RowProgram::Text(t) => ["text", t].map(&mut word),
            RowProgram::Ccl(f) => ["ccl", f].map(&mut word),
        };
        for (flag, values) in point.of.flags() {
            word(flag);
            word(&values.len().to_string());
            values.iter().for_each(|w| word(w));
        }
        key.hex()
    }

    fn of_file(&self, path: &str) -> Option<String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.entry(path.to_owned());
        known.or_insert_with(|| self.entries.file(path).map(|b| digest(&b))).clone()
    }

    /// Returns the facts for a question, if every file that was read for it is unchanged.
    pub fn known(&self, question: &str) -> Option<Facts> {
        let q: Question = self.load(question)?;
        let same = q.files.iter().all(|(path, digest)| self.of_file(path).as_ref() == Some(digest));
        if same { self.load(&q.answer) } else { None }
    }

    /// Returns the facts for an answer's key.
    pub fn answered(&self, answer: &str) -> Option<Facts> {
        self.load(answer)
    }

    /// Returns the key of a row's answer. A program's text is covered by its typed program; machine
    /// and data files count with their contents.
    pub fn answer(&self, files: &BTreeMap<String, String>, ready: &MeasuredSchedule) -> String {
        let mut key = self.key();
        let mut word = |w: &str| key.word(w);
        let options = PrintOptions::default();
        word(&print(ready.module(), &options));
        if let MeasuredSchedule::Program(built) = ready {
            let typed = Body::Graph(built.typed.clone());
            word(&print(&Module { body: typed, ..built.module.clone() }, &options));
            if let Some(local) = &built.local {
                word(&print(&Module { body: Body::Local(local.clone()), ..built.module.clone() }, &options));
            }
            word(&format!("{:?}", built.placements));
            // The schedule does not show whether its algorithm was named or selected, but the row
            // does.
            word(&format!("{:?}", analyse::names_algorithm(built)));
        }
        word(&ready.topology().to_string());
        for (path, digest) in files {
            if !path.ends_with(".kb") && !path.ends_with(".kir") {
                word(digest);
            }
        }
        key.hex()
    }

    /// Stores the facts of a row under the key of the answer, and that key under the question.
    pub fn put(&self, files: &BTreeMap<String, String>, question: &str, answer: &str, facts: &Facts) {
        self.keep(answer, facts);
        self.link(files, question, answer);
    }

    /// Stores a question that leads to an existing answer.
    pub fn link(&self, files: &BTreeMap<String, String>, question: &str, answer: &str) {
        self.keep(
            question,
            &Question { files: files.clone().into_iter().collect(), answer: answer.to_owned() },
        );
    }
}
