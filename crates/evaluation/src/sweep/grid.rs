//! The rows of a sweep: all combinations of the values of its axes, with the templates filled in.
//!
//! This module owns `{axis}` and `{axis.part}`, the order of rows, and shards.

use super::columns::{self, FAILURE};
use super::request::{RowEngine, RowProgram, RowRequest};
use super::spec::{Axis, AxisValue, Read, is_name, place, wrong};
use kbc_compiler::options::Selection;
use kbc_diag::{Diagnostic, FileId, Span};
use std::collections::BTreeSet;

/// A sweep with its rows.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The file.
    pub read: Read,
    /// Its rows; the last axis varies fastest.
    pub points: Vec<RowRequest>,
}

/// Largest number of rows of a sweep.
const MAX_ROWS: usize = 1_000_000;

/// A piece of a template: text, or a name with an optional part between braces.
enum Piece<'t> {
    Text(&'t str),
    Hole { name: &'t str, part: Option<&'t str>, braces: &'t str },
}

/// Splits a template. A `{` that is not followed by a name and `}` is text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = vec![];
    let mut rest = text;
    let mut from = 0;
    while let Some(open) = rest[from..].find('{').map(|o| o + from) {
        // The search ends after a name and a part, so that a text of many open braces is scanned
        // only once.
        let part_of = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let inside = &rest[open + 1..];
        let inside = &inside[..inside.find(|c| !part_of(c)).unwrap_or(inside.len())];
        let (name, part) = inside.split_once('.').map_or((inside, None), |(n, p)| (n, Some(p)));
        let closed = rest[open + 1 + inside.len()..].starts_with('}');
        if !closed || !is_name(name) || part.is_some_and(|p| !is_name(p)) {
            from = open + 1;
            continue;
        }
        let end = open + inside.len() + 2;
        out.push(Piece::Text(&rest[..open]));
        out.push(Piece::Hole { name, part, braces: &rest[open..end] });
        (rest, from) = (&rest[end..], 0);
    }
    out.push(Piece::Text(rest));
    out
}

/// Fills in a template. `of` returns the value of a name, or `None` for an unknown one.
///
/// # Errors
/// Returns the unknown hole, with its braces.
pub fn fill(text: &str, of: &mut dyn FnMut(&str, Option<&str>) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(t) => out += t,
            Piece::Hole { name, part, braces } => out += &of(name, part).ok_or_else(|| braces.to_owned())?,
        }
    }
    Ok(out)
}

impl Grid {
    /// Makes the rows of a file.
    ///
    /// # Errors
    /// Returns E583 for a name between braces that is not an axis, an axis that changes nothing, a
    /// duplicate column, or too many rows.
    pub fn new(read: Read, text: &str) -> Result<Grid, Diagnostic> {
        let at = |under: &str, word: &str| place(text, read.file, &[under], word);
        let sizes = read.axes.iter().map(|a| a.values.len());
        let rows = sizes.clone().try_fold(1usize, usize::checked_mul).filter(|n| *n <= MAX_ROWS);
        let rows = rows
            .ok_or_else(|| wrong(format!("a sweep can have at most {MAX_ROWS} rows"), at("axes", "axes")))?;
        let mut seen: BTreeSet<&str> = columns::of(read.measures()).map(|u| u.0).collect();
        seen.insert(FAILURE);
        let axes = read.axes.iter().map(|a| ("axes", &a.name));
        for (under, name) in axes.chain(read.columns.iter().map(|c| ("columns", &c.0))) {
            if !seen.insert(name) {
                return Err(wrong(format!("there are two columns `{name}`"), at(under, name)));
            }
        }
        let mut used = BTreeSet::new();
        let points = (0..rows)
            .map(|row| point(&read, row, &mut used))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|(title, word)| wrong(title, hole(text, read.file, &word)))?;
        if let Some(a) = read.axes.iter().find(|a| !used.contains(&a.name)) {
            let d = wrong(format!("axis `{}` has no effect", a.name), at("axes", &a.name));
            return Err(d.note(format!("no template of the file has {{{}}} in it", a.name)));
        }
        let measured = points.iter().any(|p| p.engine.measures());
        if read.spec.measure.is_some() && !measured {
            return Err(wrong(
                "`measure` has no effect: no row has the engine host or mpi",
                at("measure", "measure"),
            ));
        }
        Ok(Grid { read, points })
    }

    /// Returns the span of the file.
    pub fn span(&self) -> Span {
        Span::new(self.read.file, 0, 0)
    }

    /// Returns the axis with a name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.read.axes.iter().position(|a| a.name == name)
    }
}

