//! Stores apart: the stores of a loop that never write an element twice.
//!
//! A loop over messages stores block after block, `%out[first + i]` with
//! `first = n * chunk / nranks`, `chunk = (rank - k) % nranks` for k in `1..nranks`. The module
//! shows that no two blocks share an element: different iterations have different chunks, a chunk
//! ends where the next one begins, and its beginning does not decrease from chunk to chunk. The
//! same holds if each iteration stores in a slot of its own. It knows nothing of order: the hazard
//! model leaves out conflicts between two executions of such a store.

use super::path::Path;
use super::{COUNT, Gm, Kernel, NRANKS, Op, Stmt};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use std::collections::BTreeSet;

/// Returns the paths of the stores of a kernel of which no two executions write the same element.
/// Each is in a loop over tiles, in a loop that runs once.
pub(super) fn stores_apart(kernel: &Kernel) -> BTreeSet<Path> {
    let mut search = Search { names: vec![], out: BTreeSet::new() };
    search.block(&kernel.body, 0, &mut vec![], Around::Nothing);
    search.out
}

/// The loops around a statement.
#[derive(Clone, Copy)]
enum Around<'k> {
    Nothing,
    /// One loop: its variable and its bounds.
    One(&'k Name, &'k Expr, &'k Expr),
    Several,
}

/// Name of a number of which each iteration has its own. No name of a kernel is written so.
const OWN: &str = "#own";

struct Search {
    /// Values of the names in scope, in terms of scalars and variables of loops, the innermost
    /// last; `None` for a variable of a loop.
    names: Vec<(Name, Option<Expr>)>,
    out: BTreeSet<Path>,
}

impl Search {
    fn block(&mut self, list: &[Stmt], first: usize, path: &mut Path, around: Around<'_>) {
        let depth = self.names.len();
        for (i, s) in list.iter().enumerate() {
            path.push((first + i) as u32);
            match s {
                Stmt::Let { name, value } => {
                    let value = self.known(value);
                    self.names.push((name.clone(), Some(value)));
                }
                Stmt::For { var, lo, hi, body } => {
                    let inner = match around {
                        Around::Nothing => Around::One(var, lo, hi),
                        Around::One(..) | Around::Several => Around::Several,
                    };
                    self.names.push((var.clone(), None));
                    self.block(body, 0, path, inner);
                    self.names.pop();
                }
                Stmt::If { then, other, .. } => {
                    self.block(then, 0, path, around);
                    self.block(other, then.len(), path, around);
                }
                Stmt::Task { body, .. } => self.block(body, 0, path, around),
                Stmt::Tiles { pos, len, total, rows: None, body, .. } => {
                    self.names.extend([(pos.clone(), None), (len.clone(), None)]);
                    for (i, s) in body.iter().enumerate() {
                        if let (Stmt::Op(Op::Store { to, len: of, .. }), Around::One(var, lo, hi)) =
                            (s, around)
                            && *of == Expr::Var(len.clone())
                            && self.apart(to, (pos, len, total), (var, lo, hi)) == Some(true)
                        {
                            path.push(i as u32);
                            self.out.insert(path.clone());
                            path.pop();
                        }
                    }
                    let shown = self.names.len() - 2;
                    self.names.truncate(shown);
                }
                Stmt::Tiles { .. } | Stmt::Turn { .. } | Stmt::Op(_) | Stmt::Note { .. } => {}
            }
            path.pop();
        }
        self.names.truncate(depth);
    }

    /// Returns an expression in terms of scalars and variables of loops.
    fn known(&self, e: &Expr) -> Expr {
        e.subst(&|n| self.names.iter().rev().find(|(m, _)| m == n).and_then(|(_, v)| v.clone()))
    }

