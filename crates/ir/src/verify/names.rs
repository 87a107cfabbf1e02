//! Rules for the names in expressions of schedules: V2, V12, and V13 for entries of tables.
//! [`super`] lists all rules.

use super::{Report, Rule, V2, V12, V13};
use crate::expr::Expr;
use crate::schedule::{CALL, Schedule};
use kbc_diag::Span;
use std::collections::BTreeSet;

/// Checks V2 and V12: an expression depends only on the given names.
pub(super) fn depends(s: &Schedule, e: &Expr, allowed: &[&str], what: &str, span: Span, out: &mut Report) {
    tables(s, e, span, out);
    let mut done = BTreeSet::new();
    e.vars(&mut |n| {
        if allowed.contains(&n.as_str()) || !done.insert(n.clone()) {
            return;
        }
        let known = *n == CALL || s.mesh.axis(n).is_some();
        let list = if allowed.is_empty() { "constants".into() } else { allowed.join(", ") };
        if known {
            out.fail(V12, format!("{what} cannot depend on `{n}`, only on {list}"), span, "here");
        } else {
            unknown(V2, "name with a value", n, allowed, span, out);
        }
    });
}

/// Checks V2: the tables that an expression reads exist.
pub(super) fn tables(s: &Schedule, e: &Expr, span: Span, out: &mut Report) {
    match e {
        Expr::Int(_) | Expr::Var(_) => {}
        Expr::Un(_, a) => tables(s, a, span, out),
        Expr::Bin(_, a, b) => {
            tables(s, a, span, out);
            tables(s, b, span, out);
        }
        Expr::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| tables(s, e, span, out)),
        Expr::Table(n, i) => {
            tables(s, i, span, out);
            match s.tables.iter().find(|t| t.name == *n) {
                None => {
                    let known: Vec<&str> = s.tables.iter().map(|t| t.name.as_str()).collect();
                    unknown(V2, "table", n, &known, span, out);
                }
                Some(t) => {
                    if let Some(i) = i.as_int()
                        && usize::try_from(i).map_or(true, |i| i >= t.values.len())
                    {
                        let text =
                            format!("table {n} has {} entries, so entry {i} does not exist", t.values.len());
                        out.fail(V13, text, span, "here");
                    }
                }
            }
        }
    }
}

/// Reports "there is no WHAT", with the nearest name that exists.
pub(super) fn unknown(rule: Rule, what: &str, name: &str, valid: &[&str], span: Span, out: &mut Report) {
    out.push(rule, crate::text::names::unknown(rule.1, what, name, valid.iter().copied(), span));
}
