//! Printer of the statements of a kernel: names, control flow, transfers, notifies and waits.

use super::direct::{Direct, Live, direct, passed_on};
use super::expr::{self, ADD, MUL};
use super::function::Function;
use super::lengths::Lengths;
use super::names::{Scope, comment, ctype, literal, plain as ident};
use crate::device::places;
use crate::orders::Orders;
use crate::refused::no_form;
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::args::incomplete as refuse;
use kbc_tiles::tile::*;

pub(super) type R<T> = Result<T, Diagnostic>;

/// A loop whose tiles hold rows.
pub(super) struct RowLoop {
    /// Name of the length of a tile.
    pub len: Name,
    /// The number of rows, and the elements from the first one to the end of the last one, in C.
    pub count: String,
    pub extent: String,
    /// Elements of a row, and from a row to the next one in a tile.
    pub elements: u32,
    pub pitch: u32,
}

/// Identifiers of the declarations of a kernel, in their order.
pub(super) struct Names {
    pub tensors: Vec<String>,
    /// The byte offset of a tensor in the window, if peers read it there.
    pub reached: Vec<String>,
    pub signals: Vec<String>,
    /// Offset, and distance between slots in elements.
    pub areas: Vec<(String, String)>,
    pub tiles: Vec<String>,
    /// Of tiles that are panels in memory: the distance between rows in elements.
    pub pitches: Vec<String>,
    /// The entries in the kernel, and the rest of the name of the function that yields them.
    pub tables: Vec<(String, String)>,
}

pub(super) struct Printer<'k> {
    pub k: &'k Kernel,
    pub orders: Orders,
    pub live: Live,
    /// A tile that is not loaded, and the pointer to the memory that is read in its place.
    instead: Option<(TileId, String)>,
    /// The place of each tile in the memory of a rank, in bytes.
    pub places: Vec<Option<u64>>,
    pub lengths: Lengths,
    /// The loop around this place whose tiles hold rows.
    pub row_loop: Option<RowLoop>,
    /// The variable with the number of the chosen row.
    pub chosen: String,
    pub scope: Scope,
    pub names: Names,
    /// Number of loops over tiles around this place.
    loops: usize,
    /// The functions of fused operations, by number.
    pub functions: Vec<Function>,
    /// The statement of the schedule that the lines come from, for messages of waits.
    pub from: String,
    pub out: String,
}

impl<'k> Printer<'k> {
    pub(super) fn new(k: &'k Kernel) -> Self {
        let mut scope = Scope::default();
        for n in [RANK, NRANKS, COUNT, CALL, CORE] {
            scope.declare(&n.into());
        }
        let tables = k.tables.iter().map(|t| (scope.declare_table(&t.name), ident(&t.name))).collect();
        let mut names = |list: Vec<&Name>, suffix: &str| -> Vec<String> {
            list.iter().map(|n| scope.fresh(&format!("{n}{suffix}"))).collect()
        };
        let areas = || k.areas.iter().map(|a| &a.name).collect::<Vec<_>>();
        let names = Names {
            tensors: names(k.tensors.iter().map(|t| &t.name).collect(), ""),
            reached: names(k.tensors.iter().map(|t| &t.name).collect(), "_window"),
            signals: names(k.signals.iter().map(|s| &s.name).collect(), ""),
            areas: names(areas(), "").into_iter().zip(names(areas(), "_slot")).collect(),
            tiles: names(k.tiles.iter().map(|t| &t.name).collect(), ""),
            pitches: names(k.tiles.iter().map(|t| &t.name).collect(), "_pitch"),
            tables,
        };
        let (orders, live, lengths) = (Orders::of(k), Live::of(k), Lengths::of_kernel(k));
        let chosen = scope.fresh("chosen");
        Printer {
            k,
            orders,
            live,
            instead: None,
            places: places(&k.tiles).0,
            lengths,
            row_loop: None,
            chosen,
            scope,
            names,
            loops: 0,
            functions: vec![],
            from: String::new(),
            out: String::new(),
        }
    }

