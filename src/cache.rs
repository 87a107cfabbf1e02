//! The cache: a folder with what kbc keeps from one run to another, a file for each entry.
//!
//! Entries are written to a temporary file and renamed, so that an interrupted run leaves only
//! complete ones.

use kbc_compiler::entries::Entries;
use kbc_compiler::workspace::words;
use kbc_diag::Diagnostic;
use kbc_evaluation::sweep::cache::{Cache, RowEntries};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns the folder of `--cache`, else that of the variable `KBC_CACHE`, else `kbc` in the user's
/// cache folder. Returns `None` with `--no-cache`, and without a home folder.
pub fn folder(given: Option<&str>, no_cache: bool) -> Option<Folder> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = given
        .map(PathBuf::from)
        .or_else(|| named("KBC_CACHE"))
        .or_else(|| named("XDG_CACHE_HOME").map(|d| d.join("kbc")))
        .or_else(|| named("HOME").map(|d| d.join(".cache").join("kbc")));
    folder.filter(|_| !no_cache).map(Folder)
}

/// Checks whether files can be written to a folder that the command line names. It is created.
///
/// # Errors
/// Returns E410 if they cannot.
pub fn check(folder: &str) -> Result<(), Diagnostic> {
    let made = fs::create_dir_all(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder));
    made.map(drop).map_err(|e| {
        Diagnostic::error("E410", format!("cannot write to {folder}: {}", words(&e)))
            .help("--cache names another folder, and --no-cache none")
    })
}

/// Opens the rows of sweeps in a folder. Returns `None` if kbc cannot read its own executable.
pub fn open(folder: Folder) -> Option<Cache> {
    // The executable is mapped, because reading one with line tables takes a tenth of a second.
    let mut kbc = blake3::Hasher::new();
    kbc.update_mmap(std::env::current_exe().ok()?).ok()?;
    Some(Cache::new(Box::new(folder), kbc.finalize().to_hex().to_string()))
}

/// A folder with entries.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    fn path(&self, key: &str) -> Option<PathBuf> {
        // The key may come from an entry, so it is checked.
        let (a, b) = key.split_at_checked(2).filter(|_| key.bytes().all(|b| b.is_ascii_hexdigit()))?;
        Some(self.0.join(a).join(format!("{b}.json")))
    }
}

impl Entries for Folder {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        // Only regular files are read: a pipe or a device may never end.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        fs::read(path).ok()
    }

    fn keep(&self, key: &str, entry: &[u8]) {
        let Some(path) = self.path(key) else { return };
        let Some(dir) = path.parent() else { return };
        let is_new = !self.0.exists();
        let kept = fs::create_dir_all(dir).and_then(|()| {
            let mut new = tempfile::NamedTempFile::new_in(dir)?;
            new.write_all(entry)?;
            new.persist(&path).map_err(|e| e.error)
        });
        // On a full disk, no empty folders stay. A folder that has entries is not removed.
        if kept.is_err() && fs::remove_dir(dir).is_ok() && is_new {
            let _ = fs::remove_dir(&self.0);
        }
    }

    fn name(&self, key: &str) -> String {
        self.path(key).map_or_else(|| key.to_owned(), |p| p.display().to_string())
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}

impl RowEntries for Folder {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(Path::new(path)).ok()
    }
}
