//! What the grammar's actions need: spans, documentation, and the few nodes that are checked while they are built.

use crate::ast::{Body, Call, CutHow, Named, Statement, Tensor, TensorKind};
use crate::token::Token;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::{Block, Expr, ExprKind, Gens, Ident, Stmt, StmtKind, UnaryOp};
use lalrpop_util::ErrorRecovery;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// State of one parse.
#[derive(Debug)]
pub struct Ctx<'s> {
    file: FileId,
    docs: BTreeMap<usize, String>,
    /// Errors the parser recovered from, in the order found.
    pub recovered: Vec<ErrorRecovery<usize, Token<'s>, Infallible>>,
    /// Messages of the actions.
    pub diagnostics: Diagnostics,
    /// What a formatter wants to know of the tokens.
    pub marks: Marks,
}

/// What the tokens of a file do not say of themselves, by byte of the text: where statements begin, which signs are
/// unary, which names are called. For [`crate::fmt`].
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// First bytes of statements and clauses; `true` where a `;` may stand before. Of one byte the last entry counts.
    pub starts: Vec<(usize, bool)>,
    /// Operators with one operand.
    pub unary: Vec<usize>,
    /// Ends of called names.
    pub calls: Vec<usize>,
    /// Opening parentheses that belong to no name before them.
    pub apart: Vec<usize>,
}

impl<'s> Ctx<'s> {
    /// For a file with its documentation lines by the start of the token that follows them.
    pub fn new(file: FileId, docs: BTreeMap<usize, String>) -> Self {
        Ctx { file, docs, recovered: vec![], diagnostics: Diagnostics::new(), marks: Marks::default() }
    }

    /// The bytes `l..r`.
    pub fn span(&self, l: usize, r: usize) -> Span {
        Span::new(self.file, l, r.max(l))
    }

    /// Documentation of the item that starts there.
    pub fn doc(&mut self, l: usize) -> String {
        self.docs.remove(&l).unwrap_or_default()
    }

    /// Keeps an error the parser recovered from.
    pub fn recover(&mut self, e: ErrorRecovery<usize, Token<'s>, Infallible>) {
        self.recovered.push(e);
    }

    /// A statement begins there; a `;` may stand before it.
    pub fn statement(&mut self, l: usize) {
        self.marks.starts.push((l, true));
    }

    /// A part of an item begins there that no `;` separates from what is before.
    pub fn part(&mut self, l: usize) {
        self.marks.starts.push((l, false));
    }

    /// A sign with one operand.
    pub fn unary(&mut self, l: usize) {
        self.marks.unary.push(l);
    }

    /// A name that is called ends there.
    pub fn called(&mut self, r: usize) {
        self.marks.calls.push(r);
    }

    /// A parenthesis that belongs to no name before it.
    pub fn apart(&mut self, l: usize) {
        self.marks.apart.push(l);
    }

    /// A result that could not be read.
    pub fn no_tensor(&self, span: Span) -> Tensor {
        Tensor { kind: TensorKind::Error, span }
    }

    /// The body of a program, whose result begins a line of its own.
    pub fn body(&mut self, l: usize, statements: Vec<Statement>, result: Tensor, r: usize) -> Body {
        self.statement(result.span.start as usize);
        Body { statements, result, span: self.span(l, r) }
    }

    /// `-e`, `!e`
    pub fn unary_of(&mut self, l: usize, op: UnaryOp, e: Expr, r: usize) -> Expr {
        self.unary(l);
        Expr { kind: ExprKind::Unary(op, Box::new(e)), span: self.span(l, r) }
    }

    /// `(a)` is `a` itself, `(a, b)` a tuple.
    pub fn tuple(&self, mut items: Vec<Tensor>, span: Span) -> Tensor {
        match (items.len(), items.pop()) {
            (1, Some(one)) => Tensor { kind: one.kind, span },
            (_, last) => {
                items.extend(last);
                Tensor { kind: TensorKind::Tuple(items), span }
            }
        }
    }

    /// A call whose arguments by position come before those by name.
    pub fn call(&mut self, name: Ident, items: Vec<(Option<Named>, Option<Tensor>)>) -> TensorKind {
        self.called(name.span.end as usize);
        let (mut args, mut named): (Vec<Tensor>, Vec<Named>) = (vec![], vec![]);
        for (by_name, by_position) in items {
            if let (Some(t), Some(last)) = (&by_position, named.last()) {
                self.diagnostics.push(
                    Diagnostic::error("E002", "an argument without a name after one with a name")
                        .primary(t.span, "this one has no name")
                        .secondary(last.span, "after this one, which has")
                        .help("put the arguments without names first"),
                );
            }
            args.extend(by_position);
            named.extend(by_name);
        }
        TensorKind::Call(Box::new(Call { name, args, named }))
    }

    /// `ceil` is the only word in the place of lengths.
    pub fn parts(&mut self, list: Vec<Expr>) -> CutHow {
        match &list[..] {
            [Expr { kind: ExprKind::Name(n), .. }] if n == "ceil" => CutHow::Ceil,
            _ => CutHow::Lengths(list),
        }
    }

    /// `for` takes one variable and no filter: it is a sequence of rounds, the same on every rank.
    pub fn for_loop(&mut self, gens: Gens, body: Block) -> StmtKind {
        if let Some(cond) = &gens.cond {
            self.diagnostics.push(
                Diagnostic::error("E003", "a `for` has no filter")
                    .primary(cond.span, "every rank goes through every step of a `for`")
                    .help("put `if` into the body, or use `each` if the steps happen at the same time"),
            );
        }
        if let Some((second, _)) = gens.vars.get(1) {
            self.diagnostics.push(
                Diagnostic::error("E003", "a `for` has one variable")
                    .primary(second.span, "this is a second one")
                    .help("write one `for` inside the other, or use `each` if the steps happen at the same time"),
            );
        }
        // taken as it was meant, so that the names in the body are known
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

    /// `else if ..` is an else block with one statement.
    pub fn else_if(&self, kind: StmtKind, span: Span) -> Block {
        Block { together: false, stmts: vec![Stmt { kind, span }], span }
    }
}
