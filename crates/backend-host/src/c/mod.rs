//! C printer for kernels: the function that a rank runs in a call.
//!
//! The printer decides nothing. A kernel comes with offsets in the window and addresses of tiles,
//! and [`Orders`] says which notifies and waits have an order.

mod direct;
mod expr;
mod names;

pub use expr::{Named, print as expression};
pub use names::plain as ident;

use crate::orders::Orders;
use crate::refused;
use direct::{Carried, Direct, direct};
use expr::{ADD, MUL};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::args::incomplete as refuse;
use kbc_tiles::package::KernelText;
use kbc_tiles::tile::*;
use names::Scope;

type R<T> = Result<T, Diagnostic>;

/// Returns the C type of an element. Types without arithmetic in C are their bits.
pub fn ctype(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 | DType::BF16 => "uint16_t",
        DType::I64 => "int64_t",
        DType::I32 => "int32_t",
        DType::I16 => "int16_t",
        DType::I8 => "int8_t",
        DType::U8 | DType::F8E4M3FN | DType::F8E5M2 => "uint8_t",
    }
}

/// Prints a kernel as a C function, with the functions of its tables before it.
///
/// # Errors
/// Returns E449 for a kernel without offsets or addresses, and E451 for an operation that has no
/// form in C.
pub fn kernel(k: &Kernel, text: &KernelText) -> R<String> {
    let name = ident(&k.name);
    let mut printer = Printer::new(k);
    printer.statements(&k.body, 1)?;
    let Printer { scope, names, out: body, .. } = printer;
    let mut out = String::new();
    let by = format!("{name}: emitted by kbc from {}.", text.source);
    comment(&mut out, &format!("{by} Do not edit: change the program and emit again."));
    text.notes.iter().for_each(|n| comment(&mut out, n));
    out += "\n#include \"kbc_host.h\"\n\n";
    for (t, (value, ident)) in k.tables.iter().zip(&names.tables) {
        // C compilers complain about functions that nothing calls.
        if mentions(&body, value) {
            out += &table(&name, ident, t);
        }
    }
    let line = |out: &mut String, ident: &str, text: String| {
        if mentions(&body, ident) {
            *out += &format!("    {text}\n");
        }
    };
    out += &format!(
        "/* What a rank does in a call. Notifies have release order after a release fence of the schedule,\n   \
         and waits have acquire order before an acquire fence. */\n\
         static void {name}_kernel(struct kbc_rank *me, int64_t count, int64_t call, void *const *tensors) {{\n"
    );
    let of = |n: Named<'_>| scope.ident(n);
    let bound = |e: &Expr| expr::print(e, 0, &of);
    // Sizes are declared whether or not the body reads them, because offsets may.
    for (n, value) in
        [(RANK, "me->rank"), (NRANKS, "me->nranks"), (COUNT, "count"), (CALL, "call"), (CORE, "0")]
    {
        let ident = of(Named::Variable(&n.into()));
        if ident != value {
            out += &format!("    const int64_t {ident} = {value};\n");
        }
        out += &format!("    (void){ident};\n");
    }
    for (i, (t, ident)) in k.tensors.iter().zip(&names.tensors).enumerate() {
        let (ty, constant) = (ctype(t.dtype), if t.access == TensorUse::In { "const " } else { "" });
        line(&mut out, ident, format!("{constant}{ty} *const {ident} = tensors[{i}];"));
    }
    for (ident, own) in &names.tables {
        line(
            &mut out,
            ident,
            format!("const int64_t *const {ident} = {name}_{own}({});", of(Named::Variable(&NRANKS.into()))),
        );
    }
    for (s, ident) in k.signals.iter().zip(&names.signals) {
        let at = s.at.as_ref().ok_or_else(|| refuse(format!("signals @{} have no offset", s.name)))?;
        line(&mut out, ident, format!("const int64_t {ident} = {};", bound(at)));
    }
    for (a, (ident, stride)) in k.areas.iter().zip(&names.areas) {
        let at = a.at.as_ref().ok_or_else(|| refuse(format!("area @{} has no offset", a.name)))?;
        line(&mut out, ident, format!("const int64_t {ident} = {};", bound(at)));
        line(&mut out, stride, format!("const int64_t {stride} = {};", bound(&a.stride())));
    }
    for (t, ident) in k.tiles.iter().zip(&names.tiles) {
        let at = t.at.ok_or_else(|| refuse(format!("tile ${} has no address", t.name)))?;
        let ty = ctype(t.dtype);
        line(&mut out, ident, format!("{ty} *const {ident} = ({ty} *)(me->tiles + {at});"));
    }
    out += "    (void)tensors;\n\n";
    out += &body;
    out += "}\n";
    Ok(out)
}

