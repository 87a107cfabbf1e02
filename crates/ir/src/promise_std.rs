//! The promises of the standard collectives, sizes left as names and the root put in.
//!
//! Owns the eight of the algorithm language, that of `barrier` (everybody hears from everybody: an all_gather of
//! nothing) and that of `slice`, so that a schedule can say `promise all_reduce
//! sum` instead of clauses. Promises of a user's own collectives are made where those are read.

use crate::expr::{BinOp, Expr};
use crate::graph::CollKind;
use crate::name::Name;
use crate::promise::{Cell, Clause, Promise, PromiseBuffer, SumOver};
use crate::types::ReduceOp;

/// The promise of a standard collective: clauses over `v` (`src` and `dst` for an all_to_all), with `r` of `p` as the
/// rank, `b` any block, `i` any chunk. `red` is kept only where contributions are combined, `root` (0 if absent) only
/// where there is one. A collective of a user has none, and gets no clauses.
pub fn standard(kind: CollKind, red: Option<ReduceOp>, root: Option<u64>) -> Promise {
    let v = |e: &[&str]| cell("v", e);
    let start = |cell| Clause::Start { cell, cond: None };
    let end = |cell, from, at| Clause::End { cell, cond: None, from, at, sum: None };
    let total =
        |cell, from| Clause::End { cell, cond: None, from, at: Expr::var("q"), sum: Some(everyone()) };
    let root = kind.rooted().then(|| root.unwrap_or(0));
    let at_root = Expr::Int(root.map_or(0, |c| i64::try_from(c).unwrap_or(i64::MAX)));
    let only = |c: Clause| conditional(c, &at_root);
    let clauses = match kind {
        CollKind::AllReduce => vec![start(v(&["i"])), total(v(&["i"]), v(&["i"]))],
        CollKind::ReduceScatter => vec![start(v(&["b", "i"])), total(v(&["r", "i"]), v(&["r", "i"]))],
        CollKind::AllGather | CollKind::Barrier => {
            vec![start(v(&["r", "i"])), end(v(&["b", "i"]), v(&["b", "i"]), Expr::var("b"))]
        }
        CollKind::Broadcast => {
            vec![only(start(v(&["i"]))), end(v(&["i"]), v(&["i"]), at_root.clone())]
        }
        CollKind::Reduce => vec![start(v(&["i"])), only(total(v(&["i"]), v(&["i"])))],
        CollKind::Gather => {
            vec![start(v(&["r", "i"])), only(end(v(&["b", "i"]), v(&["b", "i"]), Expr::var("b")))]
        }
        CollKind::Scatter => {
            vec![only(start(v(&["b", "i"]))), end(v(&["r", "i"]), v(&["r", "i"]), at_root.clone())]
        }
        CollKind::AllToAll => vec![
            start(cell("src", &["b", "i"])),
            end(cell("dst", &["b", "i"]), cell("src", &["r", "i"]), Expr::var("b")),
        ],
        CollKind::Slice => {
            vec![start(v(&["b", "i"])), end(v(&["r", "i"]), v(&["r", "i"]), Expr::var("r"))]
        }
        CollKind::Own => vec![],
    };
    let blocks = !matches!(kind, CollKind::AllReduce | CollKind::Broadcast | CollKind::Reduce);
    let names: &[&str] = if kind == CollKind::AllToAll { &["src", "dst"] } else { &["v"] };
    Promise {
        collective: kind.name().into(),
        red: red.filter(|_| kind.reduces()),
        root,
        rank: "r".into(),
        size: "p".into(),
        buffers: names.iter().map(|n| PromiseBuffer { name: Name::from(*n), blocks }).collect(),
        clauses,
    }
}

fn cell(buffer: &str, index: &[&str]) -> Cell {
    Cell { buffer: buffer.into(), index: index.iter().map(|v| Expr::var(*v)).collect() }
}

fn everyone() -> SumOver {
    SumOver { var: "q".into(), lo: Expr::Int(0), hi: Expr::var("p"), cond: None }
}

/// The clause, for the root alone.
fn conditional(clause: Clause, root: &Expr) -> Clause {
    let holds = Some(Expr::Bin(BinOp::Eq, Box::new(Expr::var("r")), Box::new(root.clone())));
    match clause {
        Clause::Start { cell, .. } => Clause::Start { cell, cond: holds },
        Clause::End { cell, from, at, sum, .. } => Clause::End { cell, cond: holds, from, at, sum },
    }
}
