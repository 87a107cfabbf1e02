//! Rules for graphs: V2 to V8. [`super`] lists all rules.

use super::placement::{collective, well_formed};
use super::{Report, V2, V3, V4, V6, V7, V8, part_collective};
use crate::graph::{CollKind, Graph, GraphOp, HostOp, OpId, OpKind};
use crate::module::{Module, Props};
use crate::result::result_of;
use crate::scalar::{Scalar, ScalarFn};
use crate::types::{DType, TensorType};
use kbc_diag::Diagnostic;
use std::collections::BTreeMap;

/// Checks a graph. For a part of a local program, `ranks` are the ranks of the part.
pub(super) fn graph(g: &Graph, m: &Module, ranks: Option<&[u64]>, out: &mut Report) {
    for i in &g.inputs {
        well_formed(&i.ty, &m.mesh, &format!("input {}", i.name), i.span, out);
    }
    for (n, t) in g.results.iter().enumerate() {
        well_formed(t, &m.mesh, &format!("result {n}"), kbc_diag::Span::NONE, out);
    }
    let place: BTreeMap<OpId, usize> = g.order().iter().enumerate().map(|(i, id)| (*id, i)).collect();
    for (at, id) in g.order().iter().enumerate() {
        let op = g.op(*id);
        let operands = g.operands(*id);
        for o in &operands {
            if place.get(o).is_none_or(|p| *p >= at) {
                let used = place.get(o).map(|_| g.op(*o));
                let name = used.map_or_else(|| "a removed value".into(), |u| format!("%{}", u.name));
                let d = Diagnostic::error(V3.1, format!("%{} uses {name} before it is computed", op.name))
                    .primary(op.span, "used here");
                out.push(
                    V3,
                    match used {
                        Some(u) => d.secondary(u.span, "computed here"),
                        None => d,
                    },
                );
            }
        }
        let want = arity(&op.kind, operands.len());
        if operands.len() != want {
            let text =
                format!("{} takes {want} operands, and %{} has {}", word(&op.kind), op.name, operands.len());
            out.fail(V3, text, op.span, "here");
            continue;
        }
        operation(op, &operands, g, (m, ranks), out);
    }
    outputs(g, m, out);
}

fn word(k: &OpKind) -> String {
    match k {
        OpKind::Input(_) => "input".into(),
        OpKind::Matmul { accumulate_f32: _ } => "matmul".into(),
        OpKind::Map(f) => format!("map {}", f.name),
        OpKind::ReduceDim { op: _, mean: _, dim: _, keep: _ } => "reduce_dim".into(),
        OpKind::Cast(_) => "cast".into(),
        OpKind::Embedding => "embedding".into(),
        OpKind::Grouped(_) => "grouped".into(),
        OpKind::Tiles(k) => format!("tiles {}", k.name),
        OpKind::Fill(_) => "fill".into(),
        OpKind::Shape(s) => s.name().into(),
        OpKind::Collective(c) => c.name().into(),
        OpKind::Demand => "demand".into(),
        OpKind::PartialDemand(_) => "ask".into(),
        OpKind::Wait => "wait.result".into(),
        OpKind::Host(op) => format!("host.{}", op.word()),
        OpKind::Output(_) => "output".into(),
    }
}

/// Returns the number of operands that an operation takes; `have` if it accepts any number.
fn arity(k: &OpKind, have: usize) -> usize {
    match k {
        OpKind::Input(_) | OpKind::Fill(_) => 0,
        OpKind::Matmul { accumulate_f32: _ } | OpKind::Embedding | OpKind::Grouped(_) => 2,
        OpKind::Map(f) => f.params.len(),
        OpKind::Tiles(k) => k.params.len(),
        OpKind::Shape(s) => s.arity().unwrap_or(have.max(1)),
        OpKind::Host(op) => op.arity(),
        OpKind::ReduceDim { op: _, mean: _, dim: _, keep: _ }
        | OpKind::Cast(_)
        | OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Output(_) => 1,
    }
}

