//! Kernels for tests of the tile level, and a short form of their statements.

#![allow(dead_code, reason = "every test takes what it needs")]

use kbc_backend_ascend::profile::DIALECT;
use kbc_diag::{Diagnostics, FileId};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::types::DType;
use kbc_tiles::tile::*;

pub fn v(name: &str) -> Expr {
    Expr::var(name)
}

pub fn int(n: i64) -> Expr {
    Expr::Int(n)
}

pub const X: Object = Object::Tensor(TensorId(0));
pub const OUT: Object = Object::Tensor(TensorId(1));
pub const W0: Object = Object::Area(AreaId(0));
pub const A: TileId = TileId(0);
pub const B: TileId = TileId(1);

pub fn gm(object: Object, slot: Expr, offset: Expr) -> Gm {
    Gm { object, slot, offset, peer: None }
}

pub fn load(tile: TileId, from: Gm) -> Stmt {
    Stmt::Op(Op::Load { tile, len: v("m"), from })
}

pub fn store(to: Gm, tile: TileId) -> Stmt {
    Stmt::Op(Op::Store { to, tile, len: v("m") })
}

pub fn add(dst: TileId, a: TileId, b: TileId) -> Stmt {
    let args = vec![VArg::Tile(a), VArg::Tile(b)];
    Stmt::Op(Op::Vector { op: VecOp::Add, dst, args, len: v("m") })
}

pub fn tiles(total: Expr, body: Vec<Stmt>) -> Stmt {
    Stmt::Tiles { pos: "i".into(), len: "m".into(), total, step: 4096, twice: false, rows: None, body }
}

pub fn tensor(name: &str, access: TensorUse, index: u32) -> Tensor {
    Tensor { name: name.into(), dtype: DType::F32, len: v("count"), access, index, reach: Reach::Own }
}

pub fn tile(name: &str, dtype: DType, elements: u32) -> Tile {
    Tile { name: name.into(), dtype, space: Space::Vector, rows: 1, elements, copies: 1, at: None }
}

/// Returns a kernel with scalars, tensors `x` and `out` and two tiles, without a window.
pub fn frame(body: Vec<Stmt>) -> Kernel {
    Kernel {
        dialect: &DIALECT,
        name: "k".into(),
        core: Core::Vector,
        cores: 1,
        scalars: vec!["nranks".into(), "count".into(), "call".into()],
        root: None,
        tensors: vec![tensor("x", TensorUse::In, 0), tensor("out", TensorUse::Out, 0)].into(),
        tables: vec![],
        signals: vec![].into(),
        areas: vec![].into(),
        tiles: vec![tile("a", DType::F32, 4096), tile("b", DType::F32, 4096)],
        body,
    }
}

/// Returns the direct all-reduce: every rank puts to every other and adds what it receives.
pub fn direct() -> Kernel {
    let n1 = || v("nranks") - int(1);
    let slot = |s: Expr| v("call").modulo(2) * n1() + s;
    let peer = || (v("rank") + v("k")).modulo(v("nranks"));
    let mut put = gm(W0, slot(v("k") - int(1)), v("i"));
    put.peer = Some(v("peer"));
    let come = || n1() - v("k");
    let mut k = frame(vec![
        Stmt::Note { place: "all_reduce.kb:16".into(), text: "copy out = x".into() },
        tiles(v("count"), vec![load(A, gm(X, int(0), v("i"))), store(gm(OUT, int(0), v("i")), A)]),
        Stmt::For {
            var: "k".into(),
            lo: int(1),
            hi: v("nranks"),
            body: vec![
                Stmt::Let { name: "peer".into(), value: peer() },
                tiles(v("count"), vec![load(A, gm(OUT, int(0), v("i"))), store(put, A)]),
                Stmt::Op(Op::Release),
                Stmt::Op(Op::Notify { peer: v("peer"), signals: SignalsId(0), index: v("k") - int(1) }),
            ],
        },
        Stmt::For {
            var: "k".into(),
            lo: int(1),
            hi: v("nranks"),
            body: vec![
                Stmt::Op(Op::Wait { signals: SignalsId(0), index: come(), value: v("call") + int(1) }),
                Stmt::Op(Op::Acquire),
                tiles(
                    v("count"),
                    vec![
                        load(A, gm(OUT, int(0), v("i"))),
                        load(B, gm(W0, slot(come()), v("i"))),
                        add(A, A, B),
                        store(gm(OUT, int(0), v("i")), A),
                    ],
                ),
            ],
        },
    ]);
    k.signals.push(Signals { name: "arrived".into(), count: n1(), per_call: int(1), at: None });
    k.areas.push(area("w0", int(2) * n1(), Reach::Peers, 0));
    k
}

