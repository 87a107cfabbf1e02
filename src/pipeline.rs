//! Running passes as the command line asks: what is watched, printed, dumped and timed; and what a crash leaves behind.

use crate::cli::Watch;
use crate::outdir;
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostics, Span};
use kbc_ir::Module;
use kbc_ir::text::{self, PrintOptions};
use kbc_passes::instrument::{DumpDir, Instrument, PrintAfter, RoundTrip, Timings, VerifyEach, Which};
use kbc_passes::pipeline::{Pipeline, Step};
use kbc_passes::{Changed, PassCx};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// What a crash writes: the rest of the pipeline and the module before the running pass.
static RUNNING: Mutex<Option<(String, Module)>> = Mutex::new(None);

/// Name of the file a crash writes.
const CRASH: &str = "kbc-crash.kir";

/// Keeps the module from before the running pass where the panic hook finds it.
struct Reproduce;

impl Instrument for Reproduce {
    fn before(&mut self, step: Step<'_>, module: &Module) {
        if let Ok(mut slot) = RUNNING.lock() {
            *slot = Some((step.rest.to_owned(), module.clone()));
        }
    }

    fn after(&mut self, _: Step<'_>, _: &Module, _: Changed) -> Result<(), Diagnostics> {
        if let Ok(mut slot) = RUNNING.lock() {
            *slot = None;
        }
        Ok(())
    }
}

/// First line of what a crash leaves, up to the passes.
const REPLAY: &str = "; kbc: opt -p '";

/// The text a crash leaves: the passes that were still to run, and the module before them. `kbc opt` replays it.
pub fn reproducer(rest: &str, module: &Module) -> String {
    format!("{REPLAY}{rest}'\n{}", text::print(module, &PrintOptions::default()))
}

/// The passes a text of [`reproducer`] asks for.
pub fn replays(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix(REPLAY)?.strip_suffix('\'')
}

/// A panic says that it is a bug of kbc and leaves a reproducer in the working folder; the exit code is 101.
pub fn install_panic_hook() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        let text = RUNNING
            .try_lock()
            .ok()
            .and_then(|mut slot| slot.take())
            .map(|(rest, module)| reproducer(&rest, &module));
        let mut words = format!(
            "\nThis is a bug in kbc {}, not in your program. Please report it with the command line",
            env!("CARGO_PKG_VERSION")
        );
        match text.map(|t| outdir::write_file(Path::new(CRASH), t.as_bytes())) {
            Some(Ok(())) => words += &format!(" and the file {CRASH}, which `kbc opt {CRASH}` replays"),
            _ => words += " and its input",
        }
        words += ".\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
    }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use kbc_diag::FileId;

    #[test]
    fn a_reproducer_names_the_rest_of_the_pipeline() {
        let text = "kir 1\nmodule @m\nmesh tp 2\n\ngraph\ninput @x : f32[4]\nresult : f32[4]\n\n\
            %x = input @x\n%o = output 0 %x\n";
        let module = text::parse(FileId(0), text).expect("it is right");
        let left = reproducer("place,select{by=rounds}", &module);
        assert_eq!(replays(&left), Some("place,select{by=rounds}"));
        let again = text::parse(FileId(0), &left).expect("the first line is a comment");
        assert_eq!(
            text::print(&again, &PrintOptions::default()),
            text::print(&module, &PrintOptions::default())
        );
        assert_eq!(replays(text), None);
    }
}