fn operation(
    op: &GraphOp,
    operands: &[OpId],
    g: &Graph,
    (m, ranks): (&Module, Option<&[u64]>),
    out: &mut Report,
) {
    for (t, what) in [(&op.ty, "value"), (&op.want, "wanted value")] {
        if let Some(t) = t {
            well_formed(t, &m.mesh, &format!("the {what} %{}", op.name), op.span, out);
        }
    }
    if let (Some(ty), Some(want)) = (&op.ty, &op.want)
        && ty.erased() != want.erased()
    {
        let text = format!("%{} is {ty}, and {want} is demanded: only the placement may differ", op.name);
        out.fail(V6, text, op.span, "here");
    }
    if m.props.contains(Props::TYPED) && op.ty.is_none() {
        out.fail(V8, format!("the module is typed, but %{} has no type", op.name), op.span, "here");
    }
    if m.props.contains(Props::TYPED) && matches!(op.kind, OpKind::PartialDemand(_)) {
        out.fail(V8, format!("the module is typed, but it still has the ask %{}", op.name), op.span, "here");
    }
    if let OpKind::PartialDemand(open) = &op.kind {
        asked(open, op, out);
    }
    if m.props.contains(Props::PLACED) && matches!(op.kind, OpKind::Demand) {
        out.fail(
            V8,
            format!("the module is placed, but it still has the demand %{}", op.name),
            op.span,
            "here",
        );
    }
    let types: Vec<Option<&TensorType>> = operands.iter().map(|o| g.op(*o).ty.as_ref()).collect();
    match &op.kind {
        OpKind::Input(i) => match g.inputs.get(*i) {
            None => out.fail(V2, format!("%{} is input {i}, which does not exist", op.name), op.span, "here"),
            Some(input) if op.ty.as_ref().is_some_and(|t| *t != input.ty) => {
                let text = format!("%{} has another type than input {}", op.name, input.name);
                let d = Diagnostic::error(V6.1, text).primary(op.span, "here");
                out.push(V6, d.secondary(input.span, "declared here"));
            }
            Some(_) => {}
        },
        OpKind::Map(f) => function(f, op, out),
        OpKind::Collective(c) => {
            match ranks {
                Some(ranks) => {
                    part_collective::collective(c, m, ranks, (op, types.first().copied().flatten()), out)
                }
                None => {
                    collective(c, &m.mesh, types.first().copied().flatten(), op.ty.as_ref(), op.span, out)
                }
            }
            if m.props.contains(Props::ARRANGED)
                && ranks.is_none()
                && c.using.as_ref().is_some_and(|u| u.args.iter().any(|(n, _)| *n == "overlap"))
            {
                let text = format!("the module is arranged, but %{} still asks for pieces", op.name);
                out.fail(V8, text, op.span, "`overlap` is left");
            }
            if m.props.contains(Props::SELECTED) && c.kind != CollKind::Slice && c.using.is_none() {
                let text = format!("the module is selected, but %{} has no algorithm", op.name);
                out.fail(V8, text, op.span, "`using` is missing");
            }
        }
        OpKind::Host(_) if ranks.is_some() => {
            let text = "a local program cannot have host operations";
            out.fail(V7, text, op.span, "here");
        }
        OpKind::Host(HostOp::Write) => {
            let [to, from] = types[..] else { return };
            if m.props.contains(Props::PLACED) && to != from {
                let text =
                    "a value that the host writes must have the placement of the value that it overwrites";
                out.fail(V7, text, op.span, "here");
            }
        }
        OpKind::Wait if ranks.is_none() => {
            out.fail(V7, "`wait` is only for local programs", op.span, "here");
        }
        OpKind::Matmul { accumulate_f32: _ }
        | OpKind::ReduceDim { op: _, mean: _, dim: _, keep: _ }
        | OpKind::Cast(_)
        | OpKind::Embedding
        | OpKind::Grouped(_)
        | OpKind::Tiles(_)
        | OpKind::Fill(_)
        | OpKind::Shape(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Host(_)
        | OpKind::Output(_) => {}
    }
    // The sizes of a collective's result on one rank have been checked above.
    if ranks.is_some() && matches!(op.kind, OpKind::Collective(_)) {
        return;
    }
    let known: Option<Vec<&TensorType>> = types.into_iter().collect();
    if let (Some(args), Some(ty)) = (known, &op.ty)
        && let Err(why) = shapes(&op.kind, &args, ty)
    {
        out.fail(V6, format!("{} gives %{}, but {why}", word(&op.kind), op.name), op.span, "here");
    }
}

/// Checks V6: open dimensions are in ascending order, the type has them, and it does not cut them.
fn asked(open: &[usize], op: &GraphOp, out: &mut Report) {
    let Some(want) = &op.want else {
        return out.fail(V6, format!("%{} demands no type", op.name), op.span, "`want` is missing");
    };
    let cut = |d: &usize| want.dims.get(*d).is_none_or(|d| d.cut.is_some());
    if open.windows(2).any(|w| w[0] >= w[1]) || open.iter().any(cut) {
        let text =
            format!("%{}: the open dimensions {open:?} of {want} must be in order and not split", op.name);
        out.fail(V6, text, op.span, "here");
    }
}

/// Checks V2: the body of a function reads only its parameters. Returns the parameter that does not
/// exist, if any.
pub(super) fn undeclared_argument(f: &ScalarFn) -> Option<usize> {
    fn worst(e: &Scalar) -> usize {
        match e {
            Scalar::Num(_) => 0,
            Scalar::Arg(i) => i.saturating_add(1),
            Scalar::Un(_, a) | Scalar::Pow(a, _) => worst(a),
            Scalar::Bin(_, a, b) => worst(a).max(worst(b)),
            Scalar::If(c, a, b) => worst(&c.a).max(worst(&c.b)).max(worst(a)).max(worst(b)),
        }
    }
    let most = worst(&f.body);
    (most > f.params.len()).then(|| most - 1)
}

fn function(f: &ScalarFn, op: &GraphOp, out: &mut Report) {
    if let Some(i) = undeclared_argument(f) {
        let text =
            format!("kernel {} reads operand {i}, and the operation has {} operands", f.name, f.params.len());
        out.fail(V2, text, op.span, "used here");
    }
}

/// Checks V6: the result of an operation has the shape and element type that its operands
/// determine.
fn shapes(kind: &OpKind, args: &[&TensorType], ty: &TensorType) -> Result<(), String> {
    let args: Vec<(DType, Vec<u64>)> = args.iter().map(|a| (a.dtype, a.sizes())).collect();
    let Some((dtype, shape)) = result_of(kind, &args)? else { return Ok(()) };
    if ty.dtype != dtype {
        return Err(format!("its type is {}, and {dtype} is computed", ty.dtype));
    }
    if ty.sizes() != shape {
        return Err(format!("its sizes are {:?}, and {shape:?} is computed", ty.sizes()));
    }
    Ok(())
}

/// Checks V4 (numbers of outputs), and V8 for the placement of results.
fn outputs(g: &Graph, m: &Module, out: &mut Report) {
    let mut found: Vec<(usize, OpId)> = vec![];
    for id in g.order() {
        if let OpKind::Output(n) = g.op(*id).kind {
            found.push((n, *id));
        }
    }
    found.sort_unstable();
    for (at, (n, id)) in found.iter().enumerate() {
        if *n != at {
            let text = format!("outputs are numbered 0, 1, .. in order: output {n} is not expected here");
            out.fail(V4, text, g.op(*id).span, "here");
            return;
        }
    }
    let count = found.len();
    if !g.results.is_empty() && g.results.len() != count {
        let text = format!("{} results are declared, and {count} are computed", g.results.len());
        out.fail(V4, text, kbc_diag::Span::NONE, "");
        return;
    }
    if let Some(e) = &g.expect
        && e.data.len() != count
    {
        let text = format!("{} results are expected, and {count} are computed", e.data.len());
        out.fail(V4, text, kbc_diag::Span::NONE, "");
    }
    if !m.props.contains(Props::PLACED) {
        return;
    }
    for ((_, id), want) in found.iter().zip(&g.results) {
        let have = g.operands(*id).first().and_then(|o| g.op(*o).ty.as_ref());
        if let Some(have) = have
            && have != want
        {
            let text = format!("the module is placed, but this result is {have}, and {want} is declared");
            out.fail(V8, text, g.op(*id).span, "here");
        }
    }
}
