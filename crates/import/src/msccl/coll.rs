//! Collectives of the MSCCL format: their names, the layout of their buffers, and their contracts.

use super::{Buf, ChunkRun};
use kbc_ir::collective::{CollKind, Holding};
use kbc_ir::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_ir::types::ReduceOp;
use std::sync::Arc;

/// A value of the attribute `coll`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coll {
    /// A collective of the language.
    Known(CollKind),
    /// A collective without a known postcondition, with its name: `custom`, and collectives that
    /// depend on the arguments of a call.
    Free(&'static str),
}

/// Returns the spellings of a collective: `reduce_scatter` is that of microsoft/msccl,
/// `reducescatter` that of RCCL. There are none for what the format does not have.
fn spellings(kind: CollKind) -> &'static [&'static str] {
    match kind {
        CollKind::AllReduce => &["allreduce"],
        CollKind::AllGather => &["allgather"],
        CollKind::ReduceScatter => &["reduce_scatter", "reducescatter"],
        CollKind::AllToAll => &["alltoall"],
        CollKind::Broadcast => &["broadcast"],
        CollKind::Reduce => &["reduce"],
        CollKind::Gather => &["gather"],
        CollKind::Scatter => &["scatter"],
        CollKind::Slice | CollKind::Barrier | CollKind::ByContract => &[],
    }
}

impl Coll {
    /// Names of collectives without a known postcondition.
    const FREE: [&'static str; 4] = ["custom", "alltoallv", "send", "recv"];

    /// Returns all names with their collectives.
    pub fn names() -> impl Iterator<Item = (&'static str, Coll)> {
        let known = |kind: CollKind| spellings(kind).iter().map(move |n| (*n, Coll::Known(kind)));
        CollKind::ALL.into_iter().flat_map(known).chain(Coll::FREE.map(|n| (n, Coll::Free(n))))
    }

    /// Returns the collective with that name.
    pub fn parse(s: &str) -> Option<Coll> {
        Coll::names().find(|c| c.0 == s).map(|c| c.1)
    }

    /// Returns the name of the collective.
    pub fn name(self) -> &'static str {
        match self {
            Coll::Known(kind) => spellings(kind).first().copied().unwrap_or("custom"),
            Coll::Free(name) => name,
        }
    }

    /// Returns the corresponding collective of the language.
    pub fn kind(self) -> Option<CollKind> {
        match self {
            Coll::Known(kind) => Some(kind),
            Coll::Free(_) => None,
        }
    }

    /// Checks whether the collective has a root rank.
    pub fn rooted(self) -> bool {
        self.kind().is_some_and(|k| k.rooted())
    }

    /// Checks whether the collective combines contributions.
    pub fn reduces(self) -> bool {
        self.kind().is_some_and(|k| k.reduces())
    }

    /// Checks whether the input is only one rank's block of the larger buffer.
    pub fn small_input(self) -> bool {
        self.kind().is_some_and(|k| k.takes(Holding::Split))
    }

    /// Checks whether the output is only one rank's block of the larger buffer.
    pub fn small_output(self) -> bool {
        self.kind().is_some_and(|k| k.gives(Holding::Split) && !k.takes(Holding::SplitFrom))
    }

    /// Checks whether the contract covers the whole output of every rank.
    pub fn fills(self) -> bool {
        !self.rooted() && self.kind().is_some()
    }

    /// Returns the first chunk of a place of `i` or `o` within the single buffer of an in-place
    /// call, for a rank whose block has `block` chunks.
    pub fn in_place(self, place: ChunkRun, rank: u64, block: u64) -> i64 {
        let shifted = match place.buf {
            Buf::Input => self.small_input(),
            Buf::Output => self.small_output(),
            Buf::Scratch => false,
        };
        place.off + if shifted { (rank * block) as i64 } else { 0 }
    }

    /// Returns the contract, over operand `v` if the call is in place and over `src` and `dst`
    /// otherwise. Returns none for a collective without a known postcondition.
    pub fn contract(self, inplace: bool, op: ReduceOp, root: u64) -> Option<Contract> {
        let kind = self.kind()?;
        let mut p =
            kbc_ir::contract_std::standard(kind, self.reduces().then_some(op), self.rooted().then_some(root));
        if inplace {
            // The standard contract of all_to_all has two buffers; here it has one.
            p.buffers.retain(|b| b.name == *"v" || b.name == *"src");
            let v = |c: &mut Cell| c.buffer = "v".into();
            p.buffers.iter_mut().for_each(|b| b.name = "v".into());
            for c in &mut p.clauses {
                match c {
                    Clause::Start { cell, .. } => v(cell),
                    Clause::End { cell, from, .. } => {
                        v(cell);
                        v(from);
                    }
                }
            }
            return Some(p);
        }
        let (from, to) = (!self.small_input(), !self.small_output());
        let blocks = |whole: bool| whole && kind.blocked();
        let (from, to) = (blocks(from), blocks(to));
        let cell = |buffer: &str, blocks: bool, block: &str| {
            let index = if blocks { vec![Expr::var(block), Expr::var("i")] } else { vec![Expr::var("i")] };
            Cell { buffer: buffer.into(), index }
        };
        let at_root = || Expr::Int(root as i64);
        let is_root = || Some(Expr::Bin(BinOp::Eq, Arc::new(Expr::var("r")), Arc::new(at_root())));
        let everyone = SumOver { var: "q".into(), lo: Expr::Int(0), hi: Expr::var("p"), cond: None };
        // Which block of `src` is delivered, from which rank, and whether contributions of all
        // ranks are combined.
        let (before, after) = kind.change()?;
        let own = match after {
            Holding::Split => "r",
            Holding::Partial | Holding::Whole | Holding::Root | Holding::SplitFrom => "i",
        };
        let (delivered, at, sum) = match before {
            Holding::Partial => (own, Expr::var("q"), Some(everyone)),
            Holding::Split => ("b", Expr::var("b"), None),
            Holding::SplitFrom => (own, Expr::var("b"), None),
            Holding::Root => (own, at_root(), None),
            Holding::Whole => (own, Expr::var("r"), None),
        };
        let source = cell("src", from, delivered);
        let start_if = if before == Holding::Root { is_root() } else { None };
        let end_if = if after == Holding::Root { is_root() } else { None };
        let named = |name: &str, blocks| ContractBuffer { name: Name::from(name), blocks };
        p.buffers = vec![named("src", from), named("dst", to)];
        p.clauses = vec![
            Clause::Start { cell: cell("src", from, "b"), cond: start_if },
            Clause::End { cell: cell("dst", to, "b"), cond: end_if, from: source, at, sum },
        ];
        Some(p)
    }
}
