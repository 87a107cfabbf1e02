//! Binding of algorithms: whether an algorithm fits a mesh axis, and what a `using:` asks for.

use kbc_diag::{Diagnostic, FileId, Span};
use kbc_ir::graph::{Using, UsingArg};
use kbc_ir::types::Axis;
use kbc_rounds::ast::{AlgorithmDecl, Expr, ExprKind, Ident};
use kbc_rounds::eval::{AlgRef, ConcreteEvaluator, ListScope, Value};
use kbc_rounds::head::{algorithm_valued, unknown_parameter};
use kbc_rounds::options::{option_kind, option_value};
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{AlgId, Call, CollId, Library, group};
use std::sync::Arc;

/// Returns the sizes that an algorithm sees on a mesh axis: the parts that the axis was joined from
/// if the algorithm has as many axes, or the linear order if it has one axis.
pub fn sizes_on(decl: &AlgorithmDecl, axis: &Axis) -> Option<Vec<i64>> {
    if decl.axes.len() == 1 {
        return Some(vec![axis.size as i64]);
    }
    let parts: Vec<i64> = axis.parts.iter().map(|p| p.1 as i64).collect();
    (parts.len() == decl.axes.len()).then_some(parts)
}

/// Returns the call of an algorithm on a mesh axis, or why it does not fit.
pub(super) fn legal(
    library: &Library,
    alg: AlgId,
    axis: &Axis,
    root: Option<u64>,
    args: Vec<(String, Value)>,
) -> Result<Call, String> {
    let decl = library.algorithm(alg);
    let Some(sizes) = sizes_on(decl, axis) else {
        let has = match axis.parts.len() {
            0 | 1 => "is one axis".to_owned(),
            n => format!("has {n} axes"),
        };
        return Err(format!("it works on {} axes, and `{}` {has}", decl.axes.len(), axis.name));
    };
    let root = root.map(|r| coordinates(&sizes, r as i64));
    let call = Call { alg, sizes, root, args };
    match group::is_legal(library, &call) {
        Ok(true) => Ok(call),
        Ok(false) => {
            let sizes: Vec<String> =
                decl.axes.iter().zip(&call.sizes).map(|(a, n)| format!("{} = {n}", a.size.node)).collect();
            Err(format!("its `where` is false for {}", sizes.join(", ")))
        }
        Err(d) => Err(format!("{}: {}", d.code, d.title)),
    }
}

/// Returns the call that `using:` asks for. Checks that the algorithm exists and fits this axis,
/// and that its parameters and the options of the use exist and have valid values. `at` is the
/// location of the collective, for a `using` without a location.
///
/// # Errors
/// Returns E005 if there is no such algorithm, E006 for a parameter or option, E022 for the number
/// of axes, and E024 for the shape.
pub fn bind(
    library: &Library,
    file: FileId,
    coll: CollId,
    using: &Using,
    axis: &Axis,
    root: Option<u64>,
    at: Span,
) -> Result<Call, Diagnostic> {
    let span = if using.span.is_none() { at } else { using.span };
    let (alg, args) = arguments(library, file, coll, using, span)?;
    legal(library, alg, axis, root, args).map_err(|why| {
        let decl = library.algorithm(alg);
        let code = if sizes_on(decl, axis).is_none() { "E022" } else { "E024" };
        let place = decl.cond.as_ref().filter(|_| code == "E024").map_or(decl.head, |c| c.span);
        let fits: Vec<String> = library
            .algorithms_of(file, coll)
            .into_iter()
            .filter(|a| legal(library, *a, axis, root, vec![]).is_ok())
            .map(|a| library.algorithm(a).name.node.clone())
            .collect();
        let d =
            Diagnostic::error(code, format!("`{}` does not fit `{}` of {}", using.alg, axis.name, axis.size))
                .primary(span, why)
                .secondary(place, "the algorithm");
        if fits.is_empty() { d } else { d.help(format!("algorithms that fit: {}", fits.join(", "))) }
    })
}

/// Returns what [`bind`] returns, if that is no error. The help of an error lists the algorithms
/// that fit, and finding those takes longer than everything else here.
pub(crate) fn bound(
    library: &Library,
    file: FileId,
    coll: CollId,
    using: &Using,
    axis: &Axis,
    root: Option<u64>,
    at: Span,
) -> Option<Call> {
    let span = if using.span.is_none() { at } else { using.span };
    let (alg, args) = arguments(library, file, coll, using, span).ok()?;
    legal(library, alg, axis, root, args).ok()
}

/// Returns the algorithm that a `using:` names, with its arguments. Checks the names and values of
/// parameters and options.
fn arguments(
    library: &Library,
    file: FileId,
    coll: CollId,
    using: &Using,
    span: Span,
) -> Result<(AlgId, Vec<(String, Value)>), Diagnostic> {
    let alg = library.find_algorithm(file, coll, &using.alg, span).map_err(|d| *d)?;
    let decl = library.algorithm(alg);
    let evaluator = ConcreteEvaluator::new(library);
    let is_alg = algorithm_valued(decl, library);
    let mut args: Vec<(String, Value)> = vec![];
    for list in [&using.args, &using.options] {
        for (i, (name, _)) in list.iter().enumerate() {
            if list[..i].iter().any(|a| a.0 == *name) {
                return Err(
                    Diagnostic::error("E006", format!("`{name}` is given twice")).primary(span, "here")
                );
            }
        }
    }
    for (name, value) in &using.options {
        let kind = match value {
            UsingArg::Int(v) => ExprKind::Int(*v),
            UsingArg::Name(n) if *n == "true" || *n == "false" => ExprKind::Bool(*n == "true"),
            UsingArg::Name(n) => ExprKind::Name(n.to_string()),
        };
        let ident = Ident::new(name.to_string(), span);
        option_value(&ident, &Expr { kind, span }, &evaluator, &ListScope::default()).map_err(|d| *d)?;
    }
    for (name, value) in &using.args {
        if let Some(p) = decl.params.iter().position(|p| *name == *p.0.node) {
            args.push((
                name.to_string(),
                parameter(library, file, (&decl.params[p].0, is_alg[p]), value, span)?,
            ));
        } else {
            let d = unknown_parameter(decl, &Ident::new(name.to_string(), span));
            return Err(match option_kind(name) {
                Some(_) => d.help(format!("options follow `with`: {} with ({name}: ..)", using.alg)),
                None => d,
            });
        }
    }
    Ok((alg, args))
}

fn parameter(
    library: &Library,
    file: FileId,
    (name, is_alg): (&Ident, bool),
    value: &UsingArg,
    span: Span,
) -> Result<Value, Diagnostic> {
    match (value, is_alg) {
        (UsingArg::Int(v), false) => Ok(Value::Int(*v)),
        (UsingArg::Name(n), true) if library.is_algorithm_name(file, n) => {
            Ok(Value::Alg(Arc::new(AlgRef { name: n.to_string(), file })))
        }
        (UsingArg::Name(n), true) => Err(*library.no_algorithm("algorithm", file, (n, span), &[])),
        (value, is_alg) => {
            let kind = if is_alg { "an algorithm" } else { "a number" };
            let got = match value {
                UsingArg::Int(v) => v.to_string(),
                UsingArg::Name(n) => n.to_string(),
            };
            Err(Diagnostic::error("E006", format!("parameter `{}` must be {kind}", name.node))
                .primary(span, format!("this is `{got}`"))
                .secondary(name.span, "the parameter"))
        }
    }
}
