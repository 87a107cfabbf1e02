//! Rules T2 and T8: instructions, their element types, and lengths.

use super::sink::Sink;
use crate::tile::hazard::Touched;
use crate::tile::path::Path;
use crate::tile::{
    Barrier, Core, Gm, Object, Op, Reach, Space, Stmt, TURN, TensorId, TensorUse, TileId, TileRows, VArg,
    VecOp,
};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use std::collections::BTreeSet;

/// Checks T2 and T8.
pub(super) fn check(sink: &mut Sink<'_>) {
    let kernel = sink.kernel;
    let mut walk = Walk {
        core: kernel.core,
        sink,
        path: vec![],
        loops: vec![],
        turning: vec![],
        stored: BTreeSet::new(),
        chosen: false,
        deferred: false,
    };
    walk.declarations();
    walk.block(&kernel.body, 0);
    let stored = walk.stored;
    for (i, t) in kernel.tensors.iter().enumerate() {
        // An output without elements needs no write.
        if t.access == TensorUse::Out && t.len != Expr::Int(0) && !stored.contains(&TensorId(i as u32)) {
            let d = Diagnostic::error("E459", format!("the kernel never writes the output {}", t.name));
            sink.at(&[], d.note("an output has no initial value, so its bytes would be undefined"));
        }
    }
}

/// A loop over tiles around a place.
struct LoopAround {
    /// Name of the position.
    pos: Name,
    /// Name of the length.
    len: Name,
    /// Number of all elements.
    total: Expr,
    /// Elements of a full tile.
    step: u32,
    /// The rows that its tiles hold.
    rows: Option<TileRows>,
}

impl LoopAround {
    /// Returns the elements of a tile that operations with the loop's length may touch.
    fn extent(&self) -> i64 {
        let rows = |r: &TileRows| self.step / r.elements.max(1) * r.pitch();
        i64::from(self.rows.as_ref().map_or(self.step, rows))
    }

    /// Returns the elements that operations of this length touch, if it is a length of the loop.
    fn length(&self, name: &Name) -> Option<i64> {
        match &self.rows {
            _ if self.len == *name => Some(self.extent()),
            Some(r) if r.count == *name => Some(i64::from(self.step / r.elements.max(1))),
            _ => None,
        }
    }
}

struct Walk<'s, 'k> {
    sink: &'s mut Sink<'k>,
    path: Path,
    /// Kind of core of the kernel, or of the task around this place.
    core: Core,
    /// Loops over tiles around this place.
    loops: Vec<LoopAround>,
    /// Tiles that take a turn at this place.
    turning: Vec<TileId>,
    stored: BTreeSet<TensorId>,
    /// Whether every path to this place chooses a row.
    chosen: bool,
    /// Whether a wait before this place of the task is deferred.
    deferred: bool,
}

fn shape(text: String) -> Diagnostic {
    Diagnostic::error("E459", text)
}

fn instruction(text: String) -> Diagnostic {
    Diagnostic::error("E451", text)
}

