//! The user's algorithms: checks them against their contracts before the schedule is proven.

use crate::workspace::{Stage, Workspace};
use kbc_checker::{CheckOptions, EVERY_RANK, Verdict, check};
use kbc_diag::{Diagnostics, FileId};
use kbc_ir::Module;
use kbc_ir::graph::{Collective, Graph, GraphOp, OpKind};
use kbc_ir::local::Local;
use kbc_ir::schedule::Calls;
use kbc_passes::expand::joined_axis;
use kbc_passes::packed::is_packed;
use kbc_passes::part_of::library_for;
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::{Call, Limits, Verifier};
use std::borrow::Cow;
use std::sync::Arc;

/// Ranks up to which a user's algorithm is checked round by round, where a mistake is explained in
/// its own terms.
const ROUNDS_RANKS: u64 = 64;

/// Returns the collectives of a program in order; for a local program, those of every part.
pub(crate) fn uses<'g>(graph: &'g Graph, local: Option<&'g Local>) -> Vec<(&'g GraphOp, &'g Collective)> {
    let graphs = std::iter::once(graph).chain(local.iter().flat_map(|l| l.parts.iter().map(|p| &p.graph)));
    let ops = graphs.flat_map(|g| g.order().iter().map(|id| g.op(*id)));
    ops.filter_map(|op| match &op.kind {
        OpKind::Collective(c) => Some((op, c)),
        _ => None,
    })
    .collect()
}

/// Checks the user's own algorithms against their contracts before their schedules are: the error
/// is then in the innermost text that is wrong, with ranks, chunks and rounds. With more ranks than
/// [`EVERY_RANK`] the schedule is proven first, and the rounds are looked at where that fails, for
/// the words; the verdict then comes along.
pub(crate) fn right_algorithms(
    workspace: &Workspace,
    library: &kbc_rounds::Library,
    builtin: &dyn Fn(FileId) -> bool,
    uses: &[(&GraphOp, &Collective)],
    module: &Module,
) -> Result<Option<Verdict>, Diagnostics> {
    let mut verdict = None;
    let mut verifier = Verifier::new(library, Limits::default());
    let mut found = Diagnostics::new();
    for (op, c) in uses {
        let axes: Option<Vec<_>> = c.axes().iter().map(|a| module.mesh.axis(a).cloned()).collect();
        let (Some(using), Some(axis)) = (&c.using, axes.map(|a| joined_axis(&a))) else { continue };
        let own = !using.span.is_none() && library.knows(using.span.file);
        let at = if own { using.span } else { op.span };
        let Ok(coll) = library.find_collective(at.file, c.name(), at) else { continue };
        let Ok(alg) = library.find_algorithm(at.file, coll, &using.alg, at) else { continue };
        let decl = library.algorithm(alg);
        // The rounds of packed trees are those of a machine; their schedule is proven.
        if builtin(decl.span.file) || axis.size > ROUNDS_RANKS || is_packed(library, alg) {
            continue;
        }
        if axis.size > EVERY_RANK && proven(workspace, module, &mut verdict) {
            continue;
        }
        let sizes: Vec<i64> = if decl.axes.len() > 1 {
            axis.parts.iter().map(|p| p.1 as i64).collect()
        } else {
            vec![axis.size as i64]
        };
        let args = using
            .args
            .iter()
            .map(|(n, v)| {
                let v = match v {
                    kbc_ir::graph::UsingArg::Int(i) => Value::Int(*i),
                    kbc_ir::graph::UsingArg::Name(w) => {
                        Value::Alg(Arc::new(AlgRef { name: w.to_string(), file: at.file }))
                    }
                };
                (n.to_string(), v)
            })
            .collect();
        let root = c.root.map(|r| kbc_rounds::rounds::coordinates(&sizes, r as i64));
        let call = Call { alg, sizes, root, args };
        let right = match library_for(library, c.own.as_deref(), at.file) {
            Cow::Borrowed(_) => verifier.verify(&call).map_err(|d| verifier.advised(d)),
            Cow::Owned(own) => {
                let mut verifier = Verifier::new(&own, Limits::default());
                verifier.verify(&call).map_err(|d| verifier.advised(d))
            }
        };
        if let Err(d) = right {
            found.extend(d);
        }
    }
    if found.has_errors() { Err(found) } else { Ok(verdict) }
}

/// Checks whether the schedule, if there is one, keeps all its contracts. The result is computed
/// once.
fn proven(workspace: &Workspace, module: &Module, verdict: &mut Option<Verdict>) -> bool {
    let Some(schedule) = module.schedule().filter(|s| s.calls != Calls::None) else { return false };
    workspace.stage(Stage::Check);
    let v = verdict.get_or_insert_with(|| check(schedule, &CheckOptions::default()));
    v.ok() && v.without_contract.is_empty()
}
