//! Loops of chains of local operations ([`super::row_chain`]): loads, then the operations on tiles,
//! then stores.
//!
//! A value of the chain is a tile of its buffer's type, which is not changed while the value is
//! still needed. What is in the core is therefore what would be in memory, to the bit.

use super::address::{add, mul, product};
use super::chain::{Arg, Chain, Step};
use super::errors::refuse;
use super::row_chain::{RowChain, RowKind};
use super::state::Lower;
use crate::device::conversions;
use crate::tile::{Gm, Op, Stmt, TileId, TileRows, VArg, VecOp};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::{DType, ReduceOp};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The state of the body of such a loop.
struct Body<'c, 'o> {
    chain: &'c RowChain<'o>,
    /// Length of an operation on all elements of the tile's rows.
    len: Expr,
    /// Length of an operation on an element for each row.
    count: Expr,
    /// Tiles that hold something, each with how many still need it.
    busy: BTreeMap<TileId, usize>,
    /// The tile of each value, and how many operations and stores still read the value.
    values: BTreeMap<BufferId, (TileId, usize)>,
}

impl Body<'_, '_> {
    fn kind(&self, b: BufferId) -> RowKind {
        self.chain.kinds.get(&b).copied().unwrap_or(RowKind::Full)
    }

    /// Returns the length of an operation that gives a buffer.
    fn length(&self, b: BufferId) -> Expr {
        if self.kind(b) == RowKind::PerRow { self.count.clone() } else { self.len.clone() }
    }

    fn release(&mut self, tile: TileId) {
        if let Some(n) = self.busy.get_mut(&tile) {
            *n -= 1;
            if *n == 0 {
                self.busy.remove(&tile);
            }
        }
    }

    /// Notes that an operation or a store has read a value.
    fn read(&mut self, b: BufferId) {
        let Some((tile, left)) = self.values.get_mut(&b) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            let tile = *tile;
            self.values.remove(&b);
            self.release(tile);
        }
    }
}

