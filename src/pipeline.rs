//! Running passes as the command line asks: what is watched, printed, dumped and timed.

use crate::backends;
use crate::cli::Watch;
use crate::crash::{self, Stage};
use crate::emit;
use crate::outdir;
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostic, Diagnostics, Span};
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

/// `--force` where no folder is written.
///
/// # Errors
/// E416.
pub fn forced(watch: &Watch, folder: bool) -> Result<(), Diagnostic> {
    if watch.force && watch.dump_dir.is_none() && !folder {
        return Err(Diagnostic::error("E416", "--force means nothing where no folder is written")
            .help("it replaces the folder of --dump-dir, or that of a target"));
    }
    Ok(())
}

/// Names given to `--print-after` must be passes.
fn known(watch: &Watch) -> Result<(), Diagnostics> {
    let names: Vec<&str> = kbc_passes::registry::ALL.iter().map(|e| e.info.name).collect();
    known_among(watch, &names)
}

fn known_among(watch: &Watch, names: &[&str]) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    for name in asked(watch).filter(|n| *n != "all" && !names.contains(n)) {
        let mut d = Diagnostic::error("E902", format!("there is no pass `{name}`"))
            .primary(Span::NONE, "asked for by --print-after")
            .note(format!("the passes: {}", names.join(", ")));
        if tile_names().any(|n| n == name) {
            d = d.help(format!(
                "it is a pass of the tile level, which has its turn where a target is emitted: --target {}",
                backends::default_target().name()
            ));
        } else if let Some(near) = kbc_diag::nearest::nearest(name, names.iter().copied()) {
            d = d.help(format!("did you mean `{near}`?"));
        }
        found.push(d);
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}

/// Names given to `--print-after`.
fn asked(watch: &Watch) -> impl Iterator<Item = &str> {
    watch.print_after.iter().flat_map(|w| w.split(',')).map(str::trim)
}

/// Names of passes of the tile level, as `--print-after` takes them.
pub fn tile_names() -> impl Iterator<Item = &'static str> {
    [emit::LOWERED].into_iter().chain(backends::passes().into_iter().map(|p| p.name))
}

/// For a target that is emitted: what is watched of the passes of graph and schedule, and after which passes of the tile
/// level the kernel is printed.
///
/// # Errors
/// E902: a name that is a pass of neither.
pub fn split(watch: &Watch) -> Result<(Watch, Vec<String>), Diagnostics> {
    let tile: Vec<&str> = tile_names().collect();
    let all: Vec<&str> = kbc_passes::registry::ALL.iter().map(|e| e.info.name).chain(tile.clone()).collect();
    known_among(watch, &all)?;
    let (later, now): (Vec<&str>, Vec<&str>) = asked(watch).partition(|n| tile.contains(n));
    let later = later.iter().chain(now.iter().filter(|n| **n == "all")).map(|n| (*n).to_owned()).collect();
    Ok((Watch { print_after: now.iter().map(|n| (*n).to_owned()).collect(), ..watch.clone() }, later))
}

/// The passes of the tile level that a list names, as a filter of their names; nothing, or `default`, is all of them.
///
/// # Errors
/// E902: no such pass.
pub fn tile_passes(list: Option<&str>) -> Result<Vec<&'static str>, Diagnostics> {
    let names: Vec<&'static str> = backends::passes().iter().map(|p| p.name).collect();
    let Some(list) = list.filter(|l| l.trim() != "default") else { return Ok(names) };
    let asked: Vec<&str> = list.split(',').map(str::trim).collect();
    tile_level(&asked, &names)?;
    Ok(names.into_iter().filter(|n| asked.contains(n)).collect())
}

/// After which passes of the tile level a `.tile` text is printed.
///
/// # Errors
/// E902: no such pass.
pub fn tile_watch(watch: &Watch) -> Result<Vec<String>, Diagnostics> {
    let names: Vec<&str> = backends::passes().iter().map(|p| p.name).collect();
    let asked: Vec<&str> = asked(watch).collect();
    let named: Vec<&str> = asked.iter().copied().filter(|n| *n != "all").collect();
    tile_level(&named, &names)?;
    Ok(asked.into_iter().map(str::to_owned).collect())
}

fn tile_level(asked: &[&str], names: &[&str]) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    for word in asked.iter().filter(|w| !names.contains(w)) {
        let mut d = Diagnostic::error("E902", format!("the tile level has no pass `{word}`"))
            .note(format!("its passes: {}", names.join(", ")));
        if let Some(near) = kbc_diag::nearest::nearest(word, names.iter().copied()) {
            d = d.help(format!("did you mean `{near}`?"));
        }
        found.push(d);
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}
