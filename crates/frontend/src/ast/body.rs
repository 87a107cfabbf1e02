//! Bodies of programs: statements, tensor expressions and calls.

use super::Type;
use kbc_diag::{Span, Spanned};
use kbc_rounds::ast::{BinaryOp, Expr, Ident, Range};

/// The body of a program: `{ let .. host read .. result }`. `return` may precede the result.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// The statements, in source order.
    pub statements: Vec<Statement>,
    /// The result. It is a tuple if there are several.
    pub result: Tensor,
    /// The source range.
    pub span: Span,
}

impl Body {
    /// Returns all `let`s, including those inside loops and expressions.
    pub fn lets(&self) -> Vec<&Let> {
        fn collect<'a>(list: &'a [Statement], out: &mut Vec<&'a Let>) {
            for s in list {
                match s {
                    Statement::Let(l) => out.push(l),
                    Statement::Assign(_) | Statement::Host(_) => {}
                    Statement::For(f) => collect(&f.body, out),
                }
            }
        }
        let mut out = vec![];
        collect(&self.statements, &mut out);
        self.tensors().into_iter().for_each(|t| t.lets(&mut out));
        out
    }

    /// Returns all tensor expressions of the body in source order: the values of its statements,
    /// including those inside loops, and the result.
    pub fn tensors(&self) -> Vec<&Tensor> {
        fn collect<'a>(list: &'a [Statement], out: &mut Vec<&'a Tensor>) {
            for s in list {
                match s {
                    Statement::Let(l) => out.push(&l.value),
                    Statement::Assign(a) => out.push(&a.value),
                    Statement::Host(h) => out.extend(&h.value),
                    Statement::For(f) => collect(&f.body, out),
                }
            }
        }
        let mut out = vec![];
        collect(&self.statements, &mut out);
        out.push(&self.result);
        out
    }
}

/// A statement before the result of a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// A `let`, which names a value.
    Let(Let),
    /// An assignment, which gives a name another value.
    Assign(Assign),
    /// An action of the host.
    Host(HostAct),
    /// A loop.
    For(Loop),
}

/// An action of the host: `host read y, z`, `host wait y`, `host drain` or `host write x = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct HostAct {
    /// The name of the action.
    pub word: Ident,
    /// The values that it names.
    pub names: Vec<Ident>,
    /// The value that is written.
    pub value: Option<Tensor>,
    /// The source range.
    pub span: Span,
}

/// An assignment in a loop: `x = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct Assign {
    /// The name.
    pub name: Ident,
    /// The value that it gets.
    pub value: Tensor,
    /// The source range.
    pub span: Span,
}

/// A loop: `for i in 0..3 { .. }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// The loop variable.
    pub var: Ident,
    /// The range of its values.
    pub range: Range,
    /// The statements that are repeated.
    pub body: Vec<Statement>,
    /// The source range.
    pub span: Span,
}

/// A `let` statement: `let (a, b): T = e`.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    /// One name, or the names of a tuple.
    pub names: Vec<Ident>,
    /// The type annotation.
    pub ty: Option<Type>,
    /// The value.
    pub value: Tensor,
    /// The source range.
    pub span: Span,
}

/// A tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// The form of the expression.
    pub kind: TensorKind,
    /// The source range.
    pub span: Span,
}

impl Tensor {
    /// Returns the tensor expressions inside this one in source order. Readers that treat all forms
    /// alike use this function.
    pub fn parts(&self) -> Vec<&Tensor> {
        match &self.kind {
            TensorKind::Name(_)
            | TensorKind::Int(_)
            | TensorKind::Float(_)
            | TensorKind::List(_)
            | TensorKind::Index(..)
            | TensorKind::Error => vec![],
            TensorKind::Tuple(parts) => parts.iter().collect(),
            TensorKind::Neg(a) => vec![a],
            TensorKind::Binary(_, a, b) | TensorKind::If(_, a, b) => vec![a, b],
            TensorKind::Call(call) => call.args.iter().collect(),
            TensorKind::Block(lets, t) => lets.iter().map(|l| &l.value).chain([&**t]).collect(),
        }
    }

    /// Adds the `let`s of all blocks inside the expression to `out`.
    fn lets<'a>(&'a self, out: &mut Vec<&'a Let>) {
        if let TensorKind::Block(lets, _) = &self.kind {
            out.extend(lets);
        }
        self.parts().into_iter().for_each(|t| t.lets(out));
    }
}

/// The forms of a tensor expression.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorKind {
    /// A name: a value, or, as an argument, a word such as `sum`.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// `(a, b)`: a tuple of at least two.
    Tuple(Vec<Tensor>),
    /// `[S, 12, D / 12]`: a shape or a permutation. It occurs only as an argument.
    List(Vec<Expr>),
    /// `-e`
    Neg(Box<Tensor>),
    /// `a op b`, where `op` is one of + - * / or a comparison.
    Binary(BinaryOp, Box<Tensor>, Box<Tensor>),
    /// `f(a, b, over: tp)`
    Call(Box<Call>),
    /// `w[l, e]`: the entry of a value with these numbers along its first dimensions.
    Index(Ident, Vec<Expr>),
    /// `if c { a } else { b }`, which is decided when the program is lowered.
    If(Box<Expr>, Box<Tensor>, Box<Tensor>),
    /// `{ let a = x; e }`
    Block(Vec<Let>, Box<Tensor>),
    /// An error that was already reported.
    Error,
}

/// A call: an operation, a collective, a cast, a kernel or a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The name of the callee.
    pub name: Ident,
    /// The positional arguments.
    pub args: Vec<Tensor>,
    /// The named arguments.
    pub named: Vec<Named>,
}

/// A named argument such as `using: ring with (pipeline: 4)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: OptionValue,
    /// The source range.
    pub span: Span,
}

/// The value of a named argument.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// A number, a name, a tuple of names, or another expression.
    Expr(Expr),
    /// `ring(d: -1) with (pipeline: 4)`. A bare `ring` is a name.
    Use(Use),
    /// A list, such as `[(0, 1), (1, 0)]`.
    List(Vec<Expr>),
    /// `[[3, 0], [1, 2]]`, each row with its source range.
    Rows(Vec<Spanned<Vec<Expr>>>),
}

/// A use of an algorithm: `ring(d: -1) with (pipeline: 4)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Use {
    /// The algorithm.
    pub alg: Ident,
    /// The arguments of the algorithm.
    pub args: Vec<(Ident, Expr)>,
    /// The options of the use.
    pub options: Vec<(Ident, Expr)>,
    /// The source range.
    pub span: Span,
}
