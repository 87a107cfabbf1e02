//! Kernels of whole-tensor operations: reduction of a dimension, casts, matmuls, and movement of
//! elements.
//!
//! The module chooses the kernel of an operation. [`super::kernel`] compiles elementwise functions;
//! [`super::plan`] determines where operands are on a rank.

use super::element::lanes;
use super::kernel::halves;
use super::loops::{BLOCK, Kernel, kernel};
use super::module::{Code, Conversion, Helper};
use super::number::Num;
use super::recipe::{Recipe, computes};
use super::tiles;
use super::words::{
    DST, FIRST, IDS, INNER, OUTER, ROOM_DST, ROOM_SRC, SIZE, SRC, TAKEN, ZEROS, moving, product,
};
use cranelift::frontend::FuncInstBuilder;
use cranelift::module::FuncId;
use cranelift::prelude::*;
use kbc_ir::algebra::Algebra;
use kbc_ir::dtype::Format;
use kbc_ir::expr::BinOp;
use kbc_ir::interval::{self, Interval};
use kbc_ir::parts::Parts;
use kbc_ir::schedule::{BufferId, Filling, LocalOp};
use kbc_ir::tiles::KernelTensor;
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_ir::walk::Program;
use kbc_numerics::numbers::{identity_f32, identity_i32};

/// Returns the kernel of operation `number`, or None if the operation has no value on any rank. The
/// parameters are `plan, room`.
pub(super) fn kernel_of(
    code: &mut Code,
    program: &Program<'_>,
    op: &LocalOp,
    number: u32,
) -> Result<Option<FuncId>, String> {
    if let Some(Recipe::Chain(chain)) = code.recipes.get(&number) {
        let chain = chain.clone();
        return chain.compile(code).map(Some);
    }
    let s = program.schedule;
    let to = s.buffer(op.dst()).dtype;
    let from = op.srcs().first().map_or(to, |b| s.buffer(*b).dtype);
    let id = match op {
        LocalOp::Compute { .. } => return Ok(None),
        LocalOp::Tiles { kernel, dst, args } => {
            let sides = kernel.params.iter().zip(args).chain([(&kernel.result, dst)]);
            let fits = |(p, b): (&KernelTensor, &BufferId)| p.dtype == s.buffer(*b).dtype;
            match tiles::compile(code, kernel)? {
                Some(id) if args.len() == kernel.params.len() && sides.clone().all(fits) => id,
                _ => return Ok(None),
            }
        }
        LocalOp::Matmul { a, b, .. } | LocalOp::Grouped { x: a, w: b, .. } => {
            let same = s.buffer(*a).dtype == s.buffer(*b).dtype && computes(from) && computes(to);
            if !same || (from == DType::I32) != (to == DType::I32) {
                return Ok(None);
            }
            matmul(code, from, to)?
        }
        LocalOp::ReduceDim { op, mean, .. } => {
            if !computes(from) || (from == DType::I32) != (to == DType::I32) || !computes(to) {
                return Ok(None);
            }
            if from == DType::I32 && mean.is_some() {
                return Ok(None);
            }
            reduce(code, *op, *mean, from, to)?
        }
        LocalOp::Cast { .. } => cast(code, from, to)?,
        _ if from != to => return Ok(None),
        LocalOp::Copy { .. } | LocalOp::Pack { at: Some(_), .. } | LocalOp::Unpack { at: Some(_), .. } => {
            kernel(code, "move".into(), 2, |k| {
                let args = [k.word(DST), k.word(SRC), k.word(OUTER)];
                k.call(Helper::Copy, &args);
            })?
        }
        LocalOp::Pack { at: None, parts, rule, .. } => relayout(code, *parts, rule, true)?,
        LocalOp::Unpack { at: None, parts, rule, .. } => relayout(code, *parts, rule, false)?,
        LocalOp::Transpose { perm, .. } => transpose(code, perm, from)?,
        LocalOp::Slice { .. } => slice(code)?,
        LocalOp::Fill { with: Filling::Number(_), .. } => repeated(code, to)?,
        LocalOp::Fill { with: Filling::Place { .. }, .. } => places(code, to)?,
        LocalOp::Embedding { ids, .. } => embedding(code, s.buffer(*ids).dtype)?,
    };
    code.recipes.insert(number, Recipe::Single(op.clone()));
    Ok(Some(id))
}

