//! Watching: what the command line prints and dumps between the passes of a compilation.

use crate::cli::Watch as Asked;
use crate::crash;
use crate::outdir;
use crate::session::write_stderr;
use kbc_compiler::backends;
use kbc_compiler::emit;
use kbc_compiler::watch::Watch;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_passes::instrument::{DumpDir, Instrument, PassFilter, PrintAfter, Timings};
use kbc_tiles::tile::{Kernel, text};
use std::path::Path;
use std::time::Instant;

/// The passes in the first line of a crash file.
pub fn replays(text: &str) -> Option<String> {
    match crash::command_in_module(text)?.as_slice() {
        [verb, flag, passes] if verb == "opt" && flag == "-p" => Some(passes.clone()),
        _ => None,
    }
}

/// Prints and dumps what the command line requests.
pub struct Watching {
    asked: Asked,
    after: Vec<PrintAfter>,
    changed: PrintAfter,
    dump: DumpDir,
    timings: Timings<'static>,
    /// Passes of the tile level after which the kernel is printed.
    kernels: Vec<String>,
    begun: Instant,
}

impl Watching {
    /// Creates it from the command line; `kernels` are the passes of the tile level after which the
    /// kernel is printed.
    pub fn new(asked: &Asked, kernels: Vec<String>) -> Self {
        let begin = Instant::now();
        Watching {
            asked: asked.clone(),
            after: asked.print_after.iter().map(|w| PrintAfter::new(PassFilter::parse(w), false)).collect(),
            changed: PrintAfter::changed(false),
            dump: DumpDir::default(),
            timings: Timings::new(move || begin.elapsed().as_secs_f64()),
            kernels,
            begun: begin,
        }
    }

    /// Prints only the duration of steps, if `timings` is set.
    pub fn times(timings: bool) -> Self {
        Watching::new(&Asked { timings, ..Asked::default() }, vec![])
    }
}

impl Watch for Watching {
    fn ready(&self) -> Result<(), Diagnostics> {
        known(&self.asked)
    }

    fn instruments(&mut self) -> Vec<&mut dyn Instrument> {
        let mut all: Vec<&mut dyn Instrument> =
            self.after.iter_mut().map(|a| a as &mut dyn Instrument).collect();
        if self.asked.print_changed {
            all.push(&mut self.changed);
        }
        if self.asked.dump_dir.is_some() {
            all.push(&mut self.dump);
        }
        if self.asked.timings {
            all.push(&mut self.timings);
        }
        all
    }

    fn passed(&mut self) -> Result<(), Diagnostics> {
        for a in &self.after {
            write_stderr(&a.text);
        }
        write_stderr(&self.changed.text);
        if self.asked.timings {
            let rows = self.timings.rows.iter();
            let rows: Vec<String> = rows.map(|(name, s)| format!("{:>10.3} ms  {name}\n", s * 1e3)).collect();
            write_stderr(&rows.concat());
        }
        if let Some(dir) = &self.asked.dump_dir {
            let files: Vec<(String, Vec<u8>)> =
                self.dump.files.iter().map(|(n, t)| (n.clone(), t.clone().into_bytes())).collect();
            outdir::write(Path::new(dir), &files, self.asked.force)?;
        }
        Ok(())
    }

    fn begins(&mut self) {
        self.begun = Instant::now();
    }

    fn ends(&mut self, step: &str) {
        if self.asked.timings {
            write_stderr(&format!("{:>10.3} ms  {step}\n", self.begun.elapsed().as_secs_f64() * 1e3));
        }
    }

    fn compares(&self) -> bool {
        self.asked.print_changed
    }

    fn kernel(&mut self, pass: &str, before: Option<&Kernel>, kernel: &Kernel) {
        let asked = self.kernels.iter().any(|w| w == pass || w == "all");
        if asked || (self.asked.print_changed && before.is_some_and(|b| b != kernel)) {
            write_stderr(&format!("; after {pass}\n{}", text::print(kernel)));
        }
    }
}

/// Rejects `--force` if no folder is written.
///
/// # Errors
/// Returns E416.
pub fn forced(watch: &Asked, folder: bool) -> Result<(), Diagnostic> {
    if watch.force && watch.dump_dir.is_none() && !folder {
        return Err(Diagnostic::error("E416", "--force applies only when a folder is written")
            .help("--force replaces the folder of --dump-dir, or that of a target"));
    }
    Ok(())
}

/// Checks that names given to `--print-after` are passes.
fn known(watch: &Asked) -> Result<(), Diagnostics> {
    let names: Vec<&str> = kbc_passes::ALL.iter().map(|e| e.info.name).collect();
    known_among(watch, &names)
}

fn known_among(watch: &Asked, names: &[&str]) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    for name in asked(watch).filter(|n| *n != "all" && !names.contains(n)) {
        let mut d = Diagnostic::error("E902", format!("unknown pass `{name}`"))
            .primary(Span::NONE, "requested by --print-after")
            .note(format!("the passes are {}", names.join(", ")));
        if tile_names().any(|n| n == name) {
            d = d.help(format!(
                "this is a pass of the tile level, which runs when code for a target is emitted: --target {}",
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
fn asked(watch: &Asked) -> impl Iterator<Item = &str> {
    watch.print_after.iter().flat_map(|w| w.split(',')).map(str::trim)
}

/// Names of passes of the tile level, as `--print-after` takes them.
pub fn tile_names() -> impl Iterator<Item = &'static str> {
    [emit::LOWERED].into_iter().chain(backends::passes().into_iter().map(|p| p.name))
}

/// For a target with emitted code: what is watched in the passes of graph and schedule, and the
/// passes of the tile level after which the kernel is printed.
///
/// # Errors
/// Returns E902 for a name that is a pass of neither.
pub fn split(watch: &Asked) -> Result<(Asked, Vec<String>), Diagnostics> {
    let tile: Vec<&str> = tile_names().collect();
    let all: Vec<&str> = kbc_passes::ALL.iter().map(|e| e.info.name).chain(tile.clone()).collect();
    known_among(watch, &all)?;
    let (later, now): (Vec<&str>, Vec<&str>) = asked(watch).partition(|n| tile.contains(n));
    let later = later.iter().chain(now.iter().filter(|n| **n == "all")).map(|n| (*n).to_owned()).collect();
    Ok((Asked { print_after: now.iter().map(|n| (*n).to_owned()).collect(), ..watch.clone() }, later))
}

/// Returns the passes of the tile level in a list, as a filter of their names. An empty list or
/// `default` means all of them.
///
/// # Errors
/// Returns E902 for an unknown pass.
pub fn tile_passes(list: Option<&str>) -> Result<Vec<&'static str>, Diagnostics> {
    let names: Vec<&'static str> = backends::passes().iter().map(|p| p.name).collect();
    let Some(list) = list.filter(|l| l.trim() != "default") else { return Ok(names) };
    let asked: Vec<&str> = list.split(',').map(str::trim).collect();
    tile_level(&asked, &names)?;
    Ok(names.into_iter().filter(|n| asked.contains(n)).collect())
}

/// Returns the passes of the tile level after which a `.tile` text is printed.
///
/// # Errors
/// Returns E902 for an unknown pass.
pub fn tile_watch(watch: &Asked) -> Result<Vec<String>, Diagnostics> {
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
            .note(format!("its passes are {}", names.join(", ")));
        if let Some(near) = kbc_diag::nearest::nearest(word, names.iter().copied()) {
            d = d.help(format!("did you mean `{near}`?"));
        }
        found.push(d);
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}
