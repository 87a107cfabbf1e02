//! Tile kernels as machine code: their loops, and in them matmuls, functions and sums of tiles.
//!
//! The module owns the code of a kernel, which reads the words that [`super::words::of_tiles`] lays
//! out. Tiles are in scratch memory of f32 (or i32), one block for each value and each intermediate
//! result, with halves widened; loads of f32 and i32 are read in place. [`kbc_numerics::tiles`]
//! defines what is computed and in which order, and the code gives the same bits.

use super::element::{lanes, vectorises};
use super::kernel::halves;
use super::loops::{Kernel, kernel};
use super::module::{Code, Helper};
use super::recipe::defined;
use cranelift::module::FuncId;
use cranelift::prelude::*;
use kbc_ir::Name;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn};
use kbc_ir::tiles::{Index, NodeFacts, Stmt, Tile, TileKernel};
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// Number of rows of a matmul that are computed together, and number of vectors of four in each.
const ROWS: usize = 4;
const VECTORS: usize = 2;

/// Compiles a kernel; the parameters are `plan, room`. Returns None for a kernel that has no value.
pub(super) fn compile(code: &mut Code, nest: &TileKernel) -> Result<Option<FuncId>, String> {
    let Ok(facts) = nest.facts() else { return Ok(None) };
    if nest.functions().iter().any(|f| !defined(&f.body, f.params.len())) {
        return Ok(None);
    }
    let unknown = (None, None);
    let mut w = Writer {
        nest,
        nodes: &facts.nodes,
        next: 0,
        ranges: vec![unknown; nest.vars.len()],
        values: BTreeMap::new(),
        room: 0,
    };
    kernel(code, format!("tiles {nest:?}"), 2, |k| {
        w.body(k, &nest.body);
        k.code.room = k.code.room.max(w.room as usize);
    })
    .map(Some)
}

/// Distance between the elements of a dimension, in bytes.
#[derive(Clone, Copy)]
enum Stride {
    Known(i64),
    Word(Value),
}

/// The location of a tile: address of its first element, and strides.
#[derive(Clone)]
struct TileAddress {
    base: Value,
    strides: Vec<Stride>,
    index: Vec<Index>,
}

impl TileAddress {
    /// Returns its dimension that is aligned with dimension `d` of `of`, counted from the right, or
    /// None where it is repeated.
    fn under(&self, d: usize, of: usize) -> Option<usize> {
        let at = (d + self.index.len()).checked_sub(of)?;
        matches!(self.index[at], Index::Var(_)).then_some(at)
    }
}

struct Writer<'a> {
    nest: &'a TileKernel,
    nodes: &'a [NodeFacts],
    /// The number of the next statement or expression.
    next: usize,
    /// For each variable, the first element and the length of the current tile.
    ranges: Vec<(Option<Value>, Option<Value>)>,
    values: BTreeMap<u32, TileAddress>,
    /// Number of elements of scratch memory used so far.
    room: i64,
}

/// The work on one row, which gets the pointers of all locations there.
type Row<'r> = &'r mut dyn FnMut(&mut Kernel<'_, '_>, &[Value]);

