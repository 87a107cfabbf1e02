//! Output folders: written completely or not at all, and never over files of somebody else.
//!
//! A folder is written beside its destination and then renamed. It contains a manifest with the
//! checksum of every file. An existing folder is replaced only if its manifest shows that no file
//! was added, edited or removed by hand.

use crate::confine;
use kbc_compiler::workspace::words;
use kbc_diag::Diagnostic;
use kbc_views::record::{Sink, Sinks};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the manifest.
pub const MANIFEST: &str = ".kbc-manifest";
/// First line of a manifest.
const HEADER: &str = "kbc manifest 1";
/// Folders that Python and pytest leave where a package runs.
const PYTHON_CACHES: [&str; 2] = ["__pycache__", ".pytest_cache"];

/// Returns E410 about a path.
pub fn failure(path: &Path, what: &str, e: &io::Error) -> Diagnostic {
    let why = match e.kind() {
        io::ErrorKind::NotFound => "the folder does not exist".to_owned(),
        _ => words(e),
    };
    Diagnostic::error("E410", format!("cannot {what} {}: {why}", path.display()))
}

/// Returns the path to write to: the given one, or one in the folder of a replay.
fn placed(path: &Path) -> Result<PathBuf, Diagnostic> {
    confine::placed(path).map_err(|e| failure(path, "write", &e))
}

/// Creates a folder for files that will be written, with its parents. A long computation calls this
/// before it begins. Returns E410 if that is not possible.
pub fn folder(path: &Path) -> Result<(), Diagnostic> {
    let place = placed(path)?;
    std::fs::create_dir_all(place).map_err(|e| failure(path, "write", &e))
}

/// Writes a file beside its destination and renames it. If that fails, no temporary file remains.
fn exchange(path: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Diagnostic> {
    let temporary = sibling(path, "new");
    let done = fill(&temporary).and_then(|()| fs::rename(&temporary, path));
    done.map_err(|e| {
        // The message about the first failure matters; the rest is only our own temporary file.
        let _ = fs::remove_file(&temporary);
        failure(path, "write", &e)
    })
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x} {}", crc32fast::hash(bytes), bytes.len())
}

/// Writes `files` (name, content) as the folder `dir`, and replaces what kbc wrote there before.
///
/// # Errors
/// Returns E410 if the folder cannot be written. Returns E411 if it contains something that kbc did
/// not write, or that was edited, and `force` is not set; nothing is changed then.
pub fn write(dir: &Path, files: &[(String, Vec<u8>)], force: bool) -> Result<(), Diagnostic> {
    let dir = &placed(dir)?;
    if !force {
        untouched(dir)?;
    } else if dir.is_file() {
        return Err(Diagnostic::error("E411", format!("{} is a file, not a folder", dir.display())));
    }
    let temporary = sibling(dir, "new");
    let result = fill(dir, &temporary, files).and_then(|()| replace(dir, &temporary));
    if result.is_err() {
        // The message about the first failure matters; the rest is only our own temporary folder.
        let _ = fs::remove_dir_all(&temporary);
    }
    result
}

fn sibling(dir: &Path, suffix: &str) -> PathBuf {
    let name = dir.file_name().map_or_else(|| "out".into(), |n| n.to_string_lossy().into_owned());
    dir.with_file_name(format!(".{name}.kbc-{suffix}"))
}

/// Writes the files and the manifest into the new folder `dir`. Messages name `shown`, its
/// destination.
fn fill(shown: &Path, dir: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Diagnostic> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(|e| failure(shown, "replace", &e))?;
    }
    fs::create_dir_all(dir).map_err(|e| failure(shown, "create", &e))?;
    let mut manifest = format!("{HEADER}\n");
    let sorted: BTreeMap<&str, &[u8]> = files.iter().map(|(n, b)| (n.as_str(), &b[..])).collect();
    for (name, bytes) in sorted {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| failure(shown, "write", &e))?;
        }
        fs::write(&path, bytes).map_err(|e| failure(shown, "write", &e))?;
        manifest += &format!("{} {name}\n", checksum(bytes));
    }
    let path = dir.join(MANIFEST);
    fs::write(&path, manifest).map_err(|e| failure(shown, "write", &e))
}

fn replace(dir: &Path, temporary: &Path) -> Result<(), Diagnostic> {
    if !dir.exists() {
        return fs::rename(temporary, dir).map_err(|e| failure(dir, "create", &e));
    }
    let old = sibling(dir, "old");
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|e| failure(&old, "remove", &e))?;
    }
    fs::rename(dir, &old).map_err(|e| failure(dir, "replace", &e))?;
    if let Err(e) = fs::rename(temporary, dir) {
        let _ = fs::rename(&old, dir);
        return Err(failure(dir, "replace", &e));
    }
    fs::remove_dir_all(&old).map_err(|e| failure(&old, "remove", &e))
}

