//! Fuzzer of emission: compares random programs on the interpreter, as machine code, and as emitted
//! C++ under the memory model of the stand-in headers.
//!
//! Many programs are compiled together, so that headers are read and objects linked once for all.
//! If a batch does not compile or its process fails, each of its programs is tried alone.
//! [`Case::same`] compares the results: with the simulator's bits, or within the evaluator's bound
//! if the order of sums is the core's own or a function has no exact form there.

use super::bits::{Numbers, of_call};
use super::catalogue::Catalogue;
use super::compare::{Agreed, CompareOptions, compare};
use super::generate::{Aim, program};
use super::program::RandomProgram;
use super::rng::Rng;
use super::{Difference, MAX_BYTES, Summary, library};
use crate::standin::case::{Case, Compared, Sized, words};
use crate::standin::{Job, Outputs, Runner};
use kbc_compiler::build::{self, Built};
use kbc_compiler::failure::Failure;
use kbc_compiler::options::Source;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostics, Severity};
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Codes with which emission rejects a program (docs/reference/ascend.md); any other code is a
/// difference.
const REFUSALS: [&str; 6] = ["E450", "E451", "E457", "E470", "E471", "E472"];

/// Text of the model's message for behaviour of the core that is not documented.
const UNDESCRIBED: &str = "what happens then is not described";

/// Checks whether a difference is none, because the behaviour of the core is not documented.
pub fn is_undescribed(what: &str) -> bool {
    what.contains(UNDESCRIBED)
}

/// The file name of a random program.
const FILE: &str = "fuzz.kb";

/// Largest number of smaller programs that are tried for one that differs; each is compiled alone.
const SHRINKS: usize = 40;

/// What runs emitted code, and with which options.
pub struct EmittedRunner<'a> {
    /// The workspace of the command.
    pub workspace: &'a Workspace,
    /// What compiles and runs emitted code.
    pub standin: &'a dyn Runner,
    /// Number of programs compiled together.
    pub batch: usize,
    /// Whether compiled programs are kept.
    pub keep: bool,
}

/// Counts and findings.
#[derive(Clone, Debug, Default)]
pub struct Emitted {
    /// Counts of the simulator's engines, and all differences.
    pub engines: Summary,
    /// Number of programs that were emitted and run.
    pub programs: u64,
    /// Number of these programs that have several tasks.
    pub tasks: u64,
    /// Number of sizes at which programs ran: their own and, if the kernel serves others, one more.
    pub sizes: u64,
    /// Number of translation units.
    pub units: u64,
    /// Numbers of elements compared.
    pub compared: Compared,
    /// Programs that the model ended because the behaviour is undocumented: conversions to integers
    /// that do not fit.
    pub undescribed: u64,
    /// Programs that emission rejects, by code and reason: count, and the first number.
    pub refused: BTreeMap<(&'static str, String), (u64, u64)>,
}

impl Emitted {
    /// Formats the counts.
    pub fn text(&self) -> String {
        let mut out = self.engines.text("programs");
        // The number of differences is the last line.
        let last = out.trim_end().rfind('\n').map_or(0, |i| i + 1);
        let differences = out.split_off(last);
        let Compared { exact, near, unbounded } = self.compared;
        let refused: u64 = self.refused.values().map(|r| r.0).sum();
        let _ = writeln!(
            out,
            "{} emitted and run at {} sizes, {} of them as tasks, in {} translation units; {refused} refused",
            self.programs, self.sizes, self.tasks, self.units
        );
        let _ = writeln!(
            out,
            "{exact} elements with the simulator's bits, {near} within the evaluator's bound ({unbounded} of them without one)"
        );
        if self.undescribed > 0 {
            let _ = writeln!(
                out,
                "  ended by the model {}: a conversion to integers that do not fit",
                self.undescribed
            );
        }
        for ((code, title), (n, first)) in &self.refused {
            let _ = writeln!(out, "  not emitted {n}: {code}, first number {first}: {title}");
        }
        out + &differences
    }
}

/// A program that is emitted, with its jobs.
struct Ready {
    number: u64,
    program: Option<RandomProgram>,
    case: Case,
    sized: Vec<Sized>,
    built: Box<(super::CompiledProgram, Agreed)>,
}

/// The state of a program before it is compiled.
enum EmitOutcome {
    Refused(Diagnostics),
    /// Emission rejects it.
    NotEmitted(Box<(super::CompiledProgram, Agreed)>, &'static str, String),
    /// It ends with the same fault on both engines, so there is nothing to compare.
    Fault(Box<(super::CompiledProgram, Agreed)>),
    Ready(Box<Ready>),
    Differs(String),
}

/// Returns the reason of a rejection without the details of one program.
fn reason(title: &str) -> String {
    let word = |w: &str| {
        let plain = w.chars().any(|c| c.is_ascii_digit()) || w.starts_with('@');
        if plain { "..".to_owned() } else { w.to_owned() }
    };
    let all: Vec<String> = title.split(' ').map(word).collect();
    all.join(" ")
}

fn failure(f: Failure) -> Diagnostics {
    f.into_parts().0
}

/// Maps integers to row numbers below `rows`, because the evaluator rejects others.
fn numbers_of_rows(t: Tensor, rows: u64) -> Tensor {
    let shape = t.shape().to_vec();
    let most = i64::try_from(rows).unwrap_or(i64::MAX).max(1);
    let data = match t.data() {
        Data::I32(v) => Data::I32(v.iter().map(|x| i64::from(*x).rem_euclid(most) as i32).collect()),
        Data::I64(v) => Data::I64(v.iter().map(|x| x.rem_euclid(most)).collect()),
        other => other.clone(),
    };
    Tensor::new(shape, data).unwrap_or(t)
}

impl EmittedRunner<'_> {
    fn built(&self, text: &str) -> Result<(Workspace, Built), Diagnostics> {
        let mut workspace = self.workspace.fresh(vec![(FILE.to_owned(), text.to_owned())]);
        let built =
            build::build(&mut workspace, &Source::of(FILE), "tasks", &mut Unwatched).map_err(failure)?;
        Ok((workspace, built))
    }

