//! Rule T7: names and ids are declared exactly once, and expressions read only what is in scope.

use super::sink::Sink;
use crate::tile::path::Path;
use crate::tile::{CALL, CORE, Gm, Kernel, NRANKS, Object, Op, RANK, ROOT, Stmt, TileId, VArg};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use std::collections::BTreeSet;

/// Checks T7.
pub(super) fn check(sink: &mut Sink<'_>) {
    let kernel = sink.kernel;
    declarations(sink);
    let mut scope: Vec<Name> = kernel.scalars.clone();
    // Numbers are places, and none may depend on the rank that is the root.
    scope.retain(|s| kernel.root.is_none() || s != ROOT);
    scope.extend([RANK, CALL, CORE].map(Name::from));
    let mut walk = Walk { sink, outside: scope.clone(), scope, path: vec![] };
    walk.block(&kernel.body, 0);
}

fn problem(title: String) -> Diagnostic {
    Diagnostic::error("E456", title)
}

fn declarations(sink: &mut Sink<'_>) {
    let k = sink.kernel;
    let kinds: [(&str, Vec<&Name>); 6] = [
        ("scalar", k.scalars.iter().collect()),
        ("tensor", k.tensors.iter().map(|t| &t.name).collect()),
        ("table", k.tables.iter().map(|t| &t.name).collect()),
        ("signal", k.signals.iter().map(|s| &s.name).collect()),
        ("area", k.areas.iter().map(|a| &a.name).collect()),
        ("tile", k.tiles.iter().map(|t| &t.name).collect()),
    ];
    for (kind, names) in kinds {
        let mut seen = BTreeSet::new();
        for n in names {
            if !seen.insert(n) {
                sink.at(&[], problem(format!("two {kind}s are called {n}")));
            }
        }
    }
    if k.scalars.iter().any(|s| s == RANK) {
        sink.at(
            &[],
            problem(format!("`{RANK}` is a scalar")).note("the domain defines the number of the rank"),
        );
    }
    if k.scalars.iter().any(|s| s == CORE) {
        sink.at(
            &[],
            problem(format!("`{CORE}` is a scalar")).note("the launch defines the number of the core"),
        );
    }
    let has = |name: &str| k.scalars.iter().any(|s| s == name);
    if k.root.is_some() && !(has(ROOT) && has(NRANKS)) {
        sink.at(
            &[],
            problem(format!("places are counted from a root, and `{ROOT}` or `{NRANKS}` is no scalar")),
        );
    }
    if !k.scalars.iter().any(|s| s == CALL) {
        sink.at(
            &[],
            problem(format!("`{CALL}` is not declared as a scalar"))
                .help("declare it: every launch has a call number"),
        );
    }
    // The layout of the window must be the same on all ranks and in all calls: a rank computes the
    // offsets of its peers' areas with its own values.
    let window = k
        .signals
        .iter()
        .flat_map(|s| [(&s.name, Some(&s.count)), (&s.name, Some(&s.per_call)), (&s.name, s.at.as_ref())])
        .chain(k.areas.iter().flat_map(|a| {
            [(&a.name, Some(&a.slots)), (&a.name, Some(&a.capacity)), (&a.name, a.at.as_ref())]
        }));
    let sizes = window.filter_map(|(n, e)| Some((n, e?, false)));
    let lens = k.tensors.iter().map(|t| (&t.name, &t.len, true));
    for (name, e, own) in sizes.chain(lens) {
        for n in names_of(e) {
            let known = if n == RANK || n == CALL { own && n == RANK } else { k.scalars.contains(&n) };
            if !known {
                let what = if n == RANK || n == CALL {
                    "differs between ranks or calls, and the window has only one layout"
                } else {
                    "is not a scalar of the kernel"
                };
                sink.at(
                    &[],
                    problem(format!("the size or position of {name} reads `{n}`"))
                        .note(format!("`{n}` {what}")),
                );
            }
        }
        tables(k, e)
            .into_iter()
            .for_each(|t| sink.at(&[], problem(format!("{name} reads @{t}, which is not a table"))));
    }
}

fn names_of(e: &Expr) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    e.vars(&mut |n| {
        out.insert(n.clone());
    });
    out
}

/// Returns the tables that an expression reads and the kernel does not have.
fn tables(kernel: &Kernel, e: &Expr) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    fn go(e: &Expr, f: &mut impl FnMut(&Name)) {
        match e {
            Expr::Int(_) | Expr::Var(_) => {}
            Expr::Un(_, a) => go(a, f),
            Expr::Bin(_, a, b) => [a, b].into_iter().for_each(|e| go(e, f)),
            Expr::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| go(e, f)),
            Expr::Table(n, i) => {
                f(n);
                go(i, f);
            }
        }
    }
    go(e, &mut |n| {
        if !kernel.tables.iter().any(|t| t.name == *n) {
            out.insert(n.clone());
        }
    });
    out
}

struct Walk<'s, 'k> {
    sink: &'s mut Sink<'k>,
    /// Names that every task knows.
    outside: Vec<Name>,
    scope: Vec<Name>,
    path: Path,
}

impl Walk<'_, '_> {
    fn report(&mut self, title: String) {
        self.sink.at(&self.path, problem(title));
    }

    fn expr(&mut self, e: &Expr) {
        for n in names_of(e) {
            if !self.scope.contains(&n) {
                self.report(format!("`{n}` has no value here"));
            }
        }
        for t in tables(self.sink.kernel, e) {
            self.report(format!("@{t} is not a table of the kernel"));
        }
    }

    fn bind(&mut self, name: &Name) {
        if self.scope.contains(name) {
            self.report(format!("`{name}` already has a meaning here"));
        }
        self.scope.push(name.clone());
    }

