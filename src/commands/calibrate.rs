//! `kbc calibrate`: measures this computer, and writes a machine file.
//!
//! The headers of the program that measures are those of an emitted program, so it does what
//! emitted kernels do.

use super::compile::{self, PackageReceiver};
use crate::cli::{Calibrate, Selection, Source};
use crate::host_program::{self, Temporary, lines};
use crate::native::NativeTool;
use crate::outdir;
use crate::session::{Failure, Outcome, Session, words};
use kbc_compiler::backends;
use kbc_compiler::report::LaunchReport;
use kbc_diag::Diagnostic;
use kbc_evaluation::calibration::{
    Calibration, MeasuredTime, PROGRAM, PhaseFigures, PhaseTimes, SizeFigures, TRIPS,
};
use kbc_evaluation::host_bench::BENCH_COLLECTIVES;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What needs a compiler.
const HELP: &str = "kbc calibrate compiles C11 with atomics: install a C compiler (gcc or clang), or set CC";

/// Takes a package into a folder of kbc's own.
pub(super) struct PackageFolder<'a> {
    /// The folder.
    pub(super) folder: &'a Path,
}

impl PackageReceiver for PackageFolder<'_> {
    fn package(&mut self, _: &Path, files: &[(String, Vec<u8>)], _: bool) -> Result<(), Diagnostic> {
        outdir::write(self.folder, files, false)
    }
}

/// Measures and writes.
///
/// # Errors
/// Returns E416 for a size that is not measured, E564 for a compiler that is missing or fails, E567
/// for a run that fails, and E410 for a file that cannot be written.
pub fn run(session: &mut Session, args: &Calibrate) -> Outcome {
    let mut sizes: Vec<u64> = args.sizes.iter().copied().chain([args.at]).map(|n| n / 4 * 4).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let compiler = NativeTool::find("compiler", "CC", "cc", HELP)?;
    let folder = Temporary::new()?;
    let program = built(session, &compiler, &folder)?;
    session.progress("notifies");
    let trips = [("--repeat", args.repeat.unwrap_or(1000))];
    let (launched, _) = ran(&program, args, "notify", &[("-c", 0)], &trips)?;
    let notify = MeasuredTime::of(&launched.blocks_ns).over(2.0 * TRIPS);
    let mut all = vec![];
    for bytes in sizes {
        session.progress(&format!("{bytes} bytes"));
        let figures = |what: &str| {
            let usual = (10_000_000 / bytes.max(1)).clamp(2, 500);
            let repeat = [("--repeat", args.repeat.unwrap_or(usual))];
            let (_, phases) = ran(&program, args, what, &[("-c", bytes)], &repeat)?;
            let expected = args.processes;
            let phases = match what {
                "one" => joined(phases, expected),
                _ => phases,
            };
            let expected = if what == "one" { 1 } else { expected };
            PhaseFigures::of(&phases, expected).ok_or_else(|| {
                let title = format!("the measurement of {bytes} bytes has no times of every rank");
                Failure::from(Diagnostic::error("E567", title).help("--repeat takes more calls in a block"))
            })
        };
        all.push(SizeFigures { bytes, all: figures("all")?, one: figures("one")? });
    }
    let found = Calibration {
        schema: 1,
        command: "calibrate",
        ok: true,
        output: args.output.clone(),
        ranks: args.processes,
        processors: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
        notify,
        at: args.at / 4 * 4,
        sizes: all,
    };
    let machine =
        found.machine().ok_or_else(|| Diagnostic::error("E991", "the size of the rates was not measured"))?;
    match &args.output {
        Some(path) => {
            outdir::write_file(Path::new(path), machine.as_bytes())?;
            session.answer(&found.human(), &found)?;
        }
        None if session.is_json() => session.json(&found)?,
        None => session.print_artefact(&machine),
    }
    Ok(())
}

/// Where one rank works at a time, a phase has the time of the rank that worked.
fn joined(phases: Vec<PhaseTimes>, expected: u64) -> Vec<PhaseTimes> {
    if phases.len() as u64 != expected {
        return vec![];
    }
    let add = |a: &mut Vec<f64>, b: &[f64]| {
        a.resize(a.len().max(b.len()), 0.0);
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    };
    let mut out = PhaseTimes::default();
    for p in &phases {
        add(&mut out.put, &p.put);
        add(&mut out.combine, &p.combine);
        add(&mut out.copy, &p.copy);
        add(&mut out.get, &p.get);
        add(&mut out.f32, &p.f32);
        add(&mut out.f16, &p.f16);
        add(&mut out.bf16, &p.bf16);
        add(&mut out.i32, &p.i32);
    }
    vec![out]
}

/// Builds the program that measures, beside an emitted one.
fn built(session: &Session, compiler: &NativeTool, folder: &Temporary) -> Outcome<PathBuf> {
    let package = folder.package();
    let any = &BENCH_COLLECTIVES[0];
    let text = any.text(2, 64);
    let mut own = session.fresh(vec![text.clone()]);
    let source = Source { file: text.0, of: Selection::default(), post: None };
    let compilation = host_program::compilation("calibrate", source, "package".into(), (true, false));
    let made = compile::steps(&mut own, &compilation, &mut PackageFolder { folder: &package })?;
    let kernel = made.and_then(|(report, _)| report.emitted).map(|e| e.kernel);
    let build = kernel.and_then(|k| backends::native_target().native_build(&k));
    let Some(build) = build else {
        return Err(Diagnostic::error("E991", "nothing was emitted for this computer").into());
    };
    outdir::write_here(&package.join("calibrate.c"), PROGRAM.as_bytes())?;
    let program = folder.path().join("calibrate");
    host_program::build(compiler, (&build, "calibrate.c", &[]), &package, &program).map_err(|said| {
        let title = format!("the compiler `{}` does not compile the measurement", compiler.command());
        lines(Diagnostic::error("E564", title), &said).help(HELP)
    })?;
    Ok(program)
}

/// Runs the program. Returns its report, and what the ranks printed.
fn ran(
    program: &Path,
    args: &Calibrate,
    what: &str,
    size: &[(&str, u64)],
    repeat: &[(&str, u64)],
) -> Outcome<(LaunchReport, Vec<PhaseTimes>)> {
    let mut command = Command::new(program);
    command.args([what, "--json", "--until-eof", "--bind"]);
    let own = [("-n", args.processes), ("--calls", 1), ("--limit", args.limit)];
    for (flag, value) in own.iter().chain(size).chain(repeat) {
        command.args([flag.to_string(), value.to_string()]);
    }
    let ended = host_program::ended(&mut command).map_err(|e| {
        Diagnostic::error("E567", "the program that measures does not start")
            .note(words(&e))
            .help("TMPDIR names another folder for temporary files, in which programs may run")
    })?;
    match host_program::launched(&ended).filter(|_| ended.status.success()) {
        Some(launched) => {
            let lines = ended.stdout.split(|b| *b == b'\n');
            Ok((launched, lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
        }
        None => {
            let title = format!("the measurement `{what}` failed ({})", ended.status);
            let said = String::from_utf8_lossy(&ended.stderr);
            Err(lines(Diagnostic::error("E567", title), &said).into())
        }
    }
}
