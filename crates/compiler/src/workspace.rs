//! Workspace: the texts and data of a compilation, and the environment that it runs in.
//!
//! A workspace reads no file and prints nothing by itself. Texts that it was given stand for files;
//! everything else it asks of its [`Environment`], which by default has no files and hears nothing.

use crate::entries::Entries;
use crate::report::TorchReport;
use kbc_diag::{Diagnostic, Diagnostics, FileId, SourceMap, Span, Text};
use kbc_frontend::load::Sources;
use kbc_ir::Module;
use kbc_machine::topology::Topology;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A stage of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Reading and parsing.
    Read,
    /// From the tree to a graph.
    Lower,
    /// In the passes.
    Passes,
    /// Proving.
    Check,
    /// Executing.
    Run,
    /// Evaluating the single-device result.
    Evaluate,
    /// Timing.
    Time,
    /// Writing artefacts.
    Emit,
    /// Writing the report.
    Report,
}

impl Stage {
    /// All of them, in the order of a run.
    pub const ALL: [Stage; 9] = [
        Stage::Read,
        Stage::Lower,
        Stage::Passes,
        Stage::Check,
        Stage::Run,
        Stage::Evaluate,
        Stage::Time,
        Stage::Emit,
        Stage::Report,
    ];

    /// Its name, one word.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Read => "read",
            Stage::Lower => "lower",
            Stage::Passes => "passes",
            Stage::Check => "check",
            Stage::Run => "run",
            Stage::Evaluate => "evaluate",
            Stage::Time => "time",
            Stage::Emit => "emit",
            Stage::Report => "report",
        }
    }

    /// The stage of that name.
    pub fn named(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathKind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// What surrounds a compilation: files, messages, progress, the limit of memory, and a record of
/// the stages for the case of a crash. Each method has a default that does without it.
pub trait Environment: Send + Sync {
    /// Reads a text; `-` is standard input.
    ///
    /// # Errors
    /// The reason that no text can be read.
    fn text(&self, path: &str) -> io::Result<Vec<u8>> {
        let _ = path;
        Err(io::Error::other("no text has this name"))
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// The reason that no data can be read.
    fn data(&self, path: &Path) -> io::Result<Vec<u8>> {
        let _ = path;
        Err(io::Error::other("no data has this name"))
    }

    /// What a user can do about a file that does not exist, if there is something to say.
    fn remedy(&self, path: &Path) -> Option<String> {
        let _ = path;
        None
    }

    /// Whether two paths lead to one file; `None` if one of them leads to none.
    fn same_file(&self, a: &Path, b: &Path) -> Option<bool> {
        let _ = (a, b);
        None
    }

    /// Says whether a path leads to a file or to a folder; `None` if it leads to neither.
    fn kind(&self, path: &Path) -> Option<PathKind> {
        let _ = path;
        None
    }

    /// Lists the paths in a folder, in any order.
    ///
    /// # Errors
    /// The reason that it cannot be listed.
    fn entries(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let _ = folder;
        Err(io::Error::other("there are no folders"))
    }

    /// Returns a path without links; `None` if it leads nowhere.
    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// Hears warnings and notes about the texts of `map`.
    fn messages(&self, list: &Diagnostics, map: &SourceMap) {
        let _ = (list, map);
    }

    /// Formats messages about the texts of `map`, as [`Environment::messages`] shows them.
    fn lines(&self, list: &Diagnostics, map: &SourceMap) -> Vec<String> {
        list.list.iter().map(|d| kbc_diag::render::short(d, map)).collect()
    }

    /// Receives a description of the next step in a few words.
    fn progress(&self, what: &str) {
        let _ = what;
    }

    /// Bytes that a run may take; `None` if there is no limit.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Returns what is kept from one run to another; `None` if nothing is.
    fn cache(&self) -> Option<&dyn Entries> {
        None
    }

    /// Notes that a stage begins.
    fn stage(&self, stage: Stage) {
        let _ = stage;
    }

    /// Notes that a text was read.
    fn was_read(&self, name: &str, text: &Arc<String>) {
        let _ = (name, text);
    }

    /// Notes the module, with the passes that are still to run on it.
    fn module(&self, rest: &str, module: &Module) {
        let _ = (rest, module);
    }

    /// Notes that a pass begins.
    fn pass(&self, name: &str) {
        let _ = name;
    }

    /// Returns a function that a thread working for this one must call first.
    fn thread(&self) -> Box<dyn FnOnce() + Send> {
        Box::new(|| {})
    }

    /// Begins a run on this thread whose record is apart from those of other threads; `command` are
    /// the words that repeat it.
    fn begin_separate_record(&self, command: &[String]) {
        let _ = command;
    }
}

/// An environment without files that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyEnvironment;

impl Environment for EmptyEnvironment {}

/// An environment whose messages and progress nobody hears.
struct SilentEnvironment(Arc<dyn Environment>);

impl Environment for SilentEnvironment {
    fn text(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.text(path)
    }

    fn data(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.data(path)
    }

    fn remedy(&self, path: &Path) -> Option<String> {
        self.0.remedy(path)
    }

    fn same_file(&self, a: &Path, b: &Path) -> Option<bool> {
        self.0.same_file(a, b)
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        self.0.kind(path)
    }

    fn entries(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.entries(folder)
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        self.0.absolute(path)
    }

    fn memory(&self) -> Option<u64> {
        self.0.memory()
    }

    fn cache(&self) -> Option<&dyn Entries> {
        self.0.cache()
    }

    fn was_read(&self, name: &str, text: &Arc<String>) {
        self.0.was_read(name, text);
    }

    fn thread(&self) -> Box<dyn FnOnce() + Send> {
        self.0.thread()
    }
}

/// A run that follows a compilation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextRun {
    /// Number of calls.
    pub calls: u32,
    /// Seed of generated inputs.
    pub seed: u64,
}

/// The state of a compilation.
pub struct Workspace {
    /// All texts.
    pub map: SourceMap,
    /// Paths of the texts that came from files, by id.
    pub paths: Vec<Option<PathBuf>>,
    /// Data for inputs, as `NAME=FILE[:KEY]`: shapes of data bind sizes of the program.
    pub inputs: Vec<String>,
    /// The run that follows, if the program is compiled to be executed.
    pub next_run: Option<NextRun>,
    /// What was found out about the PyTorch programs that the compiled text stands for.
    pub torch: Vec<TorchReport>,
    /// What surrounds it.
    pub environment: Arc<dyn Environment>,
    /// Texts that stand for files, by their paths.
    texts: BTreeMap<PathBuf, String>,
    /// Data that stands for files, by their paths.
    data: BTreeMap<PathBuf, Vec<u8>>,
    /// Machines that were parsed, with their computed facts; shared by all workspaces that were
    /// made from this one.
    machines: Arc<Mutex<Vec<Topology>>>,
}

/// Number of machines that are kept.
const MACHINES: usize = 32;

impl Default for Workspace {
    fn default() -> Self {
        Workspace::new(Arc::new(EmptyEnvironment))
    }
}

impl Workspace {
    /// Creates a workspace in an environment.
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Workspace {
            map: SourceMap::default(),
            paths: vec![],
            inputs: vec![],
            next_run: None,
            torch: vec![],
            environment,
            texts: BTreeMap::new(),
            data: BTreeMap::new(),
            machines: Arc::default(),
        }
    }

    /// Returns a workspace that reads the same data files, for another thread; None if data stands
    /// for files here.
    pub(crate) fn reader(&self) -> Option<Workspace> {
        let same = Workspace::new(Arc::clone(&self.environment));
        self.data.is_empty().then(|| Workspace { paths: self.paths.clone(), ..same })
    }

    /// Returns the machine. An equal machine that was parsed before comes with its computed facts.
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

    /// Creates a workspace in the same environment that has read nothing. The texts stand for the
    /// files of their names.
    pub fn fresh(&self, texts: Vec<(String, String)>) -> Self {
        Workspace {
            texts: texts.into_iter().map(|(name, text)| (plain(Path::new(&name)), text)).collect(),
            machines: self.machines.clone(),
            ..Workspace::new(self.environment.clone())
        }
    }

    /// Creates a workspace that has read nothing, in another environment. Texts and data that stand
    /// for files are those of this one.
    pub fn within(&self, environment: Arc<dyn Environment>) -> Self {
        Workspace { environment, texts: self.texts.clone(), data: self.data.clone(), ..self.fresh(vec![]) }
    }

    /// Creates a workspace that has read nothing, and whose warnings nobody hears: for a look at a
    /// program that is compiled afterwards.
    pub fn silent(&self) -> Self {
        self.within(Arc::new(SilentEnvironment(self.environment.clone())))
    }

    /// Lets a text stand for the file of that name from now on.
    pub fn give(&mut self, name: &str, text: &str) {
        self.texts.insert(plain(Path::new(name)), text.to_owned());
    }

    /// Lets data stand for the file of that name from now on.
    pub fn give_bytes(&mut self, name: &Path, bytes: Vec<u8>) {
        self.data.insert(plain(name), bytes);
    }

    /// Adds a text that comes from no file, such as an option.
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
        let bytes = match self.texts.get(&plain(Path::new(path))) {
            Some(text) => text.clone().into_bytes(),
            None if path == "-" => self.environment.text(path).map_err(|e| cannot(e.to_string()))?,
            None => self.environment.text(path).map_err(|e| self.unread(Path::new(path), &e))?,
        };
        let text = String::from_utf8(bytes)
            .map_err(|e| cannot(format!("byte {} is not UTF-8 text", e.utf8_error().valid_up_to())))?;
        if path == "-" {
            // Standard input is there once, and a verb may look at its file twice.
            self.texts.insert(PathBuf::from("-"), text.clone());
        }
        let text = Arc::new(text);
        self.environment.was_read(path, &text);
        self.paths.push((path != "-").then(|| PathBuf::from(path)));
        Ok((self.map.add(path, text.clone()), text))
    }

    /// Reads the data of a file, or the data that replaces it.
    ///
    /// # Errors
    /// Returns E412 if it cannot be read.
    pub fn bytes(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        match self.data.get(&plain(path)) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.environment.data(path).map_err(|e| self.unread(path, &e)),
        }
    }

    /// Returns E412 about a file that cannot be read, with what a user can do about it.
    pub fn unread(&self, path: &Path, e: &io::Error) -> Diagnostic {
        let error = Diagnostic::error("E412", format!("cannot read {}: {}", path.display(), words(e)));
        let missing = e.kind() == io::ErrorKind::NotFound;
        match missing.then(|| self.environment.remedy(path)).flatten() {
            Some(help) => error.help(help),
            None => error,
        }
    }

    /// Whether a path leads to a folder.
    pub fn is_folder(&self, path: &Path) -> bool {
        self.environment.kind(path) == Some(PathKind::Folder)
    }

    /// Whether a path leads to a file, or to what stands for one.
    pub fn is_file(&self, path: &Path) -> bool {
        let plain = plain(path);
        self.texts.contains_key(&plain)
            || self.data.contains_key(&plain)
            || self.environment.kind(path) == Some(PathKind::File)
    }

    /// Returns a path that is written in a text, relative to the file of that text.
    pub fn beside(&self, file: FileId, path: &str) -> PathBuf {
        match self.paths.get(file.0 as usize).and_then(Option::as_ref).and_then(|p| p.parent()) {
            Some(dir) => dir.join(path),
            None => PathBuf::from(path),
        }
    }

    /// Returns the text at a place; empty if there is none.
    pub fn quote(&self, span: Span) -> String {
        let of = self.map.get(span.file).and_then(|f| f.text.get(span.start as usize..span.end as usize));
        of.unwrap_or("").to_owned()
    }

    /// Returns the name of the text that has a place.
    pub fn name_of(&self, span: Span) -> String {
        self.map.get(span.file).map_or_else(String::new, |f| f.name.to_string())
    }

    /// Passes warnings and notes on to the environment.
    pub fn report(&self, list: &Diagnostics) {
        self.environment.messages(list, &self.map);
    }

    /// Reports the next step to the environment.
    pub fn progress(&self, what: &str) {
        self.environment.progress(what);
    }

    /// Notes that a stage begins.
    pub fn stage(&self, stage: Stage) {
        self.environment.stage(stage);
    }
}

