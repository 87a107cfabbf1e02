//! Resolved expressions: expressions in which variables are slots of an environment and tables are
//! numbers.
//!
//! The walk over schedules, the traces of kernels and the compilers of schedules use this one form.
//! A [`Scope`] turns the names of an [`Expr`] into numbers.

use crate::expr::{BinOp, EvalError, Expr, Tree, apply_bin, apply_un};
use crate::name::Name;
use std::sync::Arc;

/// An expression with numbers of slots and tables instead of names.
pub type Resolved = Tree<u32>;

/// Reason why a name cannot be resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// There is no such variable.
    Var(Name),
    /// There is no such table.
    Table(Name),
}

/// The numbers of names.
pub trait Scope {
    /// Returns the slot of a variable.
    fn slot(&self, name: &Name) -> Option<u32>;
    /// Returns the number of a table.
    fn table(&self, name: &Name) -> Option<u32>;
}

/// Resolves the names of an expression.
pub fn resolve(e: &Expr, scope: &impl Scope) -> Result<Resolved, Unknown> {
    let boxed = |e: &Expr| resolve(e, scope).map(Arc::new);
    Ok(match e {
        Tree::Int(v) => Tree::Int(*v),
        Tree::Var(n) => Tree::Var(scope.slot(n).ok_or_else(|| Unknown::Var(n.clone()))?),
        Tree::Un(op, a) => Tree::Un(*op, boxed(a)?),
        Tree::Bin(op, a, b) => Tree::Bin(*op, boxed(a)?, boxed(b)?),
        Tree::Select(c, a, b) => Tree::Select(boxed(c)?, boxed(a)?, boxed(b)?),
        Tree::Table(n, i) => {
            let table = scope.table(n).ok_or_else(|| Unknown::Table(n.clone()))?;
            Tree::Table(table, boxed(i)?)
        }
    })
}

/// Returns what [`apply_bin`] returns, or `None` if that is an error, which takes time to describe.
#[inline]
pub(crate) fn quick_bin(op: BinOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        BinOp::Add => a.checked_add(b)?,
        BinOp::Sub => a.checked_sub(b)?,
        BinOp::Mul => a.checked_mul(b)?,
        BinOp::Mod if b > 0 && (0..b).contains(&a) => a,
        BinOp::Mod if b > 0 && (b..2 * b.min(i64::MAX / 2)).contains(&a) => a - b,
        BinOp::Mod if b > 0 => a.rem_euclid(b),
        BinOp::Div if b > 0 => a.div_euclid(b),
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::BitAnd => a & b,
        BinOp::BitOr => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Eq => (a == b) as i64,
        BinOp::Ne => (a != b) as i64,
        BinOp::Lt => (a < b) as i64,
        BinOp::Le => (a <= b) as i64,
        BinOp::Gt => (a > b) as i64,
        BinOp::Ge => (a >= b) as i64,
        BinOp::Div | BinOp::Mod | BinOp::And | BinOp::Or | BinOp::Shl | BinOp::Shr => {
            return apply_bin(op, a, b).ok();
        }
    })
}

impl Resolved {
    /// Evaluates the expression: `slots` has the values of all slots, and `entry` returns an entry
    /// of a table.
    ///
    /// # Panics
    /// Panics if `slots` lacks a slot that the expression reads.
    pub fn value(
        &self,
        slots: &[i64],
        entry: &impl Fn(u32, i64) -> Result<i64, EvalError>,
    ) -> Result<i64, EvalError> {
        if let Some(v) = self.quick(slots) {
            return Ok(v);
        }
        // The quick form has no value; each operand may still have one.
        let value = |e: &Resolved| e.value(slots, entry);
        match self {
            Tree::Un(op, a) => apply_un(*op, value(a)?),
            Tree::Bin(op, a, b) if !matches!(op, BinOp::And | BinOp::Or) => {
                apply_bin(*op, value(a)?, value(b)?)
            }
            e => e.evaluate(&|s| Ok(slots[*s as usize]), &|t, i| entry(*t, i)),
        }
    }

    /// Evaluates an expression without tables. Returns `None` if it has some that matter, or if an
    /// operation has no value.
    fn quick(&self, slots: &[i64]) -> Option<i64> {
        Some(match self {
            Tree::Int(v) => *v,
            Tree::Var(s) => slots[*s as usize],
            Tree::Bin(BinOp::And, a, b) => (a.quick(slots)? != 0 && b.quick(slots)? != 0) as i64,
            Tree::Bin(BinOp::Or, a, b) => (a.quick(slots)? != 0 || b.quick(slots)? != 0) as i64,
            Tree::Bin(op, a, b) => quick_bin(*op, a.quick(slots)?, b.quick(slots)?)?,
            Tree::Un(op, a) => return apply_un(*op, a.quick(slots)?).ok(),
            Tree::Select(c, a, b) => {
                return if c.quick(slots)? != 0 { a.quick(slots) } else { b.quick(slots) };
            }
            Tree::Table(..) => return None,
        })
    }

    /// Checks whether the expression reads a slot for which `f` is true.
    pub fn reads(&self, f: &impl Fn(u32) -> bool) -> bool {
        match self {
            Tree::Int(_) => false,
            Tree::Var(s) => f(*s),
            Tree::Un(_, a) | Tree::Table(_, a) => a.reads(f),
            Tree::Bin(_, a, b) => a.reads(f) || b.reads(f),
            Tree::Select(c, a, b) => c.reads(f) || a.reads(f) || b.reads(f),
        }
    }
}
