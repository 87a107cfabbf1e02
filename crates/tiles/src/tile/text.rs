//! Printer of kernels in their text form, `.tile`.
//!
//! The module owns how a kernel is written; [`super::parse`] reads it. Lines, names and expressions
//! are those of `.kir` (`kbc_ir::text`). What no pass has decided yet (an offset, an address) is
//! not written. `docs/reference/tile.md` describes the text.

use super::*;
use kbc_ir::expr::Expr;
use kbc_ir::text::reader::{labels, quoted, show, string};

/// Version of the format, as the first line states it.
pub const VERSION: u64 = 1;

struct Printer<'k> {
    kernel: &'k Kernel,
    tensors: Vec<String>,
    signals: Vec<String>,
    areas: Vec<String>,
    tiles: Vec<String>,
    out: String,
}

impl<'k> Printer<'k> {
    fn new(kernel: &'k Kernel) -> Self {
        Printer {
            kernel,
            tensors: labels(kernel.tensors.iter().map(|t| &t.name)),
            signals: labels(kernel.signals.iter().map(|s| &s.name)),
            areas: labels(kernel.areas.iter().map(|a| &a.name)),
            tiles: labels(kernel.tiles.iter().map(|t| &t.name)),
            out: String::new(),
        }
    }
}

/// Prints a kernel.
pub fn print(kernel: &Kernel) -> String {
    let mut p = Printer::new(kernel);
    p.head();
    p.body(1, &kernel.body);
    p.out
}

/// Prints one operation as it appears in the text of its kernel.
pub fn print_op(kernel: &Kernel, op: &Op) -> String {
    Printer::new(kernel).operation(op)
}

/// Returns the printed name of an id. An id without an object prints as a name that no object has.
fn name_of(sigil: char, names: &[String], id: u32) -> String {
    match names.get(id as usize) {
        Some(n) => format!("{sigil}{n}"),
        None => format!("{sigil}`?{id}`"),
    }
}