impl Walk<'_, '_> {
    fn block(&mut self, list: &[Stmt], first: usize) {
        let before = self.chosen;
        for (i, s) in list.iter().enumerate() {
            self.path.push((first + i) as u32);
            match s {
                Stmt::For { body, .. } => self.block(body, 0),
                Stmt::Tiles { pos, len, total, step, twice, rows, body } => {
                    if *step == 0 {
                        self.sink.at(&self.path, shape("a loop over tiles has step 0".into()));
                    }
                    if *twice {
                        if !self.turning.is_empty() {
                            let text = "a loop with double buffering where tiles take a turn";
                            self.sink.at(&self.path, shape(text.into()));
                        }
                        self.turns(body);
                    }
                    if let Some(r) = rows
                        && (r.elements == 0 || step % r.elements != 0)
                    {
                        let text = format!("tiles of {step} elements hold no whole rows of {}", r.elements);
                        self.sink.at(&self.path, shape(text));
                    }
                    let (pos, len, total, rows) = (pos.clone(), len.clone(), total.clone(), rows.clone());
                    self.loops.push(LoopAround { pos, len, total, step: *step, rows });
                    self.block(body, 0);
                    self.loops.pop();
                }
                Stmt::If { then, other, .. } => {
                    self.block(then, 0);
                    self.block(other, then.len());
                }
                Stmt::Turn { tiles, body, .. } => {
                    self.takes_turn(tiles);
                    self.turning.extend(tiles);
                    self.block(body, 0);
                    self.turning.truncate(self.turning.len() - tiles.len());
                }
                Stmt::Task { core, cores, body, .. } => {
                    if *core == Core::Vector && *cores != 1 {
                        let text = "a task for vector cores runs on all vector cores of the program";
                        self.sink.at(&self.path, shape(text.into()));
                    }
                    if self.core != Core::Tasks {
                        self.sink.at(&self.path, shape("a kernel for one core contains a task".into()));
                    }
                    self.deferred = false;
                    let around = std::mem::replace(&mut self.core, *core);
                    self.chosen = false;
                    self.block(body, 0);
                    self.core = around;
                }
                Stmt::Op(op) => {
                    if let Op::SetFlag { event, .. } | Op::WaitFlag { event, .. } = op
                        && !self.turning.is_empty()
                        && *event >= TURN
                    {
                        let text = format!(
                            "event {event} where tiles take a turn: events from {TURN} on belong to the second copies"
                        );
                        self.report(op, shape(text));
                    }
                    self.legal(op);
                    self.op(op);
                }
                Stmt::Let { .. } | Stmt::Note { .. } => {}
            }
            self.path.pop();
        }
        // A loop may run no iteration, and a branch may not be taken.
        self.chosen = before;
    }

    /// Checks the body of a loop whose tiles take turns: it has only operations on tiles with two
    /// copies, and loops of such operations.
    fn turns(&mut self, body: &[Stmt]) {
        for (i, s) in (0..).zip(body) {
            self.path.push(i);
            match s {
                Stmt::Op(op) => self.turn(op),
                Stmt::For { body, .. } => self.turns(body),
                Stmt::Let { .. } | Stmt::Note { .. } => {}
                Stmt::If { .. } | Stmt::Tiles { .. } | Stmt::Turn { .. } | Stmt::Task { .. } => {
                    let text = "a loop with double buffering can contain only operations and loops of them";
                    self.sink.at(&self.path, shape(text.into()));
                }
            }
            self.path.pop();
        }
    }

    /// Checks the tiles of a turn: they have two copies and take no turn around it. [`Self::turns`]
    /// rejects a turn in a loop with double buffering.
    fn takes_turn(&mut self, tiles: &[TileId]) {
        for t in tiles {
            let tile = self.sink.kernel.tile(*t);
            let (name, copies) = (tile.name.clone(), tile.copies);
            if copies < 2 {
                self.sink.at(&self.path, shape(format!("tile {name} takes turns but has one copy")));
            }
            if self.turning.contains(t) {
                self.sink.at(&self.path, shape(format!("tile {name} already takes a turn around this")));
            }
        }
    }

    fn turn(&mut self, op: &Op) {
        if let Op::SetFlag { event, .. } | Op::WaitFlag { event, .. } = op
            && *event >= TURN
        {
            let text = format!(
                "event {event} in a loop with double buffering: events from {TURN} on belong to the second copies"
            );
            self.report(op, shape(text));
        }
        for a in op.accesses() {
            if let Touched::Tile(t, _) = a.touched
                && self.sink.kernel.tile(t).copies < 2
            {
                let text =
                    format!("tile {} is double-buffered but has one copy", self.sink.kernel.tile(t).name);
                self.report(op, shape(text));
            }
        }
    }

    fn report(&mut self, op: &Op, d: Diagnostic) {
        self.sink.op(&self.path, op, d);
    }

    /// Checks the length of an operation on tiles.
    fn len(&mut self, op: &Op, len: &Expr, tiles: &[TileId]) {
        let most = match len {
            Expr::Int(n) if *n > 0 => *n,
            Expr::Var(n) => match self.loops.iter().find_map(|l| l.length(n)) {
                Some(most) => most,
                None => return self.report(op, shape(format!("`{n}` is not the length of a tile here"))),
            },
            e => {
                let d = shape(format!("{e} is not the length of a tile"));
                return self.report(
                    op,
                    d.help("a length must be that of the enclosing loop over tiles, or a positive number"),
                );
            }
        };
        for t in tiles {
            let t = self.sink.kernel.tile(*t);
            if most > i64::from(t.elements) {
                let text =
                    format!("up to {most} elements of tile {} are used, and it has {}", t.name, t.elements);
                self.report(op, shape(text));
            }
        }
    }

