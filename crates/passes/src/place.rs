//! Placement: replaces every demand by collectives.
//!
//! A demand is replaced by the sequence of changes with the lowest weight. Each change concerns one
//! mesh axis:
//!
//! | from | to | change |
//! |---|---|---|
//! | partial | replicated | all_reduce |
//! | partial | split | reduce_scatter |
//! | split | replicated | all_gather |
//! | split | split along another dimension | all_to_all |
//! | replicated | split | keep_part (no communication) |
//! | only | replicated, split | broadcast, scatter |
//! | partial, split | only | reduce, gather |
//!
//! The weight of a change is the amount of data that its busiest rank sends or receives (see the
//! table in `reshard.rs`). All orders of the axes are considered, so a keep_part over one axis
//! comes before a reduction over another. If several axes cut one dimension, only the innermost of
//! them can be gathered, or reduced over. Another cut rule or another order of axes is reached by
//! all_gather and keep_part, or by two all_to_alls through a dimension that is whole, whichever
//! weighs less.
//!
//! A demand that is already met disappears. Demands on one value share the changes that they have
//! in common. Collectives that the program contains stay as they are.
//!
//! ```kir,before
//! kir 1
//! module @row
//! mesh tp 4
//! props typed
//!
//! kernel @add(x, y) = (x + y)
//!
//! graph @row
//! input @m : f32[25, 384] partial(sum@tp)
//! input @b : f32[384]
//! result : f32[25@tp, 384]
//!
//! %m = input @m : f32[25, 384] partial(sum@tp)
//! %b = input @b : f32[384]
//! %m_demanded = demand %m : f32[25, 384] want f32[25, 384]
//! %y = map add(%m_demanded, %b) : f32[25, 384]
//! %y_demanded = demand %y : f32[25@tp, 384] want f32[25@tp, 384]
//! %out = output 0 %y_demanded : f32[25@tp, 384]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @row
//! mesh tp 4
//! props typed placed
//! kernel @add(x, y) = (x + y)
//!
//! graph @row
//! input @m : f32[25, 384] partial(sum@tp)
//! input @b : f32[384]
//! result : f32[25@tp, 384]
//!
//! %m = input @m : f32[25, 384] partial(sum@tp)
//! %b = input @b : f32[384]
//! %m_all_reduce = all_reduce sum %m over tp inserted : f32[25, 384]
//! %y = map add(%m_all_reduce, %b) : f32[25, 384]
//! %y_keep_part = keep_part %y over tp dim 0 inserted : f32[25@tp, 384]
//! %out = output 0 %y_keep_part : f32[25@tp, 384]
//! ```
//!
//! A value that depends only on its position (`iota`, `full`) is created in the placement that is
//! demanded: each part begins at its own offset.
//!
//! In a local program, a demand (from a `let` with a type) is always met and is removed.
//!
//! Not done here: moving or merging collectives across operations; choosing algorithms (`select`).

use crate::fresh::FreshNames;
use crate::infer::DEMANDED;
use crate::pass::{Changed, Pass, PassCx, PassInfo, graph_of};
use crate::reshard::{self, ReshardStep};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::{Collective, Graph, GraphOp, OpId, OpKind};
use kbc_ir::types::{Mesh, TensorType};
use kbc_ir::{Body, Module, Props};

/// The record of `place`.
pub static INFO: PassInfo = PassInfo {
    name: "place",
    summary: "every demand becomes the cheapest sequence of collectives and parts kept that satisfies it",
    requires: Props::TYPED,
    gives: Props::PLACED,
    breaks: Props::SELECTED.with(Props::ARRANGED),
    options: &[],
};

/// The pass `place`.
pub struct PlacePass;

impl Pass for PlacePass {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        if let Body::Local(l) = &mut module.body {
            let demands: usize = l.parts.iter_mut().map(|p| met(&mut p.graph)).sum();
            return Ok((demands > 0).into());
        }
        let mesh = module.mesh.clone();
        let graph = graph_of(module, &INFO)?;
        let mut fresh = FreshNames::of(graph);
        let mut found = Diagnostics::new();
        let mut done = vec![];
        let demands: Vec<OpId> =
            graph.order().iter().copied().filter(|id| graph.op(*id).kind == OpKind::Demand).collect();
        for &id in &demands {
            let within = graph.within(id);
            let outer = graph.enter(within);
            if let Err(d) = resolve(graph, &mesh, id, &mut fresh, &mut done) {
                found.push(graph.with_call_sites(id, d));
            }
            graph.enter(outer);
        }
        if found.has_errors() { Err(found) } else { Ok((!demands.is_empty()).into()) }
    }
}

