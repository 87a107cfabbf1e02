//! A run of kbc: the only place that reads files, looks at the terminal and writes to it.

use crate::cli::{Cli, ColorChoice, DiagnosticFormat};
use crate::crash;
use crate::room;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, SourceMap, Text, render, visible};
use kbc_frontend::load::Sources;
use kbc_machine::topology::Topology;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a command ended early, with its exit code.
#[derive(Debug)]
pub enum Failure {
    /// The input is wrong: exit code 1.
    Program(Diagnostics),
    /// Wrong usage, or a file that cannot be read or written: exit code 2.
    Usage(Diagnostics),
    /// kbc contradicts itself: exit code 101, as for a panic.
    Bug(Diagnostics),
}

impl Failure {
    /// Its messages and the exit code of the process.
    pub fn into_parts(self) -> (Diagnostics, u8) {
        match self {
            Failure::Program(d) => (d, 1),
            Failure::Usage(d) => (d, 2),
            Failure::Bug(d) => (d, 101),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(d: Diagnostics) -> Self {
        // Files and folders (E41x), values on the command line (E42x), and `-p` (E902 to E904).
        let usage = |code: &str| {
            code.starts_with("E41") || code.starts_with("E42") || ("E902"..="E904").contains(&code)
        };
        if crate::crash::is_bug(&d) {
            return Failure::Bug(d);
        }
        let mut errors = d.list.iter().filter(|d| d.severity == Severity::Error).peekable();
        if errors.peek().is_some() && errors.all(|d| usage(d.code)) {
            Failure::Usage(d)
        } else {
            Failure::Program(d)
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Self {
        Diagnostics::from(d).into()
    }
}

/// What a command yields.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Messages shown to people at once; what comes after is mostly the consequence of what came before.
const MOST: usize = 24;

/// State of a run.
pub struct Session {
    /// All texts.
    pub map: SourceMap,
    /// Paths of those that came from files, by id.
    pub paths: Vec<Option<PathBuf>>,
    format: DiagnosticFormat,
    color: bool,
    quiet: bool,
    /// Texts that stand for files, by their paths.
    given: BTreeMap<PathBuf, String>,
    /// Data that stands for files, by their paths.
    data: BTreeMap<PathBuf, Vec<u8>>,
    /// What `--input` says: shapes of data bind sizes of the program.
    pub inputs: Vec<String>,
    /// What was found out about the PyTorch programs that the text which is compiled stands for.
    pub torch: Vec<crate::report::TorchReport>,
    /// Where messages go instead of standard error.
    heard: Option<Mutex<Vec<String>>>,
    /// Machines that were seen, with what was found out about them; shared by the sessions made of this one.
    machines: Arc<Mutex<Vec<Topology>>>,
    /// Digests of data files that were read, where somebody wants to know.
    touched: Option<Touched>,
    /// Why a write to standard output failed; shared by the sessions made of this one.
    lost: Arc<Mutex<Option<Diagnostic>>>,
}

/// Machines that are kept.
const MACHINES: usize = 32;

/// Data files that were read, with a digest each.
struct Touched {
    digest: fn(&[u8]) -> String,
    files: Mutex<BTreeMap<String, String>>,
}

impl Session {
    /// As the command line says.
    pub fn new(cli: &Cli) -> Self {
        let color = match cli.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        Session {
            map: SourceMap::default(),
            paths: vec![],
            format: cli.diagnostics,
            color,
            quiet: cli.quiet,
            given: BTreeMap::new(),
            data: BTreeMap::new(),
            inputs: vec![],
            torch: vec![],
            heard: None,
            machines: Arc::default(),
            touched: None,
            lost: Arc::default(),
        }
    }

    /// The machine; where an equal one was seen before that one, with what was found out about it.
    pub fn machine(&self, topology: Topology) -> Topology {
        let mut seen = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = seen.iter().find(|t| **t == topology) {
            return same.clone();
        }
        if seen.len() == MACHINES {
            seen.remove(0);
        }
        seen.push(topology.clone());
        topology
    }

    /// One that writes as this one does and has read nothing; the texts stand for the files of their names.
    pub fn fresh(&self, texts: Vec<(String, String)>) -> Self {
        Session {
            map: SourceMap::default(),
            paths: vec![],
            inputs: vec![],
            torch: vec![],
            given: texts.into_iter().map(|(name, text)| (plain(Path::new(&name)), text)).collect(),
            data: BTreeMap::new(),
            heard: None,
            machines: self.machines.clone(),
            touched: None,
            lost: self.lost.clone(),
            ..*self
        }
    }

    /// One that has read nothing, keeps its messages for [`Session::heard`], and takes the digest of what it reads.
    pub fn listening(&self, digest: fn(&[u8]) -> String) -> Self {
        Session {
            heard: Some(Mutex::default()),
            touched: Some(Touched { digest, files: Mutex::default() }),
            ..self.fresh(vec![])
        }
    }

    /// The messages kept since the last time.
    pub fn heard(&self) -> Vec<String> {
        let list = self.heard.as_ref().map(|h| h.lock().unwrap_or_else(PoisonError::into_inner));
        list.map_or_else(Vec::new, |mut l| std::mem::take(&mut *l))
    }

    /// Files read with their digests: texts that no given text stands for, and data.
    pub fn touched(&self) -> BTreeMap<String, String> {
        let Some(t) = &self.touched else { return BTreeMap::new() };
        let mut out = t.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (i, path) in self.paths.iter().enumerate() {
            let Some(path) = path.as_ref().filter(|p| !self.given.contains_key(&plain(p))) else { continue };
            if let Some(file) = self.map.get(FileId(i as u32)) {
                out.insert(path.to_string_lossy().into_owned(), (t.digest)(file.text.as_bytes()));
            }
        }
        out
    }

    /// A text that stands for the file of that name from now on.
    pub fn give(&mut self, name: &str, text: &str) {
        self.given.insert(plain(Path::new(name)), text.to_owned());
    }

    /// Data that stands for the file of that name from now on.
    pub fn give_bytes(&mut self, name: &Path, bytes: Vec<u8>) {
        self.data.insert(plain(name), bytes);
    }

    /// Adds a text that comes from no file (a command-line argument).
    pub fn add_text(&mut self, name: &str, text: impl Into<Text>) -> FileId {
        self.paths.push(None);
        self.map.add(name, text)
    }

    /// Reads a text; `-` is standard input.
    ///
    /// # Errors
    /// E412: it cannot be read, or is not UTF-8.
    pub fn read(&mut self, path: &str) -> Result<(FileId, Arc<String>), Diagnostic> {
        let cannot = |why: String| Diagnostic::error("E412", format!("cannot read {path}: {why}"));
        let bytes = if let Some(text) = self.given.get(&plain(Path::new(path))) {
            text.clone().into_bytes()
        } else if path == "-" {
            whole(&mut std::io::stdin(), MOST_TEXT).map_err(|e| cannot(e.to_string()))?
        } else {
            let mut file = std::fs::File::open(path).map_err(|e| cannot(words(&e)))?;
            whole(&mut file, MOST_TEXT).map_err(|e| cannot(words(&e)))?
        };
        let text = String::from_utf8(bytes)
            .map_err(|e| cannot(format!("byte {} is not UTF-8 text", e.utf8_error().valid_up_to())))?;
        if path == "-" {
            // Standard input is there once, and a verb may look at its file twice.
            self.given.insert(PathBuf::from("-"), text.clone());
        }
        let text = Arc::new(text);
        crash::read(path, &text);
        self.paths.push((path != "-").then(|| PathBuf::from(path)));
        Ok((self.map.add(path, text.clone()), text))
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// E412: it cannot be read.
    pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Diagnostic> {
        std::fs::File::open(path)
            .and_then(|mut file| whole(&mut file, room::limit().unwrap_or(u64::MAX)))
            .map_err(|e| Diagnostic::error("E412", format!("cannot read {}: {}", path.display(), words(&e))))
    }

    /// Data of a file, or what stands for it.
    ///
    /// # Errors
    /// E412: it cannot be read.
    pub fn bytes(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        match self.data.get(&plain(path)) {
            Some(bytes) => Ok(bytes.clone()),
            None => {
                let bytes = Self::read_bytes(path)?;
                if let Some(t) = &self.touched {
                    let mut files = t.files.lock().unwrap_or_else(PoisonError::into_inner);
                    files.insert(path.to_string_lossy().into_owned(), (t.digest)(&bytes));
                }
                Ok(bytes)
            }
        }
    }

    /// A path written in a file, relative to that file.
    pub fn beside(&self, file: FileId, path: &str) -> PathBuf {
        match self.paths.get(file.0 as usize).and_then(Option::as_ref).and_then(|p| p.parent()) {
            Some(dir) => dir.join(path),
            None => PathBuf::from(path),
        }
    }

    /// Writes messages to standard error.
    pub fn tell(&self, list: &Diagnostics) {
        let say = |text: &str| match &self.heard {
            Some(h) => h.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned()),
            None => {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        };
        let all = list.clone().finish();
        let most = if self.format == DiagnosticFormat::Human { MOST } else { usize::MAX };
        let more = all.list.len().saturating_sub(most);
        for d in all.list.into_iter().take(most) {
            if self.quiet && d.severity == Severity::Note {
                continue;
            }
            let text = match self.format {
                DiagnosticFormat::Human => render::human(&d, &self.map, self.color),
                DiagnosticFormat::Short => render::short(&d, &self.map),
                DiagnosticFormat::Json => render::json(&d, &self.map),
            };
            say(text.trim_end());
        }
        if more > 0 {
            say(&format!("... and {more} more messages"));
        }
    }

    /// Whether only results, warnings and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Progress for people: on a terminal only.
    pub fn progress(&self, what: &str) {
        if !self.quiet && self.heard.is_none() && std::io::stderr().is_terminal() {
            let _ = writeln!(std::io::stderr(), "kbc: {}", visible(what));
        }
    }

    /// Words for people on standard error (dumps, timings).
    pub fn words(&self, text: &str) {
        let _ = std::io::stderr().write_all(visible(text).as_bytes());
    }

    /// Words of a result on standard output, JSON among them. Control characters of names and texts are shown as text.
    pub fn result(&self, text: &str) {
        self.output(&visible(text));
    }

    /// A text for programs on standard output, byte by byte; on a terminal its control characters are shown as text.
    pub fn artefact(&self, text: &str) {
        if std::io::stdout().is_terminal() { self.result(text) } else { self.output(text) }
    }

    fn output(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        let done =
            out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
        if let Err(d) = written(done) {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert(d);
        }
    }

    /// Whether all results came out.
    ///
    /// # Errors
    /// E410: standard output took not all of them, and is no closed pipe.
    pub fn complete(&self) -> Result<(), Diagnostic> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// How a write to standard output ended. A closed pipe is no error: nobody reads on.
///
/// # Errors
/// E410
pub fn written(done: std::io::Result<()>) -> Result<(), Diagnostic> {
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error("E410", format!("cannot write standard output: {}", words(&e))))
        }
        _ => Ok(()),
    }
}

impl Sources for Session {
    fn builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.paths.push(None);
        self.map.add_builtin(name, text)
    }

    fn open(&mut self, from: FileId, path: &str) -> Result<(FileId, String), Diagnostic> {
        let full = self.beside(from, path);
        // One file has one id, by whatever path it is named.
        let same = |p: &PathBuf| match (p.canonicalize(), full.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => plain(p) == plain(&full),
        };
        let known = self.paths.iter().position(|p| p.as_ref().is_some_and(same)).map(|i| FileId(i as u32));
        if let Some(id) = known
            && let Some(file) = self.map.get(id)
        {
            return Ok((id, file.text.to_string()));
        }
        self.read(&full.to_string_lossy()).map(|(id, text)| (id, text.to_string()))
    }
}

/// Bytes of a text at most: a place in it is a number of 32 bits.
const MOST_TEXT: u64 = 1 << 30;

/// All that is there, unless it is more than `most` bytes or has no end (`/dev/zero`).
fn whole(from: &mut impl Read, most: u64) -> std::io::Result<Vec<u8>> {
    let mut all = vec![];
    from.take(most.saturating_add(1)).read_to_end(&mut all)?;
    match all.len() as u64 > most {
        true => Err(std::io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(all),
    }
}

/// A path without `.` and, where that is possible, without `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The path of a file that was found in a folder, as texts and messages name it.
///
/// # Errors
/// It is not UTF-8, which every text is that could name the file.
pub fn named(path: &Path) -> std::io::Result<String> {
    let wrong = || std::io::Error::other(format!("the name of {path:?} is not UTF-8: rename the file"));
    path.to_str().map(str::to_owned).ok_or_else(wrong)
}

/// An IO error without the number of the operating system.
pub fn words(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a folder".into(),
        std::io::ErrorKind::NotADirectory => "a part of the path is a file".into(),
        _ => {
            let text = e.to_string();
            match e.raw_os_error() {
                Some(_) => text.split(" (os error").next().unwrap_or(&text).to_lowercase(),
                None => text,
            }
        }
    }
}
