//! Changes of placement: the single steps that exist, the type that each of them produces, and the
//! cheapest sequence of steps between two placements.
//!
//! `infer` asks this module whether a placement can be reached and which operand is cheaper to
//! change, and `place` turns its plans into operations. The module knows nothing of graphs, links
//! or algorithms. The weight of a step is the number of bytes that the busiest rank of the axis
//! sends or receives, whichever is more, with the best known algorithm. `L` is the number of bytes
//! that a rank holds before the step, and `k` the size of the axis:
//!
//! | step | weight | step | weight |
//! |---|---|---|---|
//! | all_reduce | 2 L (k-1)/k | broadcast | L |
//! | reduce_scatter, all_to_all | L (k-1)/k | scatter | L (k-1)/k |
//! | all_gather, gather | L (k-1) | reduce | L |
//! | keep_part | 0 | | |

use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Holding, Movement};
use kbc_ir::types::{Cut, CutRule, Mesh, ReduceOp, TensorType};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use Holding::{Partial, Root, Split, SplitFrom, Whole};

/// One change of placement over one axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReshardStep {
    /// The kind of the change.
    pub kind: CollKind,
    /// The combiner, if the step combines.
    pub red: Option<ReduceOp>,
    /// The axis.
    pub axis: Name,
    /// See [`kbc_ir::graph::Collective::dim`].
    pub dim: Option<usize>,
    /// See [`kbc_ir::graph::Collective::from_dim`].
    pub from_dim: Option<usize>,
    /// Coordinate of the root.
    pub root: Option<u64>,
    /// The type after the step.
    pub result: TensorType,
}

/// A sequence of steps from one placement to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReshardPlan {
    /// The steps in order. Empty if nothing has to be done.
    pub steps: Vec<ReshardStep>,
    /// Bytes of the busiest rank times the square of the number of ranks of the mesh, which makes
    /// the weight an integer. Weights are comparable on one mesh only.
    pub weight: u128,
}

/// The reason why a step does not apply to a type, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Illegal {
    /// The reason, to be read after "but the operand is TYPE: ".
    pub reason: String,
    /// The remedy.
    pub fix: String,
}

/// A requested collective: the fields of [`ReshardStep`] without the result, and the rule of a new
/// cut.
#[derive(Clone, Copy, Debug)]
pub struct ReshardRequest<'a> {
    /// The kind of the collective.
    pub kind: CollKind,
    /// The combiner, if it is stated.
    pub red: Option<ReduceOp>,
    /// The axis.
    pub axis: &'a Name,
    /// The dimension.
    pub dim: Option<usize>,
    /// Source dimension of an all_to_all.
    pub from_dim: Option<usize>,
    /// Coordinate of the root, if it is stated.
    pub root: Option<u64>,
    /// The rule for a dimension that is not cut yet.
    pub rule: &'a CutRule,
}

/// Returns the size of an axis, or 1 for an axis that does not exist (types are checked earlier).
fn size(mesh: &Mesh, axis: &Name) -> u64 {
    mesh.axis(axis).map_or(1, |a| a.size)
}

/// Checks whether two cuts of a dimension give every rank the same elements.
pub fn cuts_agree(mesh: &Mesh, n: u64, a: Option<&Cut>, b: Option<&Cut>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if a.axes != b.axes => false,
        (Some(a), Some(b)) => {
            let k: u64 = a.axes.iter().map(|x| size(mesh, x)).product();
            let same_bounds = |k| (0..=k).all(|i| a.rule.boundary(n, i, k) == b.rule.boundary(n, i, k));
            let given = |c: &Cut| matches!(c.rule, CutRule::Lengths(_));
            let divides = n.is_multiple_of(k.max(1)) && !given(a) && !given(b);
            a.rule == b.rule || divides || (a.axes.len() == 1 && same_bounds(k))
        }
        _ => false,
    }
}

/// Checks whether two types of one tensor give every rank the same elements, even if the types are
/// written differently.
pub fn same_placement(mesh: &Mesh, a: &TensorType, b: &TensorType) -> bool {
    a.dtype == b.dtype
        && a.sizes() == b.sizes()
        && a.only == b.only
        && same_partial(a, b)
        && a.dims.iter().zip(&b.dims).all(|(x, y)| cuts_agree(mesh, x.size, x.cut.as_ref(), y.cut.as_ref()))
}

/// Checks whether both are partial over the same axes with the same combiner, or neither is
/// partial.
pub fn same_partial(a: &TensorType, b: &TensorType) -> bool {
    match (&a.partial, &b.partial) {
        (None, None) => true,
        (Some((x, xs)), Some((y, ys))) => {
            x == y && xs.len() == ys.len() && xs.iter().all(|axis| ys.contains(axis))
        }
        _ => false,
    }
}

