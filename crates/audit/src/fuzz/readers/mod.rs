//! Fuzzer of file readers: damages files for everything that reads one. No reader may panic, take
//! long, or reject a file without a message and its location.
//!
//! This module owns the readers and what is required of them. [`damage`] owns the changes, and
//! [`examples`] the files to change. Everything depends only on the examples, a seed and a number.

pub mod damage;
pub mod examples;

use super::rng::Rng;
use examples::Example;
use kbc_compiler::backends;
use kbc_compiler::failure::is_bug;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, codes};
use kbc_evaluation::{published, repro, sweep};
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_frontend::machine;
use kbc_import::{msccl, torch};
use kbc_machine::topology::Topology;
use kbc_numerics::formats::{self, Conversion};
use kbc_tiles::tile;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A reader of files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reader {
    /// Programs, algorithms, kernels: `.kb`.
    Kb,
    /// Graphs and schedules: `.kir`.
    Kir,
    /// Kernels of the tile level: `.tile`.
    Tile,
    /// All YAML: machines of all tools, perturbations, collectives, sweeps, the list of regenerated
    /// files, published figures.
    Yaml,
    /// The shape of a machine on the command line.
    Shape,
    /// Schedules of MSCCL: `.xml`.
    Xml,
    /// Programs and groups of PyTorch: `.json`.
    Json,
    /// Printed programs of PyTorch: `.txt`, `.py`.
    Printed,
    /// Archived programs of PyTorch: `.pt2`.
    Archive,
    /// Arrays: `.npy`.
    Npy,
    /// Arrays: `.npz`.
    Npz,
    /// Tensors: `.safetensors`.
    Safetensors,
    /// The file that a crash leaves.
    Replay,
}

// `Replay` is the last one.
const _: () = assert!(Reader::ALL.len() == Reader::Replay as usize + 1);

impl Reader {
    /// All readers.
    pub const ALL: [Reader; 13] = [
        Reader::Kb,
        Reader::Kir,
        Reader::Tile,
        Reader::Yaml,
        Reader::Shape,
        Reader::Xml,
        Reader::Json,
        Reader::Printed,
        Reader::Archive,
        Reader::Npy,
        Reader::Npz,
        Reader::Safetensors,
        Reader::Replay,
    ];

    /// Returns the endings of its files; the first is that of the files that are made.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Reader::Kb => &["kb"],
            Reader::Kir => &["kir"],
            Reader::Tile => &["tile"],
            Reader::Yaml => &["yaml", "yml"],
            Reader::Xml => &["xml"],
            Reader::Json => &["json"],
            Reader::Printed => &["txt", "py"],
            Reader::Archive => &["pt2"],
            Reader::Npy => &["npy"],
            Reader::Npz => &["npz"],
            Reader::Safetensors => &["safetensors"],
            // Their texts are in no file of their own.
            Reader::Shape | Reader::Replay => &[],
        }
    }

    /// Returns the ending of files that are made for it.
    pub fn ending(self) -> &'static str {
        match self {
            Reader::Shape => "txt",
            Reader::Replay => "kb",
            other => other.endings().first().copied().unwrap_or("txt"),
        }
    }

    /// Returns the reader of files with that ending.
    pub fn of(ending: &str) -> Option<Reader> {
        Reader::ALL.into_iter().find(|r| r.endings().contains(&ending))
    }

    /// Checks whether it reads binary files.
    pub fn is_binary(self) -> bool {
        matches!(self, Reader::Archive | Reader::Npy | Reader::Npz | Reader::Safetensors)
    }
}

/// Largest time for one file; processor time where the system provides it.
const MAX_TIME: Duration = Duration::from_secs(5);

/// What readers reported about a file.
#[derive(Default)]
struct ReaderMessages {
    found: Vec<Diagnostic>,
    /// Messages of readers that have no codes.
    words: Vec<String>,
}

impl ReaderMessages {
    fn take<T>(&mut self, result: Result<T, impl Into<Diagnostics>>) -> Option<T> {
        result.map_err(|d| self.found.extend(d.into().list)).ok()
    }
}

const FILE: FileId = FileId(0);

