//! Contracts of the standard collectives, with symbolic sizes and the root substituted.
//!
//! They cover the eight collectives of the algorithm language, `barrier` (an all-gather without
//! data: every rank depends on every rank) and `keep_part`, so that a schedule can contain
//! `promise all_reduce sum` instead of clauses. The contracts of user-defined collectives are
//! created where their declarations are read.

use crate::collective::{CollKind, Holding};
use crate::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use crate::expr::{BinOp, Expr};
use crate::name::Name;
use crate::types::ReduceOp;
use std::sync::Arc;

/// Returns the contract of a standard collective. Its clauses are over `v` (`src` and `dst` for an
/// all_to_all), with `r` of `p` as the rank, `b` as any block and `i` as any chunk. `red` is kept
/// only if the collective combines contributions, and `root` (0 if absent) only if it has one. A
/// user-defined collective has no standard contract and gets no clauses.
pub fn standard(kind: CollKind, red: Option<ReduceOp>, root: Option<u64>) -> Contract {
    let root = kind.rooted().then(|| root.unwrap_or(0));
    let at_root = Expr::Int(root.map_or(0, |c| i64::try_from(c).unwrap_or(i64::MAX)));
    let blocks = kind.blocked();
    // A barrier exchanges the blocks of an all_gather.
    let change = if kind == CollKind::Barrier { CollKind::AllGather } else { kind }.change();
    let apart = change.is_some_and(|(before, _)| before == Holding::SplitFrom);
    let (src, dst) = if apart { ("src", "dst") } else { ("v", "v") };
    let any: &[&str] = if blocks { &["b", "i"] } else { &["i"] };
    let own: &[&str] = &["r", "i"];
    let clauses = change.map_or_else(Vec::new, |(before, after)| {
        let start = if before == Holding::Split { own } else { any };
        let end = if after == Holding::Split && !apart { own } else { any };
        // An all_to_all ends with its block of every rank.
        let from = if apart { own } else { end };
        let (at, sum) = match before {
            Holding::Partial => (Expr::var("q"), Some(everyone())),
            Holding::Split | Holding::SplitFrom => (Expr::var("b"), None),
            Holding::Root => (at_root.clone(), None),
            Holding::Whole => (Expr::var("r"), None),
        };
        let cond = |holding: Holding| (holding == Holding::Root).then(|| is(&at_root));
        vec![
            Clause::Start { cell: cell(src, start), cond: cond(before) },
            Clause::End { cell: cell(dst, end), cond: cond(after), from: cell(src, from), at, sum },
        ]
    });
    let names: &[&str] = if apart { &["src", "dst"] } else { &["v"] };
    Contract {
        collective: kind.name().into(),
        red: red.filter(|_| kind.reduces()),
        root,
        rank: "r".into(),
        size: "p".into(),
        buffers: names.iter().map(|n| ContractBuffer { name: Name::from(*n), blocks }).collect(),
        clauses,
    }
}

fn cell(buffer: &str, index: &[&str]) -> Cell {
    Cell { buffer: buffer.into(), index: index.iter().map(|v| Expr::var(*v)).collect() }
}

fn everyone() -> SumOver {
    SumOver { var: "q".into(), lo: Expr::Int(0), hi: Expr::var("p"), cond: None }
}

/// Returns the condition that the rank is the root.
fn is(root: &Expr) -> Expr {
    Expr::Bin(BinOp::Eq, Arc::new(Expr::var("r")), Arc::new(root.clone()))
}
