//! The stand-in model for tests: location of its headers and build folder, and the lines of a
//! kernel that order something.

use crate::needs::{Need, found};
#[allow(unused_imports, reason = "every test binary uses its part")]
pub use kbc::standin::{Program, Standin};
#[allow(unused_imports, reason = "every test binary uses its part")]
pub use kbc_audit::standin::{Job, Kernel, KernelArg, Orchestration, Outputs, StandinSource};
use std::path::Path;
use std::sync::OnceLock;

/// Returns the stand-in model of the checkout; nothing if there is no C++ compiler, without which
/// the test is skipped.
pub fn standin() -> Option<&'static Standin> {
    static FOUND: OnceLock<Standin> = OnceLock::new();
    found(Need::Cxx)?;
    Some(FOUND.get_or_init(|| {
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ascend/standin");
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin");
        Standin::new(&headers, &build).unwrap_or_else(|d| panic!("{} {} {:?}", d.code, d.title, d.notes))
    }))
}

/// Compiles a kernel, with its orchestration if there is one. The error is the compiler's message;
/// nothing if there is no compiler.
pub fn compile(kernel: &str, orchestration: Option<Orchestration<'_>>) -> Option<Result<Program, String>> {
    let kernels = vec![Kernel { text: kernel, cube: false }];
    Some(standin()?.compile(&[StandinSource { kernels, orchestration }]))
}

/// Returns a compiled kernel, which must compile; nothing if there is no compiler.
pub fn compiled(kernel: &str, orchestration: Option<Orchestration<'_>>) -> Option<Program> {
    Some(compile(kernel, orchestration)?.unwrap_or_else(|e| panic!("{e}")))
}

/// Running jobs one after another in one process; gives the outputs, or why the model ended the
/// run.
pub trait Run {
    /// Runs all jobs.
    fn run(&self, jobs: &[Job]) -> Vec<Result<Outputs, String>>;

    /// Runs one job.
    fn run_one(&self, job: &Job) -> Result<Outputs, String> {
        self.run(std::slice::from_ref(job)).pop().expect("one job, one result")
    }
}

impl Run for Program {
    fn run(&self, jobs: &[Job]) -> Vec<Result<Outputs, String>> {
        self.run_all(jobs).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Statements that order something.
const ORDERING: [&str; 11] = [
    "pipe_barrier(",
    "dsb(",
    "dcci(",
    "set_flag(",
    "wait_flag(",
    "Notify(",
    "WaitFor(",
    "TNOTIFY(",
    "TWAIT(",
    "pto::comm::TNOTIFY(",
    "pto::comm::TWAIT(",
];

/// Returns the numbers, from 1, of the lines where an ordering statement begins (it may continue on
/// the next ones).
pub fn deletable(text: &str) -> Vec<usize> {
    let begins = |line: &str| ORDERING.iter().any(|w| line.trim_start().starts_with(w));
    text.lines().enumerate().filter(|(_, l)| begins(l)).map(|(i, _)| i + 1).collect()
}

/// Returns the lines of each `set_flag` and of the next `wait_flag` with the same arguments:
/// removing both keeps pairs.
pub fn flag_pairs(text: &str) -> Vec<[usize; 2]> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut pairs = vec![];
    for (i, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("set_flag") else { continue };
        if let Some(j) = lines[i..].iter().position(|l| l.strip_prefix("wait_flag") == Some(rest)) {
            pairs.push([i + 1, i + j + 1]);
        }
    }
    pairs
}

/// Returns the text with a condition around every deletable line, which a job's `drop` decides;
/// lines keep their numbers.
pub fn guarded(text: &str) -> String {
    let which = deletable(text);
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let at = line.len() - line.trim_start().len();
        if which.binary_search(&(i + 1)).is_ok() {
            out += &format!("{}if (standin::keep({})) {}\n", &line[..at], i + 1, &line[at..]);
        } else {
            out += &format!("{line}\n");
        }
    }
    out
}

/// Returns the ordering lines of a guarded kernel that are not needed: single lines, and both lines
/// of a flag, without which all of the jobs, in two orders of ranks, still run with the same
/// outputs. The jobs together reach every line.
pub fn redundant(program: &Program, text: &str, jobs: &[Job]) -> Vec<Vec<usize>> {
    let mut drops: Vec<Vec<usize>> = deletable(text).into_iter().map(|l| vec![l]).collect();
    drops.extend(flag_pairs(text).iter().map(|p| p.to_vec()));
    let orders = |drop: &[usize]| -> Vec<Job> {
        let of = |order| move |job: &Job| Job { order, drop: drop.to_vec(), ..job.clone() };
        jobs.iter().map(of(0)).chain(jobs.iter().map(of(5))).collect()
    };
    let right = program.run(&orders(&[]));
    assert!(right.iter().all(Result::is_ok), "the whole kernel fails: {right:?}");
    drops.retain(|drop| program.run(&orders(drop)) == right);
    drops
}
