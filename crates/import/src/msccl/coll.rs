//! Collectives of the MSCCL format: their names, the layout of their buffers, and their contracts.

use super::{Buf, Place};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::graph::CollKind;
use kbc_ir::name::Name;
use kbc_ir::promise::{Cell, Clause, Promise, PromiseBuffer, SumOver};
use kbc_ir::types::ReduceOp;

/// A value of the attribute `coll`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the format")]
pub enum Coll {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    /// A collective without a known postcondition, with its name: `custom`, and collectives that
    /// depend on the arguments of a call.
    Free(&'static str),
}

impl Coll {
    /// All spellings: `reduce_scatter` is that of microsoft/msccl, `reducescatter` that of RCCL.
    pub const NAMES: [(&'static str, Coll); 13] = [
        ("allreduce", Coll::AllReduce),
        ("allgather", Coll::AllGather),
        ("reduce_scatter", Coll::ReduceScatter),
        ("reducescatter", Coll::ReduceScatter),
        ("alltoall", Coll::AllToAll),
        ("broadcast", Coll::Broadcast),
        ("reduce", Coll::Reduce),
        ("gather", Coll::Gather),
        ("scatter", Coll::Scatter),
        ("custom", Coll::Free("custom")),
        ("alltoallv", Coll::Free("alltoallv")),
        ("send", Coll::Free("send")),
        ("recv", Coll::Free("recv")),
    ];

    /// Returns the collective with that name.
    pub fn parse(s: &str) -> Option<Coll> {
        Coll::NAMES.iter().find(|c| c.0 == s).map(|c| c.1)
    }

    /// Returns the name of the collective.
    pub fn name(self) -> &'static str {
        Coll::NAMES.iter().find(|c| c.1 == self).map_or("custom", |c| c.0)
    }

    /// Returns the corresponding collective of the language.
    pub fn kind(self) -> Option<CollKind> {
        Some(match self {
            Coll::AllReduce => CollKind::AllReduce,
            Coll::AllGather => CollKind::AllGather,
            Coll::ReduceScatter => CollKind::ReduceScatter,
            Coll::AllToAll => CollKind::AllToAll,
            Coll::Broadcast => CollKind::Broadcast,
            Coll::Reduce => CollKind::Reduce,
            Coll::Gather => CollKind::Gather,
            Coll::Scatter => CollKind::Scatter,
            Coll::Free(_) => return None,
        })
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
        matches!(self, Coll::AllGather | Coll::Gather)
    }

    /// Checks whether the output is only one rank's block of the larger buffer.
    pub fn small_output(self) -> bool {
        matches!(self, Coll::ReduceScatter | Coll::Scatter)
    }

    /// Checks whether the contract covers the whole output of every rank.
    pub fn fills(self) -> bool {
        !self.rooted() && self.kind().is_some()
    }

    /// Returns the first chunk of a place of `i` or `o` within the single buffer of an in-place
    /// call, for a rank whose block has `block` chunks.
    pub fn in_place(self, place: Place, rank: u64, block: u64) -> i64 {
        let shifted = match place.buf {
            Buf::Input => self.small_input(),
            Buf::Output => self.small_output(),
            Buf::Scratch => false,
        };
        place.off + if shifted { (rank * block) as i64 } else { 0 }
    }

    /// Returns the contract, over operand `v` if the call is in place and over `src` and `dst`
    /// otherwise. Returns none for a collective without a known postcondition.
    pub fn promise(self, inplace: bool, op: ReduceOp, root: u64) -> Option<Promise> {
        let kind = self.kind()?;
        let mut p =
            kbc_ir::promise::standard(kind, self.reduces().then_some(op), self.rooted().then_some(root));
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
        let blocks = |whole: bool| whole && !matches!(self, Coll::AllReduce | Coll::Broadcast | Coll::Reduce);
        let (from, to) = (blocks(from), blocks(to));
        let cell = |buffer: &str, blocks: bool, block: &str| {
            let index = if blocks { vec![Expr::var(block), Expr::var("i")] } else { vec![Expr::var("i")] };
            Cell { buffer: buffer.into(), index }
        };
        let at_root = || Expr::Int(root as i64);
        let is_root = || Some(Expr::Bin(BinOp::Eq, Box::new(Expr::var("r")), Box::new(at_root())));
        let everyone = SumOver { var: "q".into(), lo: Expr::Int(0), hi: Expr::var("p"), cond: None };
        // Which block of `src` is delivered, from which rank, and whether contributions of all
        // ranks are combined.
        let (source, at, sum) = match self {
            Coll::AllReduce | Coll::Reduce => (cell("src", from, "i"), Expr::var("q"), Some(everyone)),
            Coll::ReduceScatter => (cell("src", from, "r"), Expr::var("q"), Some(everyone)),
            Coll::AllGather | Coll::Gather => (cell("src", from, "b"), Expr::var("b"), None),
            Coll::AllToAll => (cell("src", from, "r"), Expr::var("b"), None),
            Coll::Broadcast => (cell("src", from, "i"), at_root(), None),
            Coll::Scatter | Coll::Free(_) => (cell("src", from, "r"), at_root(), None),
        };
        let start_if = if matches!(self, Coll::Broadcast | Coll::Scatter) { is_root() } else { None };
        let end_if = if matches!(self, Coll::Reduce | Coll::Gather) { is_root() } else { None };
        let named = |name: &str, blocks| PromiseBuffer { name: Name::from(name), blocks };
        p.buffers = vec![named("src", from), named("dst", to)];
        p.clauses = vec![
            Clause::Start { cell: cell("src", from, "b"), cond: start_if },
            Clause::End { cell: cell("dst", to, "b"), cond: end_if, from: source, at, sum },
        ];
        Some(p)
    }
}