pub fn area(name: &str, slots: Expr, reach: Reach, arena: u32) -> Area {
    Area { name: name.into(), dtype: DType::F32, slots, capacity: v("count"), reach, arena, at: None }
}

/// Returns a ring step: a chunk of `q` elements arrives, is added and is passed on.
pub fn ring() -> Kernel {
    let q = || (v("count") + v("nranks") - int(1)) / v("nranks");
    let chunk = |e: Expr| e.modulo(v("nranks")) * q();
    let next = || (v("rank") + int(1)).modulo(v("nranks"));
    let mut put = gm(W0, v("s"), v("i"));
    put.peer = Some(next());
    let from = || chunk(v("rank") - v("s"));
    let into = || chunk(v("rank") - v("s") - int(1));
    let mut k = frame(vec![
        tiles(v("count"), vec![load(A, gm(X, int(0), v("i"))), store(gm(OUT, int(0), v("i")), A)]),
        Stmt::For {
            var: "s".into(),
            lo: int(0),
            hi: v("nranks") - int(1),
            body: vec![
                Stmt::Let { name: "from".into(), value: from() },
                Stmt::Let { name: "into".into(), value: into() },
                tiles(q(), vec![load(A, gm(OUT, int(0), v("from") + v("i"))), store(put, A)]),
                Stmt::Op(Op::Release),
                Stmt::Op(Op::Notify { peer: next(), signals: SignalsId(0), index: v("s") }),
                Stmt::Op(Op::Wait { signals: SignalsId(0), index: v("s"), value: v("call") + int(1) }),
                Stmt::Op(Op::Acquire),
                tiles(
                    q(),
                    vec![
                        load(A, gm(OUT, int(0), v("into") + v("i"))),
                        load(B, gm(W0, v("s"), v("i"))),
                        add(A, A, B),
                        store(gm(OUT, int(0), v("into") + v("i")), A),
                    ],
                ),
            ],
        },
    ]);
    k.signals.push(Signals { name: "arrived".into(), count: v("nranks"), per_call: int(1), at: None });
    k.areas.push(area("w0", v("nranks"), Reach::Peers, 0));
    k
}

/// Returns a kernel in which every rank gets from every other, reports that it has read, and waits
/// for its own readers.
pub fn gets() -> Kernel {
    let peer = || (v("rank") + v("k")).modulo(v("nranks"));
    let mut get = gm(W0, int(0), v("i"));
    get.peer = Some(peer());
    let each = |body| Stmt::For { var: "k".into(), lo: int(1), hi: v("nranks"), body };
    let notify = |n, index| Stmt::Op(Op::Notify { peer: peer(), signals: SignalsId(n), index });
    let wait = |n| Stmt::Op(Op::Wait { signals: SignalsId(n), index: v("k"), value: v("call") + int(1) });
    let mut k = frame(vec![
        tiles(v("count"), vec![load(A, gm(X, int(0), v("i"))), store(gm(W0, int(0), v("i")), A)]),
        Stmt::Op(Op::Release),
        each(vec![notify(0, v("nranks") - v("k"))]),
        each(vec![wait(0)]),
        Stmt::Op(Op::Acquire),
        each(vec![tiles(
            v("count"),
            vec![load(B, get), store(gm(Object::Area(AreaId(1)), v("k"), v("i")), B)],
        )]),
        Stmt::Op(Op::Complete),
        each(vec![tiles(
            v("count"),
            vec![
                load(A, gm(W0, int(0), v("i"))),
                load(B, gm(Object::Area(AreaId(1)), v("k"), v("i"))),
                add(A, A, B),
                store(gm(W0, int(0), v("i")), A),
            ],
        )]),
        Stmt::Op(Op::Release),
        each(vec![notify(1, v("nranks") - v("k"))]),
        each(vec![wait(1)]),
        tiles(v("count"), vec![load(A, gm(W0, int(0), v("i"))), store(gm(OUT, int(0), v("i")), A)]),
    ]);
    for name in ["ready", "read"] {
        k.signals.push(Signals { name: name.into(), count: v("nranks"), per_call: int(1), at: None });
    }
    k.areas = vec![area("w0", int(1), Reach::Peers, 0), area("t", v("nranks"), Reach::Own, 1)].into();
    k
}