impl<'a> Writer<'a> {
    fn node(&mut self) -> &'a NodeFacts {
        self.next += 1;
        &self.nodes[self.next - 1]
    }

    fn len(&self, k: &mut Kernel<'_, '_>, index: Index) -> Value {
        match index {
            Index::Var(v) => self.ranges[v as usize].1.expect("facts: a variable of a loop around"),
            Index::At(_) => k.int(1),
        }
    }

    fn body(&mut self, k: &mut Kernel<'_, '_>, list: &[Stmt]) {
        for s in list {
            self.stmt(k, s);
        }
    }

    fn stmt(&mut self, k: &mut Kernel<'_, '_>, s: &Stmt) {
        self.node();
        match s {
            Stmt::Preload { .. } => {}
            Stmt::For { vars, body } => self.nest(k, vars, body),
            Stmt::Zeros { value, dtype, index } => {
                let spot = self.take(k, index);
                let n = self.last(k, index);
                self.rows(k, index, &[&spot], &mut |k, at| {
                    let go = |k: &mut Kernel<'_, '_>, i: Value, four: bool| {
                        let zero = k.number(0.0, *dtype, four);
                        let to = k.at(at[0], i, 4);
                        k.store(zero, to, 0);
                    };
                    k.strips(n, 4, |k, i| go(k, i, true), |k, i| go(k, i, false));
                });
                self.values.insert(*value, spot);
            }
            Stmt::Let { value, is } => {
                let (mut spot, dtype) = self.tile(k, is);
                // A sum may change after this statement, so its value is copied.
                if matches!(is, Tile::Value(_) | Tile::Cast(..)) {
                    let copy = self.take(k, &spot.index);
                    self.map(k, &same(), dtype, &[spot], &copy);
                    spot = copy;
                }
                self.values.insert(*value, spot);
            }
            Stmt::Add { value, is } => {
                let acc = self.values[value].clone();
                let dtype = self.nodes[self.next - 1].dtype;
                if let Tile::Dot(a, b) = is
                    && self.nodes[self.next].index == acc.index
                {
                    self.node();
                    let (a, b) = (self.tile(k, a).0, self.tile(k, b).0);
                    self.product(k, dtype, [&acc, &a, &b]);
                    return;
                }
                let more = self.tile(k, is).0;
                let body = Scalar::bin(ScalarBin::Add, Scalar::Arg(0), Scalar::Arg(1));
                let add = ScalarFn { name: "add".into(), params: ["a", "b"].map(Name::from).to_vec(), body };
                self.map(k, &add, dtype, &[acc.clone(), more], &acc);
            }
            Stmt::Store { index, is } => {
                let (mut spot, dtype) = self.tile(k, is);
                if spot.index != *index {
                    let whole = self.take(k, index);
                    self.map(k, &same(), dtype, &[spot], &whole);
                    spot = whole;
                }
                let to = self.side(k, self.nest.params.len(), index);
                let n = self.last(k, index);
                self.rows(k, index, &[&to, &spot], &mut |k, at| match halves(dtype) {
                    Some((_, narrow, _)) => drop(k.call(narrow, &[at[0], at[1], n])),
                    None => {
                        let bytes = k.b.ins().imul_imm_s(n, 4);
                        k.call(Helper::Copy, &[at[0], at[1], bytes]);
                    }
                });
            }
        }
    }

    fn nest(&mut self, k: &mut Kernel<'_, '_>, vars: &[u32], body: &[Stmt]) {
        let Some((v, rest)) = vars.split_first() else { return self.body(k, body) };
        let tile = self.nest.vars[*v as usize].tile as i64;
        let n = k.word(self.nest.params.len() + 1 + *v as usize);
        let zero = k.int(0);
        k.each(zero, n, tile, |k, at| {
            let left = k.b.ins().isub(n, at);
            let most = k.int(tile);
            let len = k.b.ins().smin(left, most);
            self.ranges[*v as usize] = (Some(at), Some(len));
            self.nest(k, rest, body);
        });
    }

    /// Returns the tile of an operand, or (after the last operand) of the result.
    fn side(&mut self, k: &mut Kernel<'_, '_>, side: usize, index: &[Index]) -> TileAddress {
        let sides = self.nest.params.len() + 1;
        let before: usize = self.nest.params[..side].iter().map(|p| p.dims).sum();
        let mut base = k.word(side);
        let mut strides = vec![];
        for (d, i) in index.iter().enumerate() {
            let stride = k.word(sides + self.nest.vars.len() + before + d);
            let first = match i {
                Index::Var(v) => self.ranges[*v as usize].0.expect("facts: a variable of a loop around"),
                Index::At(n) => k.int(*n as i64),
            };
            let offset = k.b.ins().imul(first, stride);
            base = k.b.ins().iadd(base, offset);
            strides.push(Stride::Word(stride));
        }
        TileAddress { base, strides, index: index.to_vec() }
    }

    /// Reserves scratch memory for a tile.
    fn take(&mut self, k: &mut Kernel<'_, '_>, index: &[Index]) -> TileAddress {
        let tile = |i: &Index| match i {
            Index::Var(v) => self.nest.vars[*v as usize].tile as i64,
            Index::At(_) => 1,
        };
        let sizes: Vec<i64> = index.iter().map(tile).collect();
        let strides = (0..sizes.len()).map(|d| Stride::Known(4 * sizes[d + 1..].iter().product::<i64>()));
        let strides = strides.collect();
        let room = k.params[1];
        let base = k.b.ins().iadd_imm_s(room, 4 * self.room);
        self.room += sizes.iter().product::<i64>();
        TileAddress { base, strides, index: index.to_vec() }
    }

    /// Returns the number of elements of the last dimension.
    fn last(&self, k: &mut Kernel<'_, '_>, index: &[Index]) -> Value {
        match index.last() {
            Some(i) => self.len(k, *i),
            None => k.int(1),
        }
    }

    /// Emits loops over all dimensions but the last; `row` gets the pointers of the locations
    /// there.
    fn rows(&self, k: &mut Kernel<'_, '_>, index: &[Index], spots: &[&TileAddress], row: Row<'_>) {
        let bases: Vec<Value> = spots.iter().map(|s| s.base).collect();
        let outer = index.len().saturating_sub(1);
        self.each(k, index, (0, outer), (spots, &bases), row);
    }

    /// Emits loops over dimensions `d..end` of `index`.
    fn each(
        &self,
        k: &mut Kernel<'_, '_>,
        index: &[Index],
        (d, end): (usize, usize),
        (spots, bases): (&[&TileAddress], &[Value]),
        row: Row<'_>,
    ) {
        if d == end {
            return row(k, bases);
        }
        let (n, zero) = (self.len(k, index[d]), k.int(0));
        k.each(zero, n, 1, |k, i| {
            let moved: Vec<Value> = spots
                .iter()
                .zip(bases)
                .map(|(s, b)| match s.under(d, index.len()) {
                    Some(at) => moved(k, *b, i, s.strides[at]),
                    None => *b,
                })
                .collect();
            self.each(k, index, (d + 1, end), (spots, &moved), row);
        });
    }

    /// Emits the tile of an expression. Returns it with its element type.
    fn tile(&mut self, k: &mut Kernel<'_, '_>, t: &Tile) -> (TileAddress, DType) {
        let node = self.node();
        let spot = match t {
            Tile::Value(v) => self.values[v].clone(),
            Tile::Load { param, index } => {
                let from = self.side(k, *param as usize, index);
                let Some((widen, ..)) = halves(node.dtype) else { return (from, node.dtype) };
                let room = self.take(k, index);
                let n = self.last(k, index);
                self.rows(k, index, &[&room, &from], &mut |k, at| {
                    let two = k.int(2);
                    k.call(widen, &[at[0], at[1], two, n]);
                });
                room
            }
            Tile::Dot(a, b) => {
                let (a, b) = (self.tile(k, a).0, self.tile(k, b).0);
                let out = self.take(k, &node.index);
                let n = self.last(k, &node.index);
                let dtype = node.dtype;
                self.rows(k, &node.index, &[&out], &mut |k, at| {
                    let zero = k.int(0);
                    k.each(zero, n, 1, |k, i| {
                        let none = k.number(0.0, dtype, false);
                        let to = k.at(at[0], i, 4);
                        k.store(none, to, 0);
                    });
                });
                self.product(k, dtype, [&out, &a, &b]);
                out
            }
            Tile::Map(f, args) => {
                let args: Vec<TileAddress> = args.iter().map(|a| self.tile(k, a).0).collect();
                let out = self.take(k, &node.index);
                self.map(k, f, node.dtype, &args, &out);
                out
            }
            Tile::Cast(to, a) => {
                let (from, dtype) = self.tile(k, a);
                let Some((.., round)) = halves(*to).filter(|_| dtype != *to) else { return (from, *to) };
                let out = self.take(k, &node.index);
                let n = self.last(k, &node.index);
                self.rows(k, &node.index, &[&out, &from], &mut |k, at| {
                    let bytes = k.b.ins().imul_imm_s(n, 4);
                    k.call(Helper::Copy, &[at[0], at[1], bytes]);
                    k.call(round, &[at[0], n]);
                });
                out
            }
        };
        (spot, node.dtype)
    }

    /// Emits `out = f(args)`, element by element; `out` may be one of the arguments.
    fn map(
        &self,
        k: &mut Kernel<'_, '_>,
        f: &ScalarFn,
        dtype: DType,
        args: &[TileAddress],
        out: &TileAddress,
    ) {
        let n = self.last(k, &out.index);
        let all: Vec<&TileAddress> = std::iter::once(out).chain(args).collect();
        let dims = out.index.len();
        let kind = if dtype == DType::I32 { DType::I32 } else { DType::F32 };
        let wide = vectorises(&f.body, dtype);
        self.rows(k, &out.index, &all, &mut |k, at| {
            let go = |k: &mut Kernel<'_, '_>, i: Value, four: bool| {
                let mut inputs = vec![];
                for (a, place) in args.iter().zip(&at[1..]) {
                    let along = dims.checked_sub(1).and_then(|d| a.under(d, dims)).is_some();
                    inputs.push(if along {
                        let from = k.at(*place, i, 4);
                        k.load(lanes(kind, four), from, 0)
                    } else {
                        let one = k.load(lanes(kind, false), *place, 0);
                        k.spread(one, kind, four)
                    });
                }
                let v = k.value(&f.body, &inputs, dtype, four);
                let to = k.at(at[0], i, 4);
                k.store(v, to, 0);
            };
            if wide {
                k.strips(n, 4, |k, i| go(k, i, true), |k, i| go(k, i, false));
            } else {
                let zero = k.int(0);
                k.each(zero, n, 1, |k, i| go(k, i, false));
            }
            if let Some((.., round)) = halves(dtype) {
                k.call(round, &[at[0], n]);
            }
        });
    }

    /// Emits `c += a b`; dimensions before the last two select the matrices.
    fn product(&self, k: &mut Kernel<'_, '_>, dtype: DType, spots: [&TileAddress; 3]) {
        let [c, a, _] = spots;
        let lead = c.index.len() - 2;
        let sizes = [c.index[lead], a.index[lead + 1], c.index[lead + 1]].map(|i| self.len(k, i));
        let bases = spots.map(|s| s.base);
        self.each(k, &c.index, (0, lead), (&spots, &bases), &mut |k, at| {
            let strides = spots.map(|s| s.strides[lead]);
            matrix(k, dtype, sizes, [at[0], at[1], at[2]], strides);
        });
    }
}

