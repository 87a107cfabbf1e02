//! Selection for local programs: one choice for all parts that take part in a meeting.
//!
//! The values of the ranks are regarded as parts of one tensor (`kbc_ir::local::group_types`), and
//! joined axes as one axis of an otherwise equal mesh. Candidates are then priced and simulated
//! like those of a global program.

use super::Chooser;
use crate::findings::select::{SelectTable, Selection};
use crate::pass::Changed;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Name;
use kbc_ir::graph::{Collective, Graph, GraphOp, Input, OpId, OpKind};
use kbc_ir::local::{Local, MatchedCollective, group_types, matched_collectives};
use kbc_ir::types::{Axis, Mesh};

/// Chooses an algorithm for every meeting.
pub(super) fn run(local: &mut Local, chooser: &Chooser<'_>) -> Result<Changed, Diagnostics> {
    let mut table = SelectTable::default();
    let mut found = Diagnostics::new();
    let mut changed = false;
    for matched in matched_collectives(local, chooser.mesh)? {
        match choose(local, chooser, &matched, &table) {
            Ok(entry) => {
                changed |= matched.members.iter().fold(false, |any, m| set(local, *m, &entry) | any);
                table.entries.push(entry);
            }
            Err(d) => found.push(d),
        }
    }
    chooser.cx.findings.borrow_mut().select = table;
    if found.has_errors() { Err(found) } else { Ok(changed.into()) }
}

/// Writes a choice into the program, if it states more than the program does. Returns whether it
/// did.
fn set(local: &mut Local, (part, id): (usize, OpId), entry: &Selection) -> bool {
    let OpKind::Collective(c) = &local.parts[part].graph.op(id).kind else { return false };
    let Some(using) = entry.using(c.using.as_ref()) else { return false };
    let done = Collective { using: Some(using), ..c.clone() };
    local.parts[part].graph.op_mut(id).kind = OpKind::Collective(done);
    true
}

/// Returns the choice for a meeting.
fn choose(
    local: &Local,
    chooser: &Chooser<'_>,
    matched: &MatchedCollective,
    table: &SelectTable,
) -> Result<Selection, Diagnostic> {
    let (part, id) = matched.members.first().copied().expect("a meeting has members");
    let g = &local.parts[part].graph;
    let op = g.op(id);
    let OpKind::Collective(c) = &op.kind else { unreachable!("meetings are of collectives") };
    let operand = g.operands(id).first().and_then(|o| g.op(*o).ty.clone());
    let (Some(from), Some(to)) = (operand, &op.ty) else {
        return Err(Diagnostic::error("E901", format!("%{} or its operand has no type", op.name))
            .primary(op.span, "needed here")
            .help("run `infer` first"));
    };
    let (mesh, axis) = joined(chooser.mesh, &c.axes()).ok_or_else(|| {
        Diagnostic::error("E546", format!("{} runs over axes that are not adjacent in the mesh", c.name()))
            .primary(op.span, "write adjacent axes, in the order of the mesh")
    })?;
    let (from, to) = group_types(c, std::slice::from_ref(&axis.name), axis.size, &from, to);
    let alone = Collective { axis: axis.name.clone(), joined: vec![], ..c.clone() };
    let mut graph = Graph::default();
    graph.name = local.name.clone();
    graph.inputs.push(Input { name: "x".into(), ty: from.clone(), data: None, span: op.span });
    let input =
        GraphOp { kind: OpKind::Input(0), name: "x".into(), ty: Some(from), want: None, span: op.span };
    let x = graph.push(input, &[]);
    let whole = GraphOp { kind: OpKind::Collective(alone.clone()), ty: Some(to), ..op.clone() };
    let y = graph.push(whole.clone(), &[x]);
    let on = Chooser { mesh: &mesh, machine: chooser.machine.clone(), ..*chooser };
    on.choose(&graph, y, &whole, &alone, table)
}

/// Returns the mesh with these axes joined into one, and the joined axis. The axes must be
/// neighbours in the order of the mesh. For a single axis, returns the mesh itself.
fn joined(mesh: &Mesh, axes: &[Name]) -> Option<(Mesh, Axis)> {
    if let [one] = axes {
        return Some((mesh.clone(), mesh.axis(one)?.clone()));
    }
    let first = mesh.axes.iter().position(|a| a.name == axes[0])?;
    let run = mesh.axes.get(first..first + axes.len())?;
    if run.iter().zip(axes).any(|(a, b)| a.name != *b) {
        return None;
    }
    let axis = crate::expand::joined_axis(run);
    let mut out = mesh.clone();
    out.axes.splice(first..first + axes.len(), [axis.clone()]);
    Some((out, axis))
}
