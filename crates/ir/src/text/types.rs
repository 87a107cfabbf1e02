//! Text of types, meshes and data sources: printing and parsing.

use super::cursor::LineCursor;
use super::lex::{ParseResult, TokenKind};
use super::names::replaced;
use super::words::{quoted, string};
use crate::graph::DataSource;
use crate::grouped::Runs;
use crate::name::Name;
use crate::parts::Parts;
use crate::types::{Axis, Cut, CutRule, DType, Dim, MemKind, Mesh, ReduceOp, TensorType};
use kbc_diag::{Diagnostic, Span};

/// Prints a location, if locations are requested.
pub(super) fn loc(span: Span, wanted: bool) -> String {
    match (wanted, span.is_none()) {
        (false, _) => String::new(),
        (true, true) => " @-".into(),
        (true, false) => format!(" @{}:{}..{}", span.file.0, span.start, span.end),
    }
}

/// Prints a number of an argument list, as an integer if it is one.
pub(super) fn show_number(v: f64) -> String {
    if v == v.trunc() && v.abs() < 9e15 && !(v == 0.0 && v.is_sign_negative()) {
        format!("{}", v as i64)
    } else {
        format!("{v:?}")
    }
}

fn joined(names: &[Name]) -> String {
    names.iter().map(|n| quoted(n)).collect::<Vec<_>>().join(", ")
}

/// Prints one axis plainly, and several (or none) in parentheses.
fn axes(names: &[Name]) -> String {
    match names {
        [a] => quoted(a),
        many => format!("({})", joined(many)),
    }
}

/// Prints a type as in `.kb`: `f32[25, 384@tp] partial(sum@dp)`.
pub(super) fn show_type(t: &TensorType) -> String {
    let mut out = t.dtype.to_string();
    if !t.dims.is_empty() {
        let dims: Vec<String> = t
            .dims
            .iter()
            .map(|d| match &d.cut {
                None => d.size.to_string(),
                Some(c) => {
                    let rule = match &c.rule {
                        CutRule::Even => String::new(),
                        CutRule::Ceil => "(ceil)".into(),
                        CutRule::Lengths(parts) => format!("({parts})"),
                        CutRule::Lines(unit) => format!("(lines {unit})"),
                    };
                    format!("{}@{}{rule}", d.size, axes(&c.axes))
                }
            })
            .collect();
        out += &format!("[{}]", dims.join(", "));
    }
    if let Some((op, over)) = &t.partial {
        out += &format!(" partial({op}@{})", axes(over));
    }
    if let Some((at, axis)) = &t.only {
        out += &format!(" only({at}@{})", quoted(axis));
    }
    out
}

/// Reads an element type.
pub fn dtype(c: &mut LineCursor) -> ParseResult<DType> {
    c.one_of("element type", DType::parse, &DType::ALL.map(DType::name))
}

pub(super) fn memory(c: &mut LineCursor) -> ParseResult<MemKind> {
    c.one_of("memory kind", MemKind::parse, &["hbm", "sram", "tcm", "ub"])
        .map_err(|d| d.note("every buffer and window must state its memory; there is no default"))
}

pub(super) fn combiner(c: &mut LineCursor) -> ParseResult<ReduceOp> {
    c.one_of("combiner", ReduceOp::parse, &["sum", "prod", "min", "max"])
}

/// Reads `index`, which begins the filling of elements by their index.
pub(super) fn index_word(c: &mut LineCursor) -> ParseResult<()> {
    if c.is_word("place") {
        return Err(replaced("place", "index", c.here()));
    }
    c.expect_word("index")
}

/// Reads `@a` or `@(a, b)`.
fn at_axes(c: &mut LineCursor) -> ParseResult<Vec<Name>> {
    if c.eat("@") {
        c.expect("(")?;
        return c.list(")", |c| c.word("an axis"));
    }
    Ok(vec![c.at_word("`@` and an axis")?])
}

pub(super) fn tensor_type(c: &mut LineCursor) -> ParseResult<TensorType> {
    let mut t = TensorType { dtype: dtype(c)?, dims: vec![], partial: None, only: None };
    if c.eat("[") {
        t.dims = c.list("]", dim)?;
    }
    if c.eat_word("partial") {
        c.expect("(")?;
        let op = combiner(c)?;
        t.partial = Some((op, at_axes(c)?));
        c.expect(")")?;
    }
    if c.eat_word("only") {
        c.expect("(")?;
        let at = c.int("a coordinate")?;
        let span = c.here();
        let axis = at_axes(c)?;
        let [axis] = &axis[..] else {
            return Err(Diagnostic::error("E311", "`only` must name one axis").primary(span, "here"));
        };
        t.only = Some((at, axis.clone()));
        c.expect(")")?;
    }
    Ok(t)
}

fn dim(c: &mut LineCursor) -> ParseResult<Dim> {
    let size = c.int("a number of elements")?;
    let mut cut = None;
    if matches!(c.peek(), Some(TokenKind::At(_) | TokenKind::Sym("@"))) {
        let axes = at_axes(c)?;
        let mut rule = CutRule::Even;
        if c.eat("(") {
            if c.eat_word("ceil") {
                c.expect(")")?;
                rule = CutRule::Ceil;
            } else {
                rule = CutRule::Lengths(lengths(c, ")")?);
            }
        }
        cut = Some(Cut { axes, rule });
    }
    Ok(Dim { size, cut })
}

/// Reads a row of lengths after the opening symbol, up to the closing one.
fn lengths(c: &mut LineCursor, close: &'static str) -> ParseResult<Parts> {
    let row = c.list(close, |c| c.int("a length, or `ceil`"))?;
    table(c, &[row])
}

