//! Rules V7 and V22 for collectives in the parts of local programs. [`super`] lists all rules.

use super::{Report, V7, V22};
use crate::graph::{Collective, GraphOp, Holding};
use crate::local::{Groups, result_sizes};
use crate::module::Module;
use crate::types::TensorType;
use kbc_diag::Diagnostic;

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