    /// Prepares a text up to its jobs; the inputs depend on the seed and the number.
    fn ready(&self, text: &str, program: Option<&RandomProgram>, seed: u64, number: u64) -> EmitOutcome {
        let run = AssertUnwindSafe(|| self.steps(text, program, seed, number));
        match catch_unwind(run) {
            Ok(Ok(tried)) => tried,
            Ok(Err(what)) => EmitOutcome::Differs(what),
            Err(_) => EmitOutcome::Differs("a panic".to_owned()),
        }
    }

    fn steps(
        &self,
        text: &str,
        program: Option<&RandomProgram>,
        seed: u64,
        number: u64,
    ) -> Result<EmitOutcome, String> {
        let (workspace, built) = match self.built(text) {
            Ok(made) => made,
            Err(found) => return Ok(EmitOutcome::Refused(found)),
        };
        let Some(schedule) = built.module.schedule().cloned() else {
            return Err("the pipeline made no schedule".to_owned());
        };
        let mut rng = Rng::new(&[seed, number, 3]);
        let calls = 1 + rng.below(3) as u32;
        let how = CompareOptions { calls, seed: Some(rng.draw() >> 32), max_bytes: MAX_BYTES };
        let rows: Vec<Option<u64>> =
            (0..built.typed.inputs.len()).map(|i| built.typed.rows_numbered(i)).collect();
        let feed = |s: &kbc_ir::schedule::Schedule, c| {
            let all = of_call(s, &[seed, number], c, Numbers::Ordinary);
            all.into_iter()
                .zip(&rows)
                .map(|(t, rows)| rows.map_or(t.clone(), |r| numbers_of_rows(t, r)))
                .collect()
        };
        let inputs: Vec<_> = (0..calls).map(|c| feed(&schedule, c)).collect();
        let agreed = compare(&schedule, &inputs, how)?;
        let made = Box::new((super::CompiledProgram { typed: Some(built.typed.clone()), schedule }, agreed));
        if agreed.fault.is_some() {
            return Ok(EmitOutcome::Fault(made));
        }
        let mut case = match Case::emit(workspace, built) {
            Ok(case) => case,
            Err(f) => {
                let found = failure(f);
                let first = found.list.iter().find(|d| d.severity == Severity::Error);
                let (code, title) = first.map_or(("none", ""), |d| (d.code, d.title.as_str()));
                if !REFUSALS.contains(&code) {
                    return Err(format!("emission ends with {}", words(&found)));
                }
                return Ok(EmitOutcome::NotEmitted(made, code, reason(title)));
            }
        };
        let (ranks, count) = case.own();
        let mut sizes = vec![(ranks, count)];
        let others: Vec<u64> = case.ranks().into_iter().filter(|r| *r != ranks && *r <= 9).collect();
        if !others.is_empty() || case.counts() {
            let ranks = if others.is_empty() || rng.chance(40) { ranks } else { *rng.pick(&others) };
            let count = if case.counts() { *rng.pick(&[0, 1, 2, 3, 7, 30, 97]) } else { count };
            sizes.push((ranks, count));
        }
        sizes.dedup();
        let mut sized = vec![];
        for size in sizes {
            match case.at_with(size, calls, &feed) {
                Ok(s) => sized.push(s),
                // A fault caused by data at another size is not a finding, nor is a program without
                // a meaning there (such as a maximum of no elements).
                Err(e)
                    if ["E363", "E409"].iter().any(|c| e.starts_with(c))
                        || e.contains("claimed size: E201") => {}
                Err(e) => return Err(format!("{} ranks, count {}: {e}", size.0, size.1)),
            }
        }
        Ok(EmitOutcome::Ready(Box::new(Ready {
            number,
            program: program.cloned(),
            case,
            sized,
            built: made,
        })))
    }