    pub(super) fn line(&mut self, depth: usize, text: &str) {
        self.out += &"    ".repeat(depth);
        self.out += text;
        self.out.push('\n');
    }

    pub(super) fn expr(&self, e: &Expr, outer: u8) -> String {
        expr::print(e, outer, &|n| self.scope.ident(n))
    }

    pub(super) fn statements(&mut self, list: &[Stmt], depth: usize) -> R<()> {
        let mark = self.scope.enter();
        let mut at = 0;
        while at < list.len() {
            at += match self.fuse(&list[at..], depth) {
                0 => {
                    self.statement(&list[at], depth)?;
                    1
                }
                several => several,
            };
        }
        self.scope.leave(mark);
        Ok(())
    }

    /// Prints the first operations of a list as one loop, if they are elementwise; returns how many
    /// statements that are.
    fn fuse(&mut self, list: &[Stmt], depth: usize) -> usize {
        if self.loops == 0 {
            return 0;
        }
        let Some(fused) = self.fused(list, &self.live) else { return 0 };
        for stmt in &list[..fused.statements] {
            if let Stmt::Note { place, text } = stmt {
                self.note(place, text, depth);
            }
        }
        let known = self.functions.iter().position(|f| *f == fused.function);
        let number = known.unwrap_or(self.functions.len());
        if known.is_none() {
            self.functions.push(fused.function);
        }
        let name = self.function(number);
        self.line(depth, &format!("{name}({}, {});", fused.len, fused.arguments.join(", ")));
        fused.statements
    }

    /// Returns the name of a function of fused operations.
    pub(super) fn function(&self, number: usize) -> String {
        format!("{}_loop_{number}", ident(&self.k.name))
    }

    fn note(&mut self, place: &str, text: &str, depth: usize) {
        self.from = format!("{place} {text}").trim().to_owned();
        let mut out = String::new();
        comment(&mut out, &self.from);
        self.line(depth, out.trim_end());
    }

    fn statement(&mut self, stmt: &Stmt, depth: usize) -> R<()> {
        match stmt {
            Stmt::Let { name, value } => {
                let value = self.expr(value, 0);
                let ident = self.scope.declare(name);
                self.line(depth, &format!("const int64_t {ident} = {value};"));
            }
            Stmt::For { var, lo, hi, body } => {
                let (lo, hi) = (self.expr(lo, 0), self.expr(hi, 0));
                let mark = self.scope.enter();
                let (v, end) = (self.scope.declare(var), self.scope.fresh(&format!("{var}_end")));
                self.line(depth, &format!("for (int64_t {v} = {lo}, {end} = {hi}; {v} < {end}; ++{v}) {{"));
                self.statements(body, depth + 1)?;
                self.line(depth, "}");
                self.scope.leave(mark);
            }
            Stmt::If { cond, then, other } => {
                let cond = self.expr(cond, 0);
                self.line(depth, &format!("if ({cond}) {{"));
                self.statements(then, depth + 1)?;
                if !other.is_empty() {
                    self.line(depth, "} else {");
                    self.statements(other, depth + 1)?;
                }
                self.line(depth, "}");
            }
            Stmt::Tiles { pos, len, total, step, twice: _, rows, body } => {
                let total = self.expr(total, 0);
                let mark = self.scope.enter();
                let (i, end) = (self.scope.declare(pos), self.scope.fresh(&format!("{pos}_end")));
                let m = self.scope.declare(len);
                self.line(
                    depth,
                    &format!("for (int64_t {i} = 0, {end} = {total}; {i} < {end}; {i} += {step}) {{"),
                );
                self.line(depth + 1, &format!("const int64_t {m} = kbc_min({step}, {end} - {i});"));
                let around = self.row_loop.take();
                self.loops += 1;
                if let Some(rows) = rows {
                    self.row_names(rows, (len, &i, &m), depth + 1);
                }
                let whole = rows.is_none();
                if let Some(what) = direct(body, &self.live).filter(|_| whole) {
                    let text = self.direct(&what);
                    self.line(depth + 1, &text);
                } else if let Some((tile, from)) = passed_on(body, &self.live).filter(|_| whole) {
                    let ty = ctype(self.k.tile(tile).dtype);
                    let (place, from) = (self.place(from), self.scope.fresh("from"));
                    self.line(depth + 1, &format!("const {ty} *const {from} = {place};"));
                    self.instead = Some((tile, from));
                    self.statements(&body[1..], depth + 1)?;
                    self.instead = None;
                } else {
                    self.statements(body, depth + 1)?;
                }
                self.row_loop = around;
                self.loops -= 1;
                self.line(depth, "}");
                self.scope.leave(mark);
            }
            // Tasks of a rank run one after another.
            Stmt::Task { name, core: _, cores: _, body } => {
                self.line(depth, &format!("{{ /* task {name} */"));
                self.statements(body, depth + 1)?;
                self.line(depth, "}");
            }
            Stmt::Turn { .. } => {
                return Err(refuse(format!("kernel @{} has copies of tiles that take turns", self.k.name)));
            }
            Stmt::Note { place, text } => self.note(place, text, depth),
            Stmt::Op(op) => self.operation(op, depth)?,
        }
        Ok(())
    }

