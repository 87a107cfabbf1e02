//! Reductions of a dimension.
//!
//! A reduction of the last dimension reduces rows: one instruction for each tile of a row, and
//! tiles one after another. A reduction of an earlier dimension combines whole rows element by
//! element. Floating-point types are computed in f32 and rounded once.

use super::address::{add, mul, product};
use super::errors::refuse;
use super::state::Lower;
use crate::tile::{Gm, Op, Stmt, TileId, VArg, VecOp};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::BufferId;
use kbc_ir::types::{DType, ReduceOp};

/// A reduction of a dimension of a buffer.
pub(super) struct Reduction {
    pub op: ReduceOp,
    /// Divisor of the sum, for a mean.
    pub mean: Option<u64>,
    pub dst: BufferId,
    pub src: BufferId,
    pub dim: u32,
}

/// The places that a reduction reads and writes, and its types and sizes (`outer x size x inner`,
/// where `outer` is a loop around it).
struct Plan {
    op: VecOp,
    mean: Option<u64>,
    to: Gm,
    from: Gm,
    /// Element types of source and result in memory, and of the computation.
    types: [DType; 3],
    size: Expr,
    inner: Expr,
}

impl Plan {
    /// Checks whether the dimension may have no elements on some rank at some size.
    fn may_be_empty(&self) -> bool {
        self.size.as_int().is_none_or(|n| n <= 0)
    }

    /// Returns the neutral element of the reduction, which is the result for no elements.
    fn neutral(&self) -> f64 {
        match (self.op, self.types[2].is_float()) {
            (VecOp::Max, true) => f64::NEG_INFINITY,
            (VecOp::Min, true) => f64::INFINITY,
            (VecOp::Max, false) => f64::from(i32::MIN),
            (VecOp::Min, false) => f64::from(i32::MAX),
            (VecOp::Mul, _) => 1.0,
            (VecOp::Add | VecOp::Sub | VecOp::Div, _) => 0.0,
            (VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt | VecOp::Fill, _) => 0.0,
        }
    }
}

impl Lower<'_, '_> {
    pub(super) fn reduce_dim(&mut self, r: &Reduction, span: Span) -> Result<(), Diagnostic> {
        let types = [r.src, r.dst].map(|b| self.schedule.buffer(b).dtype);
        if types.iter().any(|t| !t.reduces()) {
            return Err(refuse(span, format!("a reduction of {}", types[0]), "convert the operand first"));
        }
        let compute = if types[0].is_float() { DType::F32 } else { types[0] };
        let dims = self.dims(r.src);
        let d = r.dim as usize;
        let (size, inner) = (dims[d].clone(), product(&dims[d + 1..]));
        let last = inner == Expr::Int(1);
        let op = match r.op {
            ReduceOp::Sum => VecOp::Add,
            ReduceOp::Prod => VecOp::Mul,
            ReduceOp::Max => VecOp::Max,
            ReduceOp::Min => VecOp::Min,
        };
        if last && self.device.reduce(op, compute).is_err() {
            let help = "rows are reduced by sum, max or min in f32: convert, or use `--target sim`";
            return Err(refuse(span, format!("a reduction of a row of {} by {}", types[0], r.op), help));
        }
        if compute != DType::F32 && r.mean.is_some() {
            return Err(refuse(span, "a mean of integers", "convert to f32 first"));
        }
        let outer = product(&dims[..d]);
        let (to, from) = (self.whole(r.dst), self.whole(r.src));
        let row = mul(&size, &inner);
        let plan = Plan { op, mean: r.mean, to, from, types: [types[0], types[1], compute], size, inner };
        self.rows("row", &outer, |this, o| {
            let shifted = |g: &Gm, by: Expr| Gm { offset: add(&g.offset, &by), ..g.clone() };
            let plan = Plan {
                to: shifted(&plan.to, mul(o, &plan.inner)),
                from: shifted(&plan.from, mul(o, &row)),
                types: plan.types,
                size: plan.size.clone(),
                inner: plan.inner.clone(),
                ..plan
            };
            if last { this.one_row(&plan) } else { this.many_rows(&plan) }
        });
        Ok(())
    }

