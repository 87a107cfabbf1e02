//! Limits for inputs that are row indices of tables: how large their elements may be.

use crate::package::description::PackagedProgram;
use crate::package::python;
use kbc_ir::expr::Expr;
use kbc_ir::graph::{OpId, OpKind};
use std::collections::BTreeMap;

/// A line in the loop over inputs, for programs with row indices among the inputs.
pub(super) const BELOW: &str =
    "        below = rows(nranks, count).get(k, max(2, moduli[k] if moduli is not None else 2))\n";

/// Returns for every input that numbers rows of tables the numbers of rows of these tables, as
/// expressions in the number of ranks and the count.
pub fn numbered_rows(program: &PackagedProgram) -> BTreeMap<usize, Vec<Expr>> {
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
            OpKind::Input(at) => program.inputs.get(*at).and_then(|g| g.sizes.first()).cloned(),
            _ => {
                let rows = graph.op(table).ty.as_ref()?.sizes().first().copied()?;
                Some(Expr::Int(i64::try_from(rows).unwrap_or(i64::MAX)))
            }
        }
    };
    let tables = |k: usize| -> Vec<Expr> { graph.numbered(k).into_iter().filter_map(of_table).collect() };
    (0..graph.inputs.len()).map(|k| (k, tables(k))).filter(|(_, all)| !all.is_empty()).collect()
}

/// Prints a function that returns the number of rows for every input that indexes a table; empty if
/// there is no such input.
pub(super) fn rows(program: &PackagedProgram) -> String {
    let entry = |(k, tables): (usize, Vec<Expr>)| {
        let mut all: Vec<String> = tables.iter().map(python::expr).collect();
        all.sort();
        all.dedup();
        match &all[..] {
            [one] => format!("{k}: max(1, {one})"),
            several => format!("{k}: max(1, min({}))", several.join(", ")),
        }
    };
    let all: Vec<String> = numbered_rows(program).into_iter().map(entry).collect();
    if all.is_empty() {
        return String::new();
    }
    let what = "Of inputs that number rows of tables: how many rows there are.";
    format!("def rows(nranks, count):\n    \"\"\"{what}\"\"\"\n    return {{{}}}\n\n\n", all.join(", "))
}