    /// Checks that the length of an operation is that of tiles that hold rows.
    fn on_rows(&mut self, op: &Op, len: &Expr) {
        let rows = |l: &LoopAround| matches!(len, Expr::Var(n) if l.len == *n) && l.rows.is_some();
        if !self.loops.iter().any(rows) {
            self.report(op, shape("the tiles hold no rows here".into()));
        }
    }

    /// Checks that the tiles of an operation are alike: an instruction takes one type and one
    /// static length.
    fn alike(&mut self, op: &Op, tiles: &[TileId]) {
        let k = self.sink.kernel;
        let first = k.tile(tiles[0]);
        if let Some(t) = tiles.iter().map(|t| k.tile(*t)).find(|t| t.dtype != first.dtype) {
            let text = format!(
                "tile {} of {} is combined with tile {} of {}",
                t.name, t.dtype, first.name, first.dtype
            );
            self.report(op, shape(text).help("convert one of them"));
        }
        if let Some(t) = tiles.iter().map(|t| k.tile(*t)).find(|t| t.elements != first.elements) {
            let text = format!(
                "tile {} of {} elements is combined with tile {} of {}",
                t.name, t.elements, first.name, first.elements
            );
            self.report(op, shape(text));
        }
    }

    fn transfer(&mut self, op: &Op, tile: TileId, gm: &Gm, write: bool) {
        let k = self.sink.kernel;
        let (have, want) = (k.tile(tile).dtype, k.dtype(gm.object));
        if have != want {
            let text = format!("a tile of {have} cannot be used for memory of {want}");
            let own = k.dialect.space_title(Space::Vector);
            self.report(op, shape(text).help(format!("convert in {own}: a transfer only moves bytes")));
        }
        self.memory(op, gm, write);
    }

    /// Checks the memory of a transfer.
    fn memory(&mut self, op: &Op, gm: &Gm, write: bool) {
        let k = self.sink.kernel;
        match gm.object {
            Object::Tensor(t) => {
                let tensor = k.tensor(t);
                if gm.peer.is_some() && tensor.reach == Reach::Own {
                    self.report(op, shape(format!("{} is a tensor, which peers cannot access", tensor.name)));
                }
                if gm.slot != Expr::Int(0) {
                    self.report(op, shape(format!("{} is a tensor, which has no slots", tensor.name)));
                }
                if write && tensor.access == TensorUse::In {
                    self.report(op, shape(format!("{} is an input, and it is written", tensor.name)));
                }
                if write {
                    self.stored.insert(t);
                }
            }
            Object::Area(a) => {
                let area = k.area(a);
                if gm.peer.is_some() && area.reach == Reach::Own {
                    self.report(
                        op,
                        shape(format!("{} belongs to this rank, and peers cannot access it", area.name)),
                    );
                }
            }
        }
        if matches!(gm.offset, Expr::Int(n) if n < 0) || matches!(gm.slot, Expr::Int(n) if n < 0) {
            self.report(op, shape("an address is before the start of its memory".into()));
        }
    }

    fn vector(&mut self, op: &Op, which: VecOp, dst: TileId, args: &[VArg], len: &Expr) {
        let mut tiles = vec![dst];
        let mut number = None;
        for (i, a) in args.iter().enumerate() {
            match a {
                VArg::Tile(t) => tiles.push(*t),
                VArg::Num(n) if i + 1 == args.len() => number = Some(*n),
                VArg::Num(_) => {
                    self.report(op, instruction("a number must be the last operand".into()));
                }
            }
        }
        if args.len() != which.arity() || (which == VecOp::Fill) != (which.arity() == 1 && number.is_some()) {
            let text = format!("{} takes {} operands", which.name(), which.arity());
            self.report(op, instruction(text).note("only `fill` can have a single number as its operand"));
        }
        self.alike(op, &tiles);
        self.len(op, len, &tiles);
        let dtype = self.sink.kernel.tile(dst).dtype;
        let by = if number.is_some() { " and a number" } else { "" };
        if let Err(why) = self.sink.device.vector(which, dtype, number.is_some()) {
            self.report(
                op,
                instruction(format!("the core has no {} of {dtype}{by}", which.name())).note(why),
            );
        }
        if let Some(n) = number.filter(|n| kbc_ir::fill::has(dtype, *n).is_err()) {
            self.report(op, instruction(format!("{n:?} is not a value of {dtype}")));
        }
    }

