//! Lists of statements of a stream.
//!
//! The module owns the control flow of regions, and decides to which task of the program a
//! statement belongs.

use super::errors::refuse;
use super::state::Lower;
use crate::tile::{Core, Stmt};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{LocalOp, SOp, SStmt, Schedule};

impl Lower<'_, '_> {
    pub(super) fn body(&mut self, region: usize, list: &[SStmt]) -> Result<(), Diagnostics> {
        let mut flat = vec![];
        self.flatten(list, &mut flat);
        let mut at = 0;
        while at < flat.len() {
            let stmt = flat[at];
            let product = matches!(stmt, SStmt::Op(op, _) if product(op));
            match stmt {
                SStmt::Op(_, span) if product && self.nested > 0 => {
                    let help = "all ranks must execute a task: move the operation out of roles, loops and conditions";
                    return Err(refuse(
                        *span,
                        "a matmul that only some ranks execute, or that is in a loop",
                        help,
                    )
                    .into());
                }
                _ if self.nested == 0 && product => self.enter_matmul(stmt),
                _ if self.nested == 0 => self.enter(Core::Vector),
                _ => {}
            }
            let alone = self.nested == 0 && !product;
            if alone && self.chains {
                let used = self.row_chain(&flat[at..])?;
                if used > 0 {
                    at += used;
                    continue;
                }
            }
            // On several cores, only regions without messages have statements that are not nested.
            let divides = match stmt {
                SStmt::Op(op, _) => matches!(op, SOp::Local(_)),
                SStmt::For { .. } | SStmt::If { .. } => self.cores > 1,
            };
            self.nested += 1;
            let done = match stmt {
                _ if alone && divides => self.divided(|this| this.stmt(region, stmt)).map(|()| 1),
                _ => match self.arrivals(region, &flat[at..])? {
                    0 => self.stmt(region, stmt).map(|()| 1),
                    used => Ok(used),
                },
            };
            self.nested -= 1;
            at += done?;
        }
        Ok(())
    }

    /// Appends statements; a branch with a constant condition is replaced by the statements of the
    /// side that is taken.
    pub(super) fn flatten<'s>(&self, list: &'s [SStmt], out: &mut Vec<&'s SStmt>) {
        for stmt in list {
            match stmt {
                SStmt::If { cond, then, other } => match self.expr(cond).as_int() {
                    Some(0) => self.flatten(other, out),
                    Some(_) => self.flatten(then, out),
                    None => out.push(stmt),
                },
                stmt => out.push(stmt),
            }
        }
    }

    fn stmt(&mut self, region: usize, stmt: &SStmt) -> Result<(), Diagnostics> {
        match stmt {
            SStmt::For { var, lo, hi, body } => {
                let (lo, hi) = (self.expr(lo), self.expr(hi));
                self.build.open();
                let name = self.build.fresh(var.as_str());
                self.names.push((var.clone(), Expr::var(name.clone())));
                self.body(region, body)?;
                self.names.pop();
                let body = self.build.close();
                self.build.push(Stmt::For { var: name, lo, hi, body });
            }
            SStmt::If { cond, then, other } => {
                let cond = self.expr(cond);
                self.build.open();
                self.body(region, then)?;
                let then = self.build.close();
                self.build.open();
                self.body(region, other)?;
                let other = self.build.close();
                self.build.push(Stmt::If { cond, then, other });
            }
            SStmt::Op(op, span) => self.op(region, op, *span)?,
        }
        Ok(())
    }
}

/// Checks whether a schedule has matmuls.
pub(super) fn has_matmuls(s: &Schedule) -> bool {
    fn any(list: &[SStmt]) -> bool {
        list.iter().any(|stmt| match stmt {
            SStmt::For { body, .. } => any(body),
            SStmt::If { then, other, .. } => any(then) || any(other),
            SStmt::Op(op, _) => product(op),
        })
    }
    let streams = s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    streams.into_iter().any(|s| any(&s.body))
}

/// Checks whether an operation is for a matrix core.
fn product(op: &SOp) -> bool {
    matches!(op, SOp::Local(LocalOp::Matmul { .. } | LocalOp::Grouped { .. }))
}