/// Returns the identity function.
fn same() -> ScalarFn {
    ScalarFn { name: "x".into(), params: vec!["x".into()], body: Scalar::Arg(0) }
}

/// Emits `base + i * stride`.
fn moved(k: &mut Kernel<'_, '_>, base: Value, i: Value, stride: Stride) -> Value {
    match stride {
        Stride::Known(bytes) => k.at(base, i, bytes),
        Stride::Word(w) => {
            let offset = k.b.ins().imul(i, w);
            k.b.ins().iadd(base, offset)
        }
    }
}

/// Emits one matmul of matrices whose rows are `strides` apart. Blocks of rows and columns stay in
/// registers along k.
fn matrix(
    k: &mut Kernel<'_, '_>,
    dtype: DType,
    [m, depth, n]: [Value; 3],
    [c, a, b]: [Value; 3],
    strides: [Stride; 3],
) {
    let rows = |k: &mut Kernel<'_, '_>, i: Value, count: usize| {
        let mut places = vec![];
        for r in 0..count {
            let at = k.b.ins().iadd_imm_s(i, r as i64);
            places.push((moved(k, c, at, strides[0]), moved(k, a, at, strides[1])));
        }
        let wide = 4 * VECTORS as i64;
        let zero = k.int(0);
        let (wides, fours) = (k.b.ins().band_imm_s(n, -wide), k.b.ins().band_imm_s(n, -4));
        k.each(zero, wides, wide, |k, j| {
            block(k, dtype, &places, (b, strides[2]), (j, depth), Some(VECTORS));
        });
        k.each(wides, fours, 4, |k, j| block(k, dtype, &places, (b, strides[2]), (j, depth), Some(1)));
        k.each(fours, n, 1, |k, j| block(k, dtype, &places, (b, strides[2]), (j, depth), None));
    };
    let zero = k.int(0);
    let whole = k.b.ins().band_imm_s(m, -(ROWS as i64));
    k.each(zero, whole, ROWS as i64, |k, i| rows(k, i, ROWS));
    k.each(whole, m, 1, |k, i| rows(k, i, 1));
}