    /// Returns where a run begins in its area, in elements; nothing at the beginning.
    fn first(&self, g: &Gm, stride: &str) -> Option<String> {
        let slot = match &g.slot {
            Expr::Int(0) => None,
            slot => Some(format!("{} * {stride}", self.expr(slot, MUL))),
        };
        let offset = match &g.offset {
            Expr::Int(0) => None,
            offset => Some(self.expr(offset, ADD)),
        };
        match (slot, offset) {
            (Some(slot), Some(offset)) => Some(format!("{slot} + {offset}")),
            (slot, offset) => slot.or(offset),
        }
    }

    /// Returns the address of the first element of a run in memory of this rank.
    pub(super) fn place(&self, g: &Gm) -> String {
        let (base, stride) = match g.object {
            Object::Tensor(t) => (self.names.tensors[t.0 as usize].clone(), ""),
            Object::Area(a) => {
                let (at, stride) = &self.names.areas[a.0 as usize];
                (format!("KBC_OWN({}, me, {at})", ctype(self.k.area(a).dtype)), stride.as_str())
            }
        };
        match self.first(g, stride) {
            None => base,
            Some(first) => format!("{base} + {first}"),
        }
    }

    /// Returns the arguments that name a run in the window of a peer: the peer, the byte offset of
    /// the area or input, and the first element; nothing for memory of this rank.
    fn remote(&self, g: &Gm) -> Option<String> {
        let peer = g.peer.as_ref()?;
        let (at, stride) = match g.object {
            Object::Area(a) => {
                let (at, stride) = &self.names.areas[a.0 as usize];
                (at, stride.as_str())
            }
            Object::Tensor(t) => (&self.names.reached[t.0 as usize], ""),
        };
        let first = self.first(g, stride).unwrap_or_else(|| "0".to_owned());
        Some(format!("{}, {at}, {first}", self.expr(peer, 0)))
    }

    pub(super) fn pitch(&self, id: TileId) -> &str {
        &self.names.pitches[id.0 as usize]
    }

    pub(super) fn tile(&self, id: TileId) -> &str {
        match &self.instead {
            Some((tile, from)) if *tile == id => from,
            _ => &self.names.tiles[id.0 as usize],
        }
    }

    /// Returns a number of an element type, as an argument of the functions of `kbc_host.h`.
    pub(super) fn number(&self, dtype: DType, v: f64) -> String {
        match (dtype.is_float(), v) {
            (true, v) if v.is_nan() => "NAN".into(),
            (true, v) if v.is_infinite() => if v > 0.0 { "INFINITY" } else { "-INFINITY" }.into(),
            (true, v) => format!("{v:?}f"),
            // Fillings of integers are whole numbers.
            (false, v) => (v as i64).to_string(),
        }
    }

