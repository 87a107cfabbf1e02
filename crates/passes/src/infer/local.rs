//! Type inference for local programs: the types of each rank's own values, and whether the
//! collectives of all ranks match.

use super::check::no_arithmetic;
use super::rules::{Operand, Outcome};
use super::{Typing, typed};
use crate::pass::Changed;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::{Collective, GraphOp};
use kbc_ir::local::{Groups, Local, matched_collectives, pending, result_sizes};
use kbc_ir::types::{DType, Mesh, TensorType};
use kbc_rounds::Library;

/// Infers the types of all parts.
pub(super) fn run(local: &mut Local, mesh: &Mesh, library: &Library) -> Result<Changed, Diagnostics> {
    let mut found = pending(local);
    let mut changed = false;
    for part in &mut local.parts {
        match typed(&mut part.graph, mesh, library, Some(&part.ranks)) {
            Ok(c) => changed |= c == Changed::Yes,
            Err(d) => found.extend(d),
        }
    }
    if !found.has_errors()
        && let Err(d) = matched_collectives(local, mesh)
    {
        found.extend(d);
    }
    if found.has_errors() { Err(found.finish()) } else { Ok(changed.into()) }
}

impl Typing<'_> {
    /// Types a collective of a part: computes the result from the sizes of the rank's operand.
    pub(super) fn issued(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        ranks: &[u64],
        operands: &[Operand],
    ) -> Option<Outcome> {
        let [x] = operands else {
            self.malformed(op, 1, operands.len());
            return None;
        };
        let value = self.graph.op(x.0).span;
        let Some(groups) = Groups::over(self.mesh, &c.axes()) else {
            let names: Vec<String> = c.axes().iter().map(ToString::to_string).collect();
            self.found.push(
                Diagnostic::error(
                    "E546",
                    format!("({}) does not name a group of the mesh", names.join(", ")),
                )
                .primary(op.span, "write axes of the mesh, each at most once"),
            );
            return None;
        };
        let p = groups.list.first().map_or(1, |g| g.len() as u64);
        let mut places: Vec<u64> =
            ranks.iter().filter_map(|r| groups.of.get(*r as usize)).map(|g| g.1).collect();
        places.sort_unstable();
        places.dedup();
        if let Some(root) = c.root.filter(|r| *r >= p) {
            self.found.push(
                Diagnostic::error(
                    "E547",
                    format!("{} has root {root}, and its groups have {p} ranks", c.name()),
                )
                .primary(op.span, format!("valid roots: 0..{p}")),
            );
            return None;
        }
        if let Some(red) = c.red.filter(|_| !x.1.dtype.reduces()) {
            let d = no_arithmetic(x.1.dtype).unwrap_or_else(|| {
                let what = format!(
                    "{} {red} of `{}`: kbc can move {} values but not reduce them",
                    c.name(),
                    x.1,
                    x.1.dtype
                );
                Diagnostic::error("E206", what).help(format!("cast it to {}", DType::computing()))
            });
            self.found
                .push(d.primary(op.span, "reduced here").secondary(value, format!("this is `{}`", x.1)));
            return None;
        }
        match result_sizes(c, p, &places, &x.1.sizes()) {
            Ok(sizes) => {
                let result = self.whole(op, x.1.dtype, &sizes)?;
                Some(Outcome { targets: vec![x.1.clone()], result })
            }
            Err(why) => {
                let ty: &TensorType = &x.1;
                self.found.push(
                    Diagnostic::error(
                        "E547",
                        format!("{} of `{ty}` over {p} ranks is not possible: {why}", c.name()),
                    )
                    .primary(op.span, format!("{} is not possible here", c.name()))
                    .secondary(value, format!("this is `{ty}`")),
                );
                None
            }
        }
    }
}
