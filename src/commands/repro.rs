//! `kbc repro`: generates every figure and table of the documentation from sweeps and reference
//! files, or checks them.

use super::sweep::{load, tell};
use super::{plot, reference};
use crate::checkout;
use crate::cli::{Repro, Selection, Source};
use crate::outdir;
use crate::picture;
use crate::reference::in_ns;
use crate::repro::list::{self, Machine, Reference};
use crate::repro::{Made, tables};
use crate::session::{Failure, Outcome, Session, plain};
use crate::sweep::cache::{self, Cache};
use crate::sweep::run::run as rows;
use crate::sweep::table::{self, Line};
use crate::sweep::{Point, figures};
use kbc_diag::Diagnostic;
use kbc_figures::reference::{Reference as Chart, Row};
use kbc_figures::units::Quantity;
use kbc_figures::{Fault, Heading, Theme};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest number of names in a message.
const NAMED: usize = 12;

/// Generates all files, and writes them or compares them with the existing ones.
///
/// # Errors
/// Returns E589 for the list and for markers in pages, E585 for rows that fail, E590 for figures,
/// and with `--check` E586 if anything is out of date.
pub fn run(session: &mut Session, args: &Repro) -> Outcome {
    let list_file = args.file.clone().unwrap_or_else(|| checkout::find("docs/repro.yaml"));
    let (file, text) = session.read(&list_file)?;
    let list = list::read(&text, file)?;
    let base = Path::new(&list_file).parent().map(Path::to_path_buf).unwrap_or_default();
    let beside = |path: &str| plain(&base.join(path)).to_string_lossy().into_owned();
    let cache = if args.no_cache { None } else { args.cache.as_ref().map(Into::into).or_else(cache::folder) };
    let cache = cache.and_then(Cache::open);
    let mut folder: Vec<Made> = vec![];
    let mut sweeps: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for sweep in &list.sweeps {
        let path = beside(sweep);
        session.progress(&path);
        let stem = Path::new(sweep).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let lines = swept(session, &path, &stem, cache.as_ref(), &mut folder)?;
        sweeps.insert(stem, lines);
    }
    for r in &list.references {
        session.progress(&r.file);
        folder.push(published(session, r, &beside(&r.file))?);
    }
    for m in &list.machines {
        session.progress(&m.file);
        folder.push(machine(session, m, &beside)?);
    }
    let mut pages = vec![];
    for page in &list.pages {
        let path = beside(page);
        let (file, text) = session.read(&path)?;
        let made = tables::remade(&text, file, &sweeps)?;
        pages.push((path, text, made));
    }
    let out = PathBuf::from(beside(&list.folder));
    if args.check {
        let off = drifted(&out, &folder, &pages);
        if off.is_empty() {
            session.result(&format!("{} files and {} pages are up to date", folder.len(), pages.len()));
            return Ok(());
        }
        let more = off.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let title = format!(
            "out of date compared with sweeps and reference files: {} of {}",
            off.len(),
            folder.len() + pages.len()
        );
        let d = Diagnostic::error("E586", title)
            .note(format!("{}{more}", off[..off.len().min(NAMED)].join(", ")))
            .help(format!("write them with kbc repro {list_file}"));
        return Err(Failure::Program(d.into()));
    }
    let files: Vec<(String, Vec<u8>)> = folder.into_iter().map(|m| (m.path, m.bytes)).collect();
    outdir::write(&out, &files, args.force)?;
    let mut written = 0;
    for (path, old, new) in &pages {
        if **old != *new {
            outdir::write_file(Path::new(path), new.as_bytes())?;
            written += 1;
        }
    }
    session.result(&format!(
        "{} files in {}, {written} of {} pages changed",
        files.len(),
        out.display(),
        pages.len()
    ));
    Ok(())
}

