//! Rule V22 for local programs. Their parts are graphs, to which the rules of [`super::graph`]
//! apply.

use super::graph::graph;
use super::{Report, V22};
use crate::local::{Local, matched_collectives, pending};
use crate::module::{Module, Props};
use kbc_diag::Span;

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
