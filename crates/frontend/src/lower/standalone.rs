//! Stand-alone collectives: compiles the collective of an algorithm as a program of its own, for a
//! file that has an algorithm and no program.
//!
//! The program has `n` elements (`-D n=..`, default 1024) of f32, uses all devices on one axis, and
//! uses the file's algorithm.

use super::RequestedAlgorithm;
use super::contract_collectives::adds;
use super::values::ParamValue;
use super::{Cx, collective};
use crate::loaded::Loaded;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{
    CollKind, Collective, ContractCollective, Graph, GraphOp, Holding, Input, OpKind, Using,
};
use kbc_ir::types::{Axis, Cut, CutRule, DType, ReduceOp, TensorType};
use kbc_rounds::ast::{AlgorithmDecl, Clause, CollectiveDecl, Expr, ExprKind};
use kbc_rounds::options::among_arguments;
use kbc_rounds::{AlgId, Layer};

/// The default number of elements.
const ELEMENTS: i64 = 1024;

/// Returns the names that `-D` may give in addition to the file's parameters, with their defaults.
pub(super) fn extras(loaded: &Loaded, id: AlgId) -> Vec<(String, Option<ParamValue>)> {
    let mut out = vec![("n".to_owned(), Some(ParamValue::Int(ELEMENTS)))];
    if loaded.library.algorithm(id).root.is_some() {
        out.push(("root".to_owned(), Some(ParamValue::Int(0))));
    }
    out
}

/// Returns the standard collective that an algorithm implements, or None for a collective that is
/// defined by its own contract.
fn standard(loaded: &Loaded, id: AlgId) -> Option<CollKind> {
    let library = &loaded.library;
    let coll = library.collective_of(id).map(|c| library.collective(c))?;
    let built_in = loaded.file(coll.name.span.file).is_some_and(|f| f.layer == Layer::Library);
    // The graph has the name without a namespace, which may stand for another collective.
    let file = library.algorithm_name(id).span.file;
    let plain = library.find_collective(file, &coll.name.node, Span::NONE).ok();
    CollKind::parse(&coll.name.node).filter(|_| built_in && plain == library.collective_of(id))
}

/// Returns the number of blocks per rank at the start, or at the end: 1, or `ranks` if the contract
/// names a whole buffer.
fn blocks(decl: &CollectiveDecl, at_first: bool, ranks: u64) -> u64 {
    let free = |c: &Clause| {
        let (start, cell) = match c {
            Clause::Start { cell, .. } => (true, cell),
            Clause::End { cell, .. } => (false, cell),
        };
        match (cell.index.len(), cell.index.first().map(|e| &e.kind)) {
            (2, Some(ExprKind::Name(n))) => {
                start == at_first && *n != decl.axis.0.node && *n != decl.axis.1.node
            }
            _ => false,
        }
    };
    if decl.clauses.iter().any(free) { ranks } else { 1 }
}

/// Returns the use of the algorithm with the arguments and options that the user asked for,
/// checked.
fn requested_use(
    cx: &Cx<'_>,
    decl: &AlgorithmDecl,
    asked: Option<&RequestedAlgorithm>,
) -> Result<Using, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut out = collective::plain(decl);
    let Some(asked) = asked else { return Ok(out) };
    let own = |n: &str| decl.params.iter().any(|p| p.0.node == n);
    if let Some(d) = among_arguments(&asked.name, (&asked.args, &asked.options), asked.name.span, own) {
        return Err(d.into());
    }
    for (name, value) in &asked.options {
        match cx.using_option(name, value) {
            Ok(v) => out.options.push((Name::from(&name.node), v)),
            Err(d) => found.push(*d),
        }
    }
    for (name, value) in &asked.args {
        // Names are looked up from where this algorithm is declared, but errors point to where they
        // were written.
        let seen = match &value.kind {
            ExprKind::Name(_) => Expr { kind: value.kind.clone(), span: decl.name.span },
            _ => value.clone(),
        };
        match cx.using_arg(decl, name, &seen) {
            Ok(v) => out.args.push((Name::from(&name.node), v)),
            Err(mut d) => {
                d.labels.iter_mut().filter(|l| l.span == seen.span).take(1).for_each(|l| l.span = value.span);
                found.push(*d);
            }
        }
    }
    if found.is_empty() { Ok(out) } else { Err(found) }
}

