//! What a graph asks of values before they have their types: cuts, from annotations and results backwards; and which values
//! somebody wants before they are reduced.

use kbc_ir::graph::{Graph, OpId, OpKind};
use kbc_ir::types::{Cut, TensorType};
use std::collections::{BTreeMap, BTreeSet};

/// What later operations want the trailing dimensions of a value to be: (distance from the right, size, cut).
pub(super) type Hint = Vec<(usize, u64, Cut)>;

/// What annotations and result types ask of the values they come from, through elementwise operations and casts.
/// Where users ask for different things, nothing is known.
pub(super) fn hints(graph: &Graph) -> BTreeMap<OpId, Hint> {
    let mut hints: BTreeMap<OpId, Hint> = BTreeMap::new();
    // All users of a value are known when its first one is.
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

/// Values that are asked for as they are before a reduction: by a collective that reduces them, a type that says `partial`,
/// or an operation that makes such a value of them.
pub(super) fn asked_partial(graph: &Graph) -> BTreeSet<OpId> {
    let mut asked = BTreeSet::new();
    for &id in graph.order().iter().rev() {
        let op = graph.op(id);
        let want = match op.kind {
            OpKind::Output(i) => op.want.as_ref().or(graph.results.get(i)),
            _ => op.want.as_ref(),
        };
        let reduces = matches!(&op.kind, OpKind::Collective(c) if c.kind.reduces());
        if reduces || want.is_some_and(|t| t.partial.is_some()) {
            asked.insert(id);
        }
        if asked.contains(&id) {
            asked.extend(graph.operands(id));
        }
    }
    asked
}

/// Whether trailing dimensions of the result are those of the operands.
pub(super) fn keeps_dims(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Demand | OpKind::Ask(_) | OpKind::Output(_) | OpKind::Map(_) | OpKind::Cast(_))
}

/// The cuts of a type.
pub(super) fn hint_of(ty: &TensorType) -> Hint {
    let n = ty.dims.len();
    let of = |(i, d): (usize, &kbc_ir::types::Dim)| d.cut.clone().map(|c| (n - 1 - i, d.size, c));
    ty.dims.iter().enumerate().filter_map(of).collect()
}