/// Makes the rows of a sweep. Its file and figures go into the folder.
fn swept(
    session: &mut Session,
    path: &str,
    stem: &str,
    cache: Option<&Cache>,
    folder: &mut Vec<Made>,
) -> Outcome<Vec<Line>> {
    let loaded = load(session, path)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let points: Vec<&Point> = loaded.grid.points.iter().collect();
    let found = rows(session, path, &points, jobs, cache, &mut |_| {})?;
    let lines = table::lines(&loaded.grid, &loaded.text, &found.rows)?;
    if let Some(bad) = found.rows.iter().find(|r| !r.facts.status.holds()) {
        tell(session, &loaded.grid, &found);
        let title = format!("row {} of {path} is {}", bad.row, bad.facts.status.name());
        let d = Diagnostic::error("E585", title).note(bad.facts.why.clone().unwrap_or_default());
        return Err(Failure::Program(d.into()));
    }
    folder.push(Made { path: format!("{stem}.csv"), bytes: table::csv(&lines)? });
    for d in figures::draw(&loaded.grid.read, stem, &loaded.figures, &lines, Theme::Light)? {
        folder.push(Made { path: format!("{}.svg", d.name), bytes: d.figure.svg().as_bytes().to_vec() });
    }
    Ok(lines)
}

/// Draws a machine with the use of every link in a call.
fn machine(session: &mut Session, m: &Machine, beside: &dyn Fn(&str) -> String) -> Outcome<Made> {
    let topology = m.topology.as_ref().map(|t| if is_file(t) { beside(t) } else { t.clone() });
    let define = m.define.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let of =
        Selection { topology, define, set: m.set.clone(), using: m.using.clone(), ..Selection::default() };
    let source = Source { file: beside(&m.file), of, post: None };
    let figure = plot::call(&mut session.fresh(vec![]), &source, &m.name, Theme::Light)?;
    Ok(Made { path: format!("{}.svg", m.name), bytes: figure.svg().as_bytes().to_vec() })
}

/// Checks whether `--topology` is a machine file.
fn is_file(topology: &str) -> bool {
    topology.ends_with(".yaml") || topology.ends_with(".yml")
}

/// Draws published figures beside those of kbc.
fn published(session: &mut Session, r: &Reference, path: &str) -> Outcome<Made> {
    let found = reference::one(session, path)?;
    let row = |f: &reference::Row| {
        let scale = in_ns(&f.unit)?;
        Some(Row { name: f.name.clone(), model: f.ours? * scale, reference: f.published? * scale })
    };
    let all: Vec<Row> = found.figures.iter().filter_map(row).collect();
    let rows = if r.only.is_empty() {
        all
    } else {
        let named = |n: &String| {
            let it = all.iter().find(|a| a.name == *n).cloned();
            it.ok_or_else(|| {
                picture::fault(
                    &r.name,
                    &Fault::new(format!("{path} has no time `{n}` that is published and measured")),
                )
            })
        };
        r.only.iter().map(named).collect::<Result<_, _>>()?
    };
    let chart = Chart {
        heading: Heading::new(&r.title, &r.subtitle),
        quantity: Quantity::Time,
        label: "time".into(),
        names: ["kbc".into(), "published".into()],
        rows,
    };
    let figure = chart.draw().map_err(|f| picture::fault(&r.name, &f))?;
    Ok(Made { path: format!("{}.svg", r.name), bytes: figure.svg().as_bytes().to_vec() })
}

/// Returns the files that differ, are missing, or are not generated any more.
fn drifted(out: &Path, folder: &[Made], pages: &[(String, std::sync::Arc<String>, String)]) -> Vec<String> {
    let shown = |name: &str| out.join(name).to_string_lossy().into_owned();
    let mut off: Vec<String> = folder
        .iter()
        .filter(|m| std::fs::read(out.join(&m.path)).ok().as_ref() != Some(&m.bytes))
        .map(|m| shown(&m.path))
        .collect();
    let there = std::fs::read_dir(out).map(|d| d.flatten().map(|e| e.file_name()).collect::<Vec<_>>());
    let mut over: Vec<String> = there
        .unwrap_or_default()
        .iter()
        .map(|n| n.to_string_lossy().into_owned())
        .filter(|n| n != outdir::MANIFEST && folder.iter().all(|m| m.path != *n))
        .map(|n| format!("{} (no sweep makes it)", shown(&n)))
        .collect();
    over.sort();
    off.extend(over);
    off.extend(pages.iter().filter(|p| *p.1 != p.2).map(|p| p.0.clone()));
    off
}