/// Checks whether the tensor is partial over that axis.
pub fn partial_over(ty: &TensorType, axis: &str) -> bool {
    ty.partial.as_ref().is_some_and(|(_, axes)| axes.iter().any(|a| *a == *axis))
}

/// Returns the bytes that a rank holds, times the number of ranks of the mesh.
fn share(mesh: &Mesh, ty: &TensorType) -> u128 {
    let parts: u64 =
        ty.dims.iter().flat_map(|d| &d.cut).flat_map(|c| &c.axes).map(|a| size(mesh, a)).product();
    let bytes = ty.dims.iter().fold(u128::from(ty.dtype.bytes()), |n, d| n.saturating_mul(d.size.into()));
    bytes.saturating_mul((mesh.ranks() / parts.max(1)).into())
}

fn weight(mesh: &Mesh, before: &TensorType, kind: CollKind, axis: &Name) -> u128 {
    let held = share(mesh, before);
    let all = u128::from(mesh.ranks());
    let k = u128::from(size(mesh, axis).max(1));
    held.saturating_mul(match kind.movement() {
        None => 0,
        Some(Movement::PartialToWhole) => 2 * (all / k) * (k - 1),
        Some(Movement::SplitToWhole | Movement::SplitToRoot) => all * (k - 1),
        Some(Movement::PartialToSplit | Movement::SplitFromToSplit | Movement::RootToSplit) => {
            (all / k) * (k - 1)
        }
        Some(Movement::PartialToRoot | Movement::RootToWhole) => all,
    })
}

/// Returns the step that a collective performs on its operand: the resulting type, and the combiner
/// and root where the operand determines them.
///
/// # Errors
/// Returns the reason if the collective does not apply.
pub fn apply(mesh: &Mesh, ty: &TensorType, ask: ReshardRequest<'_>) -> Result<ReshardStep, Illegal> {
    let mut result = ty.clone();
    let axis = ask.axis;
    let mut step = ReshardStep {
        kind: ask.kind,
        red: None,
        axis: axis.clone(),
        dim: ask.dim,
        from_dim: ask.from_dim,
        root: None,
        result: ty.clone(),
    };
    let illegal = |reason: String, fix: String| Err(Illegal { reason, fix });
    // Remove the property that the collective takes away.
    let Some((before, after)) = ask.kind.change() else {
        return illegal("it changes no placement".into(), "leave it out".into());
    };
    match before {
        Partial => match &mut result.partial {
            Some((op, axes)) if axes.contains(axis) => {
                if ask.red.is_some_and(|r| r != *op) {
                    return illegal(format!("it is the {op} that is missing"), format!("write `{op}`"));
                }
                step.red = Some(*op);
                axes.retain(|a| a != axis);
                if axes.is_empty() {
                    result.partial = None;
                }
            }
            _ => {
                let fix = match ty.dim_cut_by(axis) {
                    Some(d) => {
                        format!("dimension {d} is split over `{axis}`: use all_gather to join its parts")
                    }
                    None => format!("every coordinate of `{axis}` has the whole value already: leave it out"),
                };
                return illegal(format!("not partial over `{axis}`"), fix);
            }
        },
        Split | SplitFrom => {
            let at = if before == SplitFrom { ask.from_dim } else { ask.dim };
            let Some(at) = at.or_else(|| ty.dim_cut_by(axis)) else {
                let fix = match partial_over(ty, axis) {
                    true => "use all_reduce or reduce_scatter to combine what the ranks hold".into(),
                    false => {
                        format!("every coordinate of `{axis}` has the whole value already: leave it out")
                    }
                };
                return illegal(format!("no dimension is split over `{axis}`"), fix);
            };
            match result.dims.get_mut(at).and_then(|d| d.cut.as_mut()) {
                Some(cut) if cut.axes.last() == Some(axis) => {
                    cut.axes.pop();
                    if cut.axes.is_empty() {
                        result.dims[at].cut = None;
                    }
                }
                Some(cut) if cut.axes.contains(axis) => {
                    let inner = cut.axes.last().map_or("", Name::as_str);
                    return illegal(
                        format!("dimension {at} is cut by `{axis}` first and by `{inner}` inside that"),
                        format!("gather over `{inner}` first"),
                    );
                }
                _ => {
                    let fix = match ty.dim_cut_by(axis) {
                        Some(d) => format!("it is dimension {d}"),
                        None => "leave it out".into(),
                    };
                    return illegal(format!("dimension {at} is not split over `{axis}`"), fix);
                }
            }
            match before {
                SplitFrom => step.from_dim = Some(at),
                _ => step.dim = Some(at),
            }
        }
        Root => match &ty.only {
            Some((root, a)) if a == axis => {
                if ask.root.is_some_and(|r| r != *root) {
                    return illegal(
                        format!("it is coordinate {root} that holds it"),
                        format!("the root must be {root}"),
                    );
                }
                step.root = Some(*root);
                result.only = None;
            }
            _ => {
                return illegal(
                    format!("it is not held by one coordinate of `{axis}` alone"),
                    format!("its source has a type like `{} only(0@{axis})`", ty.erased()),
                );
            }
        },
        Whole => {
            if partial_over(ty, axis)
                || ty.dim_cut_by(axis).is_some()
                || ty.only.as_ref().is_some_and(|o| o.1 == *axis)
            {
                return illegal(
                    format!("it is not replicated over `{axis}`"),
                    "only a replicated value can be sliced without communication".into(),
                );
            }
        }
    }
    // Add the property that the collective creates.
    match after {
        Split => {
            let Some(to) = ask.dim.filter(|d| *d < result.dims.len()) else {
                let dims = result.dims.len();
                return match ask.dim {
                    Some(d) => {
                        illegal(format!("it has no dimension {d}"), format!("its dimensions are 0..{dims}"))
                    }
                    None => illegal("no dimension to split is named".into(), "add `dim:`".into()),
                };
            };
            if before == SplitFrom && step.from_dim == Some(to) {
                return illegal(
                    format!("dimension {to} is split already"),
                    "name two different dimensions".into(),
                );
            }
            match &mut result.dims[to].cut {
                Some(Cut { rule: CutRule::Lengths(_), axes }) => {
                    let other = axes.first().map_or("", Name::as_str);
                    return illegal(
                        format!("dimension {to} is cut by `{other}` in parts of given lengths"),
                        format!("gather over `{other}` first: nothing cuts such parts again"),
                    );
                }
                Some(cut) => cut.axes.push(axis.clone()),
                cut => *cut = Some(Cut { axes: vec![axis.clone()], rule: ask.rule.clone() }),
            }
        }
        Root => {
            let Some(root) = ask.root else {
                return illegal("no root is named".into(), "add the coordinate that is to hold it".into());
            };
            if root >= size(mesh, axis) {
                let n = size(mesh, axis);
                return illegal(
                    format!("`{axis}` has no coordinate {root}"),
                    format!("its coordinates are 0..{n}"),
                );
            }
            if let Some((c, other)) = &ty.only {
                return illegal(
                    format!("coordinate {c} of `{other}` alone holds it"),
                    "a value can be held by one coordinate of one axis only".into(),
                );
            }
            step.root = Some(root);
            result.only = Some((root, axis.clone()));
        }
        // No collective leaves contributions, or parts along its second dimension.
        Whole | Partial | SplitFrom => {}
    }
    step.result = result;
    Ok(step)
}