    /// Returns the statement for what needs no tile.
    fn direct(&self, what: &Direct<'_>) -> String {
        match *what {
            Direct::Copy { from, to, len } => {
                let (m, size) = (self.expr(len, 0), ctype(self.k.dtype(from.object)));
                match (self.remote(from), self.remote(to)) {
                    (Some(remote), _) => {
                        format!("kbc_get(me, {}, {remote}, {m}, sizeof({size}));", self.place(to))
                    }
                    (None, Some(remote)) => {
                        format!("kbc_put(me, {remote}, {}, {m}, sizeof({size}));", self.place(from))
                    }
                    (None, None) => {
                        format!("kbc_copy({}, {}, {m}, sizeof({size}));", self.place(to), self.place(from))
                    }
                }
            }
            Direct::Combine { op, args: [a, b], to, len } => {
                let (dtype, m) = (self.k.dtype(to.object), self.expr(len, 0));
                let [to, a, b] = [to, a, b].map(|g| self.place(g));
                format!("kbc_{}_{dtype}({to}, {a}, {b}, {m});", op.name())
            }
        }
    }

    fn operation(&mut self, op: &Op, depth: usize) -> R<()> {
        let text = match op {
            Op::Load { tile, len, from } if self.rows_at(len).is_none() => {
                let (to, m) = (self.tile(*tile), self.expr(len, 0));
                match self.remote(from) {
                    Some(from) => format!("kbc_get(me, {to}, {from}, {m}, sizeof *{to});"),
                    None => format!("kbc_copy({to}, {}, {m}, sizeof *{to});", self.place(from)),
                }
            }
            Op::Store { to, tile, len } if self.rows_at(len).is_none() => {
                let (from, m) = (self.tile(*tile), self.expr(len, 0));
                match self.remote(to) {
                    Some(to) => format!("kbc_put(me, {to}, {from}, {m}, sizeof *{from});"),
                    None => format!("kbc_copy({}, {from}, {m}, sizeof *{from});", self.place(to)),
                }
            }
            Op::Notify { peer, signals, index } => {
                let order = if self.orders.releases(op) { "release" } else { "relaxed" };
                let (peer, at) = (self.expr(peer, 0), self.counter(*signals, index));
                format!("kbc_notify(me, {peer}, {at}, memory_order_{order});")
            }
            Op::Wait { signals, index, value } => {
                let order = if self.orders.acquires(op) { "acquire" } else { "relaxed" };
                let (at, value) = (self.counter(*signals, index), self.expr(value, 0));
                let what = literal(&format!("@{}", self.k.signals(*signals).name));
                let (index, from) = (self.expr(index, 0), literal(&self.from));
                format!("KBC_WAIT(me, {at}, {value}, memory_order_{order}, {what}, {index}, {from});")
            }
            Op::Release => "/* fence.release */".into(),
            Op::Acquire => "/* fence.acquire */".into(),
            // A load is complete when its elements are in the tile.
            Op::Complete => "/* fence.complete */".into(),
            Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Index { .. }
            | Op::Choose { .. }
            | Op::LoadRow { .. }
            | Op::LoadBlock { .. }
            | Op::Move { .. }
            | Op::Matmul { .. }
            | Op::StoreBlock { .. } => self.computed(op)?,
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Spread { .. }
            | Op::LoadRows { .. }
            | Op::StoreRows { .. } => self.row_transfer(op)?,
            Op::Defer { .. }
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => {
                return Err(no_form(op));
            }
        };
        self.line(depth, &text);
        Ok(())
    }

    /// Returns the byte offset of a counter in the window.
    fn counter(&self, signals: SignalsId, index: &Expr) -> String {
        let name = &self.names.signals[signals.0 as usize];
        match index {
            Expr::Int(0) => name.clone(),
            index => format!("{name} + {LINE} * {}", self.expr(index, expr::ATOM)),
        }
    }
}
