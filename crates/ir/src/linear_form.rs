//! Linear forms of index expressions: a coefficient of one name, and the rest.

use crate::expr::{BinOp, Expr, UnOp};

impl Expr {
    /// Returns `(coefficient, rest)` with `self == coefficient * name + rest` and no `name` in the
    /// rest, if sums and products with constants show that the expression has that form.
    pub fn linear_in(&self, name: &str) -> Option<(i64, Expr)> {
        if !self.mentions(name) {
            return Some((0, self.clone()));
        }
        match self {
            Expr::Var(_) => Some((1, Expr::Int(0))),
            Expr::Un(UnOp::Neg, a) => {
                let (c, rest) = a.linear_in(name)?;
                Some((c.checked_neg()?, Expr::un(UnOp::Neg, rest)))
            }
            Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let ((c, x), (d, y)) = (a.linear_in(name)?, b.linear_in(name)?);
                let both = if *op == BinOp::Add { c.checked_add(d)? } else { c.checked_sub(d)? };
                Some((both, Expr::bin(*op, x, y)))
            }
            Expr::Bin(BinOp::Mul, a, b) => {
                let (k, other) = a.as_int().map(|k| (k, b)).or_else(|| Some((b.as_int()?, a)))?;
                let (c, rest) = other.linear_in(name)?;
                Some((c.checked_mul(k)?, Expr::bin(BinOp::Mul, rest, Expr::Int(k))))
            }
            Expr::Int(_) | Expr::Un(..) | Expr::Bin(..) | Expr::Select(..) | Expr::Table(..) => None,
        }
    }
}