/// Returns the sequence of steps with the lowest weight from one placement to another of the same
/// tensor (Dijkstra's algorithm over placements). Among equal weights the one with fewer steps
/// wins, then the one found first, with axes in the order of the mesh. Returns `None` if there is
/// no such sequence: a value that is not partial cannot become partial, and a value that all ranks
/// hold cannot be taken from them.
pub fn plan(mesh: &Mesh, from: &TensorType, to: &TensorType) -> Option<ReshardPlan> {
    if from.sizes() != to.sizes() || from.dtype != to.dtype {
        return None;
    }
    // If a dimension divides evenly, both cut rules mean the same, so the rule of the target is
    // used.
    let mut start = from.clone();
    for (have, want) in start.dims.iter_mut().zip(&to.dims) {
        if let (Some(h), Some(w)) = (&mut have.cut, &want.cut) {
            let k: u64 = h
                .axes
                .iter()
                .chain(w.axes.iter().filter(|a| !h.axes.contains(a)))
                .map(|a| size(mesh, a))
                .product();
            let given = |c: &Cut| matches!(c.rule, CutRule::Lengths(_));
            let divides = have.size.is_multiple_of(k.max(1)) && !given(h) && !given(w);
            if divides || cuts_agree(mesh, have.size, Some(h), Some(w)) {
                h.rule = w.rule.clone();
            }
        }
    }
    let mut known: HashMap<TensorType, usize> = HashMap::from([(start.clone(), 0)]);
    let mut states = vec![State { ty: start, cost: (0, 0), from: None }];
    let mut queue = BinaryHeap::from([Reverse(((0, 0), 0))]);
    while let Some(Reverse((cost, at))) = queue.pop() {
        if states[at].cost != cost {
            continue;
        }
        if same_placement(mesh, &states[at].ty, to) {
            return Some(trace(&states, at));
        }
        let here = states[at].ty.clone();
        for step in steps_towards(mesh, &here, to) {
            let cost = (cost.0.saturating_add(weight(mesh, &here, step.kind, &step.axis)), cost.1 + 1);
            let id = *known.entry(step.result.clone()).or_insert(states.len());
            let state = State { ty: step.result.clone(), cost, from: Some((at, step)) };
            match states.get_mut(id) {
                None => states.push(state),
                Some(old) if cost < old.cost => *old = state,
                Some(_) => continue,
            }
            queue.push(Reverse((cost, id)));
        }
    }
    None
}