/// Returns a chain of vector instructions with conversions before and after.
pub fn vectors() -> Kernel {
    let [h, g, f, r] = [0, 1, 2, 3].map(TileId);
    let num = |op, dst, a, n| {
        let args = vec![VArg::Tile(a), VArg::Num(n)];
        Stmt::Op(Op::Vector { op, dst, args, len: v("m") })
    };
    let mut k = frame(vec![tiles(
        v("count"),
        vec![
            load(h, gm(X, int(0), v("i"))),
            Stmt::Op(Op::Convert { dst: f, src: h, rounding: Rounding::Exact }),
            num(VecOp::Mul, r, f, -1.0),
            num(VecOp::Max, f, r, 0.0),
            add(r, r, f),
            Stmt::Op(Op::Convert { dst: g, src: r, rounding: Rounding::Nearest }),
            store(gm(OUT, int(0), v("i")), g),
        ],
    )]);
    k.tensors.iter_mut().for_each(|t| t.dtype = DType::BF16);
    k.tiles = vec![
        tile("h", DType::BF16, 4096),
        tile("g", DType::BF16, 4096),
        tile("f", DType::F32, 4096),
        tile("r", DType::F32, 4096),
    ];
    k
}

/// Returns all kernels.
pub fn all() -> Vec<(&'static str, Kernel)> {
    vec![("direct", direct()), ("ring", ring()), ("gets", gets()), ("vectors", vectors())]
}

/// Returns the maximum of two expressions, for sizes.
pub fn max(a: Expr, b: Expr) -> Expr {
    Expr::bin(BinOp::Max, a, b)
}

/// Returns the statements in a short form, one per line.
pub fn short(kernel: &Kernel) -> String {
    let mut out = String::new();
    list(kernel, &kernel.body, 0, &mut out);
    out
}

fn list(k: &Kernel, body: &[Stmt], depth: usize, out: &mut String) {
    for s in body {
        let mut line = |t: String| out.push_str(&format!("{}{t}\n", "  ".repeat(depth)));
        match s {
            Stmt::Note { text, .. } => line(format!("; {text}")),
            Stmt::Let { name, .. } => line(format!("let {name}")),
            Stmt::For { var, body, .. } => {
                line(format!("for {var}"));
                list(k, body, depth + 1, out);
            }
            Stmt::Task { name, body, .. } => {
                line(format!("task {name}"));
                list(k, body, depth + 1, out);
            }
            Stmt::Turn { tiles, body, .. } => {
                line(format!("turn {}", k.tile(tiles[0]).name));
                list(k, body, depth + 1, out);
            }
            Stmt::Tiles { pos, body, .. } => {
                line(format!("tiles {pos}"));
                list(k, body, depth + 1, out);
            }
            Stmt::If { then, other, .. } => {
                line("if".into());
                list(k, then, depth + 1, out);
                if !other.is_empty() {
                    out.push_str(&format!("{}else\n", "  ".repeat(depth)));
                    list(k, other, depth + 1, out);
                }
            }
            Stmt::Op(op) => line(match op {
                Op::Load { tile, .. } => format!("load {}", k.tile(*tile).name),
                Op::Store { tile, .. } => format!("store {}", k.tile(*tile).name),
                Op::Vector { op, dst, .. } => format!("{} {}", op.name(), k.tile(*dst).name),
                Op::Select { dst, .. } => format!("select {}", k.tile(*dst).name),
                Op::Convert { dst, .. } => format!("convert {}", k.tile(*dst).name),
                Op::Notify { .. } => "notify".into(),
                Op::Wait { .. } => "wait".into(),
                Op::Barrier(Barrier::All) => "barrier ALL".into(),
                Op::Barrier(Barrier::Pipe(p)) => format!("barrier {}", DIALECT.pipe(*p)),
                Op::MemoryBarrier => "dsb".into(),
                Op::SetFlag { from, to, event } => {
                    format!("set {}>{} {event}", DIALECT.pipe(*from), DIALECT.pipe(*to))
                }
                Op::WaitFlag { from, to, event } => {
                    format!("wait {}>{} {event}", DIALECT.pipe(*from), DIALECT.pipe(*to))
                }
                other => format!("{other:?}"),
            }),
        }
    }
}

/// Parses a kernel with the names of this backend.
pub fn parse(text: &str, file: FileId) -> Result<Kernel, Diagnostics> {
    kbc_tiles::tile::parse::parse(text, file, &DIALECT)
}
