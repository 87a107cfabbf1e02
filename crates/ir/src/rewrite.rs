//! Rewriting of schedules: copies of statements, references and operations with their expressions,
//! windows or operations replaced. [`crate::schedule`] defines the tree.

use crate::expr::Expr;
use crate::name::Name;
use crate::schedule::*;

/// Returns the statements with every variable replaced for which `f` returns an expression.
pub fn subst_stmts(list: &[SStmt], f: &impl Fn(&Name) -> Option<Expr>) -> Vec<SStmt> {
    map_exprs(list, &|e| e.subst(f))
}

/// Returns the statements with every operation replaced by those that `f` returns for it, possibly
/// none.
pub fn replace_ops(list: &[SStmt], f: &dyn Fn(&SOp) -> Vec<SOp>) -> Vec<SStmt> {
    list.iter()
        .flat_map(|s| match s {
            SStmt::For { var, lo, hi, body } => vec![SStmt::For {
                var: var.clone(),
                lo: lo.clone(),
                hi: hi.clone(),
                body: replace_ops(body, f),
            }],
            SStmt::If { cond, then, other } => vec![SStmt::If {
                cond: cond.clone(),
                then: replace_ops(then, f),
                other: replace_ops(other, f),
            }],
            SStmt::Op(op, span) => f(op).into_iter().map(|op| SStmt::Op(op, *span)).collect(),
        })
        .collect()
}

/// Returns the statements with every expression replaced by its image under `f`: bounds,
/// conditions, and those of operations.
pub fn map_exprs(list: &[SStmt], f: &impl Fn(&Expr) -> Expr) -> Vec<SStmt> {
    list.iter()
        .map(|s| match s {
            SStmt::For { var, lo, hi, body } => {
                SStmt::For { var: var.clone(), lo: f(lo), hi: f(hi), body: map_exprs(body, f) }
            }
            SStmt::If { cond, then, other } => {
                SStmt::If { cond: f(cond), then: map_exprs(then, f), other: map_exprs(other, f) }
            }
            SStmt::Op(op, span) => SStmt::Op(op.map_exprs(f), *span),
        })
        .collect()
}
