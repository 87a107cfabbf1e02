//! Crash files: what kbc writes when it panics or finds an error of its own, so that the run can be
//! replayed.
//!
//! The module owns the record of a run (command line, texts, module, stage) and the two files made
//! from it. `kbc-crash.kb` contains the command line and every text that it read; `kbc dev replay`
//! replays it from the start. Once there is a module, `kbc-crash.kir` contains it; `kbc opt`
//! continues from the stage that failed. Data files are not copied, so a replay reads them again.
//!
//! In builds with debug assertions, the variable KBC_FAULT names a stage that panics, so that tests
//! can cause a bug in each stage.

use crate::cli::{Cli, Command, Compile, Run};
use crate::outdir;
use clap::Parser;
pub use kbc_compiler::failure::is_bug;
pub use kbc_compiler::workspace::Stage;
use kbc_ir::Module;
use kbc_ir::text::{self, PrintOptions};
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the file with the module.
const MODULE: &str = "kbc-crash.kir";
/// Name of the file with the texts.
const TEXTS: &str = "kbc-crash.kb";

/// First words of the line of a `.kir` file that a replay reads.
const KIR: &str = "; kbc: ";
/// First words of the lines of a bundle of texts that a replay reads.
const KB: &str = "// kbc: ";

/// Record of the run.
pub struct Record {
    /// The words of the command line.
    pub command: Vec<String>,
    /// Names and contents of the texts that were read.
    pub texts: Vec<(String, Arc<String>)>,
    /// The stage that runs.
    pub stage: Option<Stage>,
    /// The passes that are still to run, and the module before them.
    pub module: Option<(String, Module)>,
    /// Whether later passes have run on the module, which was then too large to be copied.
    pub outdated: bool,
    /// Whether the files were written.
    pub left: bool,
}

/// Record of the process.
static RECORD: Mutex<Record> = Mutex::new(Record::new(vec![]));

thread_local! {
    /// Record of this thread, if it has its own.
    static OWN: RefCell<Option<Arc<Mutex<Record>>>> = const { RefCell::new(None) };
}

/// Calls a function with the record. A panic during the call leaves the record unchanged.
fn record<T>(f: impl FnOnce(&mut Record) -> T) -> T {
    let own = OWN.with_borrow(Clone::clone);
    let record: &Mutex<Record> = own.as_deref().unwrap_or(&RECORD);
    f(&mut record.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the record of a thread, for other threads that work for it.
pub struct Shared(Option<Arc<Mutex<Record>>>);

/// Returns this thread's record.
pub fn share() -> Shared {
    Shared(OWN.with_borrow(Clone::clone))
}

/// Uses the record of the thread for which this one works.
pub fn adopt(of: Shared) {
    OWN.set(of.0);
}

/// Starts the record of a run on this thread, separate from others. `words` is the command line
/// without the program's name.
pub fn begin_separate_record(command: &[String]) {
    OWN.set(Some(Arc::new(Mutex::new(Record::new(command.to_vec())))));
}

/// Starts the record of a run. `words` is the command line without the program's name.
pub fn begin(command: &[String]) {
    record(|r| *r = Record::new(command.to_vec()));
}

/// Records that a text was read.
pub fn read(name: &str, text: &Arc<String>) {
    record(|r| {
        if r.texts.iter().all(|t| t.0 != name) {
            r.texts.push((name.to_owned(), text.clone()));
        }
    });
}

/// Largest number of operations of a schedule that is copied for the record. The copy of a larger
/// one would take a noticeable part of the memory of the run. Passes continue from the last smaller
/// module then, and other stages are replayed with the whole command.
const COPIED: usize = 20_000;

/// Records a module and the passes that are still to run on it.
pub fn module(rest: &str, module: &Module) {
    let too_large = module.schedule().is_some_and(|s| s.operation_count() > COPIED);
    record(|r| {
        r.outdated = too_large;
        if !too_large {
            r.module = Some((rest.to_owned(), module.clone()));
        }
    });
}

/// Records the start of a stage.
///
/// # Panics
/// Panics if KBC_FAULT names the stage, in builds with debug assertions.
pub fn stage(stage: Stage) {
    record(|r| r.stage = Some(stage));
    fault(stage.name());
}

/// Panics if KBC_FAULT names `place` (a stage or a pass), in builds with debug assertions.
pub fn fault(place: &str) {
    let asked = cfg!(debug_assertions) && std::env::var("KBC_FAULT").is_ok_and(|f| f == place);
    assert!(!asked, "asked for by KBC_FAULT");
}

/// Writes the files, once per run. Returns the words for standard error.
pub fn leave() -> String {
    let files = record(|r| {
        if std::mem::replace(&mut r.left, true) {
            return None;
        }
        // A thread whose name is that of a stage is at that stage, whatever the others do.
        r.stage = std::thread::current().name().and_then(Stage::named).or(r.stage);
        let mut files = vec![];
        if let Some(text) = r.of_module() {
            files.push((MODULE, text, format!("`kbc opt {MODULE}` continues from there")));
        }
        if !r.command.is_empty() {
            files.push((TEXTS, r.of_texts(), format!("`kbc dev replay {TEXTS}` replays the whole command")));
        }
        Some(files)
    });
    let Some(files) = files else { return String::new() };
    let mut how = String::new();
    for (name, text, words) in files {
        match outdir::write_here(Path::new(name), text.as_bytes()) {
            Ok(()) => how += &format!("\n  {name}: {words}"),
            Err(d) => how += &format!("\n  {}", d.title),
        }
    }
    if how.is_empty() {
        how = " its input".into();
    }
    let version = env!("CARGO_PKG_VERSION");
    format!("\nThis is a bug in kbc {version}, not in your program. Please report it with{how}\n")
}

/// Installs the panic handler, which writes the files. The exit code is 101.
pub fn install() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        let _ = std::io::Write::write_all(&mut std::io::stderr(), leave().as_bytes());
    }));
}

