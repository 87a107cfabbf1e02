//! Listed lengths: the parts of a dimension, `10@ep(lengths: [3, 0, 5, 2])`, and the matrix of an
//! all_to_all, `counts: [[3, 0], [1, 2]]`. A list or a matrix may be replaced by the name of a
//! function of the file.
//!
//! This module evaluates the numbers and checks that there is one per rank. `infer` checks whether
//! a matrix fits its operand.

use super::Cx;
use super::arguments::cannot;
use crate::ast::{Named, OptionValue};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::types::{Axis, CutRule};
use kbc_ir::{Name, Parts};
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::Functions;

/// The largest number of ranks for which lengths may be listed.
const MAX_RANKS: u64 = 1024;

/// A kind of list: its error code, the meaning of its numbers, and the parameters of a function
/// that may replace it.
struct ListKind {
    code: &'static str,
    number: &'static str,
    parameters: &'static str,
}

const PARTS: ListKind = ListKind {
    code: "E216",
    number: "a length",
    parameters: "the rank and the number of ranks, fn f(r, p) = .., or of the source, the destination and the number of ranks, fn f(s, d, p) = .., which is summed over the destinations",
};
const COUNTS: ListKind = ListKind {
    code: "E217",
    number: "a count",
    parameters: "the source, the destination and the number of ranks: fn f(s, d, p) = ..",
};

/// Returns the axis, if lengths may be listed for its number of ranks.
fn listed_for<'a>(what: &ListKind, axis: &'a Axis, span: Span, found: &mut Diagnostics) -> Option<&'a Axis> {
    if axis.size > MAX_RANKS {
        let d = Diagnostic::error(
            what.code,
            format!("a list of lengths for {} ranks, which is too many", axis.size),
        );
        found.push(d.primary(
            span,
            format!(
                "lengths per rank are limited to {MAX_RANKS} ranks, because every rank then has its own sizes"
            ),
        ));
        return None;
    }
    Some(axis)
}

