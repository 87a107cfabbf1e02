//! C++ printer for statements and operations, which also collects the declarations that they use.

use super::errors::no_instruction;
use super::expr::{self, ADD, MUL, Vars, constant};
use super::helpers::{Helper, Helpers};
use super::idents::Scope;
use super::numbers::number;
use super::views::{FixedPart, RowLoop, TileObject, View};
use crate::profile::{DIALECT, MASK_SCRATCH, known};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;
use kbc_ir::scalar::CompareOp;
use kbc_ir::types::DType;
use kbc_tiles::args::incomplete as refuse;
use kbc_tiles::range::range;
use kbc_tiles::tile::*;
use std::collections::{BTreeMap, BTreeSet};

type R<T> = Result<T, Diagnostic>;
/// Lines of text, each with its depth relative to the place where it is inserted.
pub(super) type Lines = Vec<(usize, String)>;

/// Number of events of a pair of pipes.
const EVENTS: u8 = 8;

/// Names of declarations.
pub(super) struct Names {
    pub tensors: Vec<String>,
    pub signals: Vec<String>,
    pub areas: Vec<String>,
    /// Distance between consecutive slots, in elements.
    pub strides: Vec<String>,
    pub tables: Vec<String>,
    /// Objects with a variable length, with the fixed whole length, and for the working space after
    /// a mask.
    pub tiles: Vec<(String, String, String)>,
    /// Objects for rows, and for an element of each row.
    pub views: BTreeMap<TileObject, String>,
    /// The first names of such objects, by tile.
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// The variable for the chosen row.
    pub chosen: String,
}

/// Declarations that the text uses, by index or name.
#[derive(Default)]
pub(super) struct Uses {
    pub tensors: BTreeSet<usize>,
    pub signals: BTreeSet<usize>,
    pub areas: BTreeSet<usize>,
    pub strides: BTreeSet<usize>,
    pub scalars: BTreeSet<Name>,
    pub tables: BTreeSet<Name>,
    pub tiles: BTreeSet<TileObject>,
    pub rank: bool,
    pub root: bool,
    pub chosen: bool,
    pub defers: bool,
}

impl Uses {
    fn of(&mut self, e: &Expr) {
        e.vars(&mut |n| {
            self.rank |= n == RANK;
            self.scalars.insert(n.clone());
        });
        self.tables_of(e);
    }

    fn tables_of(&mut self, e: &Expr) {
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) => self.tables_of(a),
            Expr::Bin(_, a, b) => {
                self.tables_of(a);
                self.tables_of(b);
            }
            Expr::Select(c, a, b) => {
                self.tables_of(c);
                self.tables_of(a);
                self.tables_of(b);
            }
            Expr::Table(n, i) => {
                self.tables.insert(n.clone());
                self.tables_of(i);
            }
        }
    }
}

/// Printer of a body.
pub(super) struct Body<'k> {
    pub(super) k: &'k Kernel,
    pub(super) scope: Scope,
    pub names: Names,
    pub used: Helpers,
    pub uses: Uses,
    /// The length that each tile object has at this point, as far as it is known.
    pub(super) lengths: BTreeMap<TileId, String>,
    /// The number of rows that each object for rows has at this point, as far as it is known.
    pub(super) row_counts: BTreeMap<TileObject, String>,
    /// The loop around this place whose tiles hold rows.
    pub(super) row_loop: Option<RowLoop>,
    /// Inside a loop whose tiles take turns, or a turn: the variable that selects the copy, and the
    /// events of flags.
    pub(super) turn: Option<String>,
    /// The tiles of the turns around this place, each with the variable that selects its copy.
    pub(super) turns: Vec<(TileId, String)>,
}