    fn op(&mut self, op: &Op) {
        let (k, device) = (self.sink.kernel, self.sink.device);
        match op {
            Op::Load { tile, len, from: gm } | Op::Store { to: gm, tile, len } => {
                self.transfer(op, *tile, gm, matches!(op, Op::Store { .. }));
                self.len(op, len, &[*tile]);
            }
            Op::Vector { op: which, dst, args, len } => self.vector(op, *which, *dst, args, len),
            Op::Select { cmp, dst, a, b, x, y, mask, len } => {
                let tiles = [*dst, *a, *b, *x, *y];
                self.alike(op, &tiles);
                self.len(op, len, &tiles);
                let t = k.tile(*dst);
                if let Err(why) = device.compare(*cmp, t.dtype) {
                    let text = format!("the core has no comparison {} of {}", cmp.symbol(), t.dtype);
                    self.report(op, instruction(text).note(why));
                    return;
                }
                let step = device.select_step(t.dtype);
                if t.elements % step != 0 {
                    let text = format!("tile {} is not a multiple of {step} elements", t.name);
                    self.report(op, shape(text).note(k.dialect.step_note));
                }
                let (m, need) = (k.tile(*mask), device.mask_bytes(t.elements, t.dtype));
                if m.dtype != DType::U8 || m.elements < need {
                    let text = format!("mask {} must have {need} elements of u8", m.name);
                    self.report(op, shape(text).note(k.dialect.mask_note));
                }
                if tiles.contains(mask) {
                    self.report(op, shape(format!("mask {} is also an operand", m.name)));
                }
            }
            Op::Convert { dst, src, rounding } => {
                let (d, s) = (k.tile(*dst), k.tile(*src));
                let have = device.convert(s.dtype, d.dtype);
                if !have.contains(rounding) {
                    let text =
                        format!("the core has no conversion of {} to {} ({rounding:?})", s.dtype, d.dtype);
                    let note = format!("available roundings: {have:?}");
                    self.report(op, instruction(text).note(note));
                }
                if d.elements != s.elements {
                    let text = format!("{} elements become {}", s.elements, d.elements);
                    self.report(op, shape(text).note("a conversion applies to a whole tile"));
                }
            }
            Op::Barrier(b) if !device.barrier(self.core, *b) => {
                self.report(op, instruction("the core has no such barrier".into()));
            }
            Op::Reduce { op: which, dst, src, work, len } => {
                self.alike(op, &[*dst, *src, *work]);
                self.len(op, len, &[*src]);
                let dtype = k.tile(*src).dtype;
                if let Err(why) = device.reduce(*which, dtype) {
                    let text = format!("the core has no {} of a row of {dtype}", which.name());
                    self.report(op, instruction(text).note(why));
                }
                if dst == src || work == src || work == dst {
                    self.report(op, shape("combining rows needs three different tiles".into()));
                }
            }
            Op::Expand { dst, src, len } | Op::Spread { dst, src, len } => {
                self.alike(op, &[*dst, *src]);
                self.len(op, len, &[*dst]);
                let dtype = k.tile(*src).dtype;
                if !device.expand(dtype) {
                    self.report(op, instruction(format!("the core cannot broadcast {dtype}")));
                }
                let spreads = matches!(op, Op::Spread { .. });
                if dst == src {
                    let fault = if spreads { "spread into itself" } else { "broadcast into itself" };
                    self.report(op, shape(format!("a tile cannot be {fault}")));
                }
                if spreads {
                    self.on_rows(op, len);
                }
            }
            Op::LoadRows { tile, len, from: gm, .. } | Op::StoreRows { to: gm, tile, len, .. } => {
                self.transfer(op, *tile, gm, matches!(op, Op::StoreRows { .. }));
                self.len(op, len, &[*tile]);
                self.on_rows(op, len);
            }
            Op::Index { dst, len, .. } => {
                self.len(op, len, &[*dst]);
                let dtype = k.tile(*dst).dtype;
                if let Err(why) = device.vector(VecOp::Fill, dtype, true) {
                    self.report(op, instruction(format!("the core cannot fill {dtype}")).note(why));
                }
            }
            Op::Choose { ids, .. } => {
                self.chosen = true;
                let t = k.tile(*ids);
                if let Err(why) = device.choose(t.dtype) {
                    let text = format!("rows are selected by tile {} of {}", t.name, t.dtype);
                    self.report(op, instruction(text).note(why));
                }
            }
            Op::LoadRow { tile, len, from, .. } => {
                self.transfer(op, *tile, from, false);
                self.len(op, len, &[*tile]);
                if !self.chosen {
                    self.report(op, shape("no row was selected before this".into()));
                }
            }
            Op::LoadBlock { tile, rows, cols, from, .. } => {
                self.transfer(op, *tile, from, false);
                self.size(op, *tile, rows, cols);
            }
            Op::Move { dst, src, from, rows, cols } => {
                let (d, s) = (k.tile(*dst), k.tile(*src));
                if d.dtype != s.dtype {
                    self.report(
                        op,
                        shape(format!(
                            "tile {} of {} cannot be moved into one of {}",
                            s.name, s.dtype, d.dtype
                        )),
                    );
                }
                for (at, len, whole) in [(&from[0], d.rows, s.rows), (&from[1], d.elements, s.elements)] {
                    self.first(op, at, len, whole);
                }
                self.size(op, *dst, rows, cols);
            }
            Op::Matmul { dst, left, right, m, n, k: depth, .. } => {
                let (d, l, r) = (k.tile(*dst), k.tile(*left), k.tile(*right));
                if let Err(why) = device.multiply(l.dtype) {
                    self.report(op, instruction(format!("the core cannot multiply {}", l.dtype)).note(why));
                }
                let sums = if l.dtype.is_float() { DType::F32 } else { l.dtype };
                if l.dtype != r.dtype || d.dtype != sums {
                    let text = format!("{} times {} does not give {}", l.dtype, r.dtype, d.dtype);
                    self.report(
                        op,
                        instruction(text)
                            .note("the operands need the same type, and sums are f32, or i32 for i32"),
                    );
                }
                if (l.rows, l.elements, r.elements) != (d.rows, r.rows, d.elements) {
                    self.report(op, shape("the tiles of a matmul do not match".into()));
                }
                self.size(op, *dst, m, n);
                self.size(op, *left, m, depth);
                self.size(op, *right, depth, n);
            }
            Op::StoreBlock { to, tile, rows, cols, .. } => {
                self.memory(op, to, true);
                let (have, want) = (k.tile(*tile).dtype, k.dtype(to.object));
                if (have != DType::F32 && have != want) || !device.sums(want) {
                    self.report(op, instruction(format!("sums of {have} cannot be stored as {want}")));
                }
                self.size(op, *tile, rows, cols);
            }
            _ => {}
        }
    }

