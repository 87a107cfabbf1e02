//! A collective as a program of its own, for a file that has an algorithm and no program.
//!
//! Owns the programs: `n` elements (`-D n=..`, 1024) of f32 over all devices on one axis, with the file's algorithm.

use super::params::Number;
use super::{Cx, collective, later};
use crate::load::Loaded;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Collective, Graph, Input, Op, OpKind};
use kbc_ir::types::{Axis, Cut, CutRule, DType, ReduceOp, TensorType};
use kbc_rounds::{AlgId, Layer};

/// Elements if nobody says.
const ELEMENTS: i64 = 1024;

/// Names that may be given with `-D` beside the file's parameters, with their defaults.
///
/// # Errors
/// As [`lower`].
pub(super) fn extras(loaded: &Loaded, id: AlgId) -> Result<Vec<(&'static str, Number)>, Diagnostics> {
    let kind = standard(loaded, id)?;
    let mut out = vec![("n", Number::Int(ELEMENTS))];
    if kind.rooted() {
        out.push(("root", Number::Int(0)));
    }
    Ok(out)
}

/// The standard collective an algorithm is for.
fn standard(loaded: &Loaded, id: AlgId) -> Result<CollKind, Diagnostics> {
    let library = &loaded.library;
    let decl = library.algorithm(id);
    let coll = library.collective_of(id).map(|c| library.collective(c));
    let built_in =
        coll.and_then(|c| loaded.file(c.name.span.file)).is_some_and(|f| f.layer == Layer::Library);
    match CollKind::parse(&decl.coll.node).filter(|_| built_in) {
        Some(kind) => Ok(kind),
        None => {
            let d = later(
                decl.coll.span,
                &format!("compiling and running the collective `{}` of your own is", decl.coll.node),
                "`kbc check` verifies its algorithms on any number of ranks",
            );
            let place = coll.map_or(Span::NONE, |c| c.name.span);
            Err(d.secondary(place, "declared here").into())
        }
    }
}

/// The graph of the collective with that algorithm.
///
/// # Errors
/// E290 for a collective that is not one of the eight, E221 for a number of elements or a root out of range.
pub(super) fn lower(cx: &Cx<'_>, id: AlgId) -> Result<Graph, Diagnostics> {
    let kind = standard(cx.loaded, id)?;
    let decl = cx.loaded.library.algorithm(id);
    let count = |name: &str| -> Result<u64, Diagnostics> {
        match cx.params.extra(name)? {
            None => Ok(0),
            Some(Number::Int(i)) if i >= 0 => Ok(i as u64),
            Some(v) => Err(Diagnostic::error("E221", format!("{name} = {v} where a count is wanted"))
                .help(format!("give -D {name}= an integer that is not below zero"))
                .into()),
        }
    };
    let (n, root) = (count("n")?, count("root")?);
    let axis = cx.mesh.axes.first().cloned().unwrap_or(Axis { name: "tp".into(), size: 1, parts: vec![] });
    if kind.rooted() && root >= axis.size {
        return Err(Diagnostic::error("E221", format!("root = {root} is no rank of {}", axis.size))
            .help(format!("ranks are 0..{}", axis.size))
            .into());
    }
    let cut = Cut { axes: vec![axis.name.clone()], rule: CutRule::Even };
    let whole = TensorType::replicated(DType::F32, &[n]);
    let mut split = whole.clone();
    split.dims[0].cut = Some(cut.clone());
    let partial = TensorType { partial: Some((ReduceOp::Sum, vec![axis.name.clone()])), ..whole.clone() };
    let only = TensorType { only: Some((root, axis.name.clone())), ..whole.clone() };
    // A row of n elements a rank, and the same with columns instead of rows apart.
    let mut rows = TensorType::replicated(DType::F32, &[axis.size, n]);
    let mut columns = rows.clone();
    rows.dims[0].cut = Some(cut.clone());
    columns.dims[1].cut = Some(cut);
    let (from, to, dim) = match kind {
        CollKind::AllReduce => (partial, whole, None),
        CollKind::ReduceScatter => (partial, split, Some(0)),
        CollKind::AllGather => (split, whole, Some(0)),
        CollKind::AllToAll => (rows, columns, Some(1)),
        CollKind::Broadcast => (only, whole, None),
        CollKind::Reduce => (partial, only, None),
        CollKind::Gather => (split, only, Some(0)),
        CollKind::Scatter | CollKind::Slice => (only, split, Some(0)),
    };
    let span = decl.head;
    let op = |kind, name: &str| Op { kind, name: name.into(), ty: None, want: None, span };
    let mut graph = Graph::default();
    graph.name = Some(Name::from(format!("{}_{}", kind.name(), decl.name.node)));
    graph.inputs.push(Input { name: "x".into(), ty: from, data: None, span });
    graph.results.push(to);
    let x = graph.push(op(OpKind::Input(0), "x"), &[]);
    let done = Collective {
        kind,
        red: kind.reduces().then_some(ReduceOp::Sum),
        axis: axis.name,
        dim,
        from_dim: (kind == CollKind::AllToAll).then_some(0),
        root: kind.rooted().then_some(root),
        using: Some(collective::plain(decl)),
        explicit: true,
    };
    let y = graph.push(op(OpKind::Collective(done), "y"), &[x]);
    graph.push(op(OpKind::Output(0), "out"), &[y]);
    Ok(graph)
}