/// Emits some rows (of the result and of the left side) times the columns from `j` on, as vectors
/// of four or one by one.
fn block(
    k: &mut Kernel<'_, '_>,
    dtype: DType,
    rows: &[(Value, Value)],
    (b, stride): (Value, Stride),
    (j, depth): (Value, Value),
    vectors: Option<usize>,
) {
    let (four, count) = (vectors.is_some(), vectors.unwrap_or(1));
    let t = lanes(dtype, four);
    let column = k.at(b, j, 4);
    let mut sums = vec![];
    let mut to = vec![];
    for (c, _) in rows {
        let place = k.at(*c, j, 4);
        for v in 0..count {
            sums.push(k.load(t, place, 16 * v as i32));
        }
        to.push(place);
    }
    let (head, inside, after) = (k.b.create_block(), k.b.create_block(), k.b.create_block());
    let l = k.b.append_block_param(head, types::I64);
    let below = k.b.append_block_param(head, types::I64);
    let carried: Vec<Value> = sums.iter().map(|_| k.b.append_block_param(head, t)).collect();
    let zero = k.int(0);
    let first = [zero, column].into_iter().chain(sums).map(Into::into).collect::<Vec<_>>();
    k.b.ins().jump(head, &first);
    k.b.switch_to_block(head);
    let more = k.b.ins().icmp(IntCC::SignedLessThan, l, depth);
    k.b.ins().brif(more, inside, &[], after, &[]);
    k.b.switch_to_block(inside);
    let right: Vec<Value> = (0..count).map(|v| k.load(t, below, 16 * v as i32)).collect();
    let mut next = vec![];
    for (r, (_, a)) in rows.iter().enumerate() {
        let from = k.at(*a, l, 4);
        let one = k.load(lanes(dtype, false), from, 0);
        let left = k.spread(one, dtype, four);
        for (v, y) in right.iter().enumerate() {
            let sum = carried[r * count + v];
            next.push(if dtype == DType::I32 {
                let x = k.b.ins().imul(left, *y);
                k.b.ins().iadd(sum, x)
            } else {
                let x = k.b.ins().fmul(left, *y);
                k.b.ins().fadd(sum, x)
            });
        }
    }
    let step = k.b.ins().iadd_imm_s(l, 1);
    let one = k.int(1);
    let below = moved(k, below, one, stride);
    let again = [step, below].into_iter().chain(next).map(Into::into).collect::<Vec<_>>();
    k.b.ins().jump(head, &again);
    k.b.switch_to_block(after);
    for (r, place) in to.iter().enumerate() {
        for v in 0..count {
            k.store(carried[r * count + v], *place, 16 * v as i32);
        }
    }
}