fn matmul(code: &mut Code, from: DType, to: DType) -> Result<FuncId, String> {
    kernel(code, format!("matmul {from:?} {to:?}"), 2, |k| {
        let two = k.int(2);
        if let Some((widen, ..)) = halves(from) {
            for (i, (raw, len)) in product::HALVES.into_iter().enumerate().take(2) {
                let args = [k.word(i), k.word(raw), two, k.word(len)];
                k.call(widen, &args);
            }
        }
        let plan = k.params[0];
        let wrong = k.call(Helper::Matmul, &[plan]).expect("a product says whether it was carried out");
        let (stop, go) = (k.b.create_block(), k.b.create_block());
        k.b.ins().brif(wrong, stop, &[], go, &[]);
        k.b.switch_to_block(stop);
        k.leave(1);
        k.b.switch_to_block(go);
        if let Some((_, narrow, _)) = halves(to) {
            let (raw, len) = product::HALVES[product::C];
            let args = [k.word(raw), k.word(product::C), k.word(len)];
            k.call(narrow, &args);
        }
    })
}

/// Compiles a reduction, by index, beginning with the first element. Halves are in blocks of f32
/// that the plan provides.
fn reduce(
    code: &mut Code,
    op: ReduceOp,
    mean: Option<u64>,
    from: DType,
    to: DType,
) -> Result<FuncId, String> {
    kernel(code, format!("reduce {op:?} {mean:?} {from:?} {to:?}"), 2, |k| {
        let (outer, n, inner) = (k.word(OUTER), k.word(SIZE), k.word(INNER));
        let mut src = k.word(SRC);
        let mut dst = k.word(DST);
        let results = k.b.ins().imul(outer, inner);
        if let Some((widen, ..)) = halves(from) {
            let (room, two) = (k.word(ROOM_SRC), k.int(2));
            let elements = k.b.ins().imul(results, n);
            k.call(widen, &[room, src, two, elements]);
            src = room;
        }
        let out = dst;
        if halves(to).is_some() {
            dst = k.word(ROOM_DST);
        }
        let kind = if to == DType::I32 { DType::I32 } else { DType::F32 };
        let zero = k.int(0);
        k.each(zero, outer, 1, |k, o| {
            let rows = k.b.ins().imul(o, n);
            let first = k.b.ins().imul(rows, inner);
            let src = k.at(src, first, 4);
            let start = k.b.ins().imul(o, inner);
            let dst = k.at(dst, start, 4);
            k.strips(
                inner,
                4,
                |k, i| fold(k, op, mean, kind, (src, dst), (n, inner), i, true),
                |k, i| fold(k, op, mean, kind, (src, dst), (n, inner), i, false),
            );
        });
        if let Some((_, narrow, _)) = halves(to) {
            k.call(narrow, &[out, dst, results]);
        }
    })
}

