//! Limits for inputs that are row indices of tables: how large their elements may be.

use crate::package::description::PackagedProgram;
use crate::package::python;
use kbc_ir::graph::{OpId, OpKind};

/// A line in the loop over inputs, for programs with row indices among the inputs.
pub(super) const BELOW: &str =
    "        below = rows(nranks, count).get(k, max(2, moduli[k] if moduli is not None else 2))\n";

/// Prints a function that returns the number of rows for every input that indexes a table; empty if
/// there is no such input.
pub(super) fn rows(program: &PackagedProgram) -> String {
    let graph = &program.graph;
    // A table is an input, in whatever placement, or a value with a size of its own.
    let of_table = |mut table: OpId| {
        let same = |kind: &OpKind| {
            matches!(kind, OpKind::Collective(_) | OpKind::Demand | OpKind::Cast(_) | OpKind::Map(_))
        };
        while let (true, Some(before)) = (same(&graph.op(table).kind), graph.operands(table).first()) {
            table = *before;
        }
        match &graph.op(table).kind {
            OpKind::Input(at) => program.inputs.get(*at).and_then(|g| g.sizes.first()).map(python::expr),
            _ => graph.op(table).ty.as_ref()?.sizes().first().map(u64::to_string),
        }
    };
    let entry = |k: usize| {
        let mut all: Vec<String> = graph.numbered(k).into_iter().filter_map(of_table).collect();
        all.sort();
        all.dedup();
        match &all[..] {
            [] => None,
            [one] => Some(format!("{k}: max(1, {one})")),
            several => Some(format!("{k}: max(1, min({}))", several.join(", "))),
        }
    };
    let all: Vec<String> = (0..graph.inputs.len()).filter_map(entry).collect();
    if all.is_empty() {
        return String::new();
    }
    let what = "Of inputs that number rows of tables: how many rows there are.";
    format!("def rows(nranks, count):\n    \"\"\"{what}\"\"\"\n    return {{{}}}\n\n\n", all.join(", "))
}
