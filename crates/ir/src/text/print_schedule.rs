//! Printer of the body of a `.kir` text at schedule level: declarations, regions and the host's
//! program.

use super::expr::{ATOM, show};
use super::kernels::{Kernels, Used};
use super::names::labels;
use super::types::{loc, show_rule, show_type};
use super::words::{quoted, string};
use crate::contract::{Cell, Clause, Contract};
use crate::contract_std::standard;
use crate::expr::Expr;
use crate::graph::CollKind;
use crate::name::Name;
use crate::schedule::*;

/// Printer of one schedule: its text so far, and the printed names.
pub(super) struct Printer<'a> {
    pub(super) s: &'a Schedule,
    pub(super) kernels: Kernels,
    pub(super) buffers: Vec<String>,
    pub(super) windows: Vec<String>,
    pub(super) signals: Vec<String>,
    pub(super) queues: Vec<String>,
    pub(super) regions: Vec<String>,
    pub(super) operands: Vec<String>,
    locs: bool,
    out: &'a mut String,
}

/// Appends a schedule. Its name is left out if it is the module's.
pub(super) fn schedule(s: &Schedule, same_name: bool, locs: bool, out: &mut String) {
    let mut p = Printer {
        s,
        kernels: Kernels::new(used_by(s).into_iter()),
        buffers: labels(s.buffers.iter().map(|b| &b.name)),
        windows: labels(s.windows.iter().map(|w| &w.name)),
        signals: labels(s.signals.iter().map(|g| &g.name)),
        queues: labels(s.queues.iter().map(|q| &q.name)),
        regions: labels(s.regions.iter().map(|r| &r.name)),
        operands: vec![],
        locs,
        out,
    };
    p.kernels.write(p.out);
    p.declarations(same_name);
    if let Some(h) = &s.host {
        p.out.push('\n');
        let head = format!("host{}", loc(h.span, p.locs));
        p.line(0, &head);
        p.body(1, &h.body);
    }
    for (i, r) in s.regions.iter().enumerate() {
        p.region(i, r);
    }
}

/// Returns the text of every operation, in the order in which the walk numbers them.
pub(super) fn operations(s: &Schedule) -> Vec<String> {
    let mut unused = String::new();
    let mut p = Printer {
        s,
        kernels: Kernels::new(used_by(s).into_iter()),
        buffers: labels(s.buffers.iter().map(|b| &b.name)),
        windows: labels(s.windows.iter().map(|w| &w.name)),
        signals: labels(s.signals.iter().map(|g| &g.name)),
        queues: labels(s.queues.iter().map(|q| &q.name)),
        regions: vec![],
        operands: vec![],
        locs: false,
        out: &mut unused,
    };
    let mut out = vec![];
    for r in &s.regions {
        p.operands = labels(r.operands.iter().map(|o| &o.name));
        for stream in r.roles.iter().flat_map(|r| &r.streams) {
            p.texts(&stream.body, &mut out);
        }
    }
    out
}

/// Returns the kernels that a schedule uses.
pub(super) fn used_by(s: &Schedule) -> Vec<Used<'_>> {
    let mut uses = vec![];
    for st in s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        used(&st.body, &mut uses);
    }
    uses
}

fn used<'a>(list: &'a [SStmt], out: &mut Vec<Used<'a>>) {
    for st in list {
        match st {
            SStmt::For { body, .. } => used(body, out),
            SStmt::If { then, other, .. } => {
                used(then, out);
                used(other, out);
            }
            SStmt::Op(SOp::Local(LocalOp::Compute { func, .. }), _) => out.push(Used::Function(func)),
            SStmt::Op(SOp::Local(LocalOp::Tiles { kernel, .. }), _) => out.push(Used::Tiles(kernel)),
            SStmt::Op(..) => {}
        }
    }
}

pub(super) fn exprs(list: &[Expr]) -> String {
    list.iter().map(|e| show(e, 0)).collect::<Vec<_>>().join(", ")
}

fn zero(yes: bool) -> &'static str {
    if yes { " zero" } else { "" }
}

fn offset(at: Option<u64>) -> String {
    at.map(|o| format!(" at {o}")).unwrap_or_default()
}