#[expect(clippy::too_many_arguments, reason = "what is folded, where, and over what")]
fn fold(
    k: &mut Kernel<'_, '_>,
    op: ReduceOp,
    mean: Option<u64>,
    kind: DType,
    (src, dst): (Value, Value),
    (n, inner): (Value, Value),
    i: Value,
    four: bool,
) {
    let t = lanes(kind, four);
    let column = k.at(src, i, 4);
    let (some, none, done) = (k.b.create_block(), k.b.create_block(), k.b.create_block());
    let result = k.b.append_block_param(done, t);
    k.b.ins().brif(n, some, &[], none, &[]);
    k.b.switch_to_block(none);
    let nothing = match kind {
        DType::I32 => f64::from(identity_i32(op)),
        _ => f64::from(identity_f32(op)),
    };
    let nothing = k.number(nothing, kind, four);
    k.b.ins().jump(done, &[nothing.into()]);
    k.b.switch_to_block(some);
    let first = k.load(t, column, 0);
    let (head, inside) = (k.b.create_block(), k.b.create_block());
    let (at, acc) = (k.b.append_block_param(head, types::I64), k.b.append_block_param(head, t));
    let one = k.int(1);
    k.b.ins().jump(head, &[one.into(), first.into()]);
    k.b.switch_to_block(head);
    let more = k.b.ins().icmp(IntCC::SignedLessThan, at, n);
    k.b.ins().brif(more, inside, &[], done, &[acc.into()]);
    k.b.switch_to_block(inside);
    let row = k.b.ins().imul(at, inner);
    let place = k.at(column, row, 4);
    let x = k.load(t, place, 0);
    let acc = k.combined(op, kind, acc, x);
    let next = k.b.ins().iadd_imm_s(at, 1);
    k.b.ins().jump(head, &[next.into(), acc.into()]);
    k.b.switch_to_block(done);
    let result = match mean {
        Some(count) => {
            let one = k.b.ins().f32const(count as f32);
            let count = k.spread(one, kind, four);
            k.b.ins().fdiv(result, count)
        }
        None => result,
    };
    let to = k.at(dst, i, 4);
    k.store(result, to, 0);
}

/// Returns the Cranelift type of an integer type, and whether it is signed.
fn integer(dtype: DType) -> Option<(Type, bool)> {
    match dtype.row().format {
        Format::Float(_) => None,
        Format::Int { signed, .. } => Some((bits(dtype), signed)),
    }
}

fn cast(code: &mut Code, from: DType, to: DType) -> Result<FuncId, String> {
    code.room = code.room.max(4 * BLOCK as usize);
    kernel(code, format!("cast {from:?} {to:?}"), 2, |k| {
        let (src, dst, n) = (k.word(SRC), k.word(DST), k.word(OUTER));
        let (wide, narrow) = (from.bytes() as i64, to.bytes() as i64);
        if from == to {
            let bytes = k.b.ins().imul_imm_s(n, wide);
            k.call(Helper::Copy, &[dst, src, bytes]);
            return;
        }
        let room = k.params[1];
        k.blocks(n, BLOCK, |k, at, len| {
            let (mut s, d) = (k.at(src, at, wide), k.at(dst, at, narrow));
            if let Some((widen, ..)) = halves(from) {
                let stride = k.int(wide);
                // If the result is f32, widening is the whole cast.
                let place = if to == DType::F32 { d } else { room };
                k.call(widen, &[place, s, stride, len]);
                s = place;
            }
            if from.is_float() && to == DType::F32 {
                return;
            }
            if let (true, Some((_, round, _))) = (from.is_float(), halves(to)) {
                k.call(round, &[d, s, len]);
                return;
            }
            // Integers that are cast to halves are rounded once, from 64 bits.
            let ints = k.b.ins().iadd_imm_s(room, 4 * BLOCK);
            let size = if from.is_float() { 4 } else { wide };
            let zero = k.int(0);
            k.each(zero, len, 1, |k, i| {
                let place = k.at(s, i, size);
                let v = match integer(from) {
                    Some((t, signed)) => {
                        let x = k.load(t, place, 0);
                        match (t == types::I64, signed) {
                            (true, _) => x,
                            (_, true) => k.b.ins().sextend(types::I64, x),
                            (_, false) => k.b.ins().uextend(types::I64, x),
                        }
                    }
                    None => k.load(types::F32, place, 0),
                };
                let out = k.at(d, i, narrow);
                match (integer(to), from.is_float()) {
                    (Some((t, signed)), true) => {
                        let x = k.b.ins().nearest(v);
                        let whole = k.b.ins().fcvt_to_sint_sat(types::I64, x);
                        let whole = limited(k, whole, t, signed);
                        truncated(k, whole, t, out);
                    }
                    (Some((t, _)), false) => truncated(k, v, t, out),
                    (None, _) if to == DType::F32 => {
                        let x = k.b.ins().fcvt_from_sint(types::F32, v);
                        k.store(x, out, 0);
                    }
                    (None, _) => {
                        let place = k.at(ints, i, 8);
                        k.store(v, place, 0);
                    }
                }
            });
            if !from.is_float() && halves(to).is_some() {
                k.call(Helper::Block(Conversion::Ints, to), &[d, ints, len]);
            }
        });
    })
}