/// Reads rows of lengths: `[3, 0, 5]` or `[[3, 0], [1, 2]]`.
pub(super) fn rows(c: &mut LineCursor) -> ParseResult<Parts> {
    c.expect("[")?;
    if !matches!(c.peek(), Some(TokenKind::Sym("["))) {
        return lengths(c, "]");
    }
    let rows = c.list("]", |c| {
        c.expect("[")?;
        c.list("]", |c| c.int("a length"))
    })?;
    table(c, &rows)
}

fn table(c: &mut LineCursor, rows: &[Vec<u64>]) -> ParseResult<Parts> {
    if rows.iter().any(Vec::is_empty) || rows.is_empty() {
        return Err(
            Diagnostic::error("E311", "rows of lengths must not be empty").primary(c.before(), "here")
        );
    }
    let unequal = || Diagnostic::error("E323", "rows of lengths must have equal length");
    let parts = Parts::new(rows).ok_or_else(|| unequal().primary(c.before(), "here"));
    match (parts, Parts::new(&[vec![1]])) {
        (Err(d), Some(one)) => c.defer(Err(d), || one),
        (parts, _) => parts,
    }
}

/// Reads pairs of numbers: `[[0, 3], [1, 2]]`.
pub(super) fn pairs(c: &mut LineCursor) -> ParseResult<Vec<(u64, u64)>> {
    c.expect("[")?;
    c.list("]", |c| {
        c.expect("[")?;
        let first = c.int("a number")?;
        c.expect(",")?;
        let second = c.int("a number")?;
        c.expect("]")?;
        Ok((first, second))
    })
}

/// Reads runs of rows, each with a matrix and a number of rows.
pub(super) fn runs(c: &mut LineCursor) -> ParseResult<Runs> {
    let start = c.here();
    let list = pairs(c)?;
    let many = || Diagnostic::error("E316", "there are too many rows").primary(start, "here");
    match (Runs::new(list).ok_or_else(many), Runs::new(vec![])) {
        (Err(d), Some(none)) => c.defer(Err(d), || none),
        (runs, _) => runs,
    }
}

/// Reads the rule by which a dimension or a line is cut, which follows the number of parts.
pub(super) fn rule(c: &mut LineCursor) -> ParseResult<CutRule> {
    Ok(match () {
        () if c.eat_word("ceil") => CutRule::Ceil,
        () if c.eat_word("lengths") => CutRule::Lengths(rows(c)?),
        () if c.eat_word("lines") => {
            let span = c.here();
            match c.int("elements of a line")? {
                0 => {
                    let none = Diagnostic::error("E316", "a line must have at least 1 element");
                    c.defer(Err(none.primary(span, "here")), || CutRule::Even)?
                }
                unit => CutRule::Lines(unit),
            }
        }
        () => CutRule::Even,
    })
}

/// Prints such a rule with a leading space.
pub(super) fn show_rule(r: &CutRule) -> String {
    match r {
        CutRule::Even => String::new(),
        CutRule::Ceil => " ceil".into(),
        CutRule::Lengths(parts) => format!(" lengths [{parts}]"),
        CutRule::Lines(unit) => format!(" lines {unit}"),
    }
}

/// Prints the axes of a mesh: `dp 2, tp 6 (x 2, y 3)`.
pub(super) fn show_mesh(m: &Mesh) -> String {
    let axes: Vec<String> = m
        .axes
        .iter()
        .map(|a| {
            let parts: Vec<String> = a.parts.iter().map(|(n, k)| format!("{} {k}", quoted(n))).collect();
            let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            format!("{} {}{parts}", quoted(&a.name), a.size)
        })
        .collect();
    if axes.is_empty() { "mesh".into() } else { format!("mesh {}", axes.join(", ")) }
}

pub(super) fn mesh(c: &mut LineCursor) -> ParseResult<Mesh> {
    let mut axes = vec![];
    while c.peek().is_some() {
        if !axes.is_empty() {
            c.expect(",")?;
        }
        let name = c.word("an axis")?;
        let size = c.int("the size of the axis")?;
        let mut parts = vec![];
        if c.eat("(") {
            parts = c.list(")", |c| Ok((c.word("a machine axis")?, c.int("the size of the axis")?)))?;
        }
        axes.push(Axis { name, size, parts });
    }
    Ok(Mesh { axes })
}

/// Prints `"file" key "k"` or `normal(7)`, followed by its location.
pub(super) fn show_data(d: &DataSource, locs: bool) -> String {
    match d {
        DataSource::File { path, key, span } => {
            let key = key.as_ref().map(|k| format!(" key {}", string(k))).unwrap_or_default();
            format!("{}{key}{}", string(path), loc(*span, locs))
        }
        DataSource::Generator { name, args, span } => {
            let args: Vec<String> = args.iter().map(|a| show_number(*a)).collect();
            format!("{}({}){}", quoted(name), args.join(", "), loc(*span, locs))
        }
    }
}

pub(super) fn data(c: &mut LineCursor) -> ParseResult<DataSource> {
    let start = c.here();
    if let Some(TokenKind::Str(_)) = c.peek() {
        let path = c.string("a file")?;
        let key = if c.eat_word("key") { Some(c.string("a key in quotes")?) } else { None };
        let span = start.to(c.before());
        return Ok(DataSource::File { path, key, span: c.location(span) });
    }
    let name = c.word("a file in quotes or a generator")?;
    c.expect("(")?;
    let args = c.list(")", |c| c.number("a number"))?;
    let span = start.to(c.before());
    Ok(DataSource::Generator { name, args, span: c.location(span) })
}