impl<'k> Body<'k> {
    pub fn new(k: &'k Kernel) -> Self {
        let mut scope = Scope::default();
        scope.declare(&RANK.into(), known(RANK));
        scope.declare(&CORE.into(), known(CORE));
        for s in &k.scalars {
            scope.declare(s, known(s));
        }
        let mut names = |list: Vec<&Name>, suffix: &str| -> Vec<String> {
            list.into_iter().map(|n| scope.fresh(&format!("{n}{suffix}"))).collect()
        };
        let areas = || k.areas.iter().map(|a| &a.name).collect::<Vec<_>>();
        let tiles = || k.tiles.iter().map(|t| &t.name).collect::<Vec<_>>();
        let names = Names {
            tensors: names(k.tensors.iter().map(|t| &t.name).collect(), ""),
            signals: names(k.signals.iter().map(|s| &s.name).collect(), ""),
            areas: names(areas(), ""),
            strides: names(areas(), "_slot"),
            tables: names(k.tables.iter().map(|t| &t.name).collect(), ""),
            tiles: {
                let (plain, whole, work) =
                    (names(tiles(), ""), names(tiles(), "_whole"), names(tiles(), "_work"));
                plain.into_iter().zip(whole).zip(work).map(|((a, b), c)| (a, b, c)).collect()
            },
            rows: names(tiles(), "_rows"),
            columns: names(tiles(), "_column"),
            chosen: scope.fresh("chosen"),
            views: BTreeMap::new(),
        };
        scope.tables = k.tables.iter().map(|t| t.name.clone()).zip(names.tables.iter().cloned()).collect();
        let lengths = (0..).map(TileId).zip(k.tiles.iter().map(|t| t.elements.to_string())).collect();
        Body {
            k,
            scope,
            names,
            used: Helpers::default(),
            uses: Uses::default(),
            lengths,
            row_counts: BTreeMap::new(),
            row_loop: None,
            turn: None,
            turns: vec![],
        }
    }

    /// Prints an expression.
    pub fn expr(&mut self, e: &Expr) -> String {
        self.uses.of(e);
        expr::print(e, &self.scope, &mut self.used)
    }

    /// Prints an expression as an operand of an operator of strength `outer`.
    pub fn operand(&mut self, e: &Expr, outer: u8) -> String {
        self.uses.of(e);
        expr::operand(e, outer, &self.scope, &mut self.used)
    }

    /// Returns the name of a variable in the text.
    pub fn ident(&self, n: &Name) -> String {
        self.scope.ident(n)
    }

    fn range(&self, e: &Expr) -> Interval {
        range(e, &|n: &Name| self.scope.range(n))
    }

    /// Prints the statements of a block, which has a scope of its own.
    pub fn block(&mut self, list: &[Stmt]) -> R<Lines> {
        let mark = self.scope.enter();
        let lines = self.statements(list);
        self.scope.leave(mark);
        lines
    }

    /// Returns the text that names an object at this place: of a tile with copies, the one whose
    /// turn it is.
    pub(super) fn named(&self, object: &TileObject) -> String {
        let name = self.declared(object);
        if self.k.tile(object.tile).copies == 1 {
            return name;
        }
        let own = self.turns.iter().rev().find(|(t, _)| *t == object.tile).map(|(_, turn)| turn);
        match own.or(self.turn.as_ref().filter(|_| self.turns.is_empty())) {
            None => format!("{name}[0]"),
            Some(turn) => format!("{name}[{turn}]"),
        }
    }

    /// Returns the name under which an object is declared.
    pub(super) fn declared(&self, object: &TileObject) -> String {
        let name = &self.names.tiles[object.tile.0 as usize];
        match object.view {
            View::Sized => name.0.clone(),
            View::Fixed(w) if w.offset == 0 => name.1.clone(),
            View::Fixed(_) => name.2.clone(),
            View::Rows { .. } | View::Column { .. } => {
                self.names.views.get(object).cloned().unwrap_or_default()
            }
        }
    }

