//! A sweep file that was read: its rows and the figures that are drawn of them; which rows are
//! asked for.

use super::cache::digest;
use super::figures::{self, Entry};
use super::grid::{Grid, Shard};
use super::merge::{RowsFile, merge};
use super::request::RowRequest;
use super::run::SweepRows;
use super::table::{self, SweepLine};
use super::{Status, row, spec};
use crate::published;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_figures::Theme;
use kbc_views::picture::encode;
use std::sync::Arc;

/// Largest number of faulty rows that are shown with all their messages.
const SHOWN: usize = 4;

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
pub fn load(workspace: &mut Workspace, path: &str) -> Outcome<Loaded> {
    let (file, text) = workspace.read(path)?;
    let grid = Grid::new(spec::read(&text, file)?, &text)?;
    let columns: Vec<String> = match grid.points.first() {
        Some(p) => table::line(&grid, &text, p, &row::refused(String::new(), None))?
            .columns
            .into_iter()
            .map(|c| c.0)
            .collect(),
        None => vec![],
    };
    let mut figures = figures::entries(&grid.read, &text, &columns)?;
    for entry in &mut figures {
        let Some(of) = entry.reference().map(|r| row::beside(path, r)) else { continue };
        let (at, published) = workspace.read(&of)?;
        let published = published::read(&published, at)?;
        entry.publish(&published).map_err(|name| {
            let title = format!("{of} has no published time `{name}`");
            spec::wrong(title, spec::place(&text, file, &["figures"], &name))
        })?;
    }
    Ok(Loaded { text, grid, columns, figures })
}

/// Returns the rows with the wanted values of axes (`n=64`, `n=64,128`), and of one shard if there
/// is one.
///
/// # Errors
/// E413: what is no axis, or no value of it.
pub fn chosen<'g>(grid: &'g Grid, only: &[String], shard: Option<Shard>) -> Outcome<Vec<&'g RowRequest>> {
    let usage = |d: Diagnostic| Failure::Usage(Diagnostics::from(d));
    let mut out: Vec<&RowRequest> = grid.points.iter().collect();
    for only in only {
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
    if let Some(shard) = shard {
        out.retain(|p| shard.has(p.row));
    }
    Ok(out)
}

/// Names a row by its axes: `row 3: torus_2d, 64`.
pub fn row_name(point: &RowRequest) -> String {
    let labels: Vec<&str> = point.values.iter().map(|v| v.label.as_str()).collect();
    format!("row {}: {}", point.row, labels.join(", "))
}

impl Loaded {
    /// Returns the digest of the sweep file, by which rows of another file are told apart.
    pub fn id(&self) -> String {
        digest(self.text.as_bytes())[..16].to_owned()
    }

    /// Returns the rows that were executed as lines of a table.
    ///
    /// # Errors
    /// E583: a column of the file cannot be computed.
    pub fn lines(&self, found: &SweepRows) -> Result<Vec<SweepLine>, Diagnostic> {
        table::lines(&self.grid, &self.text, &found.rows)
    }

    /// Returns the files of a folder of rows: both tables, and the figures of the whole grid as SVG
    /// and PNG. Part of the rows makes no figure: it would look like all there is.
    ///
    /// # Errors
    /// E590: rows that cannot be drawn.
    pub fn files(
        &self,
        stem: &str,
        lines: &[SweepLine],
        theme: Theme,
    ) -> Result<Vec<(String, Vec<u8>)>, Diagnostic> {
        let mut files = vec![
            (format!("{stem}.csv"), table::csv(lines)?),
            (format!("{stem}.jsonl"), table::jsonl(lines, &self.id())?.into_bytes()),
        ];
        let whole = lines.len() == self.grid.points.len();
        let entries = if whole { &self.figures[..] } else { &[] };
        for d in figures::draw(&self.grid.read, stem, entries, lines, theme)? {
            for ending in ["svg", "png"] {
                let name = format!("{}.{ending}", d.name);
                let bytes = encode(&name, &d.figure, None)?;
                files.push((name, bytes));
            }
        }
        Ok(files)
    }

    /// Returns what was heard of rows, with the rows that it is about; a few of many messages.
    pub fn heard(&self, found: &SweepRows) -> Vec<String> {
        let mut out = vec![];
        for (text, rows) in found.heard.iter().take(SHOWN) {
            let first = rows.first().map_or(String::new(), |r| row_name(&self.grid.points[*r]));
            let more = if rows.len() > 1 { format!(" and {} more", rows.len() - 1) } else { String::new() };
            out.push(format!("{first}{more}\n{text}\n"));
        }
        let more = found.heard.len().saturating_sub(SHOWN);
        if more > 0 {
            out.push(format!("... and {more} more messages; --only shows those of one row\n"));
        }
        out
    }
}

/// Numbers of rows by their status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Proven, and every element is right.
    pub right: usize,
    /// Proven, but not compared.
    pub proven: usize,
    /// Elements differ.
    pub wrong: usize,
    /// kbc does not compile them.
    pub refused: usize,
}

impl Counts {
    /// Counts rows.
    pub fn of(lines: &[SweepLine]) -> Counts {
        let of = |s: Status| lines.iter().filter(|l| l.get("status").as_str() == Some(s.name())).count();
        let [right, proven, wrong, refused] =
            [Status::Right, Status::Proven, Status::Wrong, Status::Refused].map(of);
        Counts { right, proven, wrong, refused }
    }
}

/// Joins the rows of all shards. `parts` are paths of files of rows (`.jsonl`).
///
/// # Errors
/// Of reading; E584 of what is merged.
pub fn merged(workspace: &mut Workspace, parts: &[String], loaded: &Loaded) -> Outcome<Vec<SweepLine>> {
    let parts = parts.iter().map(|name| Ok((name, workspace.read(name)?.1)));
    let parts = parts.collect::<Outcome<Vec<_>>>()?;
    let parts: Vec<RowsFile<'_>> = parts.iter().map(|(name, text)| RowsFile { name, text }).collect();
    Ok(merge(&loaded.grid, &loaded.id(), &parts, &loaded.columns)?)
}