impl Record {
    /// Creates the record of a new run.
    const fn new(command: Vec<String>) -> Record {
        Record { command, texts: vec![], stage: None, module: None, outdated: false, left: false }
    }

    /// Writes the module and the command that replays it, if a module alone can be replayed.
    pub fn of_module(&self) -> Option<String> {
        let (rest, module) = self.module.as_ref()?;
        let how = match self.stage? {
            stage if self.outdated && stage != Stage::Passes => return None,
            Stage::Passes => format!("opt -p {}", quoted(rest)),
            Stage::Check => "check".into(),
            Stage::Run => self.run_flags(),
            Stage::Time => "run --no-proof --no-data".into(),
            _ => return None,
        };
        Some(format!("{KIR}{how}\n{}{}", self.head(";"), text::print(module, &PrintOptions::default())))
    }

    /// Writes the command line and every text.
    pub fn of_texts(&self) -> String {
        let mut out = format!("{KB}{}\n{}", line(&self.command), self.head("//"));
        for (name, text) in &self.texts {
            let open = !(text.ends_with('\n') || text.is_empty());
            let mark = if open { " without a line end" } else { "" };
            out += &format!("{KB}file {}{mark}\n{text}{}", quoted(name), if open { "\n" } else { "" });
        }
        out
    }

    /// Comment lines for readers.
    fn head(&self, comment: &str) -> String {
        let stage = self.stage.map_or("start", Stage::name);
        // Where passes have run on a module that is not recorded, all of them may be over.
        let recorded = self.module.as_ref().filter(|_| !self.outdated || self.stage == Some(Stage::Passes));
        let passes = recorded.map(|m| m.0.as_str()).filter(|p| !p.is_empty());
        let passes = passes.map_or_else(String::new, |p| format!(", passes still to run: {p}"));
        format!(
            "{comment} kbc {}: kbc {}\n{comment} stage: {stage}{passes}\n",
            env!("CARGO_PKG_VERSION"),
            line(&self.command)
        )
    }

    /// Returns the command that executes the module in the same way.
    fn run_flags(&self) -> String {
        let words = std::iter::once("kbc".to_owned()).chain(self.command.iter().cloned());
        let mut how = "run --no-proof --no-time".to_owned();
        let command = Cli::try_parse_from(words).map(|c| c.command);
        if let Ok(Command::Run(Run { execution: a, .. }) | Command::Compile(Compile { execution: a, .. })) =
            command
        {
            if let Some(engine) = a.data.engine {
                how += &format!(" --engine {}", engine.plain().name());
            }
            how += &format!(" --seed {}", a.seed);
            if a.adversarial {
                how += &format!(" --adversarial --seeds {}", a.seeds);
            }
            if let Some(calls) = a.calls {
                how += &format!(" --calls {calls}");
            }
        }
        how
    }
}

/// Returns words as a line for a shell.
pub fn line(words: &[String]) -> String {
    words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Splits a line into words as a shell does. Returns None if a quote is open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut out, mut word, mut begun) = (vec![], String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' if begun => {
                out.push(std::mem::take(&mut word));
                begun = false;
            }
            ' ' => {}
            '\'' => {
                begun = true;
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            c => {
                begun = true;
                word.push(if c == '\\' { chars.next()? } else { c });
            }
        }
    }
    if begun {
        out.push(word);
    }
    Some(out)
}

/// Returns the command in the first line of a `.kir` text, if it is one that [`leave`] writes.
pub fn command_in_module(text: &str) -> Option<Vec<String>> {
    let verb = |v: &String| ["opt", "check", "run"].contains(&v.as_str());
    words(text.lines().next()?.strip_prefix(KIR)?).filter(|w| w.first().is_some_and(verb))
}

/// A command, and texts with the names of the files for which they stand.
pub type Bundle = (Vec<String>, Vec<(String, String)>);

/// Parses a bundle of texts that [`leave`] wrote. Returns None for another form.
pub fn bundle(text: &str) -> Option<Bundle> {
    let mut lines = text.split_inclusive('\n');
    let command = words(lines.next()?.trim_end().strip_prefix(KB)?)?;
    let mut texts: Vec<(String, String, bool)> = vec![];
    for line in lines {
        match (line.strip_prefix(KB).and_then(|l| l.strip_prefix("file ")), texts.last_mut()) {
            (Some(rest), _) => {
                let rest = rest.trim_end();
                let name = rest.strip_suffix(" without a line end");
                texts.push((words(name.unwrap_or(rest))?.pop()?, String::new(), name.is_some()));
            }
            (None, Some((_, text, _))) => text.push_str(line),
            (None, None) => {}
        }
    }
    let whole = |(name, mut text, open): (String, String, bool)| {
        if open && text.ends_with('\n') {
            text.pop();
        }
        (name, text)
    };
    Some((command, texts.into_iter().map(whole).collect()))
}