    pub(super) fn statements(&mut self, list: &[Stmt]) -> R<Lines> {
        let mut out: Lines = vec![];
        for st in list {
            match st {
                Stmt::Let { name, value } => {
                    let (text, range) = (self.expr(value), self.range(value));
                    let ident = self.scope.declare(name, range);
                    out.push((0, format!("const int64_t {ident} = {text};")));
                }
                Stmt::Note { place, text } => {
                    if !out.is_empty() {
                        out.push((0, String::new()));
                    }
                    let gap = if place.is_empty() || text.is_empty() { "" } else { "  " };
                    out.push((0, format!("// {place}{gap}{text}")));
                }
                Stmt::For { var, lo, hi, body } => out.extend(self.repeat(var, lo, hi, body)?),
                Stmt::Tiles { pos, len, total, step, twice, rows, body } => {
                    out.extend(self.tiles((pos, len, rows.as_ref()), total, (*step, *twice), body)?);
                }
                Stmt::If { cond, then, other } => out.extend(self.branch(cond, then, other)?),
                Stmt::Turn { tiles, by, body } => out.extend(self.turn(tiles, by, body)?),
                Stmt::Task { name, .. } => {
                    return Err(refuse(format!("a kernel for one core contains task {name}")));
                }
                Stmt::Op(op) => self.operation(op, &mut out)?,
            }
        }
        Ok(out)
    }

    fn repeat(&mut self, var: &Name, lo: &Expr, hi: &Expr, body: &[Stmt]) -> R<Lines> {
        let (first, end) = (self.expr(lo), self.operand(hi, ADD));
        let known = Interval::counted(self.range(lo), self.range(hi));
        let mark = self.scope.enter();
        let v = self.scope.declare(var, known);
        self.forget();
        let mut out = vec![(0, format!("for (int64_t {v} = {first}; {v} < {end}; ++{v}) {{"))];
        out.extend(below(self.statements(body)?));
        out.push((0, "}".into()));
        self.forget();
        self.scope.leave(mark);
        Ok(out)
    }

    fn tiles(
        &mut self,
        (pos, len, rows): (&Name, &Name, Option<&TileRows>),
        total: &Expr,
        (step, twice): (u32, bool),
        body: &[Stmt],
    ) -> R<Lines> {
        if step == 0 {
            return Err(no_instruction("a loop over tiles has step 0".into()));
        }
        let mut out = vec![];
        // A long expression of the total is computed once, in the scope around the loop.
        let mut end = self.operand(total, ADD);
        if end.len() > 24 || end.contains('(') {
            let text = self.expr(total);
            let name = self.scope.fresh(&format!("{pos}_end"));
            out.push((0, format!("const int64_t {name} = {text};")));
            end = name;
        }
        let mark = self.scope.enter();
        let i = self.scope.declare(pos, Interval::from(0));
        let around = self.turn.clone();
        if twice {
            let h = self.scope.fresh("turn");
            out.push((0, format!("for (int64_t {i} = 0, {h} = 0; {i} < {end}; {i} += {step}, {h} ^= 1) {{")));
            self.turn = Some(h);
        } else {
            out.push((0, format!("for (int64_t {i} = 0; {i} < {end}; {i} += {step}) {{")));
        }
        let m = self.scope.declare(len, Interval::of(1, i64::from(step)));
        self.used.insert(Helper::Min);
        out.push((1, format!("const int64_t {m} = Min({step}, {end} - {i});")));
        self.forget();
        if let Some(rows) = rows {
            let around_rows = self.row_loop.take();
            out.extend(below(self.rows_of_tile(rows, (&i, len, &m), step, body)?));
            self.row_loop = around_rows;
        } else {
            for tile in of_length(len, body) {
                let lines = self.length(tile, &m)?;
                out.extend(below(lines));
            }
            out.extend(below(self.statements(body)?));
        }
        out.push((0, "}".into()));
        self.turn = around;
        self.forget();
        self.scope.leave(mark);
        Ok(out)
    }

