//! `kbc sweep`: executes the rows of a grid in parallel, and writes CSV, JSON lines and figures.

use crate::cli::{ReportFormat, Sweep, ThemeChoice};
use crate::crash;
use crate::outdir;
use crate::picture;
use crate::reference;
use crate::report::human::count;
use crate::session::{Failure, Outcome, Session};
use crate::sweep::cache::{self, Cache, digest};
use crate::sweep::figures::{self, Entry};
use crate::sweep::grid::Program;
use crate::sweep::merge::{Part, merge};
use crate::sweep::run::{Found, run as rows};
use crate::sweep::table::{self, Line};
use crate::sweep::{Grid, Point, Status, row, spec};
use indicatif::{ProgressBar, ProgressStyle};
use kbc_diag::{Diagnostic, Diagnostics};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest number of faulty rows that are shown with all their messages.
const SHOWN: usize = 4;

/// Executes the rows of a sweep, or merges those of its shards.
///
/// # Errors
/// Returns E583 for the file, E584 for merging, E585 if a row is wrong or rejected, and the errors
/// of reading and writing files.
pub fn run(session: &mut Session, args: &Sweep) -> Outcome {
    if let Some(out) = args.out.as_ref().filter(|o| o.ends_with(".csv") || o.ends_with(".jsonl")) {
        kbc_compiler::load::refuse(&[("--theme", args.theme.is_some()), ("--force", args.force)], out)?;
    }
    let loaded = load(session, &args.file)?;
    let (grid, text) = (&loaded.grid, &loaded.text);
    let points = chosen(grid, args)?;
    let id = digest(text.as_bytes())[..16].to_owned();
    if !args.merge.is_empty() {
        let lines = merged(session, args, &loaded, &id)?;
        return finish(session, args, &loaded, &id, &lines, 0);
    }
    if args.list {
        session.result(&listed(&args.file, &points));
        return Ok(());
    }
    let cache = cache_of(args)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let bar = bar(session, points.len());
    let mut known = 0usize;
    let found = rows(session, &args.file, &points, jobs, cache.as_ref(), &mut |row| {
        known += usize::from(row.cached);
        bar.set_message(format!("{known} known"));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let found = found?;
    tell(session, grid, &found);
    let lines = table::lines(grid, text, &found.rows)?;
    finish(session, args, &loaded, &id, &lines, known)
}

/// A sweep file, and the figures of its rows.
pub struct Loaded {
    /// Its text.
    pub text: Arc<String>,
    /// Its rows.
    pub grid: Grid,
    /// Its columns.
    pub columns: Vec<String>,
    /// Its figures.
    pub figures: Vec<Entry>,
}

/// Reads a sweep file.
///
/// # Errors
/// E412, E583.
pub fn load(session: &mut Session, path: &str) -> Outcome<Loaded> {
    let (file, text) = session.read(path)?;
    let grid = Grid::new(spec::read(&text, file)?, &text)?;
    let columns: Vec<String> = match grid.points.first() {
        Some(p) => {
            table::line(&grid, &text, p, &row::refused(String::new()))?.0.into_iter().map(|c| c.0).collect()
        }
        None => vec![],
    };
    let mut figures = figures::entries(&grid.read, &text, &columns)?;
    for entry in &mut figures {
        let Some(of) = entry.reference().map(|r| row::beside(path, r)) else { continue };
        let (at, published) = session.read(&of)?;
        let published = reference::read(&published, at)?;
        entry.publish(&published).map_err(|name| {
            let title = format!("{of} has no published time `{name}`");
            spec::wrong(title, spec::place(&text, file, &["figures"], &name))
        })?;
    }
    Ok(Loaded { text, grid, columns, figures })
}

/// Returns the requested rows.
fn chosen<'g>(grid: &'g Grid, args: &Sweep) -> Outcome<Vec<&'g Point>> {
    let usage = |d: Diagnostic| Failure::Usage(Diagnostics::from(d));
    let mut out: Vec<&Point> = grid.points.iter().collect();
    for only in &args.only {
        let (name, values) = only.split_once('=').ok_or_else(|| {
            let d = Diagnostic::error("E413", format!("--only {only} is not AXIS=VALUE"));
            usage(d.help("write --only n=64, or --only n=64,128"))
        })?;
        let axes: Vec<&str> = grid.read.axes.iter().map(|a| a.name.as_str()).collect();
        let at = grid.axis(name).ok_or_else(|| {
            usage(
                Diagnostic::error("E413", format!("the sweep has no axis `{name}`"))
                    .note(format!("axes: {}", axes.join(", "))),
            )
        })?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        for v in &values {
            let all: Vec<&str> = grid.read.axes[at].values.iter().map(|v| v.label.as_str()).collect();
            if !all.contains(v) {
                let d = Diagnostic::error("E413", format!("axis `{name}` has no value `{v}`"));
                return Err(usage(d.note(format!("values: {}", all.join(", ")))));
            }
        }
        out.retain(|p| values.contains(&p.values[at].label.as_str()));
    }
    if let Some(shard) = args.shard {
        out.retain(|p| shard.has(p.row));
    }
    Ok(out)
}

