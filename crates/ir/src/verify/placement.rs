//! Rules for types on a mesh and for placements of collectives: V5, V7. [`super`] lists all rules.

use super::{Report, V5, V7};
use crate::graph::{CollKind, Collective, Holding};
use crate::name::Name;
use crate::types::{Cut, CutRule, Mesh, ReduceOp, TensorType};
use kbc_diag::Span;
use std::collections::BTreeSet;

/// Checks V5 for a type by itself.
pub(super) fn well_formed(t: &TensorType, mesh: &Mesh, what: &str, span: Span, out: &mut Report) {
    let cuts = t.dims.iter().filter_map(|d| d.cut.as_ref());
    if cuts.clone().any(|c| c.axes.is_empty()) || t.partial.as_ref().is_some_and(|p| p.1.is_empty()) {
        out.fail(V5, format!("an axis is missing in the type of {what}"), span, "here");
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let partial = t.partial.iter().flat_map(|p| &p.1);
    for a in cuts.flat_map(|c| &c.axes).chain(partial).chain(t.only.iter().map(|o| &o.1)) {
        if mesh.axis(a).is_none() {
            out.fail(
                V5,
                format!("the type of {what} names `{a}`, which is not an axis of the mesh"),
                span,
                "here",
            );
        } else if !seen.insert(a.as_str()) {
            out.fail(V5, format!("the type of {what} uses axis {a} twice"), span, "here");
        }
    }
    for d in &t.dims {
        if let Some(Cut { axes, rule: CutRule::Lengths(parts) }) = &d.cut {
            let size = |a: &Name| mesh.axis(a).map_or(0, |a| a.size);
            let sizes = axes.iter().map(size).product::<u64>();
            if sizes != parts.of() || parts.rows() != 1 || parts.total(0) != d.size {
                let text = format!(
                    "the lengths ({parts}) in the type of {what} do not match its {} elements",
                    d.size
                );
                out.fail(
                    V5,
                    text,
                    span,
                    "write one length per coordinate of the axis, or of all axes in linear order",
                );
            }
        }
    }
    if let Some((at, axis)) = &t.only
        && let Some(a) = mesh.axis(axis)
        && *at >= a.size
    {
        let text = format!("{what} is held by coordinate {at} of {axis}, and the axis has {}", a.size);
        out.fail(V5, text, span, "here");
    }
    if super::product(t.dims.iter().map(|d| d.size)).is_none_or(|n| n > i64::MAX as u64 / 8) {
        out.fail(V5, format!("the number of elements of {what} exceeds 64 bits"), span, "here");
    }
}

/// Placement of a tensor with respect to one axis.
#[derive(PartialEq, Debug)]
enum Holds {
    Replicated,
    Split(usize),
    Partial(ReduceOp),
    Only(u64),
}

fn holds(t: &TensorType, axis: &Name) -> Holds {
    if let Some((op, axes)) = &t.partial
        && axes.contains(axis)
    {
        return Holds::Partial(*op);
    }
    match (&t.only, t.dim_cut_by(axis)) {
        (Some((at, a)), _) if a == axis => Holds::Only(*at),
        (_, Some(d)) => Holds::Split(d),
        _ => Holds::Replicated,
    }
}

fn words(h: &Holds) -> String {
    match h {
        Holds::Replicated => "replicated".into(),
        Holds::Split(d) => format!("split along dimension {d}"),
        Holds::Partial(op) => format!("partial({op})"),
        Holds::Only(c) => format!("held by coordinate {c} alone"),
    }
}

/// Checks V7: the attributes of a collective, and the placements before and after it where they are
/// known.
pub(super) fn collective(
    c: &Collective,
    mesh: &Mesh,
    from: Option<&TensorType>,
    to: Option<&TensorType>,
    span: Span,
    out: &mut Report,
) {
    let kind = c.name();
    let mut fail = |text: String| out.fail(V7, text, span, "here");
    let Some(axis) = mesh.axis(&c.axis) else {
        return fail(format!("{kind} runs over `{}`, which is not an axis of the mesh", c.axis));
    };
    let by_contract = c.kind == CollKind::ByContract;
    let has_dim = by_contract || c.kind.change().is_some() && c.kind.blocked();
    let two_dims = c.kind.takes(Holding::SplitFrom);
    let wrong = |have: bool, want: bool, what: &str| match (have, want) {
        (true, false) => Some(format!("{kind} has no {what}")),
        (false, true) => Some(format!("{kind} needs a {what}")),
        _ => None,
    };
    let faults = [
        wrong(c.red.is_some(), if by_contract { c.red.is_some() } else { c.kind.reduces() }, "combiner"),
        wrong(c.dim.is_some(), has_dim && (c.dim.is_some() || !by_contract), "dimension"),
        wrong(c.from_dim.is_some(), two_dims, "second dimension (`from`)"),
        wrong(c.root.is_some(), if by_contract { c.root.is_some() } else { c.kind.rooted() }, "root"),
        wrong(c.own.is_some(), by_contract, "promise"),
        wrong(c.counts.is_some(), c.counts.is_some() && two_dims, "matrix of counts"),
    ];
    let bad = faults.iter().any(Option::is_some);
    faults.into_iter().flatten().for_each(&mut fail);
    if c.root.is_some_and(|r| r >= axis.size) {
        return fail(format!("the root of {kind} is outside axis {}, which has {}", c.axis, axis.size));
    }
    // The dimension of a user-defined collective is the split one, which `infer` finds.
    if bad || by_contract && c.dim.is_none() {
        return;
    }
    let (dim, root) = (c.dim.unwrap_or(0), c.root.unwrap_or(0));
    let red = c.red.unwrap_or(ReduceOp::Sum);
    let state = |holding: Holding| match holding {
        Holding::Partial => Holds::Partial(red),
        Holding::Whole => Holds::Replicated,
        Holding::Root => Holds::Only(root),
        Holding::Split => Holds::Split(dim),
        Holding::SplitFrom => Holds::Split(c.from_dim.unwrap_or(0)),
    };
    let (before, after) = match c.kind.change() {
        Some((before, after)) => (state(before), state(after)),
        None if by_contract => (Holds::Split(dim), Holds::Split(dim)),
        // The value keeps its placement.
        None => return,
    };
    if let Some(m) = &c.counts {
        if m.rows() != axis.size || m.of() != axis.size || dim != 0 || c.from_dim != Some(0) {
            return fail(format!(
                "the counts of {kind} must be {} rows of {} numbers for {} ranks, along dimension 0",
                m.rows(),
                m.of(),
                axis.size
            ));
        }
        for (t, sums) in [(from, Some(m.totals())), (to, m.transposed().map(|m| m.totals()))] {
            if let (Some(t), Some(sums)) = (t, sums)
                && let Some(have) = t.lengths_over(mesh, 0, &c.axis)
                && have != sums
            {
                return fail(format!("{kind} moves {sums:?} rows, and `{t}` has {have:?}"));
            }
        }
    }
    for (t, want, side) in [(from, before, "operand"), (to, after, "result")] {
        if let Some(t) = t {
            let have = holds(t, &c.axis);
            if have != want {
                let (want, have) = (words(&want), words(&have));
                fail(format!("the {side} of {kind} must be {want} over {}, and it is {have}", c.axis));
            }
        }
    }
}