    fn block(&mut self, list: &[Stmt], first: usize) {
        let outer = self.scope.len();
        for (i, s) in list.iter().enumerate() {
            self.path.push((first + i) as u32);
            match s {
                Stmt::Let { name, value } => {
                    self.expr(value);
                    self.bind(name);
                }
                Stmt::For { var, lo, hi, body } => {
                    self.expr(lo);
                    self.expr(hi);
                    self.inner(&[var], body);
                }
                Stmt::Tiles { pos, len, total, rows, body, .. } => {
                    self.expr(total);
                    let of_rows = rows.iter().flat_map(|r| [&r.first, &r.count]);
                    self.inner(&[pos, len].into_iter().chain(of_rows).collect::<Vec<_>>(), body);
                }
                Stmt::If { cond, then, other } => {
                    self.expr(cond);
                    self.block(then, 0);
                    self.block(other, then.len());
                }
                Stmt::Turn { tiles, by, body } => {
                    self.tiles(tiles.iter().copied());
                    self.expr(by);
                    self.block(body, 0);
                }
                Stmt::Task { body, .. } => {
                    // A task is a kernel of its own, in which no names from outside are visible.
                    let seen = std::mem::replace(&mut self.scope, self.outside.clone());
                    self.block(body, 0);
                    self.scope = seen;
                }
                Stmt::Note { .. } => {}
                Stmt::Op(op) => self.op(op),
            }
            self.path.pop();
        }
        self.scope.truncate(outer);
    }

    fn inner(&mut self, names: &[&Name], body: &[Stmt]) {
        let outer = self.scope.len();
        names.iter().for_each(|n| self.bind(n));
        self.block(body, 0);
        self.scope.truncate(outer);
    }

    fn tiles(&mut self, list: impl IntoIterator<Item = TileId>) {
        for t in list {
            if t.0 as usize >= self.sink.kernel.tiles.len() {
                self.report(format!("tile {} does not exist", t.0));
            }
        }
    }

    fn memory(&mut self, gm: &Gm) {
        let k = self.sink.kernel;
        let (n, have, what) = match gm.object {
            Object::Tensor(t) => (t.0, k.tensors.len(), "tensor"),
            Object::Area(a) => (a.0, k.areas.len(), "area"),
        };
        if n as usize >= have {
            self.report(format!("{what} {n} does not exist"));
        }
        self.expr(&gm.slot);
        self.expr(&gm.offset);
        gm.peer.iter().for_each(|p| self.expr(p));
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Load { tile, len, from: gm } | Op::Store { to: gm, tile, len } => {
                self.tiles([*tile]);
                self.memory(gm);
                self.expr(len);
            }
            Op::Vector { dst, args, len, .. } => {
                let tile = |a: &VArg| if let VArg::Tile(t) = a { Some(*t) } else { None };
                self.tiles(args.iter().filter_map(tile).chain([*dst]));
                self.expr(len);
            }
            Op::Select { dst, a, b, x, y, mask, len, .. } => {
                self.tiles([*dst, *a, *b, *x, *y, *mask]);
                self.expr(len);
            }
            Op::Convert { dst, src, .. } => self.tiles([*dst, *src]),
            Op::Reduce { dst, src, work, len, .. } => {
                self.tiles([*dst, *src, *work]);
                self.expr(len);
            }
            Op::Expand { dst, src, len } | Op::Spread { dst, src, len } => {
                self.tiles([*dst, *src]);
                self.expr(len);
            }
            Op::LoadBlock { tile, rows, cols, from: gm, pitch }
            | Op::StoreBlock { tile, rows, cols, to: gm, pitch } => {
                self.tiles([*tile]);
                self.memory(gm);
                [rows, cols, pitch].into_iter().for_each(|e| self.expr(e));
            }
            Op::LoadRows { tile, len, from: gm, pitch } | Op::StoreRows { to: gm, pitch, tile, len } => {
                self.tiles([*tile]);
                self.memory(gm);
                [len, pitch].into_iter().for_each(|e| self.expr(e));
            }
            Op::Choose { ids, index, first } => {
                self.tiles([*ids]);
                [index, first].into_iter().for_each(|e| self.expr(e));
            }
            Op::LoadRow { tile, len, from, pitch, rows } => {
                self.tiles([*tile]);
                self.memory(from);
                [len, pitch, rows].into_iter().for_each(|e| self.expr(e));
            }
            Op::Index { dst, value, len } => {
                self.tiles([*dst]);
                self.expr(value);
                self.expr(len);
            }
            Op::Move { dst, src, from: [row, col], rows, cols } => {
                self.expr(row);
                self.expr(col);
                self.tiles([*dst, *src]);
                [rows, cols].into_iter().for_each(|e| self.expr(e));
            }
            Op::Matmul { dst, left, right, m, n, k, .. } => {
                self.tiles([*dst, *left, *right]);
                [m, n, k].into_iter().for_each(|e| self.expr(e));
            }
            Op::Notify { signals, index, .. }
            | Op::Wait { signals, index, .. }
            | Op::Defer { signals, index, .. } => {
                if signals.0 as usize >= self.sink.kernel.signals.len() {
                    self.report(format!("the array of signals {} does not exist", signals.0));
                }
                self.expr(index);
                match op {
                    Op::Notify { peer: e, .. } | Op::Wait { value: e, .. } | Op::Defer { value: e, .. } => {
                        self.expr(e)
                    }
                    _ => {}
                }
            }
            Op::Release
            | Op::Acquire
            | Op::Complete
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => {}
        }
    }
}
