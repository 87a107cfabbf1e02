//! Operations on whole local tensors: copies, conversions, cuts of a dimension, elementwise functions.
//!
//! A tensor is row-major, so a run along its last dimensions is contiguous; what is not contiguous becomes loops over the
//! dimensions before. Matrix products and reductions of a dimension are refused: they belong to other kernels.

use super::address::{self, add, cut, mul, product, sub};
use super::ops::Run;
use super::{Lower, refuse};
use crate::tile::{Gm, Op, Stmt, VArg, VecOp};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::{CutRule, DType};

/// `outer x size x inner` around one dimension.
struct Around {
    outer: Expr,
    size: Expr,
    inner: Expr,
}

impl Around {
    fn new(dims: &[Expr], dim: u32) -> Around {
        let d = dim as usize;
        Around { outer: product(&dims[..d]), size: dims[d].clone(), inner: product(&dims[d + 1..]) }
    }
}

impl Lower<'_, '_> {
    pub(super) fn local(&mut self, op: &LocalOp, span: Span) -> Result<(), Diagnostics> {
        match op {
            LocalOp::Copy { dst, src } => {
                let total = product(&self.dims(*dst));
                let (to, from) = (self.whole(*dst), self.whole(*src));
                self.copy_run(self.schedule.buffer(*dst).dtype, to, from, total);
            }
            LocalOp::Cast { dst, src } => {
                let len = product(&self.dims(*dst));
                let run = |this: &mut Self, b: BufferId| Run {
                    dtype: this.schedule.buffer(b).dtype,
                    at: this.whole(b),
                    len: len.clone(),
                };
                let (to, from) = (run(self, *dst), run(self, *src));
                if to.dtype == from.dtype {
                    self.copy_run(to.dtype, to.at, from.at, len);
                } else {
                    self.cast_run(&to, &from);
                }
            }
            LocalOp::Pack { dst, src, dim, parts, rule, at } => {
                self.relayout(*dst, *src, (*dim, *parts, *rule), at.as_ref(), true);
            }
            LocalOp::Unpack { dst, src, dim, parts, rule, at } => {
                self.relayout(*src, *dst, (*dim, *parts, *rule), at.as_ref(), false);
            }
            LocalOp::Slice { dst, src, dim, index, of, rule } => {
                let around = Around::new(&self.dims(*src), *dim);
                let of = Expr::Int(*of as i64);
                let index = self.expr(index);
                let lo = cut(*rule, &around.size, &index, &of);
                let hi = cut(*rule, &around.size, &add(&index, &Expr::Int(1)), &of);
                let first = self.build.name_it("first", &mul(&lo, &around.inner));
                let run = self.build.name_it("size", &mul(&sub(&hi, &lo), &around.inner));
                let row = mul(&around.size, &around.inner);
                let (to, from) = (self.whole(*dst), self.whole(*src));
                let dtype = self.schedule.buffer(*dst).dtype;
                self.rows("row", &around.outer, |this, o| {
                    let from = shifted(&from, &add(&mul(o, &row), &first));
                    this.copy_run(dtype, shifted(&to, &mul(o, &run)), from, run.clone());
                });
            }
            LocalOp::Compute { .. } => {
                return Err(refuse(span, "an elementwise function", "simulate it with `--target sim`").into());
            }
            LocalOp::Matmul { .. } => {
                return Err(refuse(
                    span,
                    "a matrix product",
                    "emission of kernels for the cube unit is a later step",
                )
                .into());
            }
            LocalOp::ReduceDim { .. } => {
                return Err(
                    refuse(span, "a reduction of a dimension", "simulate it with `--target sim`").into()
                );
            }
        }
        Ok(())
    }

    fn whole(&self, buffer: BufferId) -> Gm {
        Gm { object: self.storage.object(buffer), slot: Expr::Int(0), offset: Expr::Int(0), peer: None }
    }

    /// Elements of a buffer on this rank.
    fn elements(&mut self, buffer: BufferId) -> Expr {
        product(&self.dims(buffer))
    }

    /// Between a line (the parts of a cut, one after another) and a tensor; with `at`, the tensor is one part.
    fn relayout(
        &mut self,
        line: BufferId,
        tensor: BufferId,
        (dim, parts, rule): (u32, u64, CutRule),
        at: Option<&Expr>,
        pack: bool,
    ) {
        let around = Around::new(&self.dims(tensor), dim);
        let dtype = self.schedule.buffer(line).dtype;
        let (l, t) = (self.whole(line), self.whole(tensor));
        let unit = mul(&around.outer, &around.inner);
        let parts = Expr::Int(parts as i64);
        let copy = |this: &mut Self, on_line: Gm, in_tensor: Gm, total: Expr| {
            let (to, from) = if pack { (on_line, in_tensor) } else { (in_tensor, on_line) };
            this.copy_run(dtype, to, from, total);
        };
        if let Some(at) = at {
            // The line has all parts, the tensor this one: a block of the line, in the same order.
            let extent = address::bin(BinOp::Div, &self.elements(line), &unit);
            let at = self.expr(at);
            let first = self.build.name_it("first", &mul(&unit, &cut(rule, &extent, &at, &parts)));
            let size = self.elements(tensor);
            let size = self.build.name_it("size", &size);
            copy(self, shifted(&l, &first), t, size);
            return;
        }
        if around.outer == Expr::Int(1) {
            // Parts of the first dimension already lie one after another.
            let total = self.elements(tensor);
            copy(self, l, t, total);
            return;
        }
        self.rows("part", &parts, |this, part| {
            let lo = cut(rule, &around.size, part, &parts);
            let hi = cut(rule, &around.size, &add(part, &Expr::Int(1)), &parts);
            let lo = this.build.name_it("low", &lo);
            let run = this.build.name_it("size", &mul(&sub(&hi, &lo), &around.inner));
            let base = mul(&unit, &lo);
            let row = mul(&around.size, &around.inner);
            this.rows("row", &around.outer, |this, o| {
                let on_line = shifted(&l, &add(&base, &mul(o, &run)));
                let in_tensor = shifted(&t, &add(&mul(o, &row), &mul(&lo, &around.inner)));
                copy(this, on_line, in_tensor, run.clone());
            });
        });
    }

    /// `for name in 0..count`, or just once.
    fn rows(&mut self, name: &str, count: &Expr, f: impl FnOnce(&mut Self, &Expr)) {
        if *count == Expr::Int(1) {
            f(self, &Expr::Int(0));
            return;
        }
        self.build.open();
        let var = self.build.fresh(name);
        f(self, &Expr::var(var.clone()));
        let body = self.build.close();
        self.build.push(Stmt::For { var, lo: Expr::Int(0), hi: count.clone(), body });
    }

    /// `dst[..total] = 0`
    pub(super) fn fill_zero(&mut self, dtype: DType, to: Gm, total: Expr) -> Result<(), Diagnostic> {
        let tile = self.tile(dtype, 0);
        self.tiles_loop(&total, |this, pos, len| {
            let args = vec![VArg::Num(0.0)];
            this.build.push(Stmt::Op(Op::Vector { op: VecOp::Fill, dst: tile, args, len: len.clone() }));
            this.store(&to, pos, tile, len);
        });
        Ok(())
    }
}

/// The same memory, `by` elements further.
fn shifted(gm: &Gm, by: &Expr) -> Gm {
    Gm { offset: add(&gm.offset, by), ..gm.clone() }
}
