//! Permutation collectives: the library as seen by one use of a collective that names the part with
//! which each rank ends.
//!
//! The contract of `permute` is written in terms of its function `part_of`, and its algorithms call
//! that function. For each use, this module replaces the function by one that computes the list of
//! the use: a rotation, an exclusive or, or ranges of ranks found by comparisons. The replacement
//! is an ordinary expression, so everything that reads algorithms works unchanged.

use kbc_diag::{FileId, Span};
use kbc_ir::graph::ContractCollective;
use kbc_rounds::Library;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, FnBody, FnDecl, Ident};
use std::borrow::Cow;

/// Name of the function, which takes a rank and the number of ranks.
const FUNCTION: &str = "part_of";

/// Returns the declarations as seen by this use of a collective in `file`.
pub fn library_for<'a>(
    library: &'a Library,
    own: Option<&ContractCollective>,
    file: FileId,
) -> Cow<'a, Library> {
    let Some(own) = own.filter(|o| !o.part_of.is_empty()) else { return Cow::Borrowed(library) };
    let at = Span::new(file, 0, 0);
    let home =
        library.find_collective(file, &own.name, at).map_or(file, |c| library.collective(c).name.span.file);
    let name = |n: &str| Ident::new(n.to_owned(), Span::new(home, 0, 0));
    let decl = FnDecl {
        name: name(FUNCTION),
        params: vec![name("r"), name("p")],
        body: FnBody::Expr(source(&own.part_of)),
        span: Span::NONE,
        doc: String::new(),
    };
    Cow::Owned(library.with_functions(vec![decl]))
}

fn int(v: i64) -> Expr {
    Expr { kind: ExprKind::Int(v), span: Span::NONE }
}

fn rank() -> Expr {
    Expr { kind: ExprKind::Name("r".into()), span: Span::NONE }
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), span: Span::NONE }
}

/// Returns `part_of[r]` as an expression.
pub(crate) fn source(part_of: &[u64]) -> Expr {
    let p = part_of.len() as u64;
    let all = |f: &dyn Fn(u64) -> u64| (0..p).zip(part_of).all(|(r, q)| f(r) == *q);
    let k = part_of.first().copied().unwrap_or(0);
    if all(&|r| (r + k) % p) {
        let moved = if k == 0 { rank() } else { binary(BinaryOp::Add, rank(), int(k as i64)) };
        return binary(BinaryOp::Rem, moved, int(p as i64));
    }
    if all(&|r| r ^ k) {
        return binary(BinaryOp::BitXor, rank(), int(k as i64));
    }
    // Runs of ranks whose distance to their source is the same: (first rank, distance).
    let mut runs: Vec<(i64, i64)> = vec![];
    for (r, q) in part_of.iter().enumerate() {
        let (r, d) = (r as i64, *q as i64 - r as i64);
        if runs.last().is_none_or(|l| l.1 != d) {
            runs.push((r, d));
        }
    }
    tree(&runs)
}

fn tree(runs: &[(i64, i64)]) -> Expr {
    match runs {
        [] => rank(),
        [(_, 0)] => rank(),
        [(_, d)] => binary(BinaryOp::Add, rank(), int(*d)),
        _ => {
            let (low, high) = runs.split_at(runs.len() / 2);
            let first = high.first().map_or(0, |h| h.0);
            let kind = ExprKind::If(
                Box::new(binary(BinaryOp::Lt, rank(), int(first))),
                Box::new(tree(low)),
                Box::new(tree(high)),
            );
            Expr { kind, span: Span::NONE }
        }
    }
}