fn cache_of(args: &Sweep) -> Outcome<Option<Cache>> {
    if args.no_cache {
        return Ok(None);
    }
    let folder = args.cache.as_ref().map(PathBuf::from).or_else(cache::folder);
    Ok(folder.and_then(Cache::open))
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

/// Returns the name of a row by its axes: `row 3: torus_2d, 64`.
fn row_name(point: &Point) -> String {
    let labels: Vec<&str> = point.values.iter().map(|v| v.label.as_str()).collect();
    format!("row {}: {}", point.row, labels.join(", "))
}

/// Prints the messages of rows.
pub fn tell(session: &Session, grid: &Grid, found: &Found) {
    for (text, rows) in found.heard.iter().take(SHOWN) {
        let first = rows.first().map_or(String::new(), |r| row_name(&grid.points[*r]));
        let more = if rows.len() > 1 { format!(" and {} more", rows.len() - 1) } else { String::new() };
        session.words(&format!("{first}{more}\n{text}\n"));
    }
    let more = found.heard.len().saturating_sub(SHOWN);
    if more > 0 {
        session.words(&format!("... and {more} more messages; --only shows those of one row\n"));
    }
}

/// Prints rows and the equivalent commands.
fn listed(sweep: &str, points: &[&Point]) -> String {
    let one = |p: &&Point| {
        let words = row::command(sweep, p);
        let how = match p.program {
            Program::File(_) | Program::Ccl(_) => format!("kbc {}", crash::line(&words)),
            Program::Text(_) => format!("a program of the file, {}", crash::line(&words[2..])),
        };
        format!("{}\n    {}\n", row_name(p), how.trim_end_matches([',', ' ']))
    };
    points.iter().map(one).collect()
}

fn merged(session: &mut Session, args: &Sweep, loaded: &Loaded, id: &str) -> Outcome<Vec<Line>> {
    let parts = args.merge.iter().map(|name| Ok((name, session.read(name)?.1)));
    let parts = parts.collect::<Outcome<Vec<_>>>()?;
    let parts: Vec<Part<'_>> = parts.iter().map(|(name, text)| Part { name, text }).collect();
    Ok(merge(&loaded.grid, id, &parts, &loaded.columns)?)
}

/// Writes rows to their destination.
fn finish(
    session: &Session,
    args: &Sweep,
    loaded: &Loaded,
    id: &str,
    lines: &[Line],
    known: usize,
) -> Outcome {
    match args.out.as_deref() {
        Some(path) if path.ends_with(".csv") => outdir::write_file(Path::new(path), &table::csv(lines)?)?,
        Some(path) if path.ends_with(".jsonl") => {
            outdir::write_file(Path::new(path), table::jsonl(lines, id)?.as_bytes())?;
        }
        Some(folder) => {
            let stem = Path::new(&args.file).file_stem().map_or("rows".into(), |s| s.to_string_lossy());
            let mut files = vec![
                (format!("{stem}.csv"), table::csv(lines)?),
                (format!("{stem}.jsonl"), table::jsonl(lines, id)?.into_bytes()),
            ];
            // Figures need the whole grid: a part of it would look like all rows.
            let whole = lines.len() == loaded.grid.points.len();
            let entries = if whole { &loaded.figures[..] } else { &[] };
            for d in figures::draw(
                &loaded.grid.read,
                &stem,
                entries,
                lines,
                args.theme.unwrap_or(ThemeChoice::Light).into(),
            )? {
                let png = d.figure.png(picture::WIDTH).map_err(|f| picture::fault(&d.name, &f))?;
                files.push((format!("{}.svg", d.name), d.figure.svg().as_bytes().to_vec()));
                files.push((format!("{}.png", d.name), png));
            }
            outdir::write(Path::new(folder), &files, args.force)?;
        }
        None => match args.report {
            ReportFormat::Human => session.result(&table::human(&loaded.grid, lines)),
            ReportFormat::Json => session.result(&table::jsonl(lines, id)?),
        },
    }
    let of = |s: Status| lines.iter().filter(|l| l.get("status").as_str() == Some(s.name())).count();
    let [right, proven, wrong, refused] =
        [Status::Right, Status::Proven, Status::Wrong, Status::Refused].map(of);
    if args.out.is_some() && !session.is_quiet() {
        let mut words = vec![format!("{right} correct")];
        words.extend((proven > 0).then(|| format!("{proven} proven and not executed")));
        words.extend((wrong > 0).then(|| format!("{wrong} wrong")));
        words.extend((refused > 0).then(|| format!("{refused} rejected")));
        words.extend((known > 0).then(|| format!("{known} of them from the cache")));
        session.words(&format!("{}: {}\n", count(lines.len() as u64, "row"), words.join(", ")));
    }
    if wrong + refused == 0 {
        return Ok(());
    }
    let title = format!("{wrong} of {} rows are wrong, {refused} are rejected", lines.len());
    let why = lines.iter().find_map(|l| l.get("why").as_str()).unwrap_or("");
    let d = Diagnostic::error("E585", title).note(format!("the first one: {why}"));
    Err(Failure::Program(d.into()))
}