/// What the readers need of the program that runs them.
#[derive(Clone, Copy)]
pub struct With {
    /// Reads the file that a crash leaves, whose format the command line owns.
    pub replay: fn(&str),
    /// The processor time of this thread, or another clock where the system has none.
    pub clock: fn() -> Duration,
}

/// Runs a reader on a file.
fn read(with: With, reader: Reader, bytes: &[u8]) -> ReaderMessages {
    let mut said = ReaderMessages::default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The driver rejects such a file before any reader runs.
        Err(_) if !reader.is_binary() => return said,
        Err(_) => "",
    };
    match reader {
        Reader::Kb => {
            if let Some(loaded) = said.take(super::read(text)) {
                said.take(lower(&loaded, &LowerOptions::default()));
            }
            said.take(kbc_frontend::fmt::format(FILE, text));
        }
        Reader::Kir => {
            if let Some(module) = said.take(kbc_ir::text::parse(FILE, text)) {
                let mut found = kbc_ir::verify::verify(&module);
                for d in &mut found.list {
                    kbc_diag::place_fallback::place_fallback(d, FILE, text);
                }
                said.found.extend(found.list);
            }
            said.take(kbc_ir::text::format(FILE, text));
        }
        Reader::Tile => {
            let target = backends::default_target();
            if let Some(kernel) = said.take(tile::parse::parse(text, FILE, target.dialect())) {
                let problems = tile::verify::problems(&kernel, target);
                let mut found = tile::verify::in_text(&kernel, problems, text, FILE);
                for d in &mut found.list {
                    kbc_diag::place_fallback::place_fallback(d, FILE, text);
                }
                said.found.extend(found.list);
            }
        }
        Reader::Yaml => {
            said.take(machine::read(text, FILE));
            said.take(machine::read_perturb(text, FILE));
            said.take(machine::ccl::read(text, FILE));
            said.take(published::read(text, FILE));
            said.take(repro::list::read(text, FILE));
            if let Some(read) = said.take(sweep::spec::read(text, FILE)) {
                said.take(sweep::Grid::new(read, text));
            }
        }
        Reader::Shape => {
            if let Some(topology) = said.take(Topology::parse(text, FILE)) {
                said.words.push(topology.to_string());
            }
        }
        Reader::Xml => {
            let mut warnings = Diagnostics::new();
            said.take(msccl::read(FILE, text, &mut warnings));
            said.found.extend(warnings.list);
        }
        Reader::Json => {
            said.take(torch::exported(FILE, "random", text));
            said.take(torch::table(FILE, "random", text));
        }
        Reader::Printed => {
            said.take(torch::printed(FILE, "random", text));
        }
        Reader::Archive => {
            let found = [torch::archive::read(bytes).err(), torch::archive::values(bytes).err()];
            said.words.extend(found.into_iter().flatten());
        }
        Reader::Npy | Reader::Npz | Reader::Safetensors => {
            let name = format!("random.{}", reader.ending());
            let keys = said.take(formats::keys(&name, bytes)).unwrap_or_default();
            for key in keys.iter().map(|k| Some(k.as_str())).chain([None]).take(8) {
                said.take(formats::describe(&name, bytes, key, Conversion::Yes));
                said.take(formats::read(&name, bytes, key));
            }
        }
        Reader::Replay => {
            (with.replay)(text);
        }
    }
    said
}

/// Returns what is wrong with the messages about a text, if anything is.
fn fault(reader: Reader, said: &ReaderMessages, length: usize) -> Option<String> {
    if let Some(empty) = said.words.iter().find(|w| w.trim().is_empty()) {
        return Some(format!("a refusal without words: {empty:?}"));
    }
    for d in &said.found {
        let who = format!("{} `{}`", d.code, d.title);
        if codes::find(d.code).is_none() {
            return Some(format!("{who}: there is no such code"));
        }
        if d.title.trim().is_empty() {
            return Some(format!("{who}: a message without words"));
        }
        if is_bug(&d.clone().into()) {
            return Some(format!("{who}: a contradiction of kbc"));
        }
        let span = d.span();
        if !reader.is_binary() && d.severity == Severity::Error {
            // Messages about long lines of JSON quote the lines instead of having a location.
            let quoted = d.notes.iter().any(|n| n.starts_with("byte "));
            if span.is_none() && !quoted && d.code != "E521" {
                return Some(format!("{who}: an error without a place"));
            }
            if span.file == FILE && (span.end as usize > length || span.start > span.end) {
                return Some(format!("{who}: a place outside the text"));
            }
        }
    }
    None
}