    /// Computes `to[0]` = the elements of one row, reduced.
    fn one_row(&mut self, p: &Plan) {
        let [from, _, compute] = p.types;
        let [sum, part, work, row] = [0, 1, 2, 3].map(|i| self.tile(compute, i));
        let one = Expr::Int(1);
        if p.op == VecOp::Add || p.may_be_empty() {
            self.vector(VecOp::Fill, sum, vec![VArg::Num(p.neutral())], &one);
        }
        self.tiles_loop(&p.size, |this, pos, len| {
            this.load_as(row, from, len, &p.from, pos);
            let reduce = |dst| Stmt::Op(Op::Reduce { op: p.op, dst, src: row, work, len: len.clone() });
            let combine = |this: &mut Self| {
                this.build.push(reduce(part));
                this.vector(p.op, sum, vec![VArg::Tile(sum), VArg::Tile(part)], &one);
            };
            if p.op == VecOp::Add {
                combine(this);
                return;
            }
            // The first tile gives the initial value, with which the other tiles are combined.
            this.build.open();
            this.build.push(reduce(sum));
            let then = this.build.close();
            this.build.open();
            combine(this);
            let other = this.build.close();
            let cond = Expr::bin(BinOp::Eq, pos.clone(), Expr::Int(0));
            this.build.push(Stmt::If { cond, then, other });
        });
        self.finish(p, sum, part, &one, &Expr::Int(0));
    }

    /// Computes `to[..inner]` = all rows, combined element by element.
    fn many_rows(&mut self, p: &Plan) {
        let [from, _, compute] = p.types;
        let [sum, row] = [0, 1].map(|i| self.tile(compute, i));
        self.tiles_loop(&p.inner, |this, pos, len| {
            let first = if p.op == VecOp::Add || p.may_be_empty() {
                this.vector(VecOp::Fill, sum, vec![VArg::Num(p.neutral())], len);
                0
            } else {
                this.load_as(sum, from, len, &p.from, pos);
                1
            };
            this.build.open();
            let var = this.build.fresh("row");
            let at = add(&mul(&Expr::var(var.clone()), &p.inner), pos);
            this.load_as(row, from, len, &p.from, &at);
            this.vector(p.op, sum, vec![VArg::Tile(sum), VArg::Tile(row)], len);
            let body = this.build.close();
            this.build.push(Stmt::For { var, lo: Expr::Int(first), hi: p.size.clone(), body });
            this.finish(p, sum, row, len, pos);
        });
    }

    /// Divides if the reduction is a mean, rounds to the type of the result, and stores.
    fn finish(&mut self, p: &Plan, sum: TileId, other: TileId, len: &Expr, pos: &Expr) {
        let [_, to, compute] = p.types;
        if let Some(n) = p.mean {
            self.vector(VecOp::Fill, other, vec![VArg::Num(n as f64)], len);
            self.vector(VecOp::Div, sum, vec![VArg::Tile(sum), VArg::Tile(other)], len);
        }
        let stored = if to == compute {
            sum
        } else {
            let narrow = self.tile(to, 0);
            self.convert(narrow, sum);
            narrow
        };
        self.store(&p.to, pos, stored, len);
    }

    fn vector(&mut self, op: VecOp, dst: TileId, args: Vec<VArg>, len: &Expr) {
        self.build.push(Stmt::Op(Op::Vector { op, dst, args, len: len.clone() }));
    }

    /// Loads elements of type `from`, converted to the type of the tile.
    pub(super) fn load_as(&mut self, tile: TileId, from: DType, len: &Expr, place: &Gm, pos: &Expr) {
        if self.tiles[tile.0 as usize].dtype == from {
            self.load(tile, len, place, pos);
        } else {
            let narrow = self.tile(from, 0);
            self.load(narrow, len, place, pos);
            self.convert(tile, narrow);
        }
    }
}