/// Returns the function that yields the entries of a table for a number of ranks.
fn table(kernel: &str, ident: &str, t: &Table) -> String {
    let mut out = format!("static const int64_t *{kernel}_{ident}(int64_t nranks) {{\n");
    for (i, (ranks, values)) in t.values.iter().enumerate() {
        // C has no arrays without elements.
        let all: Vec<String> =
            values.iter().chain(values.is_empty().then_some(&0)).map(i64::to_string).collect();
        let mut lines = String::new();
        for chunk in all.chunks(16) {
            lines += &format!("        {},\n", chunk.join(", "));
        }
        out += &format!("    static const int64_t of_{i}[] = {{\n{lines}    }};\n");
        out += &format!("    if (nranks == {ranks}) return of_{i};\n");
    }
    out + "    return 0;\n}\n\n"
}

/// Adds a comment. The end of a comment cannot be in it.
fn comment(out: &mut String, text: &str) {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    *out += &format!("/* {} */\n", plain.replace("*/", "* /").replace("/*", "/ *"));
}

/// Prints a string literal of C.
pub fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // A question mark could begin a trigraph.
            '?' => out += "\\?",
            c if c.is_ascii_graphic() || c == ' ' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| out += &format!("\\{b:03o}")),
        }
    }
    out + "\""
}

/// Checks whether a text has an identifier as a word.
fn mentions(text: &str, ident: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(ident)
        .any(|(at, _)| !text[..at].ends_with(inner) && !text[at + ident.len()..].starts_with(inner))
}

/// Identifiers of the declarations of a kernel, in their order.
struct Names {
    tensors: Vec<String>,
    signals: Vec<String>,
    /// Offset, and distance between slots in elements.
    areas: Vec<(String, String)>,
    tiles: Vec<String>,
    /// The entries in the kernel, and the rest of the name of the function that yields them.
    tables: Vec<(String, String)>,
}

struct Printer<'k> {
    k: &'k Kernel,
    orders: Orders,
    carried: Carried,
    scope: Scope,
    names: Names,
    /// The statement of the schedule that the lines come from, for messages of waits.
    from: String,
    out: String,
}