    /// Compiles programs together and runs all their jobs. Returns, for each program, what was
    /// compared or what differs.
    fn check(&self, batch: &[Ready], units: &mut u64) -> Vec<Result<Compared, String>> {
        let alone = |why: String, units: &mut u64| match batch {
            [_] => vec![Err(why)],
            all => all.iter().flat_map(|one| self.check(std::slice::from_ref(one), units)).collect(),
        };
        let sources: Vec<_> = batch.iter().map(|r| r.case.source()).collect();
        *units += 1;
        let program = match self.standin.compile(&sources) {
            Ok(program) => program,
            Err(why) => return alone(format!("it does not compile: {why}"), units),
        };
        let jobs: Vec<Job> = batch
            .iter()
            .enumerate()
            .flat_map(|(i, r)| r.sized.iter().map(move |s| Job { program: i, ..s.job.clone() }))
            .collect();
        let ran = program.run_all(&jobs);
        if !self.keep {
            program.discard();
        }
        let mut answers = match ran {
            Ok(answers) => answers.into_iter(),
            Err(why) => return alone(why, units),
        };
        batch.iter().map(|r| judge(r, &mut answers)).collect()
    }

    /// Returns the difference that a text shows, if it shows one.
    fn differs(&self, text: &str, seed: u64, number: u64) -> Option<String> {
        match self.ready(text, None, seed, number) {
            EmitOutcome::Differs(what) => Some(what),
            EmitOutcome::Ready(ready) => {
                self.check(std::slice::from_ref(&*ready), &mut 0).into_iter().find_map(Result::err)
            }
            _ => None,
        }
    }

    /// Returns the smallest program found that still differs.
    fn shrink(&self, program: &RandomProgram, seed: u64, number: u64, what: String) -> (String, String) {
        let mut best = (program.clone(), what);
        let mut left = SHRINKS;
        'again: loop {
            for smaller in best.0.smaller() {
                let Some(next) = left.checked_sub(1) else { break 'again };
                left = next;
                if let Some(what) = self.differs(&smaller.text(), seed, number) {
                    best = (smaller, what);
                    continue 'again;
                }
            }
            break;
        }
        (best.0.text(), best.1)
    }

