//! Making the files and pages of the documentation from sweeps and reference files.

use super::list::{self, MachinePicture, ReferenceChart};
use super::{DocFile, tables};
use crate::published::{self, in_ns, one};
use crate::sweep::load::load;
use crate::sweep::run::{Within, run as rows};
use crate::sweep::table::{self, SweepLine};
use crate::sweep::{RowRequest, figures};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::options::{Selection, Source};
use kbc_compiler::workspace::{Workspace, plain};
use kbc_diag::Diagnostic;
use kbc_figures::reference::{Reference as Chart, ReferenceRow};
use kbc_figures::units::Quantity;
use kbc_figures::{Fault, Heading, Theme};
use kbc_views::machines::links;
use kbc_views::picture::fault;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the rows of sweeps are executed, and who hears messages about them.
pub struct How<'a> {
    /// Threads and cache.
    pub within: Within<'a>,
    /// Hears messages about rows that fail.
    pub hear: &'a mut dyn FnMut(&str),
}

/// A page with tables.
pub struct Page {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: Arc<String>,
    /// The text that it should have.
    pub made: String,
}

/// All files and pages that a list names.
pub struct All {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The files that should be in it.
    pub files: Vec<DocFile>,
    /// The pages.
    pub pages: Vec<Page>,
}

/// Makes all files and pages that a list names; the list is the path of its file.
///
/// # Errors
/// E589 of the list and of markers in pages, E585 for rows that fail, E590 for figures.
pub fn make(workspace: &mut Workspace, list_file: &str, how: &mut How<'_>) -> Outcome<All> {
    let (file, text) = workspace.read(list_file)?;
    let list = list::read(&text, file)?;
    let base = Path::new(list_file).parent().map(Path::to_path_buf).unwrap_or_default();
    let beside = |path: &str| plain(&base.join(path)).to_string_lossy().into_owned();
    let mut files: Vec<DocFile> = vec![];
    let mut sweeps: BTreeMap<String, Vec<SweepLine>> = BTreeMap::new();
    for sweep in &list.sweeps {
        let path = beside(sweep);
        workspace.progress(&path);
        let stem = Path::new(sweep).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let lines = swept(workspace, &path, &stem, how, &mut files)?;
        sweeps.insert(stem, lines);
    }
    for r in &list.references {
        workspace.progress(&r.file);
        files.push(published(workspace, r, &beside(&r.file))?);
    }
    for m in &list.machines {
        workspace.progress(&m.file);
        files.push(machine(workspace, m, &beside)?);
    }
    let mut pages = vec![];
    for page in &list.pages {
        let path = beside(page);
        let (file, text) = workspace.read(&path)?;
        let made = tables::remade(&text, file, &sweeps)?;
        pages.push(Page { path, text, made });
    }
    Ok(All { folder: PathBuf::from(beside(&list.folder)), files, pages })
}

/// Makes the rows of a sweep. Its file and figures go into the folder.
fn swept(
    workspace: &mut Workspace,
    path: &str,
    stem: &str,
    how: &mut How<'_>,
    folder: &mut Vec<DocFile>,
) -> Outcome<Vec<SweepLine>> {
    let loaded = load(workspace, path)?;
    let points: Vec<&RowRequest> = loaded.grid.points.iter().collect();
    if points.iter().any(|p| p.engine.measures()) {
        let title = format!("{path} measures this computer: its rows differ from run to run");
        let help = "kbc sweep runs it; the documentation is made from rows that are computed";
        return Err(Diagnostic::error("E589", title).primary(loaded.grid.span(), "here").help(help).into());
    }
    let found = rows(workspace, path, &points, &how.within, &mut |_| {})?;
    let lines = loaded.lines(&found)?;
    if let Some(bad) = found.rows.iter().find(|r| !r.facts.status.holds()) {
        loaded.heard(&found).iter().for_each(|text| (how.hear)(text));
        let title = format!("row {} of {path} is {}", bad.row, bad.facts.status.name());
        let d = Diagnostic::error("E585", title).note(bad.facts.why.clone().unwrap_or_default());
        return Err(Failure::Program(d.into()));
    }
    folder.push(DocFile { path: format!("{stem}.csv"), bytes: table::csv(&lines)? });
    for d in figures::draw(&loaded.grid.read, stem, &loaded.figures, &lines, Theme::Light)? {
        folder.push(DocFile { path: format!("{}.svg", d.name), bytes: d.figure.svg().as_bytes().to_vec() });
    }
    Ok(lines)
}

/// Draws a machine with the use of every link in a call.
fn machine(
    workspace: &mut Workspace,
    m: &MachinePicture,
    beside: &dyn Fn(&str) -> String,
) -> Outcome<DocFile> {
    let topology = m.topology.as_ref().map(|t| if is_file(t) { beside(t) } else { t.clone() });
    let define = m.define.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let of =
        Selection { topology, define, set: m.set.clone(), using: m.using.clone(), ..Selection::default() };
    let source = Source { file: beside(&m.file), of, post: None };
    let figure = links(&mut workspace.fresh(vec![]), &source, &m.name, Theme::Light)?;
    Ok(DocFile { path: format!("{}.svg", m.name), bytes: figure.svg().as_bytes().to_vec() })
}

/// Checks whether `--topology` is a machine file.
fn is_file(topology: &str) -> bool {
    topology.ends_with(".yaml") || topology.ends_with(".yml")
}

/// Draws published figures beside those of kbc.
fn published(workspace: &mut Workspace, r: &ReferenceChart, path: &str) -> Outcome<DocFile> {
    let found = one(workspace, path)?;
    if let Some(failed) = found.figures.iter().find(|f| f.failed) {
        let why = format!("the program of `{}` in {path} fails", failed.name);
        return Err(fault(&r.name, &Fault::new(why)).into());
    }
    let row = |f: &published::Row| {
        let scale = in_ns(&f.unit)?;
        Some(ReferenceRow { name: f.name.clone(), model: f.ours? * scale, reference: f.published? * scale })
    };
    let all: Vec<ReferenceRow> = found.figures.iter().filter_map(row).collect();
    let rows = if r.only.is_empty() {
        all
    } else {
        let named = |n: &String| {
            let it = all.iter().find(|a| a.name == *n).cloned();
            it.ok_or_else(|| {
                fault(
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
    let figure = chart.draw().map_err(|f| fault(&r.name, &f))?;
    Ok(DocFile { path: format!("{}.svg", r.name), bytes: figure.svg().as_bytes().to_vec() })
}