    /// Checks that tiles of a vector core have one row, and that tiles of a matrix core are whole
    /// boxes.
    fn declarations(&mut self) {
        let dialect = self.sink.kernel.dialect;
        let side = self.sink.device.limits().box_side;
        for t in &self.sink.kernel.tiles {
            if t.space == Space::Vector && t.rows != 1 {
                let own = dialect.space_title(Space::Vector);
                let text = format!("tile {} has {} rows, and {own} supports one", t.name, t.rows);
                self.sink.at(&[], shape(text));
            }
            if t.space != Space::Vector && (t.rows % side != 0 || t.elements % side != 0) {
                let text =
                    format!("tile {} of {} x {} is not a whole number of boxes", t.name, t.rows, t.elements);
                self.sink.at(&[], shape(text).note(format!("rows and columns must be multiples of {side}")));
            }
        }
    }

    /// Checks that the core has the operation's pipes, and that its tiles are in the memories that
    /// it takes.
    fn legal(&mut self, op: &Op) {
        let dialect = self.sink.kernel.dialect;
        let pipes = match op {
            Op::SetFlag { from, to, .. } | Op::WaitFlag { from, to, .. } => vec![*from, *to],
            Op::Barrier(Barrier::Pipe(p)) => vec![*p],
            _ => op.pipe().into_iter().collect(),
        };
        if let Some(p) = pipes.iter().find(|p| !self.core.pipes().contains(p)) {
            let text =
                format!("pipe {} does not exist on a core `{}`", dialect.pipe(*p), dialect.core(self.core));
            self.report(op, instruction(text));
        }
        let waits = matches!(op, Op::Defer { .. });
        if waits && self.sink.kernel.core != Core::Tasks {
            self.report(op, shape("a wait is deferred, and the kernel is not a program of tasks".into()));
        }
        let communicates = matches!(op, Op::Notify { .. } | Op::Wait { .. });
        if self.deferred && (communicates || op.place().is_some()) {
            self.report(op, shape("the task goes on behind a deferred wait".into()));
        }
        self.deferred |= waits;
        if self.core == Core::Matrix && (communicates || waits) {
            self.report(
                op,
                instruction(format!("a {} core cannot communicate with peers", dialect.matrix_word)),
            );
        }
        let want: Vec<(TileId, &[Space])> = match op {
            Op::LoadBlock { tile, .. } => vec![(*tile, &[Space::Stage])],
            Op::Move { dst, src, .. } => vec![(*dst, &[Space::Left, Space::Right]), (*src, &[Space::Stage])],
            Op::Matmul { dst, left, right, .. } => {
                vec![(*dst, &[Space::Sums]), (*left, &[Space::Left]), (*right, &[Space::Right])]
            }
            Op::StoreBlock { tile, .. } => vec![(*tile, &[Space::Sums])],
            op => op
                .accesses()
                .iter()
                .filter_map(|a| match a.touched {
                    Touched::Tile(t, _) => Some((t, &[Space::Vector][..])),
                    _ => None,
                })
                .collect(),
        };
        for (t, spaces) in want {
            let tile = self.sink.kernel.tile(t);
            if !spaces.contains(&tile.space) {
                let text = format!("tile {} is in {}", tile.name, dialect.space(tile.space));
                self.report(op, instruction(text));
            }
        }
    }