/// A placement in the search.
struct State {
    ty: TensorType,
    /// Weight and number of steps so far.
    cost: (u128, usize),
    /// The previous state and the step from it.
    from: Option<(usize, ReshardStep)>,
}

fn trace(states: &[State], end: usize) -> ReshardPlan {
    let mut steps = vec![];
    let mut at = end;
    while let Some((before, step)) = &states[at].from {
        steps.push(step.clone());
        at = *before;
    }
    steps.reverse();
    ReshardPlan { steps, weight: states[end].cost.0 }
}

/// Returns the steps from `here` that can be part of a path to `to`: an axis is moved to its place
/// in the target or removed.
fn steps_towards(mesh: &Mesh, here: &TensorType, to: &TensorType) -> Vec<ReshardStep> {
    let mut out = vec![];
    for axis in mesh.axes.iter().map(|a| &a.name) {
        let goal = to.dim_cut_by(axis).filter(|e| may_append(here, to, *e, axis));
        let rule = goal.and_then(|e| to.dims[e].cut.as_ref()).map_or(&CutRule::Even, |c| &c.rule);
        let root = to.only.as_ref().filter(|o| o.1 == *axis).map(|o| o.0);
        let ask = |kind, dim, from_dim| ReshardRequest { kind, red: None, axis, dim, from_dim, root, rule };
        let mut add = |ask: ReshardRequest<'_>| out.extend(apply(mesh, here, ask));
        if partial_over(here, axis) {
            if partial_over(to, axis) {
                continue;
            }
            add(ask(CollKind::AllReduce, None, None));
            if goal.is_some() {
                add(ask(CollKind::ReduceScatter, goal, None));
            }
            if root.is_some() {
                add(ask(CollKind::Reduce, None, None));
            }
        } else if let Some(d) = here.dim_cut_by(axis) {
            if in_place(here, to, d, axis) {
                continue;
            }
            add(ask(CollKind::AllGather, Some(d), None));
            if goal.is_some_and(|e| e != d) {
                add(ask(CollKind::AllToAll, goal, Some(d)));
            }
            if root.is_some() {
                add(ask(CollKind::Gather, Some(d), None));
            }
            // The same dimension in another order or by another rule: go through a dimension that
            // is whole.
            if to.dim_cut_by(axis) == Some(d) {
                let k = size(mesh, axis);
                let free = |e: &usize| {
                    *e != d
                        && here.dims[*e].cut.is_none()
                        && to.dims[*e].cut.is_none()
                        && here.dims[*e].size.is_multiple_of(k)
                };
                for e in (0..here.dims.len()).filter(free) {
                    out.extend(apply(
                        mesh,
                        here,
                        ReshardRequest { rule: &CutRule::Even, ..ask(CollKind::AllToAll, Some(e), Some(d)) },
                    ));
                }
            }
        } else if here.only.as_ref().is_some_and(|o| o.1 == *axis) {
            if here.only == to.only {
                continue;
            }
            let ask = |kind, dim| ReshardRequest { root: None, ..ask(kind, dim, None) };
            add(ask(CollKind::Broadcast, None));
            if goal.is_some() {
                add(ask(CollKind::Scatter, goal));
            }
        } else if goal.is_some() {
            add(ask(CollKind::Slice, goal, None));
        }
    }
    out
}

/// Checks whether the cut of dimension `e`, with `axis` added as its innermost axis, is a prefix of
/// the target's cut.
fn may_append(here: &TensorType, to: &TensorType, e: usize, axis: &Name) -> bool {
    let Some(goal) = &to.dims[e].cut else { return false };
    match &here.dims[e].cut {
        None => goal.axes.first() == Some(axis),
        Some(cut) => {
            let n = cut.axes.len();
            cut.rule == goal.rule && goal.axes.starts_with(&cut.axes) && goal.axes.get(n) == Some(axis)
        }
    }
}

/// Checks whether the cut of dimension `d`, up to and including `axis`, is a prefix of the target's
/// cut.
fn in_place(here: &TensorType, to: &TensorType, d: usize, axis: &Name) -> bool {
    match (&here.dims[d].cut, &to.dims[d].cut) {
        (Some(cut), Some(goal)) => {
            let upto = cut.axes.iter().position(|a| a == axis).map_or(0, |i| i + 1);
            cut.rule == goal.rule && goal.axes.starts_with(&cut.axes[..upto])
        }
        _ => false,
    }
}
