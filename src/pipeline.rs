//! Running passes as the command line asks: what is watched, printed, dumped and timed.

use crate::cli::Watch;
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostics, Span};
use kbc_ir::Module;
use kbc_passes::PassCx;
use kbc_passes::instrument::{DumpDir, Instrument, PrintAfter, RoundTrip, Timings, VerifyEach, Which};
use kbc_passes::pipeline::{Pipeline, Step};
use std::path::Path;
use std::time::Instant;

/// Keeps the module from before the running pass where a crash finds it.
struct Reproduce;

impl Instrument for Reproduce {
    fn before(&mut self, step: Step<'_>, module: &Module) {
        crash::module(step.rest, module);
        crash::fault(step.info.name);
    }
}

/// The passes that the first line of a text asks for, as a crash wrote it.
pub fn replays(text: &str) -> Option<String> {
    match crash::asked_by_module(text)?.as_slice() {
        [verb, flag, passes] if verb == "opt" && flag == "-p" => Some(passes.clone()),
        _ => None,
    }
}

/// Runs `passes` on the module; `keep` is called with the module after every pass.
///
/// # Errors
/// Of the passes, of verification after each of them, or of writing the dump folder.
pub fn run(
    session: &mut Session,
    module: &mut Module,
    passes: &str,
    cx: &PassCx<'_>,
    watch: &Watch,
    keep: &mut dyn Instrument,
) -> Outcome {
    let file = session.add_text("<passes>", passes);
    let pipeline = Pipeline::parse(passes, file)?;
    let begin = Instant::now();
    let mut verify = VerifyEach;
    let mut round_trip = RoundTrip;
    let mut reproduce = Reproduce;
    let mut after: Vec<PrintAfter> =
        watch.print_after.iter().map(|w| PrintAfter::new(Which::parse(w), false)).collect();
    known(watch)?;
    let mut changed = PrintAfter::changed(false);
    let mut dump = DumpDir::default();
    let mut timings = Timings::new(move || begin.elapsed().as_secs_f64());
    let mut all: Vec<&mut dyn Instrument> = vec![&mut reproduce, keep, &mut verify];
    if cfg!(debug_assertions) {
        all.push(&mut round_trip);
    }
    all.extend(after.iter_mut().map(|a| a as &mut dyn Instrument));
    if watch.print_changed {
        all.push(&mut changed);
    }
    if watch.dump_dir.is_some() {
        all.push(&mut dump);
    }
    if watch.timings {
        all.push(&mut timings);
    }
    crash::stage(Stage::Passes);
    let result = pipeline.run(module, cx, &mut all);
    for a in &after {
        session.words(&a.text);
    }
    session.words(&changed.text);
    if watch.timings {
        let rows: Vec<String> =
            timings.rows.iter().map(|(name, s)| format!("{:>10.3} ms  {name}\n", s * 1e3)).collect();
        session.words(&rows.concat());
    }
    if let Some(dir) = &watch.dump_dir {
        let files: Vec<(String, Vec<u8>)> =
            dump.files.iter().map(|(n, t)| (n.clone(), t.clone().into_bytes())).collect();
        outdir::write(Path::new(dir), &files, watch.force)?;
    }
    session.tell(&cx.take_messages());
    result?;
    crash::module("", module);
    Ok(())
}

/// Names given to `--print-after` must be passes.
fn known(watch: &Watch) -> Result<(), Diagnostics> {
    let names: Vec<&str> = kbc_passes::registry::ALL.iter().map(|e| e.info.name).collect();
    let mut found = Diagnostics::new();
    for name in watch.print_after.iter().flat_map(|w| w.split(',')).map(str::trim).filter(|n| *n != "all") {
        if !names.contains(&name) {
            let mut d = kbc_diag::Diagnostic::error("E902", format!("there is no pass `{name}`"))
                .primary(Span::NONE, "asked for by --print-after")
                .note(format!("the passes: {}", names.join(", ")));
            if let Some(near) = kbc_diag::nearest::nearest(name, names.iter().copied()) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            found.push(d);
        }
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}
