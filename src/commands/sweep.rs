//! `kbc sweep`: executes the rows of a grid in parallel, has processes measure others, and writes
//! CSV, JSON lines and figures.

use super::{measured_rows, sweep_jobs};
use crate::cache;
use crate::cli::{Sweep, ThemeChoice};
use crate::crash;
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use indicatif::{ProgressBar, ProgressStyle};
use kbc_compiler::report::amounts::count;
use kbc_diag::Diagnostic;
use kbc_evaluation::sweep::cache::Cache;
use kbc_evaluation::sweep::load::{Counts, Loaded, chosen, load, merged, row_name};
use kbc_evaluation::sweep::request::RowProgram;
use kbc_evaluation::sweep::run::{Within, run as rows};
use kbc_evaluation::sweep::table::{self, SweepLine};
use kbc_evaluation::sweep::{RowRequest, row};
use std::path::Path;

/// Executes the rows of a sweep, or merges those of its shards.
///
/// # Errors
/// Returns E583 for the file, E584 for merging, E585 if a row is wrong or rejected, and the errors
/// of reading and writing files.
pub fn run(session: &mut Session, args: &Sweep) -> Outcome {
    if let Some(kind) = args.emit {
        return sweep_jobs::run(session, args, kind);
    }
    if let Some(out) = args.output.as_ref().filter(|o| o.ends_with(".csv") || o.ends_with(".jsonl")) {
        kbc_compiler::load::refuse(&[("--theme", args.theme.is_some()), ("--force", args.force)], out)?;
    }
    let loaded = load(session, &args.file)?;
    let points = chosen(&loaded.grid, &args.only, args.shard)?;
    if !args.merge.is_empty() {
        let lines = merged(session, &args.merge, &loaded)?;
        return finish(session, args, &loaded, &lines, 0);
    }
    if args.list {
        let json = listed_json(&args.file, &loaded, &points);
        return Ok(session.answer(&listed(&args.file, &points), &json)?);
    }
    let kept = Rows::new(session);
    let within = kept.within(args.jobs);
    let bar = bar(session, points.len());
    let mut known = 0usize;
    let (timed, computed): (Vec<&RowRequest>, Vec<&RowRequest>) =
        points.into_iter().partition(|p| p.engine.measures());
    let found = rows(session, &args.file, &computed, &within, &mut |row| {
        known += usize::from(row.cached);
        bar.set_message(format!("{known} known"));
        bar.inc(1);
    });
    // Rows are measured when nothing else runs.
    let found = found.and_then(|found| {
        let measure = loaded.grid.read.spec.measure.unwrap_or_default();
        Ok(found.with(measured_rows::run(session, &args.file, &timed, &measure, within.jobs, &bar)?))
    });
    bar.finish_and_clear();
    let found = found?;
    loaded.heard(&found).iter().for_each(|text| session.print_note(text));
    let lines = loaded.lines(&found)?;
    finish(session, args, &loaded, &lines, known)
}

/// Where finished rows are kept.
pub(super) struct Rows(Option<Cache>);

impl Rows {
    /// In the folder of a session.
    pub(super) fn new(session: &Session) -> Rows {
        Rows(session.cache_folder().and_then(cache::open))
    }

    /// How rows are executed: on `jobs` threads, or as many as there are processors.
    pub(super) fn within(&self, jobs: Option<usize>) -> Within<'_> {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        Within { jobs: jobs.unwrap_or_else(all), cache: self.0.as_ref() }
    }
}

/// Creates a progress bar, on a terminal only.
fn bar(session: &Session, rows: usize) -> ProgressBar {
    if session.is_quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(rows as u64);
    match ProgressStyle::with_template("{bar:32} {pos} of {len} rows, {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Prints rows and the equivalent commands.
fn listed(sweep: &str, points: &[&RowRequest]) -> String {
    let one = |p: &&RowRequest| {
        let words = row::command(sweep, p);
        let how = match p.program {
            RowProgram::File(_) | RowProgram::Ccl(_) => format!("kbc {}", crash::line(&words)),
            RowProgram::Text(_) => format!("a program of the file, {}", crash::line(&words[2..])),
        };
        format!("{}\n    {}\n", row_name(p), how.trim_end_matches([',', ' ']))
    };
    points.iter().map(one).collect()
}

/// Returns rows and the words of the equivalent commands as JSON.
fn listed_json(sweep: &str, loaded: &Loaded, points: &[&RowRequest]) -> serde_json::Value {
    let axes = || loaded.grid.read.axes.iter().map(|a| a.name.clone());
    let one = |p: &&RowRequest| {
        let labels = p.values.iter().map(|v| serde_json::Value::from(v.label.clone()));
        let values: serde_json::Map<_, _> = axes().zip(labels).collect();
        serde_json::json!({ "row": p.row, "values": values, "command": row::command(sweep, p) })
    };
    serde_json::json!({ "schema": 1, "rows": points.iter().map(one).collect::<Vec<_>>() })
}

/// Writes rows to their destination.
fn finish(session: &Session, args: &Sweep, loaded: &Loaded, lines: &[SweepLine], known: usize) -> Outcome {
    match args.output.as_deref() {
        Some(path) if path.ends_with(".csv") => outdir::write_file(Path::new(path), &table::csv(lines)?)?,
        Some(path) if path.ends_with(".jsonl") => {
            outdir::write_file(Path::new(path), table::jsonl(lines, &loaded.id())?.as_bytes())?;
        }
        Some(folder) => {
            let stem = Path::new(&args.file).file_stem().map_or("rows".into(), |s| s.to_string_lossy());
            let theme = args.theme.unwrap_or(ThemeChoice::Light).into();
            outdir::write(Path::new(folder), &loaded.files(&stem, lines, theme)?, args.force)?;
        }
        // Rows say themselves which of them are wrong or refused.
        None if session.is_json() => session.print_artefact(&table::jsonl(lines, &loaded.id())?),
        None => session.result(&table::human(&loaded.grid, lines)),
    }
    let Counts { right, proven, wrong, refused } = Counts::of(lines);
    if let (Some(out), true) = (&args.output, session.is_json()) {
        let counts =
            serde_json::json!({ "right": right, "proven": proven, "wrong": wrong, "refused": refused });
        session.json(&serde_json::json!({
            "schema": 1,
            "command": "sweep",
            "ok": wrong + refused == 0,
            "output": out,
            "rows": lines.len(),
            "cached": known,
            "status": counts,
        }))?;
    }
    if args.output.is_some() && !session.is_quiet() {
        let mut words = vec![format!("{right} correct")];
        words.extend((proven > 0).then(|| format!("{proven} proven and not executed")));
        words.extend((wrong > 0).then(|| format!("{wrong} wrong")));
        words.extend((refused > 0).then(|| format!("{refused} rejected")));
        let measured = lines.iter().filter(|l| !l.get("transport").is_null()).count();
        words.extend((measured > 0).then(|| format!("{measured} of them measured")));
        words.extend((known > 0).then(|| format!("{known} of them from the cache")));
        session.print_note(&format!("{}: {}\n", count(lines.len() as u64, "row"), words.join(", ")));
    }
    if wrong + refused == 0 {
        return Ok(());
    }
    let title = format!("{wrong} of {} rows are wrong, {refused} are rejected", lines.len());
    let why = lines.iter().find_map(|l| l.get("why").as_str()).unwrap_or("");
    let d = Diagnostic::error("E585", title).note(format!("the first one: {why}"));
    Err(Failure::Program(d.into()))
}