/// Removes the demands of a part of a local program, where a rank's values are already in place.
/// Returns the number of demands.
fn met(graph: &mut Graph) -> usize {
    let demands: Vec<OpId> =
        graph.order().iter().copied().filter(|id| graph.op(*id).kind == OpKind::Demand).collect();
    for id in &demands {
        if let Some(value) = graph.operands(*id).first().copied() {
            graph.users(*id).into_iter().for_each(|(user, index)| graph.set_operand(user, index, value));
            graph.remove(*id);
        }
    }
    demands.len()
}

/// Replaces one demand. `done` holds the steps inserted so far, so that two demands on one value
/// share common steps.
fn resolve(
    graph: &mut Graph,
    mesh: &Mesh,
    demand: OpId,
    fresh: &mut FreshNames,
    done: &mut Vec<(OpId, ReshardStep, OpId)>,
) -> Result<(), Diagnostic> {
    let op = graph.op(demand).clone();
    let source = graph.operands(demand).first().copied();
    let (Some(source), Some(want)) = (source, op.want.clone()) else {
        return Err(Diagnostic::error("E211", format!("demand %{} has no operand or no type", op.name))
            .primary(op.span, "this cannot be placed"));
    };
    let Some(from) = graph.op(source).ty.clone() else {
        return Err(Diagnostic::error("E901", format!("the operand of %{} has no type", op.name))
            .primary(op.span, "needed here")
            .help("run `infer` first"));
    };
    if let OpKind::Fill(_) = &graph.op(source).kind {
        return made(graph, mesh, demand, (source, &from), (op, want));
    }
    let Some(plan) = reshard::plan(mesh, &from, &want) else {
        return Err(Diagnostic::error("E209", format!("`{from}` cannot become `{want}`"))
            .primary(op.span, "needed here")
            .secondary(graph.op(source).span, format!("this is `{from}`")));
    };
    let unnamed = op.name.contains(DEMANDED);
    fresh.free(&op.name);
    let last = plan.steps.len();
    let mut value = source;
    for (i, step) in plan.steps.into_iter().enumerate() {
        if let Some(old) = done.iter().find(|d| d.0 == value && d.1 == step) {
            value = old.2;
            continue;
        }
        // An annotated value's name stays with the value that its users see.
        let name = match i + 1 == last && !unnamed {
            true => fresh.name(&op.name),
            false => fresh.name(&format!("{}_{}", graph.op(source).name, step.kind.name())),
        };
        let at = graph.position(demand);
        let new = graph.insert(at, operation(&step, name, op.span), &[value]);
        done.push((value, step, new));
        value = new;
    }
    for (user, index) in graph.users(demand) {
        graph.set_operand(user, index, value);
    }
    graph.remove(demand);
    Ok(())
}

/// Replaces a demand on a value that depends only on its position: the value is created as
/// demanded, each rank its own part.
fn made(
    graph: &mut Graph,
    mesh: &Mesh,
    demand: OpId,
    (source, from): (OpId, &TensorType),
    (op, want): (GraphOp, TensorType),
) -> Result<(), Diagnostic> {
    let fill = graph.op(source).clone();
    if reshard::plan(mesh, from, &want).is_none() {
        return Err(Diagnostic::error("E209", format!("`{from}` cannot become `{want}`"))
            .primary(op.span, "needed here")
            .secondary(fill.span, format!("this is `{from}`")));
    }
    let name = if op.name.contains(DEMANDED) { fill.name.clone() } else { op.name };
    let users = graph.users(source);
    let same = |id: OpId| graph.op(id).kind == fill.kind && graph.op(id).ty.as_ref() == Some(&want);
    let at = graph.position(demand);
    let found = graph.order()[..at].iter().copied().find(|id| same(*id) && graph.op(*id).span == fill.span);
    let new = match found {
        Some(id) => id,
        None => graph.insert(at, GraphOp { name, ty: Some(want), ..fill }, &[]),
    };
    for (user, index) in graph.users(demand) {
        graph.set_operand(user, index, new);
    }
    graph.remove(demand);
    if users.len() == 1 && source != new {
        graph.remove(source);
    }
    Ok(())
}

fn operation(step: &ReshardStep, name: kbc_ir::Name, span: kbc_diag::Span) -> GraphOp {
    let kind = OpKind::Collective(Collective {
        kind: step.kind,
        own: None,
        red: step.red,
        axis: step.axis.clone(),
        joined: vec![],
        dim: step.dim,
        from_dim: step.from_dim,
        root: step.root,
        counts: None,
        using: None,
        stream: None,
        explicit: false,
        fixed_order: false,
    });
    GraphOp { kind, name, ty: Some(step.result.clone()), want: None, span }
}