/// Returns the graph of the collective with this algorithm.
///
/// # Errors
/// Returns E221 if the number of elements or the root is out of range, and E005 or E006 for wrong
/// arguments.
pub(super) fn lower(
    cx: &Cx<'_>,
    id: AlgId,
    asked: Option<&RequestedAlgorithm>,
) -> Result<Graph, Diagnostics> {
    let kind = standard(cx.loaded, id).unwrap_or(CollKind::ByContract);
    let library = cx.library;
    let decl = library.algorithm(id);
    let rooted = decl.root.is_some();
    let coll =
        library.find_collective(decl.coll.span.file, &decl.coll.node, decl.coll.span).map_err(|d| *d)?;
    let coll = library.collective(coll);
    let count = |name: &str| -> Result<u64, Diagnostics> {
        match cx.params.extra(name)? {
            None => Ok(0),
            Some(ParamValue::Int(i)) if i >= 0 => Ok(i as u64),
            Some(v) => {
                Err(Diagnostic::error("E221", format!("invalid value {name} = {v}: expected a count"))
                    .help(format!("give -D {name}=N with an integer N of at least 0"))
                    .into())
            }
        }
    };
    let (n, root) = (count("n")?, count("root")?);
    let axis = cx.mesh.axes.first().cloned().unwrap_or(Axis { name: "tp".into(), size: 1, parts: vec![] });
    if rooted && root >= axis.size {
        return Err(Diagnostic::error(
            "E221",
            format!("root = {root} is not one of the {} ranks", axis.size),
        )
        .help(format!("valid ranks: 0..{}", axis.size))
        .into());
    }
    let cut = Cut { axes: vec![axis.name.clone()], rule: CutRule::Even };
    let whole = TensorType::replicated(DType::F32, &[n]);
    let mut split = whole.clone();
    split.dims[0].cut = Some(cut.clone());
    let partial = TensorType { partial: Some((ReduceOp::Sum, vec![axis.name.clone()])), ..whole.clone() };
    let only = TensorType { only: Some((root, axis.name.clone())), ..whole.clone() };
    // One row of n elements per rank, and the same tensor split by columns instead of rows.
    let mut rows = TensorType::replicated(DType::F32, &[axis.size, n]);
    let mut columns = rows.clone();
    rows.dims[0].cut = Some(cut.clone());
    columns.dims[1].cut = Some(cut);
    let two_dims = kind.takes(Holding::SplitFrom);
    let state = |holding: Holding| match holding {
        Holding::Partial => partial.clone(),
        Holding::Whole => whole.clone(),
        Holding::Root => only.clone(),
        Holding::SplitFrom => rows.clone(),
        Holding::Split if two_dims => columns.clone(),
        Holding::Split => split.clone(),
    };
    let dim = kind.blocked().then_some(usize::from(two_dims));
    let (from, to, dim) = match kind.change() {
        Some((before, after)) => (state(before), state(after), dim),
        None if kind != CollKind::ByContract => (whole.clone(), whole, None),
        None => {
            // n elements per block. The blocks of all ranks follow one another.
            let parts = |at_first: bool| {
                let blocks = blocks(coll, at_first, axis.size);
                let all = n.saturating_mul(axis.size).saturating_mul(blocks);
                let mut ty = TensorType::replicated(DType::F32, &[all]);
                ty.dims[0].cut = split.dims[0].cut.clone();
                ty
            };
            (parts(true), parts(false), Some(0))
        }
    };
    let span = decl.head;
    let op = |kind, name: &str| GraphOp { kind, name: name.into(), ty: None, want: None, span };
    let mut graph = Graph::default();
    graph.name = Some(Name::from(format!("{}_{}", coll.name.node, decl.name.node)));
    graph.inputs.push(Input { name: "x".into(), ty: from, data: None, span });
    graph.results.push(to);
    let x = graph.push(op(OpKind::Input(0), "x"), &[]);
    let done = Collective {
        kind,
        own: (kind == CollKind::ByContract).then(|| Box::new(ContractCollective::named(&decl.coll.node))),
        red: (kind.reduces() || adds(coll)).then_some(ReduceOp::Sum),
        axis: axis.name,
        joined: vec![],
        dim,
        from_dim: two_dims.then_some(0),
        root: rooted.then_some(root),
        counts: None,
        using: Some(requested_use(cx, decl, asked)?),
        stream: None,
        explicit: true,
        fixed_order: false,
    };
    let y = graph.push(op(OpKind::Collective(done), "y"), &[x]);
    graph.push(op(OpKind::Output(0), "out"), &[y]);
    Ok(graph)
}
