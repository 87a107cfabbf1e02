//! Support for the grammar's actions: spans, documentation, and the few nodes that are checked
//! while they are built.

use crate::ast::{
    Body, Call, CutHow, Named, Statement, Tensor, TensorKind, TileExpr, TileExprKind, TypeVariable,
};
use crate::old;
use crate::token::{Doc, Token};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::{
    AlgorithmDecl, BinaryOp, Block, CostFigure, Expr, ExprKind, FoldOp, Gens, Ident, Stmt, StmtKind, UnaryOp,
};
use lalrpop_util::ErrorRecovery;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The state of one parse.
#[derive(Debug)]
pub struct Ctx<'s> {
    file: FileId,
    text: &'s str,
    docs: BTreeMap<usize, Doc>,
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

/// An argument of a split.
#[derive(Debug)]
pub enum CutArgument {
    /// `ceil`, `rows` or `3`: the form before arguments had names.
    Old(Expr),
    /// `cut: ceil` or `by: rows`.
    One(Ident, Expr),
    /// `lengths: [3, 0]`
    List(Ident, Vec<Expr>),
}

/// Returns the message for an argument that no split has.
fn not_of_a_split(name: &Ident) -> Diagnostic {
    Diagnostic::error("E006", format!("a split has no argument `{}`", name.node)).primary(name.span, "here")
}

/// A clause of the head of an algorithm.
#[derive(Debug)]
pub enum HeadClause {
    /// `cost rounds p - 1, sent A(p)`
    Cost(Vec<CostFigure>),
    /// `check d: -1`
    Check(Vec<(Ident, Expr)>),
    /// `alias ring_1d`
    Alias(Vec<Ident>),
}

/// An operand of an expression with the bytes that it takes, parentheses included.
#[derive(Debug)]
pub struct Operand<T> {
    /// Its first byte.
    pub start: usize,
    /// Its node.
    pub node: T,
    /// The byte after it.
    pub end: usize,
}

/// A node that may be an operand.
pub trait Joined {
    /// Returns the node of an operator with two operands.
    fn joined(op: BinaryOp, a: Self, b: Self, span: Span) -> Self;
}

impl Joined for Expr {
    fn joined(op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), span }
    }
}

impl Joined for Tensor {
    fn joined(op: BinaryOp, a: Tensor, b: Tensor, span: Span) -> Tensor {
        Tensor { kind: TensorKind::Binary(op, Box::new(a), Box::new(b)), span }
    }
}

impl Joined for Box<TileExpr> {
    fn joined(op: BinaryOp, a: Box<TileExpr>, b: Box<TileExpr>, span: Span) -> Box<TileExpr> {
        Box::new(TileExpr { kind: TileExprKind::Binary(op, a, b), span })
    }
}

/// Returns the nodes of a list.
pub fn unboxed<T>(list: Vec<Box<T>>) -> Vec<T> {
    list.into_iter().map(|node| *node).collect()
}

impl<'s> Ctx<'s> {
    /// Returns the state for a file. `docs` has the documentation lines, by the start of the token
    /// that follows them.
    pub fn new(file: FileId, text: &'s str, docs: BTreeMap<usize, Doc>) -> Self {
        Ctx { file, text, docs, recovered: vec![], diagnostics: Diagnostics::new(), marks: Marks::default() }
    }

    /// Returns the span of the bytes `l..r`.
    pub fn span(&self, l: usize, r: usize) -> Span {
        Span::new(self.file, l, r.max(l))
    }

    /// Returns the span of the bytes `l..r` without the blanks at its end.
    pub fn trimmed(&self, l: usize, r: usize) -> Span {
        self.span(l, l + self.text[l..r].trim_end().len())
    }

    /// Returns the documentation of the item that starts at `l`.
    pub fn doc(&mut self, l: usize) -> String {
        self.docs.remove(&l).unwrap_or_default().text()
    }

