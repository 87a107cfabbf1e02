//! Fuzzing of the engines: random programs and schedules run on the interpreter, which defines the
//! result, and as machine code, which must give the same bits.
//!
//! This module owns the generators, the comparison and the counts. Everything depends only on the
//! seeds.

pub mod bits;
pub mod bounds;
mod calls;
pub mod catalogue;
pub mod checker;
pub mod compare;
pub mod coverage;
pub mod emitted;
pub mod generate;
pub mod machine;
pub mod program;
pub mod readers;
pub mod rng;
pub mod rounds;
pub mod scalar;
pub mod schedules;
mod tiles;
pub(crate) mod written;

use catalogue::Catalogue;
use compare::{Agreed, CompareOptions, compare};
use coverage::Coverage;
use kbc_diag::{Diagnostic, Diagnostics, FileId, SourceMap};
use kbc_frontend::load::{Sources, load};
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_ir::graph::Graph;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::{PrintOptions, print};
use kbc_ir::{Body, Module};
use kbc_passes::instrument::{Instrument, PipelineStep};
use kbc_passes::pipeline::Pipeline;
use kbc_passes::{Changed, PassCx};
use program::RandomProgram;
use rng::Rng;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Largest number of bytes of all ranks of a random program together.
const MAX_BYTES: u64 = 256 << 20;

/// Source texts that are not files.
#[derive(Default)]
struct Texts(SourceMap);

impl Sources for Texts {
    fn builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.0.add_builtin(name, text)
    }

    fn open(&mut self, _: FileId, path: &str) -> Result<(FileId, String), Diagnostic> {
        Err(Diagnostic::error("E412", format!("cannot read {path}: a random program uses no files")))
    }
}

/// Loads the library alone.
pub fn library() -> Loaded {
    load(None, &mut Texts::default()).0
}

/// Loads a text that uses no files, with the library.
///
/// # Errors
/// Returns the errors of the front end.
pub fn read(text: &str) -> Result<Loaded, Diagnostics> {
    let mut texts = Texts::default();
    let file = texts.0.add("random.kb", text);
    let (loaded, found) = load(Some((file, text.to_owned())), &mut texts);
    if found.has_errors() { Err(found) } else { Ok(loaded) }
}

/// A program that passed the front end and all passes.
pub struct CompiledProgram {
    /// Its graph with types.
    pub typed: Option<Graph>,
    /// Its schedule.
    pub schedule: Schedule,
}

#[derive(Default)]
struct TypedGraph(Option<Graph>);

impl Instrument for TypedGraph {
    fn after(&mut self, step: PipelineStep<'_>, module: &Module, _: Changed) -> Result<(), Diagnostics> {
        if let (Body::Graph(g), "infer") = (&module.body, step.info.name) {
            self.0 = Some(g.clone());
        }
        Ok(())
    }
}

/// Compiles a text to a schedule.
///
/// # Errors
/// Returns the errors of the front end or of a pass.
pub fn make(text: &str) -> Result<CompiledProgram, Diagnostics> {
    let loaded = read(text)?;
    let lowered = lower(&loaded, &LowerOptions::default())?;
    let mut module = lowered.module;
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology));
    let mut keep = TypedGraph::default();
    Pipeline::named(kbc_compiler::build::pipeline_of_machine("default", &lowered.topology))?.run(
        &mut module,
        &cx,
        &mut [&mut keep],
    )?;
    let schedule = module.schedule().cloned();
    let schedule =
        schedule.ok_or_else(|| Diagnostic::error("E901", "the default pipeline made no schedule"))?;
    Ok(CompiledProgram { typed: keep.0, schedule })
}

/// Returns the text of a schedule, for a reproducer.
fn shown(s: &Schedule) -> String {
    print(&Module::of_schedule(s), &PrintOptions::default())
}

/// A program or schedule on which the engines differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its number within the seed.
    pub number: u64,
    /// The smallest text found that shows the difference: a program, or a schedule.
    pub text: String,
    /// Whether `text` is a schedule.
    pub kir: bool,
    /// Description of the difference.
    pub what: String,
}

/// Counts and findings.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of programs or schedules made.
    pub tried: u64,
    /// Number of these that the front end and the passes (or the verifier) accepted.
    pub accepted: u64,
    /// The rejected ones by code: count, the first number, and its message.
    pub refused: BTreeMap<&'static str, (u64, u64, String)>,
    /// Those for which both engines ended with the same error, by code: count, and the first
    /// number.
    pub faults: BTreeMap<&'static str, (u64, u64)>,
    /// Number of pairs of runs.
    pub runs: u64,
    /// Number of elements compared.
    pub elements: u64,
    /// Bytes of machine code.
    pub bytes: u64,
    /// Features that occurred.
    pub coverage: Coverage,
    /// Differences between the engines.
    pub differences: Vec<Difference>,
}

