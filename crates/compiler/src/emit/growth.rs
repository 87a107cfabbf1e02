//! Growth of a program's numbers with its count: how many operations add more elements of a value,
//! or number more of them, at a larger count.
//!
//! Let inputs be integers that stay exact at one count. At a count c times as large, they stay
//! exact if they are divided by c to the power of the growth: each such operation makes values at
//! most c times larger, so none exceeds what it may be at the first count. Numbers in expressions
//! are not divided, so this does not cover a program that adds large ones.

use kbc_ir::fill::FillContent;
use kbc_ir::graph::{Graph, OpId, OpKind};

/// Returns the growth of a program, from its graphs at some counts. Without two counts everything
/// is taken to grow.
pub fn growth(samples: &[(u64, &Graph)]) -> u64 {
    let Some((count, graph)) = samples.first() else { return 0 };
    let other = samples.iter().find(|s| s.0 != *count && s.1.order().len() == graph.order().len());
    let grows = |i: usize, id: OpId| {
        let length = length(graph, id)?;
        let same =
            other.is_some_and(|(_, g)| g.order().get(i).and_then(|o| self::length(g, *o)) == Some(length));
        (!same).then_some(if matches!(graph.op(id).kind, OpKind::Tiles(_)) { 2 } else { 1 })
    };
    graph.order().iter().enumerate().filter_map(|(i, id)| grows(i, *id)).sum()
}

/// Returns how many elements an operation adds, or numbers, if it does so.
fn length(graph: &Graph, id: OpId) -> Option<u64> {
    let size = |id: OpId, dim: usize| Some(graph.op(id).ty.as_ref()?.dims.get(dim)?.size);
    let last = |id: OpId| Some(graph.op(id).ty.as_ref()?.dims.last()?.size);
    let operands = graph.operands(id);
    match &graph.op(id).kind {
        OpKind::Matmul { .. } | OpKind::Grouped(_) => last(*operands.first()?),
        OpKind::ReduceDim { dim, .. } => size(*operands.first()?, *dim),
        OpKind::Fill(fill) => match fill.with {
            FillContent::Place(dim) => size(id, dim),
            FillContent::Number(_) => None,
        },
        // Its sums over tiles may be along any dimension.
        OpKind::Tiles(_) => {
            let sizes =
                |o: &OpId| Some(graph.op(*o).ty.as_ref()?.dims.iter().map(|d| d.size).product::<u64>());
            operands.iter().map(sizes).try_fold(0u64, |sum, n| Some(sum.wrapping_add(n?)))
        }
        OpKind::Input(_)
        | OpKind::Output(_)
        | OpKind::Map(_)
        | OpKind::Cast(_)
        | OpKind::Embedding
        | OpKind::Shape(_)
        | OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Host(_) => None,
    }
}