impl<'k> Printer<'k> {
    fn new(k: &'k Kernel) -> Self {
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
            signals: names(k.signals.iter().map(|s| &s.name).collect(), ""),
            areas: names(areas(), "").into_iter().zip(names(areas(), "_slot")).collect(),
            tiles: names(k.tiles.iter().map(|t| &t.name).collect(), ""),
            tables,
        };
        let (orders, carried) = (Orders::of(k), Carried::of(k));
        Printer { k, orders, carried, scope, names, from: String::new(), out: String::new() }
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.out += &"    ".repeat(depth);
        self.out += text;
        self.out.push('\n');
    }

    fn expr(&self, e: &Expr, outer: u8) -> String {
        expr::print(e, outer, &|n| self.scope.ident(n))
    }

    fn statements(&mut self, list: &[Stmt], depth: usize) -> R<()> {
        let mark = self.scope.enter();
        for stmt in list {
            self.statement(stmt, depth)?;
        }
        self.scope.leave(mark);
        Ok(())
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
            Stmt::Tiles { rows: Some(_), .. } => {
                return Err(refuse(format!("kernel @{} has tiles that hold rows", self.k.name)));
            }
            Stmt::Tiles { pos, len, total, step, twice: _, rows: None, body } => {
                let total = self.expr(total, 0);
                let mark = self.scope.enter();
                let (i, end) = (self.scope.declare(pos), self.scope.fresh(&format!("{pos}_end")));
                let m = self.scope.declare(len);
                self.line(
                    depth,
                    &format!("for (int64_t {i} = 0, {end} = {total}; {i} < {end}; {i} += {step}) {{"),
                );
                self.line(depth + 1, &format!("const int64_t {m} = kbc_min({step}, {end} - {i});"));
                match direct(body, &self.carried) {
                    Some(what) => {
                        let text = self.direct(&what);
                        self.line(depth + 1, &text);
                    }
                    None => self.statements(body, depth + 1)?,
                }
                self.line(depth, "}");
                self.scope.leave(mark);
            }
            Stmt::Task { .. } => return Err(refuse(format!("kernel @{} has tasks", self.k.name))),
            Stmt::Turn { .. } => {
                return Err(refuse(format!("kernel @{} has copies of tiles that take turns", self.k.name)));
            }
            Stmt::Note { place, text } => {
                self.from = format!("{place} {text}").trim().to_owned();
                let mut out = String::new();
                comment(&mut out, &self.from);
                self.line(depth, out.trim_end());
            }
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
    fn place(&self, g: &Gm) -> String {
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
    /// the area, and the first element; nothing for memory of this rank.
    fn remote(&self, g: &Gm) -> Option<String> {
        let (Object::Area(a), Some(peer)) = (g.object, &g.peer) else { return None };
        let (at, stride) = &self.names.areas[a.0 as usize];
        let first = self.first(g, stride).unwrap_or_else(|| "0".to_owned());
        Some(format!("{}, {at}, {first}", self.expr(peer, 0)))
    }

    fn tile(&self, id: TileId) -> &str {
        &self.names.tiles[id.0 as usize]
    }

    /// Returns a number of an element type, as an argument of the functions of `kbc_host.h`.
    fn number(&self, dtype: DType, v: f64) -> String {
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

    fn operation(&mut self, whole: &Op, depth: usize) -> R<()> {
        let op = whole;
        let text = match op {
            Op::Load { tile, len, from } => {
                let (to, m) = (self.tile(*tile), self.expr(len, 0));
                match self.remote(from) {
                    Some(from) => format!("kbc_get(me, {to}, {from}, {m}, sizeof *{to});"),
                    None => format!("kbc_copy({to}, {}, {m}, sizeof *{to});", self.place(from)),
                }
            }
            Op::Store { to, tile, len } => {
                let (from, m) = (self.tile(*tile), self.expr(len, 0));
                match self.remote(to) {
                    Some(to) => format!("kbc_put(me, {to}, {from}, {m}, sizeof *{from});"),
                    None => format!("kbc_copy({}, {from}, {m}, sizeof *{from});", self.place(to)),
                }
            }
            Op::Vector { op, dst, args, len } => {
                let dtype = self.k.tile(*dst).dtype;
                let (d, m) = (self.tile(*dst), self.expr(len, 0));
                match (op, &args[..]) {
                    (VecOp::Fill, [VArg::Num(v)]) => {
                        format!("kbc_fill_{dtype}({d}, {}, {m});", self.number(dtype, *v))
                    }
                    (VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min, [VArg::Tile(a), VArg::Tile(b)]) => {
                        format!("kbc_{}_{dtype}({d}, {}, {}, {m});", op.name(), self.tile(*a), self.tile(*b))
                    }
                    _ => return Err(no_form(whole)),
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
            // The verifier has checked that the processor converts between these types.
            Op::Convert { dst, src, rounding: Rounding::Exact | Rounding::Nearest } => {
                let (to, from) = (self.k.tile(*dst), self.k.tile(*src));
                let (d, s, n) = (self.tile(*dst), self.tile(*src), from.elements);
                format!("kbc_{}_from_{}({d}, {s}, {n});", to.dtype, from.dtype)
            }
            Op::Select { .. }
            | Op::Convert { rounding: Rounding::Zero, .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Spread { .. }
            | Op::LoadRows { .. }
            | Op::StoreRows { .. }
            | Op::Index { .. }
            | Op::Choose { .. }
            | Op::LoadRow { .. }
            | Op::LoadBlock { .. }
            | Op::Move { .. }
            | Op::Matmul { .. }
            | Op::StoreBlock { .. }
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => return Err(no_form(op)),
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

fn no_form(op: &Op) -> Diagnostic {
    let what = refused::word(op).unwrap_or("an operation");
    Diagnostic::error("E451", format!("{what} has no form in the C of target host"))
}