    /// Prints a block in which tiles take a turn. It is no block of C++.
    fn turn(&mut self, tiles: &[TileId], by: &Expr, body: &[Stmt]) -> R<Lines> {
        let copy = by.clone().modulo(2);
        let text = self.expr(&copy);
        let first = tiles.first().and_then(|t| self.names.tiles.get(t.0 as usize));
        let hint = first.map_or_else(|| "turn".into(), |(name, ..)| format!("{name}_turn"));
        let name = self.scope.fresh(&hint);
        let (around, before) = (self.turn.replace(name.clone()), self.turns.len());
        self.turns.extend(tiles.iter().map(|t| (*t, name.clone())));
        tiles.iter().for_each(|t| drop(self.lengths.remove(t)));
        let mut out = vec![(0, format!("const int64_t {name} = {text};"))];
        out.extend(self.statements(body)?);
        tiles.iter().for_each(|t| drop(self.lengths.remove(t)));
        self.turns.truncate(before);
        self.turn = around;
        Ok(out)
    }

    fn branch(&mut self, cond: &Expr, then: &[Stmt], other: &[Stmt]) -> R<Lines> {
        self.uses.of(cond);
        let text = expr::condition(cond, &self.scope, &mut self.used);
        let mut out = vec![(0, format!("if ({text}) {{"))];
        let before = self.lengths.clone();
        out.extend(below(self.block(then)?));
        if let [Stmt::If { cond, then, other }] = other {
            self.lengths = before;
            let mut rest = self.branch(cond, then, other)?;
            if let Some(first) = rest.first_mut() {
                first.1 = format!("}} else {}", first.1);
            }
            out.extend(rest);
            self.forget();
            return Ok(out);
        }
        if !other.is_empty() {
            self.lengths = before;
            out.push((0, "} else {".into()));
            out.extend(below(self.block(other)?));
        }
        out.push((0, "}".into()));
        self.forget();
        Ok(out)
    }

