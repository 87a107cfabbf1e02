//! Rewriting of schedules: copies of statements, references and operations with their expressions,
//! windows or operations replaced. [`crate::schedule`] defines the tree.

use crate::expr::Expr;
use crate::name::Name;
use crate::schedule::*;

/// Returns the statements with every variable replaced for which `f` returns an expression.
pub fn subst_stmts(list: &[SStmt], f: &impl Fn(&Name) -> Option<Expr>) -> Vec<SStmt> {
    map_exprs(list, &|e| e.subst(f))
}

/// Replaces every operation of the statements by those that `f` adds to its second argument for it,
/// possibly none.
pub fn replace_ops(list: &mut Vec<SStmt>, f: &mut dyn FnMut(SOp, &mut Vec<SOp>)) {
    let mut new = vec![];
    let mut out = Vec::with_capacity(list.len());
    for s in std::mem::take(list) {
        match s {
            SStmt::For { var, lo, hi, mut body } => {
                replace_ops(&mut body, f);
                out.push(SStmt::For { var, lo, hi, body });
            }
            SStmt::If { cond, mut then, mut other } => {
                replace_ops(&mut then, f);
                replace_ops(&mut other, f);
                out.push(SStmt::If { cond, then, other });
            }
            SStmt::Op(op, span) => {
                f(op, &mut new);
                out.extend(new.drain(..).map(|op| SStmt::Op(op, span)));
            }
        }
    }
    out.shrink_to_fit();
    *list = out;
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