    /// Checks the first row or column in its source of a tile that is moved: it is the beginning of
    /// a box, and the whole tile, `len` of these, lies in the source, which has `whole`.
    fn first(&mut self, op: &Op, at: &Expr, len: u32, whole: u32) {
        let side = i64::from(self.sink.device.limits().box_side);
        let most = |this: &Self, e: &Expr| match e {
            Expr::Var(n) => this.loops.iter().find(|l| l.len == *n).map(|l| i64::from(l.step)),
            e => e.as_int(),
        };
        let (last, step) = match at {
            Expr::Int(n) => (*n, *n),
            Expr::Var(n) => {
                let Some(l) = self.loops.iter().find(|l| l.pos == *n) else {
                    return self.report(op, shape(format!("`{n}` is not the position of a tile here")));
                };
                let (Some(total), step) = (most(self, &l.total), i64::from(l.step.max(1))) else {
                    let text = format!("nothing is known about the largest `{n}`");
                    return self.report(op, shape(text));
                };
                ((total - 1).max(0) / step * step, step)
            }
            e => return self.report(op, shape(format!("{e} is not the position of a tile"))),
        };
        if step % side != 0 {
            let text =
                format!("a block from {at} on does not begin with a box: these have {side} rows and columns");
            self.report(op, shape(text));
        }
        if last < 0 || last + i64::from(len) > i64::from(whole) {
            let text = format!("{len} rows or columns from {last} on exceed a tile of {whole}");
            self.report(op, shape(text).note("the instruction moves the whole tile"));
        }
    }

    /// Checks the rows and columns of an operation on a block.
    fn size(&mut self, op: &Op, tile: TileId, rows: &Expr, cols: &Expr) {
        let t = self.sink.kernel.tile(tile);
        for (e, most, what) in [(rows, t.rows, "rows"), (cols, t.elements, "columns")] {
            let have = match e {
                Expr::Int(n) if *n > 0 => *n,
                Expr::Var(n) => match self.loops.iter().find(|l| l.len == *n) {
                    Some(l) => i64::from(l.step),
                    None => return self.report(op, shape(format!("`{n}` is not the length of a tile here"))),
                },
                e => return self.report(op, shape(format!("{e} is not the length of a tile"))),
            };
            if have > i64::from(most) {
                let text = format!("up to {have} {what} of tile {} are used, and it has {most}", t.name);
                self.report(op, shape(text));
            }
        }
    }
}
