//! Contracts of the standard collectives, with symbolic sizes and the root substituted.
//!
//! They cover the eight collectives of the algorithm language, `barrier` (an all-gather without
//! data: every rank depends on every rank) and `slice`, so that a schedule can contain
//! `promise all_reduce sum` instead of clauses. The contracts of user-defined collectives are
//! created where their declarations are read.

use crate::expr::{BinOp, Expr};
use crate::graph::CollKind;
use crate::name::Name;
use crate::promise::{Cell, Clause, Promise, PromiseBuffer, SumOver};
use crate::types::ReduceOp;

/// Returns the contract of a standard collective. Its clauses are over `v` (`src` and `dst` for an
/// all_to_all), with `r` of `p` as the rank, `b` as any block and `i` as any chunk. `red` is kept
/// only if the collective combines contributions, and `root` (0 if absent) only if it has one. A
/// user-defined collective has no standard contract and gets no clauses.
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
        CollKind::ByContract => vec![],
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

/// Returns the clause with the condition that the rank is the root.
fn conditional(clause: Clause, root: &Expr) -> Clause {
    let holds = Some(Expr::Bin(BinOp::Eq, Box::new(Expr::var("r")), Box::new(root.clone())));
    match clause {
        Clause::Start { cell, .. } => Clause::Start { cell, cond: holds },
        Clause::End { cell, from, at, sum, .. } => Clause::End { cell, cond: holds, from, at, sum },
    }
}