impl Lower<'_, '_> {
    /// Lowers a chain.
    pub(super) fn lower_chain(&mut self, chain: &RowChain<'_>) -> Result<(), Diagnostics> {
        let stored: Vec<BufferId> =
            chain.written.iter().copied().filter(|b| self.needed(chain, *b)).collect();
        let mut reads: BTreeMap<BufferId, usize> = BTreeMap::new();
        for b in chain.ops.iter().flat_map(|op| op.srcs()).chain(stored.iter().copied()) {
            *reads.entry(b).or_default() += 1;
        }
        let mut around = vec![];
        for (d, size) in chain.dims[..chain.around].iter().enumerate().filter(|(_, s)| **s != Expr::Int(1)) {
            self.build.open();
            let var = self.build.fresh("row");
            around.push((d, var, size.clone()));
        }
        self.build.open();
        let (pos, len) = (self.build.fresh("i"), self.build.fresh("m"));
        let rows = chain.row.map(|elements| {
            let (first, count) = (self.build.fresh("row"), self.build.fresh("rows"));
            TileRows { first, count, elements }
        });
        let number = |name: Option<&Name>| name.map_or(Expr::Int(1), |n| Expr::Var(n.clone()));
        let mut body = Body {
            chain,
            len: Expr::Var(len.clone()),
            count: number(rows.as_ref().map(|r| &r.count)),
            busy: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        let first = number(rows.as_ref().map(|r| &r.first));
        let at = |kind: RowKind| match kind {
            RowKind::Full => Expr::Var(pos.clone()),
            RowKind::PerRow => first.clone(),
            RowKind::Shared => Expr::Int(0),
        };
        for b in &chain.loaded {
            let kind = body.kind(*b);
            let tile = self.take(&mut body, self.schedule.buffer(*b).dtype);
            let n = match kind {
                RowKind::Shared => Expr::Int(chain.row.unwrap_or(1).into()),
                _ => body.length(*b),
            };
            let place = self.first_of(chain, *b, &around);
            self.load(tile, &n, &place, &at(kind));
            body.values.insert(*b, (tile, reads.get(b).copied().unwrap_or(0)));
        }
        for op in &chain.ops {
            let result = match op {
                LocalOp::Compute { func, dst, args } => {
                    let dtype = self.schedule.buffer(*dst).dtype;
                    let wide = self.parts.is_some_and(|p| p.wide.contains(dst));
                    let func = self.device.chain(func, if wide { DType::F32 } else { dtype })?;
                    self.function(&mut body, &func, *dst, args)
                }
                LocalOp::ReduceDim { op, mean, dst, src, .. } => {
                    self.reduced(&mut body, (*op, *mean), *dst, *src)
                }
                LocalOp::Cast { dst, src } => self.converted(&mut body, *dst, *src)?,
                _ => return Err(refuse(Span::NONE, "an operation of a chain", "report this").into()),
            };
            let dst = op.dst();
            match reads.get(&dst) {
                Some(n) => _ = body.values.insert(dst, (result, *n)),
                None => body.release(result),
            }
        }
        for b in &stored {
            let Some((tile, _)) = body.values.get(b).copied() else { continue };
            let n = body.length(*b);
            let place = self.first_of(chain, *b, &around);
            self.store(&place, &at(body.kind(*b)), tile, &n);
            body.read(*b);
        }
        let stmts = self.build.close();
        let elements = self.device.limits().tile;
        let step = rows.as_ref().map_or(elements, |r| r.of(elements) * r.elements);
        let total = chain.total.clone();
        self.build.push(Stmt::Tiles { pos, len, total, step, twice: false, rows, body: stmts });
        for (_, var, hi) in around.into_iter().rev() {
            let body = self.build.close();
            self.build.push(Stmt::For { var, lo: Expr::Int(0), hi, body });
        }
        Ok(())
    }

    /// Returns the first element of a buffer in an iteration of the loops around the tiles.
    fn first_of(&mut self, chain: &RowChain<'_>, b: BufferId, around: &[(usize, Name, Expr)]) -> Gm {
        let (own, place) = (self.dims(b), self.whole(b));
        // Sizes are aligned at the last one, unless the reduced dimension is left out.
        let per_row = chain.kinds.get(&b) == Some(&RowKind::PerRow);
        let reduced = per_row && own == chain.dims[..chain.dims.len() - 1];
        let lead = if reduced { 0 } else { chain.dims.len() - own.len() };
        around.iter().fold(place, |place, (d, var, size)| {
            let Some(at) = d.checked_sub(lead).filter(|at| own.get(*at) == Some(size)) else { return place };
            let by = mul(&Expr::Var(var.clone()), &product(&own[at + 1..]));
            Gm { offset: add(&place.offset, &by), ..place }
        })
    }

    /// Takes a tile that holds nothing.
    fn take(&mut self, body: &mut Body<'_, '_>, dtype: DType) -> TileId {
        let mut index = 0;
        loop {
            let tile = self.tile(dtype, index);
            if let Entry::Vacant(free) = body.busy.entry(tile) {
                free.insert(1);
                return tile;
            }
            index += 1;
        }
    }

    fn push(&mut self, op: Op) {
        self.build.push(Stmt::Op(op));
    }

    /// Returns an operand in the type of a computation that gives `dst`: the value's own tile,
    /// which must not be changed, or a new one.
    fn operand(&mut self, body: &mut Body<'_, '_>, b: BufferId, compute: DType, dst: BufferId) -> Operand {
        let Some((value, _)) = body.values.get(&b).copied() else {
            // Every operand was loaded or computed before.
            return Operand { tile: self.take(body, compute), own: true };
        };
        let mut now = Operand { tile: value, own: false };
        if self.schedule.buffer(b).dtype != compute {
            let wide = self.take(body, compute);
            self.convert(wide, value);
            now = Operand { tile: wide, own: true };
        }
        let spread = match (body.kind(dst), body.kind(b)) {
            (RowKind::Full, kind @ (RowKind::PerRow | RowKind::Shared)) => Some(kind),
            _ => None,
        };
        if let Some(kind) = spread {
            let (src, len) = (now.tile, body.len.clone());
            let all = self.take(body, compute);
            self.push(match kind {
                RowKind::PerRow => Op::Expand { dst: all, src, len },
                _ => Op::Spread { dst: all, src, len },
            });
            if now.own {
                body.release(now.tile);
            }
            now = Operand { tile: all, own: true };
        }
        now
    }

    /// Computes a function and returns the tile of its result.
    fn function(
        &mut self,
        body: &mut Body<'_, '_>,
        func: &Chain,
        dst: BufferId,
        args: &[BufferId],
    ) -> TileId {
        let len = body.length(dst);
        let mut registers: Vec<Option<Operand>> = vec![None; func.registers];
        for (register, arg) in registers.iter_mut().zip(args) {
            *register = Some(self.operand(body, *arg, func.compute, dst));
        }
        let mask = func.mask.then(|| self.mask_tile());
        for step in &func.steps {
            let (Step::Vector { dst: to, .. } | Step::Select { dst: to, .. }) = step;
            let target = match registers[*to] {
                Some(Operand { tile, own: true }) => tile,
                _ => self.take(body, func.compute),
            };
            let tile = |r: usize| registers[r].map_or(target, |o| o.tile);
            let len = len.clone();
            let op = match step {
                Step::Vector { op, args, .. } => {
                    let arg = |a: &Arg| match a {
                        Arg::Reg(r) => VArg::Tile(tile(*r)),
                        Arg::Num(v) => VArg::Num(*v),
                    };
                    Op::Vector { op: *op, dst: target, args: args.iter().map(arg).collect(), len }
                }
                Step::Select { cmp, a, b, x, y, .. } => Op::Select {
                    cmp: *cmp,
                    dst: target,
                    a: tile(*a),
                    b: tile(*b),
                    x: tile(*x),
                    y: tile(*y),
                    // A chain with a selection always has a mask.
                    mask: mask.unwrap_or(target),
                    len,
                },
            };
            self.push(op);
            registers[*to] = Some(Operand { tile: target, own: true });
        }
        let result = registers[func.result].take();
        for other in registers.into_iter().flatten().filter(|o| o.own) {
            body.release(other.tile);
        }
        let Some(result) = result else { return self.take(body, func.compute) };
        if !result.own {
            // The value of an operand, which is now that of the result as well.
            *body.busy.entry(result.tile).or_default() += 1;
        }
        let tile = self.narrowed(body, result.tile, dst);
        args.iter().for_each(|b| body.read(*b));
        tile
    }

    /// Returns a tile in the type of a buffer, in place of one in the type of its computation.
    fn narrowed(&mut self, body: &mut Body<'_, '_>, tile: TileId, dst: BufferId) -> TileId {
        let dtype = self.schedule.buffer(dst).dtype;
        if self.tiles[tile.0 as usize].dtype == dtype {
            return tile;
        }
        let narrow = self.take(body, dtype);
        self.convert(narrow, tile);
        body.release(tile);
        narrow
    }

    /// Reduces rows and returns the tile with an element for each of them.
    fn reduced(
        &mut self,
        body: &mut Body<'_, '_>,
        (op, mean): (ReduceOp, Option<u64>),
        dst: BufferId,
        src: BufferId,
    ) -> TileId {
        let from = self.operand(body, src, DType::F32, src);
        let [result, work] = [(); 2].map(|()| self.take(body, DType::F32));
        let op = match op {
            ReduceOp::Max => VecOp::Max,
            ReduceOp::Min => VecOp::Min,
            // A chain has no products of rows.
            ReduceOp::Sum | ReduceOp::Prod => VecOp::Add,
        };
        self.push(Op::Reduce { op, dst: result, src: from.tile, work, len: body.len.clone() });
        if let Some(n) = mean {
            let (args, len) = (vec![VArg::Num(n as f64)], body.count.clone());
            self.push(Op::Vector { op: VecOp::Fill, dst: work, args, len: len.clone() });
            let args = vec![VArg::Tile(result), VArg::Tile(work)];
            self.push(Op::Vector { op: VecOp::Div, dst: result, args, len });
        }
        body.release(work);
        if from.own {
            body.release(from.tile);
        }
        let tile = self.narrowed(body, result, dst);
        body.read(src);
        tile
    }

    /// Converts a value and returns the tile of the result.
    ///
    /// # Errors
    /// Returns E470 if the device has no conversions that round once.
    fn converted(
        &mut self,
        body: &mut Body<'_, '_>,
        dst: BufferId,
        src: BufferId,
    ) -> Result<TileId, Diagnostic> {
        let [from, to] = [src, dst].map(|b| self.schedule.buffer(b).dtype);
        let none = || refuse(Span::NONE, format!("a conversion of {from} to {to}"), "convert in steps");
        let way = conversions(self.device, from, to).ok_or_else(none)?;
        let mut now = self.operand(body, src, from, src);
        for dtype in way {
            let next = self.take(body, dtype);
            self.convert(next, now.tile);
            if now.own {
                body.release(now.tile);
            }
            now = Operand { tile: next, own: true };
        }
        body.read(src);
        Ok(now.tile)
    }
}

/// A tile with an operand.
#[derive(Clone, Copy)]
struct Operand {
    tile: TileId,
    /// Whether the tile is the computation's own, so that it may be changed.
    own: bool,
}