/// Returns how a reader fails on a file, if it does.
pub fn wrong(with: With, reader: Reader, bytes: &[u8]) -> Option<String> {
    let before = (with.clock)();
    let said = catch_unwind(AssertUnwindSafe(|| read(with, reader, bytes)));
    let took = (with.clock)().saturating_sub(before);
    match said {
        Err(_) => Some("a panic".to_owned()),
        Ok(_) if took > MAX_TIME => Some(format!("{:.1} s for {} bytes", took.as_secs_f64(), bytes.len())),
        Ok(said) => fault(reader, &said, bytes.len()),
    }
}

/// A file on which a reader fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its number.
    pub number: u64,
    /// The reader.
    pub reader: Reader,
    /// The example from which it was made.
    pub example: String,
    /// Description of the failure.
    pub what: String,
    /// Its content, reduced as far as possible.
    pub bytes: Vec<u8>,
}

/// Counts and findings.
#[derive(Clone, Debug, Default)]
pub struct ReadersSummary {
    /// Number of files by reader.
    pub tried: BTreeMap<Reader, u64>,
    /// Files on which readers fail.
    pub failures: Vec<Failure>,
}

/// Returns the file of a seed and a number.
pub fn file(examples: &[Example], seed: u64, number: u64) -> Option<(Reader, String, Vec<u8>)> {
    // Readers take turns, so that those with few examples are tried as often.
    let readers: Vec<Reader> =
        Reader::ALL.into_iter().filter(|r| examples.iter().any(|e| e.reader == *r)).collect();
    let reader = *readers.get(usize::try_from(number).ok()? % readers.len().max(1))?;
    let mut rng = Rng::new(&[seed, number, 7]);
    let own: Vec<&Example> = examples.iter().filter(|e| e.reader == reader).collect();
    let first = rng.pick(&own);
    let other = rng.pick(&own);
    let bytes = damage::damage(&first.bytes, &other.bytes, reader.is_binary(), &mut rng);
    Some((reader, first.name.clone(), bytes))
}

/// Tries the files with these numbers of a seed.
pub fn run(
    with: With,
    examples: &[Example],
    seed: u64,
    numbers: std::ops::Range<u64>,
    progress: &mut dyn FnMut(&ReadersSummary),
) -> ReadersSummary {
    let mut sum = ReadersSummary::default();
    for number in numbers {
        let Some((reader, example, bytes)) = file(examples, seed, number) else { break };
        *sum.tried.entry(reader).or_default() += 1;
        if let Some(what) = wrong(with, reader, &bytes) {
            let bytes = smaller(with, reader, bytes, &what);
            sum.failures.push(Failure { number, reader, example, what, bytes });
        }
        progress(&sum);
    }
    sum
}

/// Largest number of readings for making a file smaller.
const MAX_STEPS: u32 = 200;

/// Returns a smaller file with the same failure, found by removing parts. A file that takes too
/// long stays unchanged.
fn smaller(with: With, reader: Reader, mut bytes: Vec<u8>, what: &str) -> Vec<u8> {
    let same = |b: &[u8]| wrong(with, reader, b).is_some_and(|w| w == what);
    if what.contains(" s for ") {
        return bytes;
    }
    let (mut part, mut steps) = (bytes.len() / 2, 0);
    while part > 0 && steps < MAX_STEPS {
        let mut at = 0;
        while at < bytes.len() && steps < MAX_STEPS {
            let mut less = bytes.clone();
            less.drain(at..(at + part).min(bytes.len()));
            steps += 1;
            if same(&less) { bytes = less } else { at += part }
        }
        part /= 2;
    }
    bytes
}
