//! Operations of collectives: transfers, signals and fences.

use super::address::{self, add, sub};
use super::consumer::Consumer;
use super::errors::refuse;
use super::state::Lower;
use crate::device::conversions;
use crate::tile::{Gm, Op, Rounding, Stmt, TileId};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::form::Form;
use kbc_ir::schedule::{
    BufferId, Counter, HostCommand, Line, LocalOp, Part, Peer, Ref, SOp, Schedule, WindowId,
};
use kbc_ir::types::DType;

/// A run of elements in memory.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) dtype: DType,
    pub(super) at: Gm,
    pub(super) len: Expr,
}

/// Elements of a buffer.
struct Extent {
    buffer: BufferId,
    start: Expr,
    len: Expr,
}

/// Describes a local operation in words.
pub(super) fn local_words(schedule: &Schedule, op: &LocalOp) -> String {
    let name = |b: BufferId| schedule.buffer(b).name.to_string();
    let from = op.srcs().into_iter().map(name).collect::<Vec<_>>().join(", ");
    let word = match op {
        LocalOp::Compute { func, .. } => func.name.as_str(),
        LocalOp::Tiles { kernel, .. } => kernel.name.as_str(),
        LocalOp::ReduceDim { op, .. } => op.name(),
        LocalOp::Grouped { .. } => "grouped_matmul",
        other => other.word(),
    };
    format!("{} = {word}({from})", name(op.dst()))
}

impl Lower<'_, '_> {
    pub(super) fn op(&mut self, region: usize, op: &SOp, span: Span) -> Result<(), Diagnostics> {
        match op {
            SOp::Copy { dst, src } => {
                self.note("copy", span);
                let consumer = self.consumer(region, dst);
                let (dst, src) = self.pair(region, (dst, None), (src, None), span)?;
                self.transfer(&dst, &src, consumer.as_ref(), span)?;
            }
            SOp::Put { src, peer, dst } => {
                self.note("put", span);
                let peer = self.peer(region, peer);
                let (dst, src) = self.pair(region, (dst, Some(&peer)), (src, None), span)?;
                self.transfer(&dst, &src, None, span)?;
            }
            SOp::Get { dst, peer, src } => {
                self.note("get", span);
                let peer = self.peer(region, peer);
                let consumer = self.consumer(region, dst);
                let (dst, src) = self.pair(region, (dst, None), (src, Some(&peer)), span)?;
                self.transfer(&dst, &src, consumer.as_ref(), span)?;
            }
            SOp::GetCombine { .. } => {
                return Err(refuse(
                    span,
                    "a get that combines",
                    "the target has no operation for it: use `transfer: push` or `transfer: pull`",
                )
                .into());
            }
            SOp::Reduce { .. } => unreachable!("a reduction is one of the arrivals"),
            SOp::Notify { peer, counter: Counter { signal, index } } => {
                let peer = self.peer(region, peer);
                let (signals, index) = (self.signals(*signal), self.expr(index));
                self.build.push(Stmt::Op(Op::Notify { peer, signals, index }));
            }
            SOp::Wait { counter: Counter { signal, .. }, .. }
                if self.schedule.signal(*signal).form != Form::Epoch =>
            {
                return Err(refuse(
                    span,
                    "a counter that is not an epoch counter",
                    "the target has only atomic adds and waits with `>=`: use an epoch counter, `wait @s[i] >= call + 1`",
                )
                .into());
            }
            SOp::Wait { counter: Counter { signal, index }, value } => {
                let (signals, index, value) = (self.signals(*signal), self.expr(index), self.expr(value));
                self.build.push(Stmt::Op(Op::Wait { signals, index, value }));
            }
            SOp::FenceRelease => self.build.push(Stmt::Op(Op::Release)),
            SOp::FenceAcquire => self.build.push(Stmt::Op(Op::Acquire)),
            SOp::FenceComplete => self.build.push(Stmt::Op(Op::Complete)),
            SOp::Record(_) | SOp::Await(_) => {
                return Err(refuse(
                    span,
                    "an event between streams",
                    "cores synchronize only where streams begin and end",
                )
                .into());
            }
            SOp::Mark(_) => {
                return Err(
                    refuse(span, "a message without signals", "run the passes up to `synchronize`").into()
                );
            }
            SOp::Send { .. } | SOp::Recv { .. } | SOp::Room { .. } => {
                return Err(refuse(
                    span,
                    "a queue",
                    "the target has windows instead of queues: use `put`, `notify` and `wait`",
                )
                .into());
            }
            SOp::Host(HostCommand::Launch(_))
            | SOp::Host(HostCommand::Wait(_))
            | SOp::HostRead(_)
            | SOp::Host(HostCommand::Write { .. })
            | SOp::Host(HostCommand::Drain) => {
                return Err(refuse(span, "a host operation", "remove the `host` section").into());
            }
            SOp::Local(l) => {
                self.note(&local_words(self.schedule, l), span);
                self.local(l, span)?;
            }
        }
        Ok(())
    }