    /// Tries one text alone.
    ///
    /// # Errors
    /// Returns a description of the difference, or of the rejection.
    pub fn one(&self, text: &str, seed: u64, number: u64) -> Result<Compared, String> {
        match self.ready(text, None, seed, number) {
            EmitOutcome::Differs(what) => Err(what),
            EmitOutcome::Refused(found) => Err(format!("it is refused: {}", words(&found))),
            EmitOutcome::NotEmitted(_, code, title) => Err(format!("it is not emitted: {code} {title}")),
            EmitOutcome::Fault(made) => {
                Err(format!("both engines end with {}", made.1.fault.unwrap_or("a fault")))
            }
            EmitOutcome::Ready(ready) => self
                .check(std::slice::from_ref(&*ready), &mut 0)
                .pop()
                .unwrap_or_else(|| Err("nothing ran".into())),
        }
    }

    /// Tries the programs with these numbers of a seed.
    pub fn programs(
        &self,
        seed: u64,
        numbers: std::ops::Range<u64>,
        progress: &mut dyn FnMut(&Summary),
    ) -> Emitted {
        let loaded = library();
        let catalogue = Catalogue::new(&loaded);
        let mut sum = Emitted::default();
        let mut batch: Vec<Ready> = vec![];
        for number in numbers {
            let program = program(&catalogue, Aim::Emission, seed, number);
            sum.engines.tried += 1;
            match self.ready(&program.text(), Some(&program), seed, number) {
                EmitOutcome::Refused(found) => sum.engines.refuse(number, &found),
                EmitOutcome::NotEmitted(made, code, title) => {
                    sum.agreed(number, &made);
                    sum.refused.entry((code, title)).or_insert((0, number)).0 += 1;
                }
                EmitOutcome::Fault(made) => sum.agreed(number, &made),
                EmitOutcome::Ready(ready) => {
                    sum.agreed(number, &ready.built);
                    batch.push(*ready);
                }
                EmitOutcome::Differs(what) => {
                    sum.engines.accepted += 1;
                    let (text, what) = self.shrink(&program, seed, number, what);
                    sum.engines.differences.push(Difference { number, text, kir: false, what });
                }
            }
            if batch.len() >= self.batch {
                self.finish(&mut sum, &mut batch, seed);
                progress(&sum.engines);
            }
        }
        self.finish(&mut sum, &mut batch, seed);
        progress(&sum.engines);
        sum
    }

    fn finish(&self, sum: &mut Emitted, batch: &mut Vec<Ready>, seed: u64) {
        let batch = std::mem::take(batch);
        if batch.is_empty() {
            return;
        }
        let results = self.check(&batch, &mut sum.units);
        for (ready, result) in batch.iter().zip(results) {
            sum.programs += 1;
            sum.tasks += u64::from(ready.case.source().orchestration.is_some());
            sum.sizes += ready.sized.len() as u64;
            match (result, &ready.program) {
                (Ok(c), _) => sum.compared.add(c),
                (Err(what), _) if is_undescribed(&what) => sum.undescribed += 1,
                (Err(what), Some(program)) => {
                    let (text, what) = self.shrink(program, seed, ready.number, what);
                    sum.engines.differences.push(Difference { number: ready.number, text, kir: false, what });
                }
                (Err(what), None) => {
                    let text = String::new();
                    sum.engines.differences.push(Difference { number: ready.number, text, kir: false, what });
                }
            }
        }
    }
}

impl Emitted {
    fn agreed(&mut self, number: u64, made: &(super::CompiledProgram, Agreed)) {
        self.engines.accepted += 1;
        self.engines.coverage.program(made.0.typed.as_ref(), &made.0.schedule);
        self.engines.agreed(number, made.1);
    }
}

/// Compares the results of one program's jobs, and takes their answers from `answers`.
fn judge(
    ready: &Ready,
    answers: &mut impl Iterator<Item = Result<Outputs, String>>,
) -> Result<Compared, String> {
    let mut compared = Compared::default();
    let mut first = None;
    for (sized, got) in ready.sized.iter().zip(answers) {
        match got.and_then(|got| ready.case.same(sized, &got)) {
            Ok(c) => compared.add(c),
            Err(e) => {
                first.get_or_insert(format!("emitted, {} ranks, count {}: {e}", sized.ranks, sized.count));
            }
        }
    }
    first.map_or(Ok(compared), Err)
}
