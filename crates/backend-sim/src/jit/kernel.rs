//! Elementwise kernels: reductions into a chunk, and chains of elementwise functions.
//!
//! A chain that [`super::recipe`] has found becomes one loop. f32 and i32 are computed four at a
//! time in place. Halves go through scratch memory of f32, a block at a time, and are rounded where
//! a result would have been stored.

use super::element::{lanes, vectorises};
use super::loops::{BLOCK, Kernel, kernel};
use super::module::{Code, Conversion, Helper};
use super::recipe::{Chain, Input};
use cranelift::module::FuncId;
use cranelift::prelude::*;
use kbc_ir::types::{DType, ReduceOp};

/// Returns the helpers that widen, narrow and round a floating-point type narrower than f32, or
/// None for other types.
pub(super) fn halves(dtype: DType) -> Option<(Helper, Helper, Helper)> {
    let of = |c| Helper::Block(c, dtype);
    (dtype.is_float() && dtype != DType::F32)
        .then(|| (of(Conversion::Widen), of(Conversion::Narrow), of(Conversion::Round)))
}

/// Number of vectors of four that a loop iteration processes.
const UNROLL: i32 = 4;

/// Compiles `dst[i] = old[i] OP src[i]`; the parameters are `dst, old, src, n, room`.
pub(super) fn combine(code: &mut Code, op: ReduceOp, dtype: DType) -> Result<FuncId, String> {
    code.room = code.room.max(2 * BLOCK as usize);
    kernel(code, format!("combine {op:?} {dtype:?}"), 5, |k| {
        let [dst, old, src, n, room] = k.params[..] else { unreachable!("five parameters") };
        let Some((widen, narrow, _)) = halves(dtype) else {
            return combine_words(k, op, dtype, dst, (old, src), n);
        };
        k.blocks(n, BLOCK, |k, at, len| {
            let other = k.b.ins().iadd_imm_s(room, 4 * BLOCK);
            let (d, o, s, two) = (k.at(dst, at, 2), k.at(old, at, 2), k.at(src, at, 2), k.int(2));
            k.call(widen, &[room, o, two, len]);
            k.call(widen, &[other, s, two, len]);
            combine_words(k, op, DType::F32, room, (room, other), len);
            k.call(narrow, &[d, room, len]);
        });
    })
}

fn combine_words(
    k: &mut Kernel<'_, '_>,
    op: ReduceOp,
    dtype: DType,
    dst: Value,
    (old, src): (Value, Value),
    n: Value,
) {
    let go = |k: &mut Kernel<'_, '_>, at: Value, four: bool| {
        let (d, o, s) = (k.at(dst, at, 4), k.at(old, at, 4), k.at(src, at, 4));
        let steps = if four { UNROLL } else { 1 };
        let t = lanes(dtype, four);
        let pairs: Vec<_> = (0..steps).map(|i| (k.load(t, o, 16 * i), k.load(t, s, 16 * i))).collect();
        for (i, (x, y)) in pairs.into_iter().enumerate() {
            let v = k.combined(op, dtype, x, y);
            k.store(v, d, 16 * i as i32);
        }
    };
    let zero = k.int(0);
    let whole = k.b.ins().band_imm_s(n, -i64::from(4 * UNROLL));
    k.each(zero, whole, i64::from(4 * UNROLL), |k, at| go(k, at, true));
    k.each(whole, n, 1, |k, at| go(k, at, false));
}

impl Chain {
    /// Compiles the chain; the parameters are `plan, room`.
    pub(super) fn compile(&self, code: &mut Code) -> Result<FuncId, String> {
        let slots = self.args.len() + self.stages.len();
        code.room = code.room.max(slots * BLOCK as usize);
        let repeated: Vec<bool> = self.args.iter().map(|a| a.1).collect();
        let stages: Vec<_> = self.stages.iter().map(|s| (&s.body, &s.inputs, s.stored)).collect();
        let name = format!("chain {:?} {} {repeated:?} {stages:?}", self.dtype, self.dims);
        kernel(code, name, 2, |k| {
            // First words of the operands: the pointer, then a stride for each dimension.
            let first = |operand: usize| self.dims + operand * (self.dims + 1);
            let count = self.args.len() + self.stages.iter().filter(|s| s.stored).count();
            let bases: Vec<Value> = (0..count).map(|o| k.word(first(o))).collect();
            self.nest(k, 0, &bases, &first);
        })
    }