    pub(super) fn peer(&mut self, region: usize, peer: &Peer) -> Expr {
        let r = &self.schedule.regions[region];
        let coords: Vec<(Expr, u64)> =
            peer.iter().zip(&r.coords).map(|(e, (_, size))| (self.expr(e), *size)).collect();
        let axes = &self.program.regions[region].axes;
        let rank = Expr::var(crate::tile::RANK);
        let value = address::peer(&coords, axes, &rank, self.schedule.mesh.ranks());
        self.build.name_it("peer", &value)
    }

    /// Returns the two sides of an operation. A slot is as long as the other side. The rank of a
    /// side is `None` for this rank.
    pub(super) fn pair(
        &mut self,
        region: usize,
        a: (&Ref, Option<&Expr>),
        b: (&Ref, Option<&Expr>),
        span: Span,
    ) -> Result<(Run, Run), Diagnostic> {
        let sides = [self.chunk(region, a), self.chunk(region, b)];
        let Some(len) = sides.iter().flatten().map(|r| r.len.clone()).next() else {
            return Err(refuse(span, "a transfer from slot to slot", "one side must be a chunk"));
        };
        let [ca, cb] = sides;
        let ra = match ca {
            Some(run) => run,
            None => self.slot(region, a, b, &len),
        };
        let rb = match cb {
            Some(run) => run,
            None => self.slot(region, b, a, &len),
        };
        Ok((ra, rb))
    }

    /// Returns the run of a slot, as long as the chunk on the other side of the operation.
    fn slot(
        &mut self,
        region: usize,
        (r, on): (&Ref, Option<&Expr>),
        other: (&Ref, Option<&Expr>),
        len: &Expr,
    ) -> Run {
        let Ref::Slot { window, slot } = r else { unreachable!("a chunk has its run") };
        let offset = self.place_in_window(region, *window, other);
        let at =
            Gm { object: self.storage.window(*window), slot: self.expr(slot), offset, peer: on.cloned() };
        Run { dtype: self.schedule.window(*window).dtype, at, len: len.clone() }
    }

    /// Returns the place of a chunk in a slot of a window: its place in its vector if the window
    /// holds whole vectors, and otherwise 0.
    pub(super) fn place_in_window(
        &mut self,
        region: usize,
        window: WindowId,
        (chunk, on): (&Ref, Option<&Expr>),
    ) -> Expr {
        let (Some(depth), Ref::Chunk { operand, path }) = (self.whole_windows.depth(window, region), chunk)
        else {
            return Expr::Int(0);
        };
        if path.len() <= depth {
            return Expr::Int(0);
        }
        let vector = Ref::Chunk { operand: *operand, path: path[..depth].to_vec() };
        let [begin, first] =
            [&vector, chunk].map(|r| self.extent(region, (r, on)).map_or(Expr::Int(0), |e| e.start));
        sub(&first, &begin)
    }

    pub(super) fn chunk(&mut self, region: usize, r: (&Ref, Option<&Expr>)) -> Option<Run> {
        let Extent { buffer, start, len } = self.extent(region, r)?;
        let whole = self.whole(buffer);
        let at = Gm { offset: add(&whole.offset, &start), peer: r.1.cloned(), ..whole };
        Some(Run { dtype: self.schedule.buffer(buffer).dtype, at, len })
    }

    /// Returns the elements of a chunk.
    fn extent(&mut self, region: usize, (r, on): (&Ref, Option<&Expr>)) -> Option<Extent> {
        let Ref::Chunk { operand, path } = r else { return None };
        let o = &self.schedule.regions[region].operands[operand.0 as usize];
        let rank = on.cloned().unwrap_or_else(|| Expr::var(crate::tile::RANK));
        let (extent, unit) = (self.expr_on(&o.line.extent, &rank), self.expr_on(&o.line.unit, &rank));
        let (on, extent) = match address::on_some_ranks(&o.line.rule, &extent) {
            Some((on, extent)) => (Some(on.clone()), extent.clone()),
            None => (None, extent),
        };
        let extent = self.build.name_it("extent", &extent);
        let unit = self.build.name_it("unit", &unit);
        let row = self.expr_on(&o.line.row, &rank);
        let line = Line { extent, unit, row, ..o.line.clone() };
        let path: Vec<Part> = path
            .iter()
            .map(|p| Part { index: self.expr(&p.index), len: self.expr(&p.len), of: self.expr(&p.of) })
            .collect();
        let path: Vec<Part> =
            path.into_iter().map(|p| Part { index: self.build.name_it("chunk", &p.index), ..p }).collect();
        let (start, end) = address::chunk(&line, &path, &mut |hint, e| self.build.name_it(hint, e));
        let start = self.build.name_it("first", &start);
        let len = match on {
            Some(on) => Expr::select(on, sub(&end, &start), Expr::Int(0)).simplify(),
            None => sub(&end, &start),
        };
        let len = self.build.name_it("size", &len);
        Some(Extent { buffer: o.buffer, start, len })
    }