    /// Returns the text of the bytes `l..r` on one line.
    pub fn text(&self, l: usize, r: usize) -> String {
        self.text[l..r].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Adds the clauses of the head to an algorithm. Old clauses in its documentation are errors.
    pub fn algorithm(&mut self, mut decl: AlgorithmDecl, clauses: Vec<HeadClause>) -> AlgorithmDecl {
        let start = decl.span.start as usize;
        let body = decl.body.span.start as usize;
        let end = self.text[..body].trim_end().len();
        if !clauses.is_empty() && self.text[end..body].contains('\n') {
            self.part(body);
        }
        if let Some(doc) = self.docs.get(&start) {
            self.diagnostics.list.extend(old::paragraphs(self.file, doc, self.text, end..body));
        }
        decl.doc = self.doc(start);
        for c in clauses {
            match c {
                HeadClause::Cost(list) => decl.costs.extend(list),
                HeadClause::Check(list) => decl.checks.push(list),
                HeadClause::Alias(list) => decl.aliases.extend(list),
            }
        }
        decl
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

    /// Returns the body of a program whose result follows `return`, which is at `w`.
    pub fn returned(
        &mut self,
        l: usize,
        statements: Vec<Statement>,
        w: usize,
        result: Tensor,
        r: usize,
    ) -> Body {
        self.statement(w);
        Body { statements, result, span: self.span(l, r) }
    }

    /// Returns the node of a unary operator: `-e` or `!e`.
    pub fn unary_of(&mut self, l: usize, op: UnaryOp, e: Expr, r: usize) -> Expr {
        self.unary(l);
        Expr { kind: ExprKind::Unary(op, Box::new(e)), span: self.span(l, r) }
    }

    /// Returns the tree of operands with operators between them. An operator of higher precedence
    /// joins its operands first, and of equal ones the left one does.
    pub fn operators<T: Joined>(&self, first: Operand<T>, rest: Vec<(BinaryOp, Operand<T>)>) -> T {
        // Each operator that waits for its right operand, with its left one.
        let mut waiting: Vec<(Operand<T>, BinaryOp)> = vec![];
        let mut last = first;
        for (op, next) in rest {
            last = self.join(&mut waiting, last, op.precedence());
            waiting.push((last, op));
            last = next;
        }
        self.join(&mut waiting, last, 0).node
    }

    /// Joins an operand with those whose operators have at least a precedence.
    fn join<T: Joined>(
        &self,
        waiting: &mut Vec<(Operand<T>, BinaryOp)>,
        mut last: Operand<T>,
        least: u8,
    ) -> Operand<T> {
        while let Some((a, op)) = waiting.pop_if(|(_, op)| op.precedence() >= least) {
            let (start, end) = (a.start, last.end);
            let node = T::joined(op, a.node, last.node, self.span(start, end));
            last = Operand { start, node, end };
        }
        last
    }

    /// Returns a sum, minimum or maximum over ranges.
    pub fn fold(&mut self, name: Ident, term: Expr, gens: Gens) -> ExprKind {
        self.called(name.span.end as usize);
        let Some(op) = FoldOp::ALL.into_iter().find(|op| op.word() == name.node) else {
            self.diagnostics.push(
                Diagnostic::error("E002", format!("`{}` cannot join values over ranges", name.node))
                    .primary(name.span, "expected `sum`, `min` or `max`")
                    .help("write `sum(e for i in 0..n)`; a call has its arguments without `for`"),
            );
            return ExprKind::Error;
        };
        ExprKind::Fold(op, Box::new(term), Box::new(gens))
    }

    /// Returns a variable of a program or kernel. The only kind that is written is `dtype`.
    pub fn variable(&mut self, name: Ident, kind: Option<Ident>, span: Span) -> TypeVariable {
        if let Some(k) = kind.as_ref().filter(|k| k.node != "dtype") {
            self.diagnostics.push(
                Diagnostic::error("E002", format!("`{}` is not a kind of variable", k.node))
                    .primary(k.span, "expected `dtype`")
                    .help("write `T: dtype` for an element type, and a name alone for a size"),
            );
        }
        TypeVariable { name, dtype: kind.is_some(), span }
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

    /// Returns the rule of a split from its argument in parentheses, which is at `span`.
    pub fn split(&mut self, list: Vec<CutArgument>, span: Span) -> CutHow {
        let mut list = list.into_iter();
        let fault = match (list.next(), list.len()) {
            (Some(CutArgument::One(n, Expr { kind: ExprKind::Name(w), span })), 0) => {
                match (n.node.as_str(), w.as_str()) {
                    ("by", _) => return CutHow::By(Ident::new(w, span)),
                    ("cut", "ceil") => return CutHow::Ceil,
                    ("cut", _) => Diagnostic::error("E006", format!("a split cannot be cut by `{w}`"))
                        .primary(span, "expected `ceil`"),
                    _ => not_of_a_split(&n),
                }
            }
            (Some(CutArgument::List(n, list)), 0) if n.node == "lengths" => return CutHow::Lengths(list),
            (Some(CutArgument::One(n, e)), 0) if matches!(n.node.as_str(), "by" | "cut") => {
                Diagnostic::error("E006", format!("`{}:` takes a name", n.node))
                    .primary(e.span, "this is not a name")
            }
            (Some(CutArgument::One(n, e)), 0) if n.node == "lengths" => {
                Diagnostic::error("E006", "`lengths:` takes a list").primary(e.span, "this is not a list")
            }
            (Some(CutArgument::Old(e)), more) => {
                let text = self.text(span.start as usize, span.end as usize);
                let new = match &e.kind {
                    ExprKind::Name(n) if more == 0 && n == "ceil" => "cut: ceil".to_owned(),
                    ExprKind::Name(_) if more == 0 => format!("by: {text}"),
                    _ => format!("lengths: [{text}]"),
                };
                old::form("the argument of a split has a name", span, &new)
            }
            (Some(CutArgument::One(n, _) | CutArgument::List(n, _)), 0) => not_of_a_split(&n),
            (_, _) => Diagnostic::error("E006", "a split has one argument").primary(span, "here"),
        };
        let help = "write `cut: ceil`, `by: f` with a function, or `lengths: [3, 0]`";
        self.diagnostics.push(if fault.help.is_some() { fault } else { fault.help(help) });
        CutHow::Even
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