/// Emits the nearest number that a type has.
fn limited(k: &mut Kernel<'_, '_>, v: Value, t: Type, signed: bool) -> Value {
    if t == types::I64 {
        return v;
    }
    let bits = t.bits();
    let (lo, hi) =
        if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    let (lo, hi) = (k.int(lo), k.int(hi));
    let v = k.b.ins().smax(v, lo);
    k.b.ins().smin(v, hi)
}

fn truncated(k: &mut Kernel<'_, '_>, v: Value, t: Type, out: Value) {
    let v = if t == types::I64 { v } else { k.b.ins().ireduce(t, v) };
    k.store(v, out, 0);
}

/// Sizes of tensors in emitted code as an algebra of the rules of cuts. The tensors are in memory,
/// so that products of sizes fit.
struct Sizes<'k, 'a, 'f>(&'k mut Kernel<'a, 'f>);

impl Sizes<'_, '_, '_> {
    fn emit(
        &mut self,
        op: BinOp,
        (a, b): (&Num, &Num),
        emit: impl FnOnce(FuncInstBuilder<'_, '_>, Value, Value) -> Value,
    ) -> Num {
        let within = interval::binary(op, a.within, b.within).within;
        if let Some(v) = within.constant() {
            return Num::int(v);
        }
        let (x, y) = (a.ssa(&mut self.0.b), b.ssa(&mut self.0.b));
        Num::of(emit(self.0.b.ins(), x, y), within)
    }
}

impl Algebra for Sizes<'_, '_, '_> {
    type Num = Num;

    fn int(&mut self, v: u64) -> Num {
        Num::int(i64::try_from(v).unwrap_or(i64::MAX))
    }

    fn add(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Add, (a, b), |ins, x, y| ins.iadd(x, y))
    }

    fn sub(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Sub, (a, b), |ins, x, y| ins.isub(x, y)).within(0, i64::MAX)
    }

    fn mul(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Mul, (a, b), |ins, x, y| ins.imul(x, y))
    }

    fn div(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Div, (a, b), |ins, x, y| ins.udiv(x, y))
    }

    fn rem(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Mod, (a, b), |ins, x, y| ins.urem(x, y))
    }

    fn min(&mut self, a: &Num, b: &Num) -> Num {
        self.emit(BinOp::Min, (a, b), |ins, x, y| ins.umin(x, y))
    }

    fn known(&self, a: &Num) -> Option<u64> {
        a.constant().and_then(|v| u64::try_from(v).ok())
    }

    fn line(&mut self, unit: u64) -> Num {
        // A line that is longer than any tensor cuts like the longest one.
        self.int(unit.clamp(1, u64::from(u32::MAX)))
    }

    fn listed(&mut self, parts: &Parts, _: &Num, n: &Num, i: &Num) -> Num {
        let (n, i) = (n.ssa(&mut self.0.b), i.ssa(&mut self.0.b));
        let mut at = self.0.int(0);
        for j in 1..parts.of() {
            let bound = self.0.int(parts.boundary(0, j) as i64);
            let ins = self.0.b.ins();
            let behind = ins.icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, i, j as i64);
            at = self.0.b.ins().select(behind, bound, at);
        }
        let at = self.0.b.ins().umin(at, n);
        let last = self.0.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, i, parts.of() as i64);
        Num::of(self.0.b.ins().select(last, n, at), Interval::from(0))
    }
}

