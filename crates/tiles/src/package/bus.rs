//! Bandwidths of a collective: how the bytes of algbw and the factor of busbw follow from a
//! program.

use super::description::{Global, PackagedProgram};
use kbc_ir::collective::CollKind;
use kbc_ir::graph::{Graph, OpKind};

/// How busbw follows from algbw on p ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bus {
    /// `2 (p - 1) / p`: an all-reduce.
    Twice,
    /// `(p - 1) / p`.
    Share,
    /// `(p - 1) / p`, and the size is that of one rank's part: an all-to-all.
    ShareOfPart,
    /// 1: a broadcast or a reduction to one rank.
    One,
}

/// Checks whether a program only moves elements and combines them over ranks.
pub fn only_moves(graph: &Graph) -> bool {
    let moves = |kind: &OpKind| match kind {
        OpKind::Input(_)
        | OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Output(_) => true,
        OpKind::Matmul { .. }
        | OpKind::Map(_)
        | OpKind::ReduceDim { .. }
        | OpKind::Cast(_)
        | OpKind::Embedding
        | OpKind::Grouped(_)
        | OpKind::Tiles(_)
        | OpKind::Fill(_)
        | OpKind::Shape(_)
        | OpKind::Host(_) => false,
    };
    graph.order().iter().all(|id| moves(&graph.op(*id).kind))
}

/// Returns how busbw follows from algbw, if the program does nothing else than move one value from
/// one placement to another. There is no such rule where elements change places (contracts,
/// counts).
pub fn bus(program: &PackagedProgram) -> Option<Bus> {
    let graph = &program.graph;
    let stays = |kind: &OpKind| match kind {
        OpKind::Collective(c) => c.counts.is_none() && c.kind != CollKind::ByContract,
        _ => true,
    };
    let ([x], [y]) = (&program.inputs[..], &program.results[..]) else { return None };
    if !only_moves(graph) || !graph.order().iter().all(|id| stays(&graph.op(*id).kind)) {
        return None;
    }
    let cut = |g: &Global| g.ty.dims.iter().any(|d| d.cut.is_some());
    match (&x.ty.partial, &x.ty.only, cut(x), &y.ty.only, cut(y)) {
        (Some(_), None, false, None, false) => Some(Bus::Twice),
        (Some(_), None, false, Some(_), false) | (None, Some(_), false, None, false) => Some(Bus::One),
        (Some(_), None, false, None, true)
        | (None, None, true, None, false)
        | (None, None, true, Some(_), false)
        | (None, Some(_), false, None, true) => Some(Bus::Share),
        (None, None, true, None, true) => Some(Bus::ShareOfPart),
        _ => None,
    }
}