impl Cx<'_> {
    /// Returns a length of a list, or None if an error was reported.
    pub(super) fn length(&self, e: &Expr, found: &mut Diagnostics) -> Option<u64> {
        self.listed(&PARTS, e, found)
    }

    /// Returns the lengths of `@ep(by: rows)`, or None if an error was reported.
    pub(super) fn lengths_by(
        &self,
        f: &Ident,
        (axis, span): (&Name, Span),
        found: &mut Diagnostics,
    ) -> Option<Vec<u64>> {
        let p = listed_for(&PARTS, self.mesh.axis(axis)?, span, found)?.size;
        let f = self.function(&PARTS, f, found)?;
        let matrix = self.library.function(&f).is_some_and(|decl| decl.params.len() == 3);
        let mut length = |r| {
            if !matrix {
                return self.value_of(&PARTS, &f, &[r, p], found);
            }
            let row = (0..p).map(|d| self.value_of(&COUNTS, &f, &[r, d, p], found));
            // On overflow the sum saturates, which is larger than any dimension.
            row.collect::<Option<Vec<u64>>>().map(|row| row.iter().fold(0, |n: u64, c| n.saturating_add(*c)))
        };
        (0..p).map(&mut length).collect()
    }

    /// Returns the split rule of listed lengths, or None if an error was reported.
    pub(super) fn lengths(
        &self,
        lengths: Vec<u64>,
        (axis, span): (&Name, Span),
        size: Option<u64>,
        found: &mut Diagnostics,
    ) -> Option<CutRule> {
        let axis = listed_for(&PARTS, self.mesh.axis(axis)?, span, found)?;
        if lengths.len() as u64 != axis.size {
            found.push(
                Diagnostic::error(
                    "E216",
                    format!("{} lengths for the {} parts of `{}`", lengths.len(), axis.size, axis.name),
                )
                .primary(span, "write one length per coordinate of the axis"),
            );
            return None;
        }
        let sum = lengths.iter().try_fold(0u64, |n, l| n.checked_add(*l));
        let size = size?;
        if sum != Some(size) {
            let sum = sum.map_or("more than fits in 64 bits".to_owned(), |n| n.to_string());
            found.push(
                Diagnostic::error(
                    "E216",
                    format!("the lengths add up to {sum}, and the dimension has {size}"),
                )
                .primary(span, "the parts must cover the whole dimension"),
            );
            return None;
        }
        Parts::row(&lengths).map(CutRule::Lengths)
    }

    /// Returns the matrix of `counts:`, or None if an error was reported.
    pub(super) fn counts(&self, named: &Named, axis: &Name, found: &mut Diagnostics) -> Option<Parts> {
        self.counts_of(named, self.mesh.axis(axis)?, found)
    }

    /// Does the same for axes that form one group.
    pub(super) fn counts_of(&self, named: &Named, axis: &Axis, found: &mut Diagnostics) -> Option<Parts> {
        let p = listed_for(&COUNTS, axis, named.span, found)?.size;
        let rows: Vec<Vec<u64>> = match &named.value {
            OptionValue::Rows(rows) => {
                let wrong = |n: usize, what: &str, at: Span| {
                    Diagnostic::error("E217", format!("{n} {what} for the {p} ranks of `{}`", axis.name))
                        .primary(at, "write one row per rank, with one number per rank")
                };
                if rows.len() as u64 != p {
                    found.push(wrong(rows.len(), "rows of counts", named.span));
                    return None;
                }
                let odd = rows.iter().find(|row| row.node.len() as u64 != p);
                if let Some(row) = odd {
                    found.push(wrong(row.node.len(), "counts in a row", row.span));
                    return None;
                }
                let all = rows.iter().map(|row| {
                    let row: Vec<Option<u64>> =
                        row.node.iter().map(|e| self.listed(&COUNTS, e, found)).collect();
                    row.into_iter().collect::<Option<Vec<u64>>>()
                });
                all.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?
            }
            OptionValue::Expr(Expr { kind: ExprKind::Name(f), span }) => {
                let f = self.function(&COUNTS, &Ident::new(f.clone(), *span), found)?;
                let mut row = |s| (0..p).map(|d| self.value_of(&COUNTS, &f, &[s, d, p], found)).collect();
                (0..p).map(&mut row).collect::<Option<_>>()?
            }
            _ => {
                found.push(cannot(
                    named,
                    "a matrix, [[3, 0], [1, 2]], or the name of a function of the source, the destination and the number of ranks",
                ));
                return None;
            }
        };
        let total = rows.iter().flatten().try_fold(0u64, |n, c| n.checked_add(*c));
        if total.is_none_or(|n| n > i64::MAX as u64 / 8) {
            let d = Diagnostic::error("E217", "the counts add up to more than any memory has");
            found.push(d.primary(named.span, "these"));
            return None;
        }
        Parts::new(&rows)
    }

    fn function(&self, what: &ListKind, name: &Ident, found: &mut Diagnostics) -> Option<Ident> {
        if self.library.function(name).is_some() {
            return Some(name.clone());
        }
        let d = self.library.unknown_function(name, &[]);
        let also = if what.code == "E216" { "; `cut: ceil` divides as PyTorch does" } else { "" };
        found.push(d.note(format!("a name here must be a function of {}{also}", what.parameters)));
        None
    }

    fn value_of(&self, what: &ListKind, f: &Ident, args: &[u64], found: &mut Diagnostics) -> Option<u64> {
        let int = |v: &u64| Expr { kind: ExprKind::Int(*v as i64), span: f.span };
        let call = ExprKind::Call(f.clone(), args.iter().map(int).collect());
        self.listed(what, &Expr { kind: call, span: f.span }, found)
    }

    fn listed(&self, what: &ListKind, e: &Expr, found: &mut Diagnostics) -> Option<u64> {
        let v = self.int(e).map_err(|d| found.push(*d)).ok()?;
        let count = u64::try_from(v).ok();
        if count.is_none() {
            let of = match &e.kind {
                ExprKind::Call(f, args) => {
                    let args = args.iter().filter_map(|a| {
                        if let ExprKind::Int(i) = a.kind { Some(i.to_string()) } else { None }
                    });
                    format!("{}({}) is {v}", f.node, args.collect::<Vec<_>>().join(", "))
                }
                _ => format!("this is {v}"),
            };
            found.push(
                Diagnostic::error(what.code, format!("{} is negative", what.number)).primary(e.span, of),
            );
        }
        count
    }
}