/// Checks whether `dir` may be replaced: it does not exist, is empty, or is exactly what its
/// manifest states.
fn untouched(dir: &Path) -> Result<(), Diagnostic> {
    if !dir.exists() {
        return Ok(());
    }
    let refuse = |why: String| {
        Err(Diagnostic::error("E411", format!("kbc does not replace {}: {why}", dir.display()))
            .help("choose another folder, or write --force"))
    };
    if !dir.is_dir() {
        return refuse("it is a file".into());
    }
    let mut present = BTreeMap::new();
    collect(dir, Path::new(""), &mut present).map_err(|e| failure(dir, "read", &e))?;
    let Some(manifest) = present.remove(MANIFEST) else {
        return if present.is_empty() { Ok(()) } else { refuse("kbc did not write it".into()) };
    };
    let text = String::from_utf8_lossy(&manifest).into_owned();
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return refuse("its manifest is not from kbc".into());
    }
    let mut listed = BTreeMap::new();
    for line in lines {
        let mut words = line.splitn(3, ' ');
        if let (Some(sum), Some(len), Some(name)) = (words.next(), words.next(), words.next()) {
            listed.insert(name.to_owned(), format!("{sum} {len}"));
        }
    }
    for (name, bytes) in &present {
        match listed.remove(name) {
            None => return refuse(format!("it contains {name}, which kbc did not write")),
            Some(sum) if sum != checksum(bytes) => return refuse(format!("{name} was edited")),
            Some(_) => {}
        }
    }
    match listed.keys().next() {
        Some(name) => refuse(format!("{name} was removed")),
        None => Ok(()),
    }
}

fn collect(dir: &Path, prefix: &Path, out: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = prefix.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            // A package that was run has caches of Python beside its files.
            if !PYTHON_CACHES.iter().any(|cache| entry.file_name() == *cache) {
                collect(&entry.path(), &name, out)?;
            }
        } else {
            out.insert(name.to_string_lossy().into_owned(), fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// Rewrites an existing file, completely or not at all. If the path is a link, its target is
/// written. The permissions are kept.
///
/// # Errors
/// Returns E410 if it cannot be written.
pub fn rewrite(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    if confine::is_on() {
        return write_file(path, bytes);
    }
    let fail = |e: io::Error| failure(path, "write", &e);
    let place = fs::canonicalize(path).map_err(fail)?;
    let permissions = fs::metadata(&place).map_err(fail)?.permissions();
    if permissions.readonly() {
        return Err(failure(path, "write", &io::ErrorKind::PermissionDenied.into()));
    }
    exchange(&place, |temporary| {
        fs::write(temporary, bytes)?;
        fs::set_permissions(temporary, permissions)
    })
}

/// A file that is written beside its destination. It is moved there when it is kept, and removed
/// otherwise.
pub struct Draft {
    path: PathBuf,
    temporary: PathBuf,
    file: io::BufWriter<fs::File>,
    kept: bool,
}

impl Draft {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// Returns E410 if it cannot be created.
    pub fn new(path: &Path) -> Result<Draft, Diagnostic> {
        let path = &placed(path)?;
        let temporary = if is_device(path) { path.to_owned() } else { sibling(path, "new") };
        let file = fs::File::create(&temporary).map_err(|e| failure(path, "write", &e))?;
        Ok(Draft { path: path.to_owned(), temporary, file: io::BufWriter::new(file), kept: false })
    }

    /// Moves the file to its destination.
    ///
    /// # Errors
    /// Returns E410 if it cannot be written.
    pub fn keep(mut self) -> Result<(), Diagnostic> {
        self.file.flush().map_err(|e| failure(&self.path, "write", &e))?;
        if self.temporary != self.path {
            fs::rename(&self.temporary, &self.path).map_err(|e| failure(&self.path, "write", &e))?;
        }
        self.kept = true;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept && self.temporary != self.path {
            // Only our own temporary file remains.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

impl Sink for Draft {
    fn keep(self: Box<Self>) -> Result<(), Diagnostic> {
        Draft::keep(*self)
    }
}

/// Standard output, for a record that replaces the report.
struct Output(io::BufWriter<io::Stdout>);

/// A closed pipe is no error: the reader has stopped reading.
fn unless_closed<T>(done: io::Result<T>, closed: T) -> io::Result<T> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(closed),
        other => other,
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

impl Sink for Output {
    fn keep(mut self: Box<Self>) -> Result<(), Diagnostic> {
        written(self.flush())
    }
}

/// Records of runs as files, or on standard output.
#[derive(Clone, Copy, Debug)]
pub struct Records;

impl Sinks for Records {
    fn open(&self, path: &str) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(match path {
            "-" => Box::new(Output(io::BufWriter::new(io::stdout()))),
            path => Box::new(Draft::new(Path::new(path))?),
        })
    }

    fn failure(&self, path: &str, e: &io::Error) -> Diagnostic {
        match path {
            "-" => not_written(e),
            path => failure(Path::new(path), "write", e),
        }
    }
}

/// Returns how a write to standard output ended. A closed pipe is not an error: nobody reads on.
///
/// # Errors
/// E410
pub fn written(done: io::Result<()>) -> Result<(), Diagnostic> {
    match done {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(not_written(&e)),
        _ => Ok(()),
    }
}

/// E410: why standard output took not all of a result.
pub fn not_written(e: &io::Error) -> Diagnostic {
    Diagnostic::error("E410", format!("cannot write standard output: {}", words(e)))
}

/// Checks whether a path is a device or a pipe, which is written to and never replaced.
pub fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Writes one file: beside its destination, then renamed. A device or a pipe (`/dev/null`) is
/// written directly.
///
/// # Errors
/// Returns E410 if it cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    write_here(&placed(path)?, bytes)
}

/// Writes one file like [`write_file`], also in a replay at the given path. For names that kbc
/// chooses itself.
///
/// # Errors
/// Returns E410 if it cannot be written.
pub fn write_here(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    if is_device(path) {
        return fs::write(path, bytes).map_err(|e| failure(path, "write", &e));
    }
    exchange(path, |temporary| fs::write(temporary, bytes))
}
