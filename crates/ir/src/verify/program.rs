//! Rule V22 for local programs. Their parts are graphs, to which the rules of [`super::graph`]
//! apply.

use super::graph::graph;
use super::{Report, V7, V22};
use crate::graph::{Collective, GraphOp, Holding};
use crate::local::{Groups, Local, matched_collectives, pending, result_sizes};
use crate::module::{Module, Props};
use crate::types::TensorType;
use kbc_diag::{Diagnostic, Span};

pub(super) fn local(l: &Local, m: &Module, out: &mut Report) {
    let before = out.diagnostics.list.len();
    let mut seen = vec![false; usize::try_from(m.mesh.ranks()).unwrap_or(0)];
    for part in &l.parts {
        for (i, r) in part.ranks.iter().enumerate() {
            let again = i > 0 && part.ranks[i - 1] >= *r;
            match seen.get_mut(*r as usize) {
                Some(seen) if !*seen && !again => *seen = true,
                Some(_) => {
                    return out.fail(
                        V22,
                        format!("rank {r} is named twice, or out of order"),
                        part.span,
                        "here",
                    );
                }
                None => return out.fail(V22, format!("the mesh has no rank {r}"), part.span, "here"),
            }
        }
    }
    if let Some(r) = seen.iter().position(|s| !s) {
        out.fail(V22, format!("rank {r} has no part"), Span::NONE, "");
        return;
    }
    for part in &l.parts {
        graph(&part.graph, m, Some(&part.ranks), out);
        let g = &part.graph;
        let of_ops = g.order().iter().map(|id| (g.op(*id).ty.as_ref(), g.op(*id).span));
        let of_inputs = g.inputs.iter().map(|i| (Some(&i.ty), i.span));
        for (ty, span) in of_ops.chain(of_inputs).chain(g.results.iter().map(|t| (Some(t), part.span))) {
            if let Some(ty) = ty.filter(|t| **t != t.erased()) {
                out.fail(
                    V22,
                    format!(
                        "`{ty}` has a placement, and a type in a local program states the sizes on one rank"
                    ),
                    span,
                    "here",
                );
            }
        }
    }
    for d in pending(l).list {
        out.push(V22, d);
    }
    if out.diagnostics.list.len() == before
        && m.props.contains(Props::TYPED)
        && let Err(found) = matched_collectives(l, &m.mesh)
    {
        found.list.into_iter().for_each(|d| out.push(V22, d));
    }
}

/// Checks a collective of a part, given the type of its operand.
pub(super) fn collective(
    c: &Collective,
    m: &Module,
    ranks: &[u64],
    (op, from): (&GraphOp, Option<&TensorType>),
    out: &mut Report,
) {
    let name = c.name();
    let Some(groups) = Groups::over(&m.mesh, &c.axes()) else {
        return out.fail(
            V7,
            format!("{name} runs over something that is not an axis of the mesh"),
            op.span,
            "here",
        );
    };
    let p = groups.list.first().map_or(1, |g| g.len() as u64);
    let combines = c.kind.reduces() && !c.kind.gives(Holding::Root);
    let rooted = c.kind.takes(Holding::Root) && c.kind.gives(Holding::Whole);
    if c.own.is_some() || c.red.is_some() != combines || c.root.is_some() != rooted {
        return out.fail(
            V7,
            format!("the combiner or the root of {name} is missing or superfluous"),
            op.span,
            "here",
        );
    }
    if c.root.is_some_and(|r| r >= p) {
        return out.fail(V7, format!("the root of {name} is outside groups of {p}"), op.span, "here");
    }
    let (Some(from), Some(to)) = (from, &op.ty) else { return };
    let places: Vec<u64> = ranks.iter().filter_map(|r| groups.of.get(*r as usize)).map(|g| g.1).collect();
    let why = match result_sizes(c, p, &places, &from.sizes()) {
        Err(why) => why,
        Ok(sizes) if sizes != to.sizes() || from.dtype != to.dtype => {
            format!("its type is {to}, and {}{sizes:?} is computed", from.dtype)
        }
        Ok(_) => return,
    };
    out.push(V22, Diagnostic::error("E547", format!("{name} of {from}: {why}")).primary(op.span, "here"));
}
