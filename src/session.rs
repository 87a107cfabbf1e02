//! Session: a run of kbc. It is the only place that reads files, looks at the terminal and writes
//! to it.

use crate::cache;
use crate::checkout;
use crate::cli::{Cli, ColorChoice, DiagnosticFormat, Format, messages};
use crate::confine;
use crate::crash;
use crate::memory_limit;
use crate::outdir::written;
use kbc_compiler::entries::Entries;
pub use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::workspace::{Environment, PathKind, Stage, Workspace};
pub use kbc_compiler::workspace::{named, words};
use kbc_diag::{Diagnostic, Diagnostics, Severity, SourceMap, escape_controls, render};
use kbc_ir::Module;
use serde::Serialize;
use std::io::{IsTerminal, Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of messages shown to people; later messages are mostly consequences of earlier
/// ones.
const MAX_MESSAGES: usize = 24;

/// A workspace with a terminal.
pub struct Session {
    workspace: Workspace,
    terminal: Arc<Terminal>,
    format: Format,
}

/// The terminal and the files of the system, as the environment of workspaces.
pub struct Terminal {
    format: DiagnosticFormat,
    color: bool,
    quiet: bool,
    /// What is kept from one run to another; `None` if nothing is.
    cache: Option<cache::Folder>,
    /// The options that say so.
    cache_options: Vec<String>,
    /// Why a write to standard output failed.
    lost: Mutex<Option<Diagnostic>>,
    /// The JSON of the command, until its end is known.
    json: Mutex<Json>,
}

/// The JSON of a command.
#[derive(Default)]
enum Json {
    /// There is none yet.
    #[default]
    Missing,
    /// It is printed at the end, with the failure if there is one.
    Kept(String),
    /// An artefact has taken standard output.
    Displaced,
}

impl Deref for Session {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}

impl From<Session> for Workspace {
    fn from(session: Session) -> Workspace {
        session.workspace
    }
}

impl Session {
    /// Creates a session according to the command line.
    pub fn new(cli: &Cli) -> Self {
        let color = match cli.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        let terminal = Arc::new(Terminal {
            format: cli.diagnostics,
            color,
            quiet: cli.quiet,
            cache: cache::folder(cli.cache.as_deref(), cli.no_cache),
            cache_options: match &cli.cache {
                _ if cli.no_cache => vec!["--no-cache".to_owned()],
                Some(folder) => vec!["--cache".to_owned(), folder.clone()],
                None => vec![],
            },
            lost: Mutex::default(),
            json: Mutex::default(),
        });
        Session { workspace: Workspace::new(terminal.clone()), terminal, format: cli.format }
    }

    /// Creates a session on the same terminal that has read nothing. Its texts stand for the files
    /// with their names.
    pub fn fresh(&self, texts: Vec<(String, String)>) -> Self {
        let (terminal, format) = (self.terminal.clone(), self.format);
        Session { workspace: self.workspace.fresh(texts), terminal, format }
    }

    /// Creates a session on the same terminal that has read nothing, in another environment. Texts
    /// that stand for files are those of this one.
    pub fn within(&self, environment: Arc<dyn Environment>) -> Self {
        let (terminal, format) = (self.terminal.clone(), self.format);
        Session { workspace: self.workspace.within(environment), terminal, format }
    }

    /// The same, with results in another form.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Session { format, ..self }
    }

    /// Returns the form of results.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Checks whether results are JSON.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Checks whether only results, warnings and errors are to be printed.
    pub fn is_quiet(&self) -> bool {
        self.terminal.quiet
    }

    /// Returns the folder of what is kept from one run to another. None with `--no-cache`, and in a
    /// replay.
    pub fn cache_folder(&self) -> Option<cache::Folder> {
        self.terminal.kept_entries().cloned()
    }

    /// Returns the options of the command line that name this folder.
    pub fn cache_options(&self) -> Vec<String> {
        self.terminal.cache_options.clone()
    }

    /// Prints text for people on standard error (dumps, timings).
    pub fn print_note(&self, text: &str) {
        self::write_stderr(text);
    }

    /// Prints a result on standard output, including JSON. Control characters of names and texts
    /// are escaped.
    pub fn result(&self, text: &str) {
        self.output(&escape_controls(text));
    }

    /// Makes a value the JSON of the command, one line on standard output. It is printed by
    /// [`Session::end`], which adds the failure.
    ///
    /// # Errors
    /// E991: it has no form as JSON, which is an error of kbc.
    pub fn json(&self, found: &impl Serialize) -> Result<(), Diagnostic> {
        let text = serde_json::to_string(found)
            .map_err(|e| Diagnostic::error("E991", format!("the report cannot be written: {e}")))?;
        *self.kept() = Json::Kept(text);
        Ok(())
    }

    /// Prints a result for people, or makes a value the JSON of the command.
    ///
    /// # Errors
    /// As [`Session::json`].
    pub fn answer(&self, human: &str, json: &impl Serialize) -> Result<(), Diagnostic> {
        match human {
            _ if self.is_json() => self.json(json)?,
            "" => {}
            _ => self.result(human),
        }
        Ok(())
    }

    /// Prints a text that only people need, if results are not JSON.
    pub fn tell(&self, human: &str) {
        if !self.is_json() {
            self.result(human);
        }
    }

    /// Prints the JSON of the command. A failure is added to it as `failure`; without another
    /// result it is printed alone. Lists and lines of JSON stay as they are.
    pub fn end(&self, failure: Option<&Failure>) {
        let kept = std::mem::take(&mut *self.kept());
        match (kept, failure) {
            (Json::Kept(text), None) => self.result(&text),
            (Json::Kept(text), Some(failure)) => {
                match text.strip_suffix('}').filter(|head| head.starts_with("{\"")) {
                    Some(head) => {
                        let failure = failure.json(&self.map);
                        self.result(&format!("{head},\"failure\":{failure}}}"));
                    }
                    None => self.result(&text),
                }
            }
            (Json::Missing, Some(failure)) if self.is_json() => {
                self.result(&messages::failed(failure, &self.map));
            }
            (Json::Missing | Json::Displaced, _) => {}
        }
    }

    fn kept(&self) -> MutexGuard<'_, Json> {
        self.terminal.json.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a text for programs on standard output, byte by byte; on a terminal its control
    /// characters are escaped.
    pub fn print_artefact(&self, text: &str) {
        *self.kept() = Json::Displaced;
        if std::io::stdout().is_terminal() { self.result(text) } else { self.output(text) }
    }

    fn output(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        let done =
            out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
        if let Err(d) = written(done) {
            let mut lost = self.terminal.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert(d);
        }
    }

    /// Checks whether all results were written.
    ///
    /// # Errors
    /// Returns E410 if a write to standard output failed and it is not a closed pipe.
    pub fn complete(&self) -> Result<(), Diagnostic> {
        self.terminal.lost.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// Prints text for people on standard error.
pub fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(escape_controls(text).as_bytes());
}

impl Terminal {
    /// What is kept from one run to another. A replay writes nothing into folders of the user.
    fn kept_entries(&self) -> Option<&cache::Folder> {
        self.cache.as_ref().filter(|_| !confine::is_on())
    }
}

impl Environment for Terminal {
    fn text(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "-" => read_all(&mut std::io::stdin(), vec![], MAX_TEXT),
            path => read_all(&mut std::fs::File::open(path)?, vec![], MAX_TEXT),
        }
    }

    fn data(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        file(path)
    }

    fn remedy(&self, path: &Path) -> Option<String> {
        checkout::remedy(path)
    }

    fn same_file(&self, a: &Path, b: &Path) -> Option<bool> {
        Some(a.canonicalize().ok()? == b.canonicalize().ok()?)
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        let found = std::fs::metadata(path).ok()?;
        match (found.is_file(), found.is_dir()) {
            (true, _) => Some(PathKind::File),
            (_, true) => Some(PathKind::Folder),
            _ => None,
        }
    }

    fn entries(&self, folder: &Path) -> std::io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect()
    }

    fn absolute(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn messages(&self, list: &Diagnostics, map: &SourceMap) {
        for text in self.lines(list, map) {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    fn lines(&self, list: &Diagnostics, map: &SourceMap) -> Vec<String> {
        let all = list.clone().finish();
        let most = if self.format == DiagnosticFormat::Human { MAX_MESSAGES } else { usize::MAX };
        let more = all.list.len().saturating_sub(most);
        let shown = all.list.into_iter().take(most);
        let shown = shown.filter(|d| !(self.quiet && d.severity == Severity::Note));
        let mut out: Vec<String> = shown
            .map(|d| {
                let text = match self.format {
                    DiagnosticFormat::Human => render::human(&d, map, self.color),
                    DiagnosticFormat::Short => render::short(&d, map),
                    DiagnosticFormat::Json => render::json(&d, map),
                };
                text.trim_end().to_owned()
            })
            .collect();
        if more > 0 {
            out.push(format!("... and {more} more messages"));
        }
        out
    }

    fn progress(&self, what: &str) {
        if !self.quiet && std::io::stderr().is_terminal() {
            let _ = writeln!(std::io::stderr(), "kbc: {}", escape_controls(what));
        }
    }

    fn memory(&self) -> Option<u64> {
        memory_limit::limit()
    }

    fn cache(&self) -> Option<&dyn Entries> {
        self.kept_entries().map(|folder| folder as &dyn Entries)
    }

    fn stage(&self, stage: Stage) {
        crash::stage(stage);
    }

    fn was_read(&self, name: &str, text: &Arc<String>) {
        crash::read(name, text);
    }

    fn module(&self, rest: &str, module: &Module) {
        crash::module(rest, module);
    }

    fn pass(&self, name: &str) {
        crash::fault(name);
    }

    fn thread(&self) -> Box<dyn FnOnce() + Send> {
        let shared = crash::share();
        Box::new(move || crash::adopt(shared))
    }

    fn begin_separate_record(&self, command: &[String]) {
        crash::begin_separate_record(command);
    }
}

/// Reads a whole data file, as far as memory allows.
fn file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let most = memory_limit::limit().unwrap_or(u64::MAX);
    // A file tells its size, so that its bytes are not moved while it is read.
    let size = file.metadata().map_or(0, |m| m.len()).min(most).min(MAX_TEXT);
    read_all(&mut file, Vec::with_capacity(usize::try_from(size).unwrap_or(0)), most)
}

/// Largest size of a text in bytes, because a position in it is a 32-bit number.
const MAX_TEXT: u64 = 1 << 30;

/// Reads everything into a list, unless it is more than `most` bytes or has no end (`/dev/zero`).
fn read_all(from: &mut impl Read, mut all: Vec<u8>, most: u64) -> std::io::Result<Vec<u8>> {
    from.take(most.saturating_add(1)).read_to_end(&mut all)?;
    match all.len() as u64 > most {
        true => Err(std::io::Error::other(format!("it has more than {most} bytes"))),
        false => Ok(all),
    }
}
