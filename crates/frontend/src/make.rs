//! Support for the grammar's actions: spans, documentation, and the few nodes that are checked
//! while they are built.

use crate::ast::{Body, Call, CutHow, Named, Statement, Tensor, TensorKind};
use crate::token::Token;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::{Block, Expr, ExprKind, Gens, Ident, Stmt, StmtKind, UnaryOp};
use lalrpop_util::ErrorRecovery;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The state of one parse.
#[derive(Debug)]
pub struct Ctx<'s> {
    file: FileId,
    docs: BTreeMap<usize, String>,
    /// The errors from which the parser recovered, in the order in which they were found.
    pub recovered: Vec<ErrorRecovery<usize, Token<'s>, Infallible>>,
    /// The messages of the actions.
    pub diagnostics: Diagnostics,
    /// Facts about tokens for the formatter.
    pub marks: Marks,
}

/// Facts about the tokens of a file that the tokens alone do not show, by byte position: where
/// statements begin, which signs are unary, which names are called. [`crate::fmt`] uses them.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The first bytes of statements and clauses, with `true` if a `;` may precede them. If a byte
    /// has several entries, the last one counts.
    pub starts: Vec<(usize, bool)>,
    /// Operators with one operand.
    pub unary: Vec<usize>,
    /// The ends of called names.
    pub calls: Vec<usize>,
    /// Opening parentheses that do not belong to the name before them.
    pub apart: Vec<usize>,
}

impl<'s> Ctx<'s> {
    /// Returns the state for a file. `docs` has the documentation lines, by the start of the token
    /// that follows them.
    pub fn new(file: FileId, docs: BTreeMap<usize, String>) -> Self {
        Ctx { file, docs, recovered: vec![], diagnostics: Diagnostics::new(), marks: Marks::default() }
    }

    /// Returns the span of the bytes `l..r`.
    pub fn span(&self, l: usize, r: usize) -> Span {
        Span::new(self.file, l, r.max(l))
    }

    /// Returns the documentation of the item that starts at `l`.
    pub fn doc(&mut self, l: usize) -> String {
        self.docs.remove(&l).unwrap_or_default()
    }

    /// Records an error from which the parser recovered.
    pub fn recover(&mut self, e: ErrorRecovery<usize, Token<'s>, Infallible>) {
        self.recovered.push(e);
    }

    /// Records that a statement begins at `l`. A `;` may precede it.
    pub fn statement(&mut self, l: usize) {
        self.marks.starts.push((l, true));
    }

    /// Records that a part of an item begins at `l`. No `;` separates it from the text before.
    pub fn part(&mut self, l: usize) {
        self.marks.starts.push((l, false));
    }

    /// Records a sign with one operand.
    pub fn unary(&mut self, l: usize) {
        self.marks.unary.push(l);
    }

    /// Records that the name of a callee ends at `r`.
    pub fn called(&mut self, r: usize) {
        self.marks.calls.push(r);
    }

    /// Records a parenthesis that does not belong to the name before it.
    pub fn apart(&mut self, l: usize) {
        self.marks.apart.push(l);
    }

    /// Returns the node for a result that could not be parsed.
    pub fn no_tensor(&self, span: Span) -> Tensor {
        Tensor { kind: TensorKind::Error, span }
    }

    /// Returns the body of a program, and records that its result begins like a statement.
    pub fn body(&mut self, l: usize, statements: Vec<Statement>, result: Tensor, r: usize) -> Body {
        self.statement(result.span.start as usize);
        Body { statements, result, span: self.span(l, r) }
    }

    /// Returns the node of a unary operator: `-e` or `!e`.
    pub fn unary_of(&mut self, l: usize, op: UnaryOp, e: Expr, r: usize) -> Expr {
        self.unary(l);
        Expr { kind: ExprKind::Unary(op, Box::new(e)), span: self.span(l, r) }
    }

    /// Returns `a` itself for `(a)`, and a tuple for `(a, b)`.
    pub fn tuple(&self, mut items: Vec<Tensor>, span: Span) -> Tensor {
        match (items.len(), items.pop()) {
            (1, Some(one)) => Tensor { kind: one.kind, span },
            (_, last) => {
                items.extend(last);
                Tensor { kind: TensorKind::Tuple(items), span }
            }
        }
    }

    /// Returns a call. Its positional arguments must precede the named ones.
    pub fn call(&mut self, name: Ident, items: Vec<(Option<Named>, Option<Tensor>)>) -> TensorKind {
        self.called(name.span.end as usize);
        let (mut args, mut named): (Vec<Tensor>, Vec<Named>) = (vec![], vec![]);
        for (by_name, by_position) in items {
            if let (Some(t), Some(last)) = (&by_position, named.last()) {
                self.diagnostics.push(
                    Diagnostic::error("E002", "an argument without a name follows one with a name")
                        .primary(t.span, "this one has no name")
                        .secondary(last.span, "this one has a name")
                        .help("put the arguments without names first"),
                );
            }
            args.extend(by_position);
            named.extend(by_name);
        }
        TensorKind::Call(Box::new(Call { name, args, named }))
    }

    /// Returns the parts of a split. `ceil` is the only word with a special meaning in the position
    /// of lengths.
    pub fn parts(&mut self, list: Vec<Expr>) -> CutHow {
        match &list[..] {
            [Expr { kind: ExprKind::Name(n), .. }] if n == "ceil" => CutHow::Ceil,
            _ => CutHow::Lengths(list),
        }
    }

    /// Returns a `for` statement. A `for` has one variable and no filter, because it is a sequence
    /// of rounds that is the same on every rank.
    pub fn for_loop(&mut self, gens: Gens, body: Block) -> StmtKind {
        if let Some(cond) = &gens.cond {
            self.diagnostics.push(
                Diagnostic::error("E003", "a `for` cannot have a filter")
                    .primary(cond.span, "every rank executes every step of a `for`")
                    .help("write `if` in the body, or use `each` if the steps happen at the same time"),
            );
        }
        if let Some((second, _)) = gens.vars.get(1) {
            self.diagnostics.push(
                Diagnostic::error("E003", "a `for` can have only one variable")
                    .primary(second.span, "the second variable")
                    .help("nest two loops, or use `each` if the steps happen at the same time"),
            );
        }
        // The filter is treated as an `if`, as the user meant it, so that the names in the body are
        // known.
        let block =
            |kind: StmtKind, span: Span| Block { together: false, stmts: vec![Stmt { kind, span }], span };
        let span = body.span;
        let body = match gens.cond {
            Some(cond) => block(StmtKind::If(cond, body, None), span),
            None => body,
        };
        let mut vars = gens.vars.into_iter().rev();
        let Some((var, range)) = vars.next() else { return StmtKind::Error };
        vars.fold(StmtKind::For(var, range, body), |inner, (var, range)| {
            StmtKind::For(var, range, block(inner, span))
        })
    }

    /// Returns the block for `else if ..`: an else block with one statement.
    pub fn else_if(&self, kind: StmtKind, span: Span) -> Block {
        Block { together: false, stmts: vec![Stmt { kind, span }], span }
    }
}