/// Compiles the copy of a tensor `[outer, n, inner]` to the line of the parts of n, or back.
fn relayout(code: &mut Code, parts: u64, rule: &CutRule, pack: bool) -> Result<FuncId, String> {
    kernel(code, format!("relayout {parts} {rule:?} {pack}"), 2, |k| {
        let (src, dst) = (k.word(SRC), k.word(DST));
        let (outer, n, inner) = (k.word(OUTER), k.word(SIZE), k.word(INNER));
        let (zero, end) = (k.int(0), k.int(parts as i64));
        k.each(zero, end, 1, |k, part| {
            let mut sizes = Sizes(k);
            let of = sizes.int(parts);
            let part = Num::of(part, Interval::of(0, parts.max(1) as i64 - 1));
            let (row, all) = (Num::int(0), Num::of(n, Interval::from(0)));
            let lo = rule.bound(&mut sizes, &row, &all, &part, &of).ssa(&mut k.b);
            let count = rule.length(&mut Sizes(k), &row, &all, &part, parts).ssa(&mut k.b);
            let bytes = k.b.ins().imul(count, inner);
            // The parts before this one, each with all outer rows.
            let before = k.b.ins().imul(lo, inner);
            let before = k.b.ins().imul(before, outer);
            k.each(zero, outer, 1, |k, o| {
                let inside = k.b.ins().imul(o, bytes);
                let line = k.b.ins().iadd(before, inside);
                let rows = k.b.ins().imul(o, n);
                let row = k.b.ins().iadd(rows, lo);
                let tensor = k.b.ins().imul(row, inner);
                let (to, from) = if pack { (line, tensor) } else { (tensor, line) };
                let (to, from) = (k.b.ins().iadd(dst, to), k.b.ins().iadd(src, from));
                k.call(Helper::Copy, &[to, from, bytes]);
            });
        });
    })
}

fn slice(code: &mut Code) -> Result<FuncId, String> {
    kernel(code, "slice".into(), 2, |k| {
        let (src, dst) = (k.word(SRC), k.word(DST));
        let (outer, n, inner) = (k.word(OUTER), k.word(SIZE), k.word(INNER));
        let (first, taken) = (k.word(FIRST), k.word(TAKEN));
        let bytes = k.b.ins().imul(taken, inner);
        let zero = k.int(0);
        k.each(zero, outer, 1, |k, o| {
            let rows = k.b.ins().imul(o, n);
            let row = k.b.ins().iadd(rows, first);
            let from = k.b.ins().imul(row, inner);
            let to = k.b.ins().imul(o, bytes);
            let (to, from) = (k.b.ins().iadd(dst, to), k.b.ins().iadd(src, from));
            k.call(Helper::Copy, &[to, from, bytes]);
        });
    })
}