fn at(offset: &Option<Expr>) -> String {
    offset.as_ref().map(|e| format!(" at {}", show(e, 0))).unwrap_or_default()
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn head(&mut self) {
        let k = self.kernel;
        self.line(0, &format!("tile {VERSION}"));
        let cores = if k.cores == 1 { String::new() } else { format!(" cores {}", k.cores) };
        self.line(0, &format!("kernel @{} {}{cores}", quoted(&k.name), k.dialect.core(k.core)));
        for s in &k.scalars {
            let of = k.root.filter(|_| s == ROOT).map_or_else(String::new, |r| format!(" of {r}"));
            self.line(0, &format!("scalar {}{of}", quoted(s)));
        }
        for (t, label) in k.tensors.iter().zip(self.tensors.clone()) {
            let access = match t.access {
                TensorUse::In => "in",
                TensorUse::Out => "out",
            };
            let reached = if t.reach == Reach::Peers { " window" } else { "" };
            let (dtype, len, index) = (t.dtype, show(&t.len, 0), t.index);
            self.line(0, &format!("tensor %{label} : {dtype}[{len}] {access} {index}{reached}"));
        }
        for t in &k.tables {
            let name = quoted(&t.name);
            if t.values.is_empty() {
                self.line(0, &format!("table @{name}"));
            }
            for (n, list) in &t.values {
                let list: Vec<String> = list.iter().map(i64::to_string).collect();
                self.line(0, &format!("table @{name} nranks {n} = [{}]", list.join(", ")));
            }
        }
        for (s, label) in k.signals.iter().zip(self.signals.clone()) {
            let (count, per_call) = (show(&s.count, 0), show(&s.per_call, 0));
            self.line(0, &format!("signals @{label}[{count}] per call {per_call}{}", at(&s.at)));
        }
        for (a, label) in k.areas.iter().zip(self.areas.clone()) {
            let word = match a.reach {
                Reach::Peers => "window",
                Reach::Own => "scratch",
            };
            let size = format!("{}[{} x {}]", a.dtype, show(&a.slots, 0), show(&a.capacity, 0));
            self.line(0, &format!("{word} @{label} : {size} arena {}{}", a.arena, at(&a.at)));
        }
        for (t, label) in k.tiles.iter().zip(self.tiles.clone()) {
            let at = t.at.map(|a| format!(" at {a}")).unwrap_or_default();
            let size = match t.space {
                Space::Vector => t.elements.to_string(),
                _ => format!("{} x {}", t.rows, t.elements),
            };
            let space = if t.space == Space::Vector {
                String::new()
            } else {
                format!(" {}", k.dialect.space(t.space))
            };
            let copies = if t.copies == 1 { String::new() } else { format!(" copies {}", t.copies) };
            self.line(0, &format!("tile ${label} : {}[{size}]{space}{copies}{at}", t.dtype));
        }
        self.out.push('\n');
        self.line(0, "body");
    }

    fn body(&mut self, depth: usize, list: &[Stmt]) {
        for st in list {
            match st {
                Stmt::Let { name, value } => {
                    self.line(depth, &format!("let {} = {}", quoted(name), show(value, 0)));
                }
                Stmt::For { var, lo, hi, body } => {
                    self.line(depth, &format!("for {} in {}..{}", quoted(var), show(lo, 0), show(hi, 0)));
                    self.body(depth + 1, body);
                }
                Stmt::If { cond, then, other } => {
                    self.line(depth, &format!("if {}", show(cond, 0)));
                    self.body(depth + 1, then);
                    if !other.is_empty() {
                        self.line(depth, "else");
                        self.body(depth + 1, other);
                    }
                }
                Stmt::Tiles { pos, len, total, step, twice, rows, body } => {
                    let names = format!("{}, {}", quoted(pos), quoted(len));
                    let twice = if *twice { " twice" } else { "" };
                    let rows = rows.as_ref().map_or_else(String::new, |r| {
                        format!(" rows {}, {} of {}", quoted(&r.first), quoted(&r.count), r.elements)
                    });
                    let total = show(total, 0);
                    self.line(depth, &format!("tiles {names} in {total} by {step}{rows}{twice}"));
                    self.body(depth + 1, body);
                }
                Stmt::Turn { tiles, by, body } => {
                    let names: Vec<String> = tiles.iter().map(|t| self.tile(*t)).collect();
                    self.line(depth, &format!("turn {} by {}", names.join(", "), show(by, 0)));
                    self.body(depth + 1, body);
                }
                Stmt::Task { name, core, cores, body } => {
                    let core = self.kernel.dialect.core(*core);
                    let cores = if *cores == 1 { String::new() } else { format!(" cores {cores}") };
                    self.line(depth, &format!("task {} {core}{cores}", quoted(name)));
                    self.body(depth + 1, body);
                }
                Stmt::Note { place, text } => {
                    self.line(depth, &format!("from {} {}", string(place), string(text)));
                }
                Stmt::Op(op) => {
                    let text = self.operation(op);
                    self.line(depth, &text);
                }
            }
        }
    }

    fn tile(&self, id: TileId) -> String {
        name_of('$', &self.tiles, id.0)
    }

    fn block(&self, tile: TileId, rows: &Expr, cols: &Expr) -> String {
        format!("{}[{}, {}]", self.tile(tile), show(rows, 0), show(cols, 0))
    }

    fn gm(&self, g: &Gm) -> String {
        let offset = show(&g.offset, 0);
        let place = match g.object {
            Object::Tensor(t) if g.slot == Expr::Int(0) => {
                format!("{}[{offset}]", name_of('%', &self.tensors, t.0))
            }
            Object::Tensor(t) => {
                format!("{}[{}][{offset}]", name_of('%', &self.tensors, t.0), show(&g.slot, 0))
            }
            Object::Area(a) => format!("{}[{}][{offset}]", name_of('@', &self.areas, a.0), show(&g.slot, 0)),
        };
        match &g.peer {
            None => place,
            Some(p) => format!("{place} at ({})", show(p, 0)),
        }
    }

    fn pair(&self, from: Pipe, to: Pipe) -> String {
        let dialect = self.kernel.dialect;
        format!("{} -> {}", dialect.pipe(from), dialect.pipe(to))
    }

    fn operation(&self, op: &Op) -> String {
        let signal =
            |s: &SignalsId, i: &Expr| format!("{}[{}]", name_of('@', &self.signals, s.0), show(i, 0));
        match op {
            Op::Load { tile, len, from } => {
                format!("load {}[{}] = {}", self.tile(*tile), show(len, 0), self.gm(from))
            }
            Op::Store { to, tile, len } => {
                format!("store {} = {}[{}]", self.gm(to), self.tile(*tile), show(len, 0))
            }
            Op::Vector { op, dst, args, len } => {
                let args: Vec<String> = args
                    .iter()
                    .map(|a| match a {
                        VArg::Tile(t) => self.tile(*t),
                        VArg::Num(v) => format!("{v:?}"),
                    })
                    .collect();
                format!("{} {}[{}] = {}", op.name(), self.tile(*dst), show(len, 0), args.join(", "))
            }
            Op::Select { cmp, dst, a, b, x, y, mask, len } => format!(
                "select {}[{}] = {} {} {}, {}, {} mask {}",
                self.tile(*dst),
                show(len, 0),
                self.tile(*a),
                cmp.symbol(),
                self.tile(*b),
                self.tile(*x),
                self.tile(*y),
                self.tile(*mask)
            ),
            Op::Convert { dst, src, rounding } => {
                format!("convert {} = {} {}", self.tile(*dst), self.tile(*src), rounding.name())
            }
            Op::Reduce { op, dst, src, work, len } => format!(
                "reduce.{} {} = {}[{}] work {}",
                op.name(),
                self.tile(*dst),
                self.tile(*src),
                show(len, 0),
                self.tile(*work)
            ),
            Op::Expand { dst, src, len } => {
                format!("expand {}[{}] = {}", self.tile(*dst), show(len, 0), self.tile(*src))
            }
            Op::LoadRows { tile, len, from, pitch } => {
                let (tile, from) = (self.tile(*tile), self.gm(from));
                format!("load.rows {tile}[{}] = {from} pitch {}", show(len, 0), show(pitch, 0))
            }
            Op::StoreRows { to, pitch, tile, len } => {
                let (tile, to) = (self.tile(*tile), self.gm(to));
                format!("store.rows {to} pitch {} = {tile}[{}]", show(pitch, 0), show(len, 0))
            }
            Op::Spread { dst, src, len } => {
                format!("fill.rows {}[{}] = {}", self.tile(*dst), show(len, 0), self.tile(*src))
            }
            Op::Index { dst, value, len } => {
                format!("index {}[{}] = {}", self.tile(*dst), show(len, 0), show(value, 0))
            }
            Op::Choose { ids, index, first } => {
                format!("choose {}[{}] from {}", self.tile(*ids), show(index, 0), show(first, 0))
            }
            Op::LoadRow { tile, len, from, pitch, rows } => format!(
                "load.row {}[{}] = {} pitch {} of {}",
                self.tile(*tile),
                show(len, 0),
                self.gm(from),
                show(pitch, 0),
                show(rows, 0)
            ),
            Op::LoadBlock { tile, rows, cols, from, pitch } => format!(
                "load.block {} = {} pitch {}",
                self.block(*tile, rows, cols),
                self.gm(from),
                show(pitch, 0)
            ),
            Op::Move { dst, src, from: [row, col], rows, cols } => {
                format!("move {} = {}", self.block(*dst, rows, cols), self.block(*src, row, col))
            }
            Op::Matmul { dst, left, right, m, n, k, add } => format!(
                "{} {} = {}, {} over {}",
                if *add { "matmul.add" } else { "matmul" },
                self.block(*dst, m, n),
                self.tile(*left),
                self.tile(*right),
                show(k, 0)
            ),
            Op::StoreBlock { to, pitch, tile, rows, cols } => format!(
                "store.block {} pitch {} = {}",
                self.gm(to),
                show(pitch, 0),
                self.block(*tile, rows, cols)
            ),
            Op::Notify { peer, signals, index } => {
                format!("notify ({}) : {}", show(peer, 0), signal(signals, index))
            }
            Op::Wait { signals, index, value } => {
                format!("wait {} >= {}", signal(signals, index), show(value, 0))
            }
            Op::Defer { signals, index, value } => {
                format!("defer {} >= {}", signal(signals, index), show(value, 0))
            }
            Op::Release => "fence.release".into(),
            Op::Acquire => "fence.acquire".into(),
            Op::Complete => "fence.complete".into(),
            Op::Barrier(Barrier::All) => "barrier all".into(),
            Op::Barrier(Barrier::Pipe(p)) => format!("barrier {}", self.kernel.dialect.pipe(*p)),
            Op::MemoryBarrier => "dsb".into(),
            Op::SetFlag { from, to, event } => format!("flag.set {} {event}", self.pair(*from, *to)),
            Op::WaitFlag { from, to, event } => {
                format!("flag.wait {} {event}", self.pair(*from, *to))
            }
        }
    }
}

impl Rounding {
    /// All roundings.
    pub const ALL: [Rounding; 3] = [Rounding::Exact, Rounding::Nearest, Rounding::Zero];

    /// Returns the name in `.tile` text.
    pub fn name(self) -> &'static str {
        match self {
            Rounding::Exact => "exact",
            Rounding::Nearest => "nearest",
            Rounding::Zero => "zero",
        }
    }
}
