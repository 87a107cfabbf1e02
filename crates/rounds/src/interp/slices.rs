//! Slices: the places that `[i; k of n][j of m]` denotes from one point of view.

use kbc_diag::{Diagnostic, Span};

use super::{Checked, ChunkSelection, Domain, Outcome, no_parts};
use crate::ast::{AlgorithmDecl, Block, SelectorKind, Slice, StmtKind};
use crate::evaluator::Values;
use crate::scope::unknown;
use crate::write;
use crate::write::selector_text;

/// Returns the places that a slice denotes.
///
/// # Errors
/// Returns E027 for an unknown buffer, E028 for a wrong selector, and the errors of the evaluation.
pub fn slice<'a, D: Domain<'a>>(
    d: &mut D,
    f: &D::Frame,
    here: D::Viewpoint,
    s: &Slice,
) -> Outcome<'a, D, D::Region> {
    let buffers = d.buffers(f);
    let buffer = match &s.buffer {
        None if d.given(f) == 1 => buffers.first(),
        None => None,
        Some(name) => buffers.iter().rev().find(|b| b.name == name.node),
    };
    let Some(buffer) = buffer else {
        let valid: Vec<String> = buffers.iter().map(|b| b.name.to_owned()).collect();
        let (name, span) = s.buffer.as_ref().map_or(("", s.span), |n| (n.node.as_str(), n.span));
        return Err(d.located(f, here, unknown("E027", "buffer", name, span, &valid)));
    };
    let only = s.selectors.len() == 1;
    if only && s.selectors.iter().all(|s| s.kind == SelectorKind::All) {
        return Ok(buffer.region.clone());
    }
    let mut places = d.whole(&buffer.region);
    for (i, selector) in s.selectors.iter().enumerate() {
        let span = selector.span;
        let (chunks, count) = match &selector.kind {
            SelectorKind::All if i == 0 => (d.all(&buffer.chunks), buffer.chunks.clone()),
            SelectorKind::Part { index, len, gens, of } if i == 0 || of.is_some() => {
                let count = match of {
                    Some(c) => d.on(f, here, |eval, scope| eval.int(&c.n, scope))?,
                    None => buffer.chunks.clone(),
                };
                if let Some(k) = d.evaluator().values.known(&count).filter(|k| *k < 1) {
                    let e = no_parts(k, span, "here").help("the number after `of` must be at least 1");
                    return Err(d.located(f, here, Box::new(e)));
                }
                let decl = d.decl(f);
                let wraps = match of {
                    Some(c) => c.wraps,
                    None => decl.axes.iter().all(|a| a.wraps),
                };
                let name = buffer.name;
                let checked = || Checked {
                    text: selector_text(index, len.as_ref(), gens.is_some()),
                    count: match of {
                        Some(c) => write::expr(&c.n),
                        None => parts_of(decl, name),
                    },
                    place: match of {
                        Some(c) => c.word_span,
                        None => Span {
                            start: span.end.saturating_sub(1),
                            end: span.end.saturating_sub(1),
                            ..span
                        },
                    },
                    span,
                };
                let checked: Option<&dyn Fn() -> Checked> = if wraps { None } else { Some(&checked) };
                let chosen = ChunkSelection { index, len: len.as_ref(), gens: gens.as_ref(), checked };
                (d.chunks(f, here, chosen, &count, span)?, count)
            }
            SelectorKind::All | SelectorKind::Part { .. } => {
                let e = Diagnostic::error("E028", "the second and every later selector needs `of`")
                    .primary(span, "the number of parts is missing")
                    .help("write `[i of n]`: part i of n of each chunk that the selectors before it select");
                return Err(d.located(f, here, Box::new(e)));
            }
        };
        places = d.cut(places, chunks, count, i + 1 == s.selectors.len(), span)?;
    }
    Ok(d.selected(places))
}

/// Returns the number of chunks of a buffer as the text states it: that of its scratch, that of the
/// algorithm, or the number of ranks.
fn parts_of(decl: &AlgorithmDecl, buffer: &str) -> String {
    if let Some(count) = scratch(&decl.body, buffer) {
        return count;
    }
    match &decl.chunks {
        Some(e) => write::expr(e),
        None => decl.axes.iter().map(|a| a.size.node.as_str()).collect::<Vec<_>>().join("*"),
    }
}

/// Returns the size of the scratch with this name.
fn scratch(b: &Block, name: &str) -> Option<String> {
    b.stmts.iter().find_map(|s| match &s.kind {
        StmtKind::Scratch(n, e) if n.node == name => Some(write::expr(e)),
        StmtKind::For(_, _, b) | StmtKind::Each(_, b) | StmtKind::Block(b) => scratch(b, name),
        StmtKind::If(_, a, b) => scratch(a, name).or_else(|| b.as_ref().and_then(|b| scratch(b, name))),
        _ => None,
    })
}