/// Returns the printed name of an id. An id without a declaration gets a name that no declaration
/// has.
pub(super) fn name_of(sigil: char, names: &[String], id: u32) -> String {
    match names.get(id as usize) {
        Some(n) => format!("{sigil}{n}"),
        None => format!("{sigil}`?{id}`"),
    }
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn declarations(&mut self, same_name: bool) {
        let s = self.s;
        let name = if same_name { String::new() } else { format!(" @{}", quoted(&s.name)) };
        let calls = match s.calls {
            Calls::None => "none",
            Calls::First => "first",
            Calls::Any => "any",
        };
        self.out.push('\n');
        self.line(0, &format!("schedule{name} calls {calls}"));
        for t in &s.tables {
            let values: Vec<String> = t.values.iter().map(i64::to_string).collect();
            self.line(0, &format!("table @{} = [{}]", quoted(&t.name), values.join(", ")));
        }
        for (i, b) in s.buffers.iter().enumerate() {
            let dims = if b.dims.is_empty() { String::new() } else { format!("[{}]", exprs(&b.dims)) };
            let role = match b.role {
                BufferRole::Input(n) => format!("input {n}"),
                BufferRole::Output(n) => format!("output {n}"),
                BufferRole::Temp => "temp".into(),
            };
            let global = b.global.as_ref().map(|t| format!(" : {}", show_type(t))).unwrap_or_default();
            let at = loc(b.span, self.locs);
            self.line(
                0,
                &format!(
                    "buffer %{} : {}{dims} {}{} {role}{global}{at}",
                    self.buffers[i],
                    b.dtype,
                    b.memory,
                    zero(b.zero)
                ),
            );
        }
        for (i, w) in s.windows.iter().enumerate() {
            let text = format!(
                "window @{} : {}[{} x {}] {}{}{}{}",
                self.windows[i],
                w.dtype,
                w.slots,
                w.capacity,
                w.memory,
                zero(w.zero),
                offset(w.offset),
                loc(w.span, self.locs)
            );
            self.line(0, &text);
        }
        for (i, g) in s.signals.iter().enumerate() {
            let usage = match g.usage {
                SignalUse::Arrival => "arrival",
                SignalUse::Credit => "credit",
                SignalUse::Barrier => "barrier",
            };
            let at = loc(g.span, self.locs);
            self.line(
                0,
                &format!(
                    "signal @{}[{}] {usage}{}{}{at}",
                    self.signals[i],
                    g.count,
                    g.form,
                    offset(g.offset)
                ),
            );
        }
        for (i, q) in s.queues.iter().enumerate() {
            let at = loc(q.span, self.locs);
            let size = format!("{}[{} x {}] {}", q.dtype, q.depth, q.capacity, q.memory);
            self.line(0, &format!("queue @{}[{}] : {size}{at}", self.queues[i], q.count));
        }
    }

    fn region(&mut self, i: usize, r: &Region) {
        self.operands = labels(r.operands.iter().map(|o| &o.name));
        let mut head = format!("region @{}", self.regions[i]);
        let axes: Vec<Name> = if r.over.is_empty() {
            head += " local";
            self.s.mesh.axes.iter().map(|a| a.name.clone()).collect()
        } else {
            let over: Vec<String> = r.over.iter().map(|n| quoted(n)).collect();
            head += &format!(" over {}", over.join(", "));
            r.over.clone()
        };
        let natural: Vec<(Name, u64)> =
            axes.iter().filter_map(|n| self.s.mesh.axis(n).map(|a| (n.clone(), a.size))).collect();
        if natural != r.coords || natural.len() != axes.len() {
            let coords: Vec<String> = r.coords.iter().map(|(n, k)| format!("{} of {k}", quoted(n))).collect();
            head += &format!(" as ({})", coords.join(", "));
        }
        if !r.after.is_empty() {
            let after: Vec<String> = r.after.iter().map(|a| name_of('@', &self.regions, a.0)).collect();
            head += &format!(" after {}", after.join(", "));
        }
        head += &loc(r.span, self.locs);
        self.out.push('\n');
        self.line(0, &head);
        if let Some(l) = &r.label {
            self.line(1, &format!("label {}", string(l)));
        }
        for (k, o) in r.operands.iter().enumerate() {
            let l = &o.line;
            let parts = if l.parts == 1 { String::new() } else { format!("{} of ", l.parts) };
            let unit =
                if l.unit == Expr::Int(1) { String::new() } else { format!(" * {}", show(&l.unit, ATOM)) };
            let row =
                if l.row == Expr::Int(0) { String::new() } else { format!(" row {}", show(&l.row, ATOM)) };
            let text = format!(
                "{} {} = {} line {parts}{}{unit}{}{row}",
                if o.scratch { "scratch" } else { "on" },
                self.operands[k],
                name_of('%', &self.buffers, o.buffer.0),
                show(&l.extent, ATOM),
                show_rule(&l.rule)
            );
            self.line(1, &text);
        }
        if let Some(p) = &r.contract {
            self.contract(p);
        }
        for role in &r.roles {
            let ranks = match &role.ranks {
                RankSet::All => String::new(),
                RankSet::Where(e) => format!(" where {}", show(e, 0)),
                RankSet::List(l) => {
                    let l: Vec<String> = l.iter().map(u64::to_string).collect();
                    format!(" in [{}]", l.join(", "))
                }
            };
            self.line(1, &format!("role {}{ranks}", quoted(&role.name)));
            for st in &role.streams {
                self.line(2, &format!("stream {}", quoted(&st.name)));
                self.body(3, &st.body);
            }
        }
    }

    fn contract(&mut self, p: &Contract) {
        let short = |k: CollKind| k.reduces() == p.red.is_some() && standard(k, p.red, p.root) == *p;
        if CollKind::parse(&p.collective).is_some_and(short) {
            return self.line(1, &promise_head(p));
        }
        for (depth, text) in contract(p, None) {
            self.line(depth, &text);
        }
    }

    fn body(&mut self, depth: usize, list: &[SStmt]) {
        for st in list {
            match st {
                SStmt::For { var, lo, hi, body } => {
                    self.line(depth, &format!("for {} in {}..{}", quoted(var), show(lo, 0), show(hi, 0)));
                    self.body(depth + 1, body);
                }
                SStmt::If { cond, then, other } => {
                    self.line(depth, &format!("if {}", show(cond, 0)));
                    self.body(depth + 1, then);
                    if !other.is_empty() {
                        self.line(depth, "else");
                        self.body(depth + 1, other);
                    }
                }
                SStmt::Op(op, span) => {
                    let text = format!("{}{}", self.operation(op), loc(*span, self.locs));
                    self.line(depth, &text);
                }
            }
        }
    }

    fn texts(&self, list: &[SStmt], out: &mut Vec<String>) {
        for st in list {
            match st {
                SStmt::For { body, .. } => self.texts(body, out),
                SStmt::If { then, other, .. } => {
                    self.texts(then, out);
                    self.texts(other, out);
                }
                SStmt::Op(op, _) => out.push(self.operation(op)),
            }
        }
    }
}

