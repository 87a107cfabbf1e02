//! Heads of algorithms: which parameters are algorithms, and messages about what a head does not
//! fit.

use crate::ast::{AlgorithmDecl, ExprKind, Ident};
use crate::scope::{Functions, unknown};
use kbc_diag::{Diagnostic, Span};

/// Returns which parameters of an algorithm are algorithm-valued: those whose default is a bare
/// name that is neither a size, a root, an earlier parameter nor a parameter of the file.
pub fn algorithm_valued(decl: &AlgorithmDecl, seen: &dyn Functions) -> Vec<bool> {
    let mut known: Vec<&str> = decl.axes.iter().map(|a| a.size.node.as_str()).collect();
    if let Some((_, roots)) = &decl.root {
        known.extend(roots.iter().map(|r| r.node.as_str()));
    }
    let mut out = vec![];
    for (name, default) in &decl.params {
        let is_alg = |n: &str| !known.contains(&n) && seen.parameter(n, default.span).is_none();
        out.push(matches!(&default.kind, ExprKind::Name(n) if is_alg(n)));
        known.push(&name.node);
    }
    out
}

/// Makes E006 with the available parameters.
pub fn unknown_parameter(callee: &AlgorithmDecl, name: &Ident) -> Diagnostic {
    let valid: Vec<String> = callee.params.iter().map(|p| p.0.node.clone()).collect();
    let what = format!("parameter of `{}`", callee.name.node);
    unknown("E006", &what, &name.node, name.span, &valid).secondary(callee.name.span, "the algorithm")
}

/// Makes E022.
pub(crate) fn axes_differ(callee: &AlgorithmDecl, given: usize, span: Span) -> Diagnostic {
    let wanted = callee.axes.len();
    Diagnostic::error("E022", format!("`{}` works on {wanted} axes, and {given} are given", callee.name.node))
        .primary(span, format!("{given} axes here"))
        .secondary(callee.head, "the algorithm")
        .help("write as many axes as the algorithm has; only an algorithm of one axis accepts several, which it sees as one in linear order")
}