impl Summary {
    fn agreed(&mut self, number: u64, a: Agreed) {
        self.runs += a.runs;
        self.elements += a.elements;
        self.bytes += a.bytes;
        if let Some(code) = a.fault {
            self.faults.entry(code).or_insert((0, number)).0 += 1;
        }
    }

    fn refuse(&mut self, number: u64, found: &Diagnostics) {
        let first = found.list.iter().find(|d| d.severity == kbc_diag::Severity::Error);
        let (code, title) = first.map_or(("none", String::new()), |d| (d.code, d.title.clone()));
        self.refused.entry(code).or_insert((0, number, title)).0 += 1;
    }

    /// Formats the counts.
    pub fn text(&self, what: &str) -> String {
        let share = 100.0 * self.accepted as f64 / self.tried.max(1) as f64;
        let mut out = format!(
            "{} {what}, {} accepted ({share:.1} %), {} pairs of runs, {} elements compared, {} bytes of machine code\n",
            self.tried, self.accepted, self.runs, self.elements, self.bytes
        );
        for (code, (n, first, title)) in &self.refused {
            let _ = writeln!(out, "  refused {n}: {code}, first number {first}: {title}");
        }
        for (code, (n, first)) in &self.faults {
            let _ = writeln!(out, "  the same fault on both {n}: {code}, first number {first}");
        }
        out += &self.coverage.text();
        let _ = writeln!(out, "{} differences", self.differences.len());
        out
    }
}

/// Returns the options of the runs for a seed and a number.
fn how(seed: u64, number: u64) -> CompareOptions {
    let mut rng = Rng::new(&[seed, number, 1]);
    CompareOptions { calls: 1 + rng.below(3) as u32, seed: Some(rng.draw() >> 32), max_bytes: MAX_BYTES }
}

/// The outcome for a program.
pub enum Trial {
    /// The compiler rejects it.
    Refused(Diagnostics),
    /// Both engines agree.
    Agreed(Box<CompiledProgram>, Agreed),
    /// The engines differ, or something panicked.
    Differs(String),
}

/// Compiles a program and runs it on both engines; inputs and interleaving depend on the seed and
/// the number.
pub fn engines(text: &str, seed: u64, number: u64) -> Trial {
    let run = AssertUnwindSafe(|| {
        let made = match make(text) {
            Ok(made) => made,
            Err(found) => return Trial::Refused(found),
        };
        let how = how(seed, number);
        let inputs = bits::inputs(&made.schedule, &[seed, number], how.calls);
        match compare(&made.schedule, &inputs, how) {
            Ok(agreed) => Trial::Agreed(Box::new(made), agreed),
            Err(what) => Trial::Differs(what),
        }
    });
    catch_unwind(run).unwrap_or_else(|_| Trial::Differs("a panic".to_owned()))
}

/// Returns the smallest program found that still differs.
fn shrink(program: &RandomProgram, seed: u64, number: u64, what: String) -> (String, String) {
    let mut best = (program.clone(), what);
    // Each step makes the program smaller, so the loop ends, usually after at most two steps.
    while let Some(next) = best.0.smaller().into_iter().find_map(|p| match engines(&p.text(), seed, number) {
        Trial::Differs(what) => Some((p, what)),
        _ => None,
    }) {
        best = next;
    }
    (best.0.text(), best.1)
}

/// Runs the programs with these numbers of a seed on both engines.
pub fn programs(seed: u64, numbers: std::ops::Range<u64>, progress: &mut dyn FnMut(&Summary)) -> Summary {
    let loaded = library();
    let catalogue = Catalogue::new(&loaded);
    let mut sum = Summary::default();
    for number in numbers {
        let program = generate::generate(&catalogue, seed, number);
        sum.tried += 1;
        match engines(&program.text(), seed, number) {
            Trial::Refused(found) => sum.refuse(number, &found),
            Trial::Agreed(made, agreed) => {
                sum.accepted += 1;
                sum.coverage.program(made.typed.as_ref(), &made.schedule);
                let shape = program.machine.shape.split('(').next().unwrap_or("");
                sum.coverage.note("topology", shape.to_owned());
                sum.agreed(number, agreed);
            }
            Trial::Differs(what) => {
                sum.accepted += 1;
                let (text, what) = shrink(&program, seed, number, what);
                sum.differences.push(Difference { number, text, kir: false, what });
            }
        }
        progress(&sum);
    }
    sum
}