    fn transfer(
        &mut self,
        dst: &Run,
        src: &Run,
        consumer: Option<&Consumer>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if let Some(c) = consumer {
            self.note_functions(c);
            let tile = self.tile(dst.dtype, 0);
            self.tiles_loop(&dst.len.clone(), |this, pos, len| {
                this.load(tile, len, &src.at, pos);
                this.consume(c, tile, &dst.at, pos, len);
            });
            return Ok(());
        }
        if dst.dtype == src.dtype {
            self.copy_run(dst.dtype, dst.at.clone(), src.at.clone(), dst.len.clone());
            return Ok(());
        }
        if dst.at.peer.is_some() || src.at.peer.is_some() {
            return Err(refuse(
                span,
                "a transfer that changes the element type",
                "convert with a `cast` first",
            ));
        }
        self.cast_run(dst, src, span)
    }

    /// Lowers `dst = src`, tile by tile.
    pub(super) fn copy_run(&mut self, dtype: DType, dst: Gm, src: Gm, total: Expr) {
        if dst == src {
            return;
        }
        let tile = self.tile(dtype, 0);
        self.tiles_loop(&total, |this, pos, len| {
            this.load(tile, len, &src, pos);
            this.store(&dst, pos, tile, len);
        });
    }

    /// Lowers `dst = convert(src)`, tile by tile.
    ///
    /// # Errors
    /// Returns E470 if no conversions from one type to the other round only once.
    pub(super) fn cast_run(&mut self, dst: &Run, src: &Run, span: Span) -> Result<(), Diagnostic> {
        let way = conversions(self.device, src.dtype, dst.dtype).ok_or_else(|| {
            let title = format!("a conversion of {} to {}", src.dtype, dst.dtype);
            refuse(
                span,
                title,
                "the core converts f32 to f16, bf16, i32 and i16, and makes exact conversions: convert in steps",
            )
        })?;
        let from = self.tile(src.dtype, 0);
        let tiles: Vec<TileId> = way.iter().map(|t| self.tile(*t, 0)).collect();
        let (dst, src) = (dst.clone(), src.clone());
        self.tiles_loop(&dst.len.clone(), |this, pos, len| {
            this.load(from, len, &src.at, pos);
            let last = tiles.iter().fold(from, |at, to| {
                this.convert(*to, at);
                *to
            });
            this.store(&dst.at, pos, last, len);
        });
        Ok(())
    }

    /// Adds a loop `tiles pos, len in total by ..`, unless `total` is 0.
    pub(super) fn tiles_loop(&mut self, total: &Expr, f: impl FnOnce(&mut Self, &Expr, &Expr)) {
        if *total == Expr::Int(0) {
            return;
        }
        self.build.open();
        let (pos, len) = (self.build.fresh("i"), self.build.fresh("m"));
        f(self, &Expr::var(pos.clone()), &Expr::var(len.clone()));
        let body = self.build.close();
        self.build.push(Stmt::Tiles {
            pos,
            len,
            total: total.clone(),
            step: self.device.limits().tile,
            twice: false,
            rows: None,
            body,
        });
    }

    pub(super) fn load(&mut self, tile: TileId, len: &Expr, from: &Gm, pos: &Expr) {
        let from = Gm { offset: add(&from.offset, pos), ..from.clone() };
        self.build.push(Stmt::Op(Op::Load { tile, len: len.clone(), from }));
    }

    pub(super) fn store(&mut self, to: &Gm, pos: &Expr, tile: TileId, len: &Expr) {
        let to = Gm { offset: add(&to.offset, pos), ..to.clone() };
        self.build.push(Stmt::Op(Op::Store { to, tile, len: len.clone() }));
    }

    /// Adds a conversion: exact if the destination type has every value of the source type,
    /// otherwise to nearest even.
    pub(super) fn convert(&mut self, dst: TileId, src: TileId) {
        let (to, from) = (self.tiles[dst.0 as usize].dtype, self.tiles[src.0 as usize].dtype);
        let exact = matches!(
            (from, to),
            (DType::F16 | DType::BF16 | DType::I16, DType::F32)
                | (DType::I8 | DType::U8, DType::F16)
                | (DType::I32, DType::I64)
        );
        let rounding = if exact { Rounding::Exact } else { Rounding::Nearest };
        self.build.push(Stmt::Op(Op::Convert { dst, src, rounding }));
    }
}