    fn nest(&self, k: &mut Kernel<'_, '_>, d: usize, bases: &[Value], first: &dyn Fn(usize) -> usize) {
        let n = k.word(d);
        if d + 1 == self.dims {
            return self.row(k, n, bases, first);
        }
        let strides: Vec<Value> = (0..bases.len()).map(|o| k.word(first(o) + 1 + d)).collect();
        let zero = k.int(0);
        k.each(zero, n, 1, |k, i| {
            let moved: Vec<Value> = bases
                .iter()
                .zip(strides)
                .map(|(b, s)| {
                    let offset = k.b.ins().imul(i, s);
                    k.b.ins().iadd(*b, offset)
                })
                .collect();
            self.nest(k, d + 1, &moved, first);
        });
    }

    /// Emits the loop over the last dimension.
    fn row(&self, k: &mut Kernel<'_, '_>, n: Value, bases: &[Value], first: &dyn Fn(usize) -> usize) {
        let bytes = self.dtype.bytes() as i64;
        let strides: Vec<Value> = (0..self.args.len()).map(|o| k.word(first(o) + self.dims)).collect();
        let room = k.params[1];
        let slot = |k: &mut Kernel<'_, '_>, i: usize| k.b.ins().iadd_imm_s(room, 4 * BLOCK * i as i64);
        let half = halves(self.dtype);
        // If every operand lies in a row, the row is one block.
        let mut size = k.int(BLOCK);
        if half.is_none() {
            let mut direct = n;
            for (s, (_, repeated)) in strides.iter().zip(&self.args) {
                if !repeated {
                    let gathered = k.b.ins().icmp_imm_s(IntCC::NotEqual, *s, bytes);
                    direct = k.b.ins().select(gathered, size, direct);
                }
            }
            size = k.b.ins().umax(size, direct);
        }
        let (head, inside, after) = (k.b.create_block(), k.b.create_block(), k.b.create_block());
        let at = k.b.append_block_param(head, types::I64);
        let zero = k.int(0);
        k.b.ins().jump(head, &[zero.into()]);
        k.b.switch_to_block(head);
        let more = k.b.ins().icmp(IntCC::SignedLessThan, at, n);
        k.b.ins().brif(more, inside, &[], after, &[]);
        k.b.switch_to_block(inside);
        let rest = k.b.ins().isub(n, at);
        let len = k.b.ins().smin(rest, size);
        let mut args = vec![];
        for (o, (_, repeated)) in self.args.iter().enumerate() {
            let offset = k.b.ins().imul(at, strides[o]);
            let from = k.b.ins().iadd(bases[o], offset);
            args.push(match (half, repeated) {
                (Some((widen, ..)), _) => {
                    let to = slot(k, o);
                    let many = if *repeated { k.int(1) } else { len };
                    k.call(widen, &[to, from, strides[o], many]);
                    to
                }
                (None, true) => from,
                (None, false) => {
                    let (gather, join) = (k.b.create_block(), k.b.create_block());
                    let place = k.b.append_block_param(join, types::I64);
                    let in_row = k.b.ins().icmp_imm_s(IntCC::Equal, strides[o], bytes);
                    k.b.ins().brif(in_row, join, &[from.into()], gather, &[]);
                    k.b.switch_to_block(gather);
                    let to = slot(k, o);
                    k.call(Helper::GatherWord, &[to, from, strides[o], len]);
                    k.b.ins().jump(join, &[to.into()]);
                    k.b.switch_to_block(join);
                    place
                }
            });
        }
        let mut stored = self.args.len();
        let results: Vec<Option<Value>> = self
            .stages
            .iter()
            .map(|s| {
                s.stored.then(|| {
                    stored += 1;
                    k.at(bases[stored - 1], at, bytes)
                })
            })
            .collect();
        match half {
            None => self.fused(k, len, &args, &results),
            Some(how) => {
                for (i, result) in results.iter().enumerate() {
                    let out = slot(k, self.args.len() + i);
                    self.staged(k, i, len, &args, out);
                    match *result {
                        Some(to) => {
                            let two = k.int(2);
                            k.call(how.1, &[to, out, len]);
                            k.call(how.0, &[out, to, two, len]);
                        }
                        None => {
                            k.call(how.2, &[out, len]);
                        }
                    }
                }
            }
        }
        let next = k.b.ins().iadd(at, len);
        k.b.ins().jump(head, &[next.into()]);
        k.b.switch_to_block(after);
    }