    pub(super) fn tile_info(&self, id: TileId) -> R<&'k Tile> {
        let k = self.k;
        k.tiles.get(id.0 as usize).ok_or_else(|| refuse(format!("tile number {} does not exist", id.0)))
    }

    /// Returns the object of a tile with a variable length.
    pub(super) fn tile(&mut self, id: TileId) -> R<String> {
        self.tile_info(id)?;
        let object = TileObject { tile: id, view: View::Sized };
        self.uses.tiles.insert(object);
        Ok(self.named(&object))
    }

    fn whole(&mut self, id: TileId, whole: FixedPart) -> String {
        let object = TileObject { tile: id, view: View::Fixed(whole) };
        self.uses.tiles.insert(object);
        self.named(&object)
    }

    /// Sets the length of a tile object, unless it has this length already.
    pub(super) fn length(&mut self, id: TileId, len: &str) -> R<Lines> {
        let name = self.tile(id)?;
        if self.lengths.get(&id).is_some_and(|l| l == len) {
            return Ok(vec![]);
        }
        self.lengths.insert(id, len.to_string());
        Ok(vec![(0, format!("{name}.SetValidCol({len});"))])
    }

    pub(super) fn gm(&mut self, g: &Gm) -> R<String> {
        let none = |what: &str, id: u32| refuse(format!("{what} number {id} does not exist"));
        let mut place = match g.object {
            Object::Tensor(t) => {
                let i = t.0 as usize;
                if g.slot != Expr::Int(0) || g.peer.is_some() {
                    return Err(no_instruction("a tensor has neither slots nor peers".into()));
                }
                self.uses.tensors.insert(i);
                self.names.tensors.get(i).cloned().ok_or_else(|| none("tensor", t.0))?
            }
            Object::Area(a) => {
                let i = a.0 as usize;
                let name = self.names.areas.get(i).cloned().ok_or_else(|| none("area", a.0))?;
                self.uses.areas.insert(i);
                match constant(&g.slot) {
                    Some(0) => name,
                    slot => {
                        self.uses.strides.insert(i);
                        let stride = self.names.strides[i].clone();
                        match slot {
                            Some(1) => format!("{name} + {stride}"),
                            _ => format!("{name} + {} * {stride}", self.operand(&g.slot, MUL)),
                        }
                    }
                }
            }
        };
        if constant(&g.offset) != Some(0) {
            place = format!("{place} + {}", self.operand(&g.offset, ADD));
        }
        if let Some(p) = &g.peer {
            self.used.insert(Helper::At);
            place = format!("At(ctx, {place}, {})", self.peer(p));
        }
        Ok(place)
    }

    /// Prints the number of a peer in the domain.
    fn peer(&mut self, place: &Expr) -> String {
        let Some(own) = self.k.root else { return self.expr(place) };
        self.uses.root = true;
        let [root, nranks] = [ROOT, NRANKS].map(|n| self.ident(&n.into()));
        let own = if own == 0 { String::new() } else { format!(" - {own} + {nranks}") };
        format!("({} + {root}{own}) % {nranks}", self.operand(place, ADD))
    }

    fn counter(&mut self, id: SignalsId, index: &Expr) -> R<String> {
        let i = id.0 as usize;
        let name = self.names.signals.get(i).cloned();
        let name = name.ok_or_else(|| refuse(format!("array of signals number {i} does not exist")))?;
        self.uses.signals.insert(i);
        Ok(match constant(index) {
            Some(0) => name,
            Some(n) => format!("{name} + {}", n.saturating_mul(16)),
            None => format!("{name} + {} * 16", self.operand(index, MUL)),
        })
    }

    fn operation(&mut self, op: &Op, out: &mut Lines) -> R<()> {
        let mut line = |text: String| out.push((0, text));
        match op {
            Op::Load { .. } | Op::Store { .. } if self.moves_rows(op) => self.row(op, out)?,
            Op::Load { tile, len, from } => {
                let (m, from) = (self.expr(len), self.gm(from)?);
                let set = self.length(*tile, &m)?;
                let name = self.tile(*tile)?;
                self.used.insert(Helper::Load);
                out.extend(set);
                out.push((0, format!("Load({name}, {from}, {m});")));
            }
            Op::Store { to, tile, len } => {
                let (m, to) = (self.expr(len), self.gm(to)?);
                let set = self.length(*tile, &m)?;
                let name = self.tile(*tile)?;
                self.used.insert(Helper::Store);
                out.extend(set);
                out.push((0, format!("Store({to}, {name}, {m});")));
            }
            Op::Vector { op, dst, args, len } => {
                let m = self.extent(len);
                for id in tiles_of_args(*dst, args) {
                    out.extend(self.length(id, &m)?);
                }
                let text = self.vector(*op, *dst, args)?;
                out.push((0, text));
            }
            Op::Select { cmp, dst, a, b, x, y, mask, len } => {
                let m = self.extent(len);
                for id in [*a, *b, *x, *y, *dst] {
                    out.extend(self.length(id, &m)?);
                }
                out.extend(self.select(*cmp, *dst, [*a, *b], [*x, *y], *mask)?);
            }
            Op::Convert { dst, src, rounding } => {
                let (to, from) = (self.tile_info(*dst)?, self.tile_info(*src)?);
                if to.elements != from.elements {
                    return Err(no_instruction(format!(
                        "a conversion applies to whole tiles, and ${} and ${} differ in length",
                        to.name, from.name
                    )));
                }
                let whole = FixedPart { offset: 0, elements: to.elements };
                let mode = match rounding {
                    Rounding::Exact => "CAST_NONE",
                    Rounding::Nearest => "CAST_RINT",
                    Rounding::Zero => "CAST_TRUNC",
                };
                let (to, from) = (self.whole(*dst, whole), self.whole(*src, whole));
                line(format!("TCVT({to}, {from}, pto::RoundMode::{mode});"));
            }
            Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Spread { .. }
            | Op::LoadRows { .. }
            | Op::StoreRows { .. }
            | Op::Index { .. }
            | Op::Choose { .. }
            | Op::LoadRow { .. } => self.row(op, out)?,
            Op::LoadBlock { .. } | Op::StoreBlock { .. } | Op::Move { .. } | Op::Matmul { .. } => {
                self.block_op(op, out)?;
            }
            Op::Notify { peer, signals, index } => {
                let (counter, peer) = (self.counter(*signals, index)?, self.peer(peer));
                self.used.insert(Helper::Notify);
                line(format!("Notify(ctx, {counter}, {peer});"));
            }
            Op::Wait { signals, index, value } => {
                let (counter, value) = (self.counter(*signals, index)?, self.expr(value));
                self.used.insert(Helper::WaitFor);
                line(format!("WaitFor({counter}, {value}, window, error, detail);"));
            }
            Op::Defer { signals, index, value } => {
                let (counter, value) = (self.counter(*signals, index)?, self.expr(value));
                self.uses.defers = true;
                self.used.insert(Helper::Defer);
                line(format!("Defer(completion, {counter}, {value});"));
            }
            Op::Release | Op::Acquire | Op::Complete => {
                return Err(refuse(
                    "the kernel still contains a fence of the schedule: run pass `fences`".into(),
                ));
            }
            Op::Barrier(Barrier::All) => line("pipe_barrier(PIPE_ALL);".into()),
            Op::Barrier(Barrier::Pipe(p)) => line(format!("pipe_barrier(PIPE_{});", DIALECT.pipe(*p))),
            Op::MemoryBarrier => line("dsb(DSB_DDR);".into()),
            Op::SetFlag { from, to, event } => line(self.flag("set_flag", *from, *to, *event)?),
            Op::WaitFlag { from, to, event } => line(self.flag("wait_flag", *from, *to, *event)?),
        }
        Ok(())
    }

    fn flag(&self, call: &str, from: Pipe, to: Pipe, event: u8) -> R<String> {
        if event >= EVENTS {
            return Err(no_instruction(format!(
                "event {event} of {} to {} does not exist",
                DIALECT.pipe(from),
                DIALECT.pipe(to)
            )));
        }
        let pipes = format!("{call}(PIPE_{}, PIPE_{}", DIALECT.pipe(from), DIALECT.pipe(to));
        Ok(match &self.turn {
            None => format!("{pipes}, EVENT_ID{event});"),
            Some(turn) => format!("{pipes}, {turn} == 0 ? EVENT_ID{event} : EVENT_ID{});", event + TURN),
        })
    }

    fn vector(&mut self, op: VecOp, dst: TileId, args: &[VArg]) -> R<String> {
        let dtype = self.tile_info(dst)?.dtype;
        let d = self.tile(dst)?;
        let shape = || no_instruction(format!("`{}` has the wrong operands", op.name()));
        let name = match op {
            VecOp::Add => "TADD",
            VecOp::Sub => "TSUB",
            VecOp::Mul => "TMUL",
            VecOp::Div => "TDIV",
            VecOp::Max => "TMAX",
            VecOp::Min => "TMIN",
            VecOp::Abs => "TABS",
            VecOp::Exp => "TEXP",
            VecOp::Log => "TLOG",
            VecOp::Sqrt => "TSQRT",
            VecOp::Rsqrt => "TRSQRT",
            VecOp::Fill => "TEXPANDS",
        };
        match (op, args) {
            (VecOp::Fill, [VArg::Num(v)]) => Ok(format!("{name}({d}, {});", number(dtype, *v)?)),
            (VecOp::Fill, _) => Err(shape()),
            (_, [VArg::Tile(a)]) if op.arity() == 1 => Ok(format!("{name}({d}, {});", self.tile(*a)?)),
            (_, [VArg::Tile(a), VArg::Tile(b)]) if op.arity() == 2 => {
                Ok(format!("{name}({d}, {}, {});", self.tile(*a)?, self.tile(*b)?))
            }
            // The device subtracts by adding the negated number, which it computes in f32. This is
            // exact for floating-point numbers only.
            (VecOp::Sub, [VArg::Tile(a), VArg::Num(v)]) if dtype == DType::I32 => {
                number(dtype, *v)?;
                let negated = f64::from((*v as i32).wrapping_neg());
                Ok(format!("TADDS({d}, {}, {});", self.tile(*a)?, number(dtype, negated)?))
            }
            (_, [VArg::Tile(a), VArg::Num(v)]) if op.arity() == 2 => {
                Ok(format!("{name}S({d}, {}, {});", self.tile(*a)?, number(dtype, *v)?))
            }
            _ => Err(shape()),
        }
    }

    /// Prints a comparison into the mask and the selection by it. The mask tile has one bit per
    /// element, and 32 bytes at its end as working space of the selection.
    fn select(
        &mut self,
        cmp: CompareOp,
        dst: TileId,
        ab: [TileId; 2],
        xy: [TileId; 2],
        mask: TileId,
    ) -> R<Lines> {
        let m = self.tile_info(mask)?;
        let Some(bits) = m.elements.checked_sub(MASK_SCRATCH).filter(|b| *b > 0 && m.dtype == DType::U8)
        else {
            return Err(no_instruction(format!(
                "${} is not a mask: a mask is u8, with {MASK_SCRATCH} bytes after the bits",
                m.name
            )));
        };
        let work = self.whole(mask, FixedPart { offset: bits, elements: MASK_SCRATCH });
        let bits = self.whole(mask, FixedPart { offset: 0, elements: bits });
        let mode = match cmp {
            CompareOp::Eq => "EQ",
            CompareOp::Ne => "NE",
            CompareOp::Lt => "LT",
            CompareOp::Le => "LE",
            CompareOp::Gt => "GT",
            CompareOp::Ge => "GE",
        };
        let (a, b) = (self.tile(ab[0])?, self.tile(ab[1])?);
        let (d, x, y) = (self.tile(dst)?, self.tile(xy[0])?, self.tile(xy[1])?);
        Ok(vec![
            (0, format!("TCMP({bits}, {a}, {b}, pto::CmpMode::{mode});")),
            (0, "pipe_barrier(PIPE_V);".into()),
            (0, format!("TSEL({d}, {bits}, {x}, {y}, {work});")),
        ])
    }
}