/// Returns the span of these words between braces in a template.
fn hole(text: &str, file: FileId, word: &str) -> Span {
    let at = text.find(&format!("{{{word}}}")).map(|at| at + 1);
    at.map_or_else(|| place(text, file, &[], word), |at| Span::new(file, at, at + word.len()))
}

/// Makes a row. The error is a message and the word to which it refers.
fn point(read: &Read, row: usize, used: &mut BTreeSet<String>) -> Result<RowRequest, (String, String)> {
    let mut left = row;
    let mut values: Vec<&AxisValue> = vec![];
    for axis in read.axes.iter().rev() {
        values.push(&axis.values[left % axis.values.len()]);
        left /= axis.values.len();
    }
    values.reverse();
    let mut of = |name: &str, part: Option<&str>| {
        let found = value(&read.axes, &values, name, part)?;
        used.insert(name.to_owned());
        Some(found)
    };
    let mut full = |text: &str| {
        let unknown = |hole: String| {
            let inside = hole.trim_matches(['{', '}']).to_owned();
            (format!("`{hole}` is neither an axis nor a part of all values of an axis"), inside)
        };
        fill(text, &mut of).map_err(unknown)
    };
    let spec = &read.spec;
    // Braces in the text of a program belong to the program, unless they enclose the name of an
    // axis.
    let program = match (&spec.ccl, &spec.text) {
        (Some(ccl), _) => RowProgram::Ccl(full(ccl.trim())?),
        (None, Some(program)) => {
            let text = pieces(program).into_iter().map(|p| match p {
                Piece::Text(t) => t.to_owned(),
                Piece::Hole { braces, .. } => full(braces).unwrap_or_else(|_| braces.to_owned()),
            });
            RowProgram::Text(text.collect())
        }
        (None, None) => RowProgram::File(full(spec.file.as_deref().unwrap_or("").trim())?),
    };
    let define = read.define.iter().map(|(n, v)| Ok(format!("{n}={}", full(v)?)));
    let define = define.collect::<Result<_, (String, String)>>()?;
    let engine = spec.engine.as_deref().map(&mut full).transpose()?;
    let engine = match engine.as_deref().map(str::trim) {
        None => RowEngine::Sim,
        Some(name) => RowEngine::named(name).ok_or_else(|| {
            let all = RowEngine::ALL.map(RowEngine::name).join(", ");
            (format!("unknown engine `{name}`; the engines are {all}"), name.to_owned())
        })?,
    };
    let point = RowRequest {
        row,
        program,
        engine,
        of: Selection {
            define,
            topology: spec.topology.as_deref().map(&mut full).transpose()?,
            mesh: spec.mesh.as_deref().map(&mut full).transpose()?,
            set: spec.set.iter().map(|s| full(s)).collect::<Result<_, _>>()?,
            program: spec.program.as_deref().map(&mut full).transpose()?,
            algorithm: spec.algorithm.as_deref().map(&mut full).transpose()?.filter(|a| !a.is_empty()),
            ranks: read.ranks.as_deref().map(&mut full).transpose()?,
            using: spec.using.iter().map(|u| full(u)).collect::<Result<_, _>>()?,
            order: spec.order.as_deref().map(&mut full).transpose()?,
            effort: read.effort.as_deref().map(&mut full).transpose()?,
            fuse: read.fuse.as_deref().map(&mut full).transpose()?,
        },
        values: values.iter().map(|v| (*v).clone()).collect(),
    };
    Ok(point)
}

/// Returns the value of an axis, or of a part of its value, in a row.
pub fn value(axes: &[Axis], values: &[&AxisValue], name: &str, part: Option<&str>) -> Option<String> {
    let value = values[axes.iter().position(|a| a.name == name)?];
    match part {
        None => Some(value.label.clone()),
        Some(part) => value.parts.get(part).cloned(),
    }
}

/// A part of the rows, written as `2/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Its number, from 1.
    pub number: usize,
    /// The number of shards.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let shard = text
            .split_once('/')
            .and_then(|(i, n)| Some(Shard { number: i.trim().parse().ok()?, of: n.trim().parse().ok()? }));
        let fits = |s: &Shard| (1..=s.of).contains(&s.number);
        shard.filter(fits).ok_or_else(|| "a shard is I/N with I from 1 to N, such as 2/8".to_owned())
    }
}

impl Shard {
    /// Checks whether a row is in the shard.
    pub fn has(self, row: usize) -> bool {
        row % self.of == self.number - 1
    }
}
