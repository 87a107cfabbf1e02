//! The text form of modules, `.kir`: the only serialization of kbc.
//!
//! Each line holds one operation, indentation makes blocks, and `;` opens a comment (inside
//! brackets it is a separator). Names are kept as hints: if two values share a name, the second is
//! printed as `%x#1`, and reading returns the hint `x`. `parse(print(m))` yields `m`, except for
//! its source locations; with printed locations it yields them, too. `docs/reference/ir.md` defines
//! the text. The parser rejects only text that it cannot represent; [`crate::verify`] decides
//! whether the module is well-formed.
//!
//! Error codes: E310 characters, E311 syntax, E312 unknown names, E313 duplicate declarations, E314
//! structure, E315 unknown words, E316 numbers and sizes out of range, E317 another version of the
//! format, E318 unused kernels.

mod attributes;
mod cursor;
mod equivalent;
mod expr;
mod fmt;
mod json;
mod kernels;
mod labels;
mod lex;
mod lines;
pub(crate) mod names;
mod ops;
mod parse;
mod parse_graph;
mod parse_schedule;
mod print_graph;
mod print_schedule;
mod tiles;
mod types;
mod words;

/// The means to read and write lines, tokens, names and expressions of `.kir`, for the text forms
/// of other levels.
pub mod reader {
    pub use super::cursor::LineCursor;
    pub use super::expr::{ATOM, atom, expr, show};
    pub use super::lex::{Label, LineNode, MAX_DEPTH, ParseResult, Token, TokenKind, tree};
    pub use super::lines::{head, keep, leaf};
    pub use super::names::{Names, labels, unknown};
    pub use super::types::dtype;
    pub use super::words::{quoted, string};
}

pub use attributes::retain_attributes;
pub use equivalent::{equivalent, identical};
pub use fmt::format;
pub use json::{json, json_schema};
pub use parse::parse;

use crate::expr::Expr;
use crate::module::{Body, Module, Props};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use words::{quoted, string};

/// Version of the format, which stands in its first line.
pub const VERSION: u64 = 1;

/// Options for what is printed beside the module itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// Whether to print source locations at the ends of lines: ` @FILE:FIRST..END` in bytes, or
    /// ` @-` for no location.
    pub locs: bool,
}

/// Returns the module as text.
pub fn print(m: &Module, options: &PrintOptions) -> String {
    attributes::put(m, print_plain(m, options))
}

/// Returns the module as text without its attributes.
fn print_plain(m: &Module, options: &PrintOptions) -> String {
    let mut out = format!("kir {VERSION}\nmodule @{}\n", quoted(&m.name));
    if let Some(machine) = &m.machine {
        let plain = !machine.is_empty()
            && machine.trim() == machine
            && !machine.starts_with('"')
            && !machine.chars().any(|c| c == ';' || c.is_control());
        out += &format!("machine {}\n", if plain { machine.clone() } else { string(machine) });
    }
    out += &types::show_mesh(&m.mesh);
    out.push('\n');
    if m.props != Props::NONE {
        out += &format!("props {}\n", m.props.names().join(" "));
    }
    match &m.body {
        Body::Graph(g) => print_graph::graph(g, options.locs, &mut out),
        Body::Local(l) => print_graph::local(l, options.locs, &mut out),
        Body::Schedule(s) => print_schedule::schedule(s, s.name == m.name, options.locs, &mut out),
    }
    out
}

/// Returns the text of every operation of a schedule, by the number that [`crate::walk`] gives it.
pub fn operations(s: &crate::schedule::Schedule) -> Vec<String> {
    print_schedule::operations(s)
}

/// Returns the expression as `.kir` text, with names quoted where necessary.
pub fn print_expr(e: &Expr) -> String {
    expr::show(e, 0)
}

/// Reads an expression as [`print_expr`] writes it.
///
/// # Errors
/// Returns E310, E311, E315 or E316.
pub fn parse_expr(file: FileId, text: &str) -> Result<Expr, Diagnostics> {
    one_line(file, text, "an expression must be one line", expr::expr)
}

/// Reads an algorithm with its arguments, such as `ring(d: -1) with (pipeline: 4)`, in the form
/// that follows `using` in a graph.
///
/// # Errors
/// Returns E310, E311, E315 or E316.
pub fn parse_using(file: FileId, text: &str) -> Result<crate::graph::Using, Diagnostics> {
    let whole = Span::new(file, 0, text.len());
    one_line(file, text, "an algorithm must be one line", |c| parse_graph::using(c, whole))
}

/// Reads a text that consists of exactly one line.
fn one_line<T>(
    file: FileId,
    text: &str,
    what: &str,
    read: impl FnOnce(&mut cursor::LineCursor<'_>) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostics> {
    let mut out = Diagnostics::new();
    let nodes = lex::tree(file, text, &mut out);
    if out.has_errors() {
        return Err(out);
    }
    let [line] = &nodes[..] else {
        let end = text.len().min(u32::MAX as usize);
        out.push(Diagnostic::error("E311", what).primary(Span::new(file, 0, end), "here"));
        return Err(out);
    };
    let mut c = cursor::LineCursor::new(&line.toks, line.span);
    read(&mut c).and_then(|e| c.finish().map(|()| e)).map_err(Diagnostics::from)
}