fn promise_head(p: &Contract) -> String {
    let red = p.red.map(|r| format!(" {r}")).unwrap_or_default();
    let root = p.root.map(|r| format!(" root {r}")).unwrap_or_default();
    format!("promise {}{red}{root}", quoted(&p.collective))
}

/// Returns the lines of a contract with its clauses, each with its depth. `ranks` is printed where
/// the context does not state the number of ranks.
pub(super) fn contract(p: &Contract, ranks: Option<u64>) -> Vec<(usize, String)> {
    let buffers: Vec<String> = p
        .buffers
        .iter()
        .map(|b| {
            let blocks = if b.blocks { format!("[{}]", quoted(&p.size)) } else { String::new() };
            format!("{}{blocks}[n]", quoted(&b.name))
        })
        .collect();
    let ranks = ranks.map(|n| format!(" ranks {n}")).unwrap_or_default();
    let over = format!("over ({} of {}){ranks} on {}", quoted(&p.rank), quoted(&p.size), buffers.join(", "));
    let head = format!("{} {over}", promise_head(p)).trim_end().to_owned();
    std::iter::once((1, head)).chain(p.clauses.iter().map(|c| (2, clause(c)))).collect()
}

fn cell(c: &Cell) -> String {
    let index: String = c.index.iter().map(|e| format!("[{}]", show(e, 0))).collect();
    format!("{}{index}", quoted(&c.buffer))
}

fn condition(c: &Option<Expr>) -> String {
    c.as_ref().map(|e| format!(" if {}", show(e, 0))).unwrap_or_default()
}

fn clause(c: &Clause) -> String {
    match c {
        Clause::Start { cell: place, cond } => format!("start {}{}", cell(place), condition(cond)),
        Clause::End { cell: place, cond, from, at, sum } => {
            let term = format!("{} at {}", cell(from), show(at, 0));
            let term = match sum {
                None => term,
                Some(s) => format!(
                    "sum({term} for {} in {}..{}{})",
                    quoted(&s.var),
                    show(&s.lo, 0),
                    show(&s.hi, 0),
                    condition(&s.cond)
                ),
            };
            format!("end {}{} = {term}", cell(place), condition(cond))
        }
    }
}
