//! Random calls of collectives, which change the placement of a value or move its parts.

use super::machine::given;
use super::rng::Rng;
use kbc_ir::graph::CollKind;
use kbc_ir::types::{Cut, CutRule, Mesh, TensorType};
use kbc_ir::{Name, Parts};

/// A call of a collective: its name; the collective whose algorithms serve it (empty if the
/// arguments name one); its arguments; the type of its result; its root.
pub type Call = (&'static str, &'static str, String, TensorType, Option<u64>);

/// Returns a call that changes the use of an axis in a type, or that moves the parts.
pub fn moved(rng: &mut Rng, from: &TensorType, mesh: &Mesh, axis: &Name, size: u64) -> Option<Call> {
    let standard = |kind: CollKind, text: String, ty: TensorType, root: Option<u64>| {
        (kind.name(), kind.name(), text, ty, root)
    };
    let mut ty = from.clone();
    let whole: Vec<usize> = (0..ty.dims.len()).filter(|d| ty.dims[*d].cut.is_none()).collect();
    let cut = || Some(Cut { axes: vec![axis.clone()], rule: CutRule::Even });
    let root = rng.below(size as usize) as u64;
    if let Some((op, axes)) = &mut ty.partial
        && axes.contains(axis)
    {
        let op = *op;
        axes.retain(|a| a != axis);
        if axes.is_empty() {
            ty.partial = None;
        }
        return Some(match rng.below(3) {
            0 if !whole.is_empty() => {
                let dim = *rng.pick(&whole);
                ty.dims[dim].cut = cut();
                standard(CollKind::ReduceScatter, format!(", {op}, dim: {dim}"), ty, None)
            }
            1 if ty.only.is_none() && !ty.dims.is_empty() => {
                ty.only = Some((root, axis.clone()));
                standard(CollKind::Reduce, format!(", {op}, to: {root}"), ty, Some(root))
            }
            _ => standard(CollKind::AllReduce, format!(", {op}"), ty, None),
        });
    }
    if let Some((holder, _)) = ty.only.clone().filter(|o| o.1 == *axis) {
        ty.only = None;
        if !whole.is_empty() && rng.chance(50) {
            let dim = *rng.pick(&whole);
            ty.dims[dim].cut = cut();
            return Some(standard(
                CollKind::Scatter,
                format!(", dim: {dim}, from: {holder}"),
                ty,
                Some(holder),
            ));
        }
        return Some(standard(CollKind::Broadcast, format!(", from: {holder}"), ty, Some(holder)));
    }
    let dim = ty.dim_cut_by(axis.as_str())?;
    if ty.dims[dim].size.is_multiple_of(size)
        && ty.dims[dim]
            .cut
            .as_ref()
            .is_some_and(|c| c.axes.len() == 1 && !matches!(c.rule, CutRule::Lengths(_)))
        && rng.chance(40)
    {
        // The call first resolves what other axes left open.
        (ty.partial, ty.only) = (None, None);
        return Some(parts(rng, dim, size, root, ty));
    }
    if dim == 0
        && let Some(have) = ty.lengths_over(mesh, 0, axis)
        && rng.chance(40)
    {
        return counted(rng, &have, axis, ty);
    }
    let own = ty.dims[dim].cut.as_mut()?;
    // Only the last axis of a cut can be removed.
    if own.axes.last() != Some(axis) {
        return None;
    }
    own.axes.pop();
    if own.axes.is_empty() {
        ty.dims[dim].cut = None;
    }
    Some(match rng.below(3) {
        0 if !whole.is_empty() => {
            let to = *rng.pick(&whole);
            ty.dims[to].cut = cut();
            standard(CollKind::AllToAll, format!(", from: {dim}, to: {to}"), ty, None)
        }
        1 if ty.only.is_none() => {
            ty.only = Some((root, axis.clone()));
            standard(CollKind::Gather, format!(", dim: {dim}, to: {root}"), ty, Some(root))
        }
        _ => standard(CollKind::AllGather, format!(", dim: {dim}"), ty, None),
    })
}

/// Returns an all_to_all with a matrix of counts whose row sums are the ranks' lengths.
fn counted(rng: &mut Rng, have: &[u64], axis: &Name, mut ty: TensorType) -> Option<Call> {
    let k = have.len() as u64;
    let row = |n: &u64| match given(rng, *n, k) {
        CutRule::Lengths(l) => Some(l.lengths(0)),
        _ => None,
    };
    let counts = Parts::new(&have.iter().map(row).collect::<Option<Vec<_>>>()?)?;
    let columns = Parts::row(&counts.transposed()?.totals())?;
    ty.dims[0].cut = Some(Cut { axes: vec![axis.clone()], rule: CutRule::Lengths(columns) });
    let rows: Vec<String> = (0..k).map(|s| format!("{:?}", counts.lengths(s))).collect();
    // Only library algorithms that do not use scratch.
    let using = rng.pick(&["", ", using: direct", ", using: pairwise"]);
    Some(("all_to_all", "", format!(", counts: [{}]{using}", rows.join(", ")), ty, None))
}

/// Returns a call that moves the parts of a dimension.
fn parts(rng: &mut Rng, dim: usize, size: u64, root: u64, ty: TensorType) -> Call {
    let other = rng.below(size as usize) as u64;
    match rng.below(4) {
        0 => ("shift", "shift", format!(", dim: {dim}, by: {root}"), ty, Some(root)),
        1 => ("send_recv", "permute", format!(", dim: {dim}, from: {root}, to: {other}"), ty, None),
        2 => {
            // A rotation of some of the ranks.
            let pairs: Vec<String> = (0..size)
                .filter(|_| rng.chance(70))
                .map(|r| format!("({r}, {})", (r + root) % size))
                .collect();
            ("permute", "permute", format!(", dim: {dim}, pairs: [{}]", pairs.join(", ")), ty, None)
        }
        _ => ("barrier", "barrier", String::new(), ty, None),
    }
}