impl Sources for Workspace {
    fn builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.paths.push(None);
        self.map.add_builtin(name, text)
    }

    fn open(&mut self, from: FileId, path: &str) -> Result<(FileId, String), Diagnostic> {
        let full = self.beside(from, path);
        // One file has one id, by whatever path it is named.
        let same =
            |p: &PathBuf| self.environment.same_file(p, &full).unwrap_or_else(|| plain(p) == plain(&full));
        let known = self.paths.iter().position(|p| p.as_ref().is_some_and(same)).map(|i| FileId(i as u32));
        if let Some(id) = known
            && let Some(file) = self.map.get(id)
        {
            return Ok((id, file.text.to_string()));
        }
        self.read(&full.to_string_lossy()).map(|(id, text)| (id, text.to_string()))
    }
}

/// Returns a path without `.` and, where that is possible, without `..`.
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

/// Describes an IO error without the number of the operating system.
pub fn words(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder".into(),
        io::ErrorKind::NotADirectory => "a part of the path is a file, not a folder".into(),
        _ => {
            let text = e.to_string();
            match e.raw_os_error() {
                Some(_) => text.split(" (os error").next().unwrap_or(&text).to_lowercase(),
                None => text,
            }
        }
    }
}

/// Returns the path of a file that was found in a folder, as texts and messages name it.
///
/// # Errors
/// Returns an error if it is not UTF-8, because no text could name it.
pub fn named(path: &Path) -> io::Result<String> {
    let wrong = || io::Error::other(format!("the name of {path:?} is not UTF-8: rename the file"));
    path.to_str().map(str::to_owned).ok_or_else(wrong)
}
