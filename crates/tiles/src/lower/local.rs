//! Operations on whole local tensors: copies, conversions, cuts of a dimension, elementwise
//! functions.
//!
//! A tensor is row-major, so a run along its last dimensions is contiguous. What is not contiguous
//! becomes loops over the preceding dimensions. [`super::matmul`] lowers matmuls, and
//! [`super::rows`] lowers reductions of a dimension.

use super::address::{self, add, cut, mul, product, sub};
use super::chain::{Arg, Chain, Step};
use super::errors::refuse;
use super::ops::Run;
use super::rows::Reduction;
use super::state::Lower;
use super::strided::Rows;
use crate::tile::{Gm, Op, Stmt, TileId, VArg, VecOp};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{BufferId, Filling, LocalOp};
use kbc_ir::types::{CutRule, DType};

/// Most parts of a tensor that are copied in loops of their own.
const PARTS_APART: i64 = 8;

/// The sizes of a tensor around one dimension: `outer x size x inner`.
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
            LocalOp::Slice { dst, src, .. } | LocalOp::Pack { dst, src, .. }
                if self.storage.is_part(*dst, *src) => {}
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
                    self.cast_run(&to, &from, span)?;
                }
            }
            LocalOp::Pack { dst, src, dim, parts, rule, at } => {
                self.relayout(*dst, *src, (*dim, *parts, rule), at.as_ref(), true);
            }
            LocalOp::Unpack { dst, src, dim, parts, rule, at } => {
                self.relayout(*src, *dst, (*dim, *parts, rule), at.as_ref(), false);
            }
            LocalOp::Slice { dst, src, dim, index, of, rule } => {
                let around = Around::new(&self.dims(*src), *dim);
                let of = Expr::Int(*of as i64);
                let index = self.expr(index);
                let lo = cut(rule, &around.size, &index, &of);
                let hi = cut(rule, &around.size, &add(&index, &Expr::Int(1)), &of);
                let first = self.first_of_part(op);
                let first = self.build.name_it("first", &first);
                let run = self.build.name_it("size", &mul(&sub(&hi, &lo), &around.inner));
                let row = mul(&around.size, &around.inner);
                let (to, from) = (self.whole(*dst), self.whole(*src));
                let dtype = self.schedule.buffer(*dst).dtype;
                if self.several_rows(dtype, &run, &around.outer) {
                    let from = shifted(&from, &first);
                    let (to, from) = (Rows { at: &to, pitch: &run }, Rows { at: &from, pitch: &row });
                    self.copy_rows(dtype, &to, &from, &run, &around.outer);
                    return Ok(());
                }
                self.rows("row", &around.outer, |this, o| {
                    let from = shifted(&from, &add(&mul(o, &row), &first));
                    this.copy_run(dtype, shifted(&to, &mul(o, &run)), from, run.clone());
                });
            }
            LocalOp::Transpose { dst, src, perm } => self.transpose(*dst, *src, perm),
            // The collective before it computes the function where it stores its result.
            LocalOp::Compute { dst, .. } if self.computed(*dst) => {}
            LocalOp::Compute { func, dst, args } => self.compute(func, *dst, args, span)?,
            LocalOp::Embedding { dst, table, ids, first } => {
                self.embedding(*dst, [*table, *ids], first, span)?;
            }
            LocalOp::Fill { dst, with } => self.fill(*dst, with, span)?,
            LocalOp::Grouped { .. } => self.grouped(op, span)?,
            LocalOp::Tiles { .. } => {
                // Tile kernels have been split before.
                return Err(refuse(span, "a tile kernel", "simulate it with `--target sim`").into());
            }
            LocalOp::Matmul { dst, a, b } => self.matmul(*dst, *a, *b, span)?,
            LocalOp::ReduceDim { op, mean, dst, src, dim } => {
                let reduction = Reduction { op: *op, mean: *mean, dst: *dst, src: *src, dim: *dim };
                self.reduce_dim(&reduction, span)?;
            }
        }
        Ok(())
    }

    pub(super) fn whole(&self, buffer: BufferId) -> Gm {
        let offset = self.pieces.get(&buffer).map_or(Expr::Int(0), |name| Expr::var(name.clone()));
        Gm { object: self.storage.object(buffer), slot: Expr::Int(0), offset, peer: None }
    }

    /// Returns the number of elements of a buffer on this rank.
    fn elements(&mut self, buffer: BufferId) -> Expr {
        product(&self.dims(buffer))
    }

    /// Copies between a line (the parts of a cut, one after another) and a tensor. With `at`, the
    /// tensor is this one part of the line.
    fn relayout(
        &mut self,
        line: BufferId,
        tensor: BufferId,
        (dim, parts, rule): (u32, u64, &CutRule),
        at: Option<&Expr>,
        pack: bool,
    ) {
        let around = Around::new(&self.dims(tensor), dim);
        let dtype = self.schedule.buffer(line).dtype;
        let (l, t) = (self.whole(line), self.whole(tensor));
        let unit = mul(&around.outer, &around.inner);
        let block = (dim, parts, rule);
        let parts = Expr::Int(parts as i64);
        let copy = |this: &mut Self, on_line: Gm, in_tensor: Gm, total: Expr| {
            let (to, from) = if pack { (on_line, in_tensor) } else { (in_tensor, on_line) };
            this.copy_run(dtype, to, from, total);
        };
        if let Some(at) = at {
            let first = self.first_of_block(line, tensor, block, at);
            let first = self.build.name_it("first", &first);
            let size = self.elements(tensor);
            let size = self.build.name_it("size", &size);
            copy(self, shifted(&l, &first), t, size);
            return;
        }
        if around.outer == Expr::Int(1) {
            // Parts of the first dimension are already one after another.
            let total = self.elements(tensor);
            copy(self, l, t, total);
            return;
        }
        // A few parts of known sizes have loops of their own, in which tiles hold several rows.
        let edges = (1..=PARTS_APART).contains(&parts.as_int().unwrap_or(0)).then(|| {
            let edge = |p: i64| cut(rule, &around.size, &Expr::Int(p), &parts).as_int();
            (0..=parts.as_int().unwrap_or(0)).map(edge).collect::<Option<Vec<i64>>>()
        });
        let edges = edges.flatten().unwrap_or_default();
        let run = |w: &[i64]| mul(&Expr::Int(w[1] - w[0]), &around.inner);
        let several = |w: &[i64]| self.several_rows(dtype, &run(w), &around.outer);
        if edges.len() > 1 && edges.windows(2).all(several) {
            let row = mul(&around.size, &around.inner);
            for w in edges.windows(2) {
                let (run, low) = (run(w), Expr::Int(w[0]));
                let (l, t) = (shifted(&l, &mul(&unit, &low)), shifted(&t, &mul(&low, &around.inner)));
                let (on_line, in_tensor) = (Rows { at: &l, pitch: &run }, Rows { at: &t, pitch: &row });
                let (to, from) = if pack { (&on_line, &in_tensor) } else { (&in_tensor, &on_line) };
                self.copy_rows(dtype, to, from, &run, &around.outer);
            }
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

    /// Returns the first element of a part in the whole: of a slice that is one run of elements, or
    /// of a piece that is put into a line.
    pub(super) fn first_of_part(&mut self, op: &LocalOp) -> Expr {
        match op {
            LocalOp::Slice { src, dim, index, of, rule, .. } => {
                let around = Around::new(&self.dims(*src), *dim);
                let lo = cut(rule, &around.size, &self.expr(index), &Expr::Int(*of as i64));
                mul(&lo, &around.inner)
            }
            LocalOp::Pack { dst, src, dim, parts, rule, at: Some(at) } => {
                self.first_of_block(*dst, *src, (*dim, *parts, rule), at)
            }
            _ => Expr::Int(0),
        }
    }

    /// Returns the first element of part `at` in a line. The line has all parts, and the tensor is
    /// a contiguous block of it in the same order.
    fn first_of_block(
        &mut self,
        line: BufferId,
        tensor: BufferId,
        (dim, parts, rule): (u32, u64, &CutRule),
        at: &Expr,
    ) -> Expr {
        let around = Around::new(&self.dims(tensor), dim);
        let unit = mul(&around.outer, &around.inner);
        // The extent is taken from the dimensions if possible: for a part without elements, `unit`
        // may be 0.
        let all =
            (self.dims(line).len() == self.dims(tensor).len()).then(|| Around::new(&self.dims(line), dim));
        let extent = match all {
            Some(all) if all.outer == around.outer && all.inner == around.inner => all.size,
            _ => address::bin(BinOp::Div, &self.elements(line), &unit),
        };
        mul(&unit, &cut(rule, &extent, &self.expr(at), &Expr::Int(parts as i64)))
    }

    /// Adds a loop `for name in 0..count`; if `count` is 1, adds the body alone.
    pub(super) fn rows(&mut self, name: &str, count: &Expr, f: impl FnOnce(&mut Self, &Expr)) {
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

    /// Lowers a transpose. The last dimensions that stay in place form rows; loops run over the
    /// dimensions before them, in the order of the result.
    fn transpose(&mut self, dst: BufferId, src: BufferId, perm: &[u32]) {
        let dims = self.dims(src);
        // If the last dimension moves, a row is a single element.
        let kept = perm.iter().enumerate().rev().take_while(|(i, d)| *i == **d as usize).count();
        let (outer, run) = perm.split_at(perm.len() - kept);
        let run = product(&run.iter().map(|d| dims[*d as usize].clone()).collect::<Vec<_>>());
        let dtype = self.schedule.buffer(dst).dtype;
        let (mut to, mut from) = (self.whole(dst), self.whole(src));
        let sizes: Vec<Expr> = outer.iter().map(|d| dims[*d as usize].clone()).collect();
        // The last dimension that moves: its rows are one after another in the result.
        let last = (0..outer.len()).rev().find(|i| sizes[*i] != Expr::Int(1));
        let last = last.filter(|i| self.several_rows(dtype, &run, &sizes[*i]));
        let mut loops = vec![];
        for (i, d) in outer.iter().enumerate() {
            if sizes[i] == Expr::Int(1) || last == Some(i) {
                continue;
            }
            self.build.open();
            let var = self.build.fresh("row");
            let index = Expr::var(var.clone());
            to = shifted(&to, &mul(&index, &mul(&product(&sizes[i + 1..]), &run)));
            from = shifted(&from, &mul(&index, &product(&dims[*d as usize + 1..])));
            loops.push((var, sizes[i].clone()));
        }
        match last {
            Some(i) => {
                let pitch = product(&dims[outer[i] as usize + 1..]);
                let (to, from) = (Rows { at: &to, pitch: &run }, Rows { at: &from, pitch: &pitch });
                self.copy_rows(dtype, &to, &from, &run, &sizes[i]);
            }
            None => self.copy_run(dtype, to, from, run),
        }
        for (var, hi) in loops.into_iter().rev() {
            let body = self.build.close();
            self.build.push(Stmt::For { var, lo: Expr::Int(0), hi, body });
        }
    }

    /// Lowers an elementwise function: tiles along the longest run that all operands have in
    /// common, and loops over the dimensions before it.
    fn compute(
        &mut self,
        func: &kbc_ir::scalar::ScalarFn,
        dst: BufferId,
        args: &[BufferId],
        span: Span,
    ) -> Result<(), Diagnostic> {
        let shape = self.dims(dst);
        let shapes: Vec<Vec<Expr>> = args.iter().map(|a| self.dims(*a)).collect();
        if shapes.iter().any(|s| s.len() > shape.len()) {
            return Err(refuse(
                span,
                "an operation whose operand has more dimensions than the result",
                "reshape the operand first",
            ));
        }
        // In every operand, the dimensions from `split` on are one run, or one element that is used
        // for the whole run.
        let mut split = shape.len();
        let fits = |s: &Vec<Expr>, from: usize| same_from(s, &shape, from) || one_from(s, &shape, from);
        while split > 0 && shapes.iter().all(|s| fits(s, split - 1)) {
            split -= 1;
        }
        let spread: Vec<bool> = shapes.iter().map(|s| !same_from(s, &shape, split)).collect();
        let run = product(&shape[split..]);
        let dtype = self.schedule.buffer(dst).dtype;
        let wide = self.parts.is_some_and(|p| p.wide.contains(&dst));
        let of = if wide { DType::F32 } else { dtype };
        let chain = self.device.chain(func, of).map_err(|d| d.primary(span, "here"))?;
        let mut places: Vec<Gm> = args.iter().map(|a| self.whole(*a)).collect();
        let mut to = self.whole(dst);
        // One loop per dimension before the run, except for dimensions of one element.
        let mut loops = vec![];
        for d in 0..split {
            if shape[d] == Expr::Int(1) {
                continue;
            }
            self.build.open();
            let var = self.build.fresh("row");
            let index = Expr::var(var.clone());
            to = shifted(&to, &mul(&index, &product(&shape[d + 1..])));
            for (place, s) in places.iter_mut().zip(&shapes) {
                let lead = shape.len() - s.len();
                if d >= lead && s[d - lead] == shape[d] {
                    *place = shifted(place, &mul(&index, &product(&s[d - lead + 1..])));
                }
            }
            loops.push((var, shape[d].clone()));
        }
        self.elementwise(&chain, dtype, &to, (args, &places, &spread), &run);
        for (var, hi) in loops.into_iter().rev() {
            let body = self.build.close();
            self.build.push(Stmt::For { var, lo: Expr::Int(0), hi, body });
        }
        Ok(())
    }

    fn elementwise(
        &mut self,
        chain: &Chain,
        dtype: DType,
        to: &Gm,
        (args, places, spread): (&[BufferId], &[Gm], &[bool]),
        run: &Expr,
    ) {
        let registers: Vec<TileId> = (0..chain.registers).map(|i| self.tile(chain.compute, i)).collect();
        let narrow = (dtype != chain.compute).then(|| self.tile(dtype, 0));
        let mask = chain.mask.then(|| self.mask_tile());
        let loads: Vec<(DType, Gm)> =
            args.iter().map(|a| self.schedule.buffer(*a).dtype).zip(places.to_vec()).collect();
        self.tiles_loop(run, |this, pos, len| {
            for (((from, place), register), spread) in loads.iter().zip(&registers).zip(spread) {
                if *spread {
                    let one = this.tile(chain.compute, chain.registers);
                    this.load_as(one, *from, &Expr::Int(1), place, &Expr::Int(0));
                    let (dst, src, len) = (*register, one, len.clone());
                    this.build.push(Stmt::Op(Op::Expand { dst, src, len }));
                } else {
                    this.load_as(*register, *from, len, place, pos);
                }
            }
            for step in &chain.steps {
                let op = step_op(step, &registers, mask, len);
                this.build.push(Stmt::Op(op));
            }
            let result = registers[chain.result];
            if let Some(narrow) = narrow {
                this.convert(narrow, result);
            }
            this.store(to, pos, narrow.unwrap_or(result), len);
        });
    }

    /// Fills a buffer with a number, or with the index along a dimension.
    fn fill(&mut self, dst: BufferId, with: &Filling, span: Span) -> Result<(), Diagnostic> {
        let (dtype, dims, to) = (self.schedule.buffer(dst).dtype, self.dims(dst), self.whole(dst));
        if dtype == DType::I64 {
            return Err(refuse(
                span,
                "a fill of i64",
                "kbc can only move 64-bit elements: use i32 and convert",
            ));
        }
        match with {
            Filling::Number(v) => {
                let number = super::chain::round(*v, dtype);
                self.fill_number(dtype, to, product(&dims), number);
            }
            Filling::Place { dim, first } => {
                let around = Around::new(&dims, *dim);
                let first = self.expr(first);
                let row = mul(&around.size, &around.inner);
                let tile = self.tile(dtype, 0);
                self.rows("row", &around.outer, |this, o| {
                    this.rows("place", &around.size, |this, k| {
                        let to = shifted(&to, &add(&mul(o, &row), &mul(k, &around.inner)));
                        let value = add(&first, k);
                        this.tiles_loop(&around.inner, |this, pos, len| {
                            this.build.push(Stmt::Op(Op::Index { dst: tile, value, len: len.clone() }));
                            this.store(&to, pos, tile, len);
                        });
                    });
                });
            }
        }
        Ok(())
    }

    /// Lowers `dst[..total] = number`.
    pub(super) fn fill_number(&mut self, dtype: DType, to: Gm, total: Expr, number: f64) {
        let tile = self.tile(dtype, 0);
        // C++ text has no number of bf16 but zero: other numbers are written as f32 and converted.
        let wide = (dtype == DType::BF16 && number != 0.0).then(|| self.tile(DType::F32, 0));
        self.tiles_loop(&total, |this, pos, len| {
            let (args, dst) = (vec![VArg::Num(number)], wide.unwrap_or(tile));
            this.build.push(Stmt::Op(Op::Vector { op: VecOp::Fill, dst, args, len: len.clone() }));
            if let Some(wide) = wide {
                this.convert(tile, wide);
            }
            this.store(&to, pos, tile, len);
        });
    }
}

/// Returns the place `by` elements further in the same memory.
fn shifted(gm: &Gm, by: &Expr) -> Gm {
    Gm { offset: add(&gm.offset, by), ..gm.clone() }
}

/// Checks whether the dimensions from `from` on equal those of the result.
fn same_from(s: &[Expr], shape: &[Expr], from: usize) -> bool {
    let lead = shape.len() - s.len();
    from >= lead && s[from - lead..] == shape[from..]
}

/// Checks whether there is a single element for all dimensions of the result from `from` on.
fn one_from(s: &[Expr], shape: &[Expr], from: usize) -> bool {
    let lead = shape.len() - s.len();
    s[from.saturating_sub(lead)..].iter().all(|d| *d == Expr::Int(1))
}

/// Returns the operation for a step of a chain on its tiles.
pub(super) fn step_op(step: &Step, registers: &[TileId], mask: Option<TileId>, len: &Expr) -> Op {
    let tile = |r: &usize| registers[*r];
    match step {
        Step::Vector { op, dst, args } => {
            let arg = |a: &Arg| match a {
                Arg::Reg(r) => VArg::Tile(tile(r)),
                Arg::Num(v) => VArg::Num(*v),
            };
            Op::Vector { op: *op, dst: tile(dst), args: args.iter().map(arg).collect(), len: len.clone() }
        }
        Step::Select { cmp, dst, a, b, x, y } => Op::Select {
            cmp: *cmp,
            dst: tile(dst),
            a: tile(a),
            b: tile(b),
            x: tile(x),
            y: tile(y),
            // A chain with a selection always has a mask.
            mask: mask.unwrap_or(registers[*dst]),
            len: len.clone(),
        },
    }
}