    /// Checks whether a store of tiles of `total` elements writes other elements in each iteration
    /// of the loop around it.
    fn apart(
        &self,
        to: &Gm,
        (pos, len, total): (&Name, &Name, &Expr),
        (var, lo, hi): (&Name, &Expr, &Expr),
    ) -> Option<bool> {
        // A name that is bound twice would be taken for the other one.
        let bound = self.names.iter().filter(|(n, v)| n == var && v.is_none()).count();
        let own = to.peer.is_none() && bound == 1;
        let base = (to.offset.clone() - Expr::Var(pos.clone())).simplify();
        let fixed = |e: &Expr| !e.mentions(pos) && !e.mentions(len);
        (own && fixed(&base) && fixed(&to.slot) && fixed(total)).then_some(())?;
        let slot = self.known(&to.slot).simplify();
        if slot.linear_in(var).is_some_and(|(by, rest)| by != 0 && !rest.mentions(var)) {
            return Some(true);
        }
        let (base, total) = (self.known(&base), self.known(total));
        // All iterations have another number `#own`: that of the loop, or its remainder by at least
        // as many as there are iterations.
        let number = match remainder(&base, var) {
            Some((all, of, n)) => {
                let (by, rest) = of.linear_in(var)?;
                let iterations = self.known(hi) - self.known(lo);
                let fits = (iterations - n).simplify().as_int()? <= 0;
                (by.abs() == 1 && !rest.mentions(var) && fits).then_some(all)?
            }
            None => Expr::Var(var.clone()),
        };
        let [base, total] = [base, total].map(|e| replaced(&e, &number, &Expr::var(OWN)).simplify());
        let next = Expr::var(OWN) + Expr::Int(1);
        let end = base.subst(&|n| (*n == *OWN).then(|| next.clone()));
        let same_end = (end - base.clone()).simplify() == total;
        Some(!base.mentions(var) && !total.mentions(var) && base.mentions(OWN) && same_end && rises(&base))
    }
}

/// Returns the first remainder in an expression that mentions a name, with its two operands.
fn remainder(e: &Expr, name: &Name) -> Option<(Expr, Expr, Expr)> {
    match e {
        Expr::Bin(BinOp::Mod, a, n) if a.mentions(name) && !n.mentions(name) => {
            Some((e.clone(), a.as_ref().clone(), n.as_ref().clone()))
        }
        Expr::Bin(_, a, b) => remainder(a, name).or_else(|| remainder(b, name)),
        Expr::Un(_, a) | Expr::Table(_, a) => remainder(a, name),
        Expr::Select(c, a, b) => [c, a, b].into_iter().find_map(|e| remainder(e, name)),
        Expr::Int(_) | Expr::Var(_) => None,
    }
}

/// Returns an expression with every occurrence of a part replaced.
fn replaced(e: &Expr, part: &Expr, by: &Expr) -> Expr {
    if e == part {
        return by.clone();
    }
    let inner = |e: &Expr| replaced(e, part, by);
    match e {
        Expr::Int(_) | Expr::Var(_) => e.clone(),
        Expr::Un(op, a) => Expr::Un(*op, inner(a).into()),
        Expr::Table(name, a) => Expr::Table(name.clone(), inner(a).into()),
        Expr::Bin(op, a, b) => Expr::Bin(*op, inner(a).into(), inner(b).into()),
        Expr::Select(c, a, b) => Expr::Select(inner(c).into(), inner(a).into(), inner(b).into()),
    }
}

/// Checks whether an expression does not decrease where `#own` increases.
fn rises(e: &Expr) -> bool {
    let fixed = |e: &Expr| !e.mentions(OWN);
    let positive = |e: &Expr| match e {
        Expr::Int(n) => *n > 0,
        Expr::Var(n) => *n == *NRANKS || *n == *COUNT,
        _ => false,
    };
    match e {
        _ if fixed(e) => true,
        Expr::Var(_) => true,
        Expr::Bin(BinOp::Add | BinOp::Min | BinOp::Max, a, b) => rises(a) && rises(b),
        Expr::Bin(BinOp::Sub, a, b) => rises(a) && fixed(b),
        Expr::Bin(BinOp::Mul, a, b) => positive(a) && rises(b) || positive(b) && rises(a),
        Expr::Bin(BinOp::Div, a, b) => rises(a) && positive(b),
        _ => false,
    }
}