    /// Emits loads of operand `o` for the elements from `at` on.
    fn operand(
        &self,
        k: &mut Kernel<'_, '_>,
        o: usize,
        places: &[Value],
        at: Value,
        four: bool,
        step: i32,
    ) -> Value {
        let dtype = if self.dtype == DType::I32 { DType::I32 } else { DType::F32 };
        if self.args[o].1 {
            let one = k.load(lanes(dtype, false), places[o], 0);
            return k.spread(one, dtype, four);
        }
        let place = k.at(places[o], at, 4);
        k.load(lanes(dtype, four), place, 16 * step)
    }

    /// Emits all stages in registers.
    fn fused(&self, k: &mut Kernel<'_, '_>, len: Value, places: &[Value], results: &[Option<Value>]) {
        let go = |k: &mut Kernel<'_, '_>, at: Value, four: bool, steps: i32| {
            for step in 0..steps {
                let args: Vec<Value> =
                    (0..self.args.len()).map(|o| self.operand(k, o, places, at, four, step)).collect();
                let mut values: Vec<Value> = vec![];
                for (stage, to) in self.stages.iter().zip(results) {
                    let inputs: Vec<Value> = stage
                        .inputs
                        .iter()
                        .map(|i| match i {
                            Input::Arg(a) => args[*a],
                            Input::Stage(s) => values[*s],
                        })
                        .collect();
                    let v = k.value(&stage.body, &inputs, self.dtype, four);
                    values.push(v);
                    if let Some(to) = to {
                        let place = k.at(*to, at, 4);
                        k.store(v, place, 16 * step);
                    }
                }
            }
        };
        if self.stages.iter().all(|s| vectorises(&s.body, self.dtype)) {
            k.strips(len, 8, |k, at| go(k, at, true, 2), |k, at| go(k, at, false, 1));
        } else {
            let zero = k.int(0);
            k.each(zero, len, 1, |k, at| go(k, at, false, 1));
        }
    }

    /// Emits one stage of halves, from scratch blocks to a scratch block.
    fn staged(&self, k: &mut Kernel<'_, '_>, i: usize, len: Value, places: &[Value], out: Value) {
        let stage = &self.stages[i];
        let room = k.params[1];
        let go = |k: &mut Kernel<'_, '_>, at: Value, four: bool| {
            let inputs: Vec<Value> = stage
                .inputs
                .iter()
                .map(|input| match input {
                    Input::Arg(a) => self.operand(k, *a, places, at, four, 0),
                    Input::Stage(s) => {
                        let base = k.b.ins().iadd_imm_s(room, 4 * BLOCK * (self.args.len() + s) as i64);
                        let place = k.at(base, at, 4);
                        k.load(lanes(DType::F32, four), place, 0)
                    }
                })
                .collect();
            // Numbers are rounded to the dtype; everything else is computed in f32.
            let v = k.value(&stage.body, &inputs, self.dtype, four);
            let place = k.at(out, at, 4);
            k.store(v, place, 0);
        };
        if vectorises(&stage.body, self.dtype) {
            k.strips(len, 4, |k, at| go(k, at, true), |k, at| go(k, at, false));
        } else {
            let zero = k.int(0);
            k.each(zero, len, 1, |k, at| go(k, at, false));
        }
    }
}