/// Returns the integer type as wide as an element.
fn bits(dtype: DType) -> Type {
    match dtype.bytes() {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

/// Compiles a fill with the same bits in every element.
fn repeated(code: &mut Code, dtype: DType) -> Result<FuncId, String> {
    kernel(code, format!("fill {}", dtype.bytes()), 2, |k| {
        let (v, dst, n) = (k.word(SRC), k.word(DST), k.word(OUTER));
        let v = narrowed(k, v, bits(dtype));
        let zero = k.int(0);
        k.each(zero, n, 1, |k, i| {
            let to = k.at(dst, i, dtype.bytes() as i64);
            k.store(v, to, 0);
        });
    })
}

fn narrowed(k: &mut Kernel<'_, '_>, v: Value, t: Type) -> Value {
    if t == types::I64 { v } else { k.b.ins().ireduce(t, v) }
}

/// Compiles a fill with the index along a dimension, from the first index of this rank on.
fn places(code: &mut Code, dtype: DType) -> Result<FuncId, String> {
    // Scratch for an integer, and for the half that it becomes.
    code.room = code.room.max(4);
    kernel(code, format!("places {dtype:?}"), 2, |k| {
        let (dst, outer, n) = (k.word(DST), k.word(OUTER), k.word(SIZE));
        let (inner, first) = (k.word(INNER), k.word(FIRST));
        let zero = k.int(0);
        k.each(zero, outer, 1, |k, o| {
            let rows = k.b.ins().imul(o, n);
            k.each(zero, n, 1, |k, i| {
                let place = k.b.ins().iadd(first, i);
                let v = match dtype {
                    DType::F32 => k.b.ins().fcvt_from_sint(types::F32, place),
                    _ if halves(dtype).is_some() => {
                        let room = k.params[1];
                        k.store(place, room, 0);
                        let (half, one) = (k.b.ins().iadd_imm_s(room, 8), k.int(1));
                        k.call(Helper::Block(Conversion::Ints, dtype), &[half, room, one]);
                        k.load(bits(dtype), half, 0)
                    }
                    _ => narrowed(k, place, bits(dtype)),
                };
                let row = k.b.ins().iadd(rows, i);
                let start = k.b.ins().imul(row, inner);
                k.each(zero, inner, 1, |k, j| {
                    let at = k.b.ins().iadd(start, j);
                    let to = k.at(dst, at, dtype.bytes() as i64);
                    k.store(v, to, 0);
                });
            });
        });
    })
}

/// Compiles an embedding: for each number, its row of the table, or the row of zeros.
fn embedding(code: &mut Code, ids: DType) -> Result<FuncId, String> {
    kernel(code, format!("embedding {ids:?}"), 2, |k| {
        let (src, dst, count) = (k.word(SRC), k.word(DST), k.word(OUTER));
        let (rows, bytes, first) = (k.word(SIZE), k.word(INNER), k.word(FIRST));
        let (ids_at, zeros) = (k.word(IDS), k.word(ZEROS));
        let zero = k.int(0);
        k.each(zero, count, 1, |k, i| {
            let place = k.at(ids_at, i, ids.bytes() as i64);
            let id = match ids {
                DType::I32 => {
                    let x = k.load(types::I32, place, 0);
                    k.b.ins().sextend(types::I64, x)
                }
                _ => k.load(types::I64, place, 0),
            };
            let row = k.b.ins().isub(id, first);
            let offset = k.b.ins().imul(row, bytes);
            let found = k.b.ins().iadd(src, offset);
            // As unsigned integers, numbers before the first row are large.
            let here = k.b.ins().icmp(IntCC::UnsignedLessThan, row, rows);
            let from = k.b.ins().select(here, found, zeros);
            let to = k.b.ins().imul(i, bytes);
            let to = k.b.ins().iadd(dst, to);
            k.call(Helper::Copy, &[to, from, bytes]);
        });
    })
}

/// Compiles a transpose in the order of the result: in runs if the last dimensions stay, otherwise
/// element by element.
fn transpose(code: &mut Code, perm: &[u32], dtype: DType) -> Result<FuncId, String> {
    let outer = moving(perm);
    let single = outer == perm.len() && outer > 0;
    let bytes = dtype.bytes();
    kernel(code, format!("transpose {outer} {}", if single { bytes } else { 0 }), 2, |k| {
        let (src, dst) = (k.word(SRC), k.word(DST));
        let zero = k.int(0);
        nest(k, (0, outer), (src, zero), &mut |k, from, number| {
            if single {
                let t = match bytes {
                    1 => types::I8,
                    2 => types::I16,
                    4 => types::I32,
                    _ => types::I64,
                };
                let v = k.load(t, from, 0);
                let to = k.at(dst, number, bytes as i64);
                k.store(v, to, 0);
            } else {
                let run = k.word(OUTER);
                let offset = k.b.ins().imul(number, run);
                let to = k.b.ins().iadd(dst, offset);
                k.call(Helper::Copy, &[to, from, run]);
            }
        });
    })
}

/// Emits loops over dimensions `d .. outer` of the result. `body` gets the position in the operand
/// and the number of the run.
fn nest(
    k: &mut Kernel<'_, '_>,
    (d, outer): (usize, usize),
    (from, number): (Value, Value),
    body: &mut dyn FnMut(&mut Kernel<'_, '_>, Value, Value),
) {
    if d == outer {
        return body(k, from, number);
    }
    let (size, stride) = (k.word(SIZE + 2 * d), k.word(INNER + 2 * d));
    let zero = k.int(0);
    k.each(zero, size, 1, |k, i| {
        let offset = k.b.ins().imul(i, stride);
        let from = k.b.ins().iadd(from, offset);
        let rows = k.b.ins().imul(number, size);
        let number = k.b.ins().iadd(rows, i);
        nest(k, (d + 1, outer), (from, number), body);
    });
}
