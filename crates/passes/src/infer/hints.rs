//! Hints: what a graph asks of values before their types are known. Annotations and results ask for
//! cuts, backwards through the graph, and some users ask for values before they are reduced.

use kbc_ir::graph::{Graph, OpId, OpKind};
use kbc_ir::types::{Cut, TensorType};
use std::collections::{BTreeMap, BTreeSet};

/// The cuts that later operations want for the trailing dimensions of a value: (distance from the
/// right, size, cut).
pub(super) type Hint = Vec<(usize, u64, Cut)>;

/// Returns what annotations and result types ask of the values that they are computed from, through
/// elementwise operations and casts. If users ask for different cuts, the value has no hint.
pub(super) fn hints(graph: &Graph) -> BTreeMap<OpId, Hint> {
    let mut hints: BTreeMap<OpId, Hint> = BTreeMap::new();
    // Going backwards, all users of a value have been visited once its first user is.
    let mut first: BTreeMap<OpId, OpId> = BTreeMap::new();
    for &id in graph.order() {
        for operand in graph.operands(id) {
            first.entry(operand).or_insert(id);
        }
    }
    for &id in graph.order().iter().rev() {
        let op = graph.op(id);
        let own = match (&op.kind, &op.want) {
            (OpKind::Output(i), want) => want.as_ref().or(graph.results.get(*i)).map(hint_of),
            (_, Some(want)) => Some(hint_of(want)),
            _ => None,
        };
        if let Some(own) = own {
            hints.insert(id, own);
        }
        if let Some(hint) = hints.get(&id).filter(|_| keeps_dims(&op.kind)).cloned() {
            for operand in graph.operands(id).into_iter().filter(|o| first.get(o) == Some(&id)) {
                let users = graph.users(operand);
                let agrees = |u: OpId| keeps_dims(&graph.op(u).kind) && hints.get(&u) == Some(&hint);
                if users.iter().all(|u| u.0 == id || agrees(u.0)) {
                    hints.insert(operand, hint.clone());
                }
            }
        }
    }
    hints
}

/// Returns the values that are asked for before a reduction: by a collective that reduces them, by
/// a type with `partial`, or by an operation whose own result is asked for in this way.
pub(super) fn requested_partial(graph: &Graph) -> BTreeSet<OpId> {
    let mut requested = BTreeSet::new();
    for &id in graph.order().iter().rev() {
        let op = graph.op(id);
        let want = match op.kind {
            OpKind::Output(i) => op.want.as_ref().or(graph.results.get(i)),
            _ => op.want.as_ref(),
        };
        let reduces = matches!(&op.kind, OpKind::Collective(c) if c.kind.reduces());
        if reduces || want.is_some_and(|t| t.partial.is_some()) {
            requested.insert(id);
        }
        if requested.contains(&id) {
            requested.extend(graph.operands(id));
        }
    }
    requested
}

/// Checks whether the trailing dimensions of the result are those of the operands.
pub(super) fn keeps_dims(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Output(_) | OpKind::Map(_) | OpKind::Cast(_)
    )
}

/// Returns the cuts of a type.
pub(super) fn hint_of(ty: &TensorType) -> Hint {
    let n = ty.dims.len();
    let of = |(i, d): (usize, &kbc_ir::types::Dim)| d.cut.clone().map(|c| (n - 1 - i, d.size, c));
    ty.dims.iter().enumerate().filter_map(of).collect()
}