fn below(lines: Lines) -> impl Iterator<Item = (usize, String)> {
    lines.into_iter().map(|(d, text)| (d + 1, text))
}

/// Returns the tiles of an instruction, each once, operands first.
fn tiles_of_args(dst: TileId, args: &[VArg]) -> Vec<TileId> {
    let mut out = vec![];
    let operands = args.iter().filter_map(|a| if let VArg::Tile(t) = a { Some(*t) } else { None });
    for t in operands.chain([dst]) {
        if !out.contains(&t) {
            out.push(t);
        }
    }
    out
}

/// Returns the tiles that operations of this list itself use with the length `len`, in order of
/// use.
fn of_length(len: &Name, list: &[Stmt]) -> Vec<TileId> {
    let mut out: Vec<TileId> = vec![];
    let is = |e: &Expr| matches!(e, Expr::Var(n) if n == len);
    for st in list {
        let found = match st {
            // From here on the name has another value.
            Stmt::Let { name, .. } if name == len => return out,
            Stmt::Op(Op::Load { tile, len, .. } | Op::Store { tile, len, .. }) if is(len) => vec![*tile],
            Stmt::Op(Op::Vector { dst, args, len, .. }) if is(len) => tiles_of_args(*dst, args),
            Stmt::Op(Op::Select { dst, a, b, x, y, len, .. }) if is(len) => vec![*a, *b, *x, *y, *dst],
            _ => vec![],
        };
        for t in found {
            if !out.contains(&t) {
                out.push(t);
            }
        }
    }
    out
}
