//! Elementwise functions: scalar expressions over named operands.
//!
//! Graphs, schedules, the reference evaluator, the interpreter and the emitters use the same form.
//! `docs/reference/numbers.md` defines how each operation rounds; this module only represents the
//! expression.

use crate::name::Name;
use std::fmt;

/// A scalar expression. A number takes the element type of the operands that it is combined with.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// A number.
    Num(f64),
    /// A parameter, by position.
    Arg(usize),
    /// A function of one operand.
    Un(ScalarUn, Box<Scalar>),
    /// A function of two operands.
    Bin(ScalarBin, Box<Scalar>, Box<Scalar>),
    /// `pow_int(x, n)`: the product of n factors x, n >= 0, multiplied from left to right.
    Pow(Box<Scalar>, u32),
    /// `if a op b { x } else { y }`. `select(c, x, y)` has the same meaning.
    If(Box<Compare>, Box<Scalar>, Box<Scalar>),
}

/// A comparison, used only as a condition.
#[derive(Clone, PartialEq, Debug)]
pub struct Compare {
    /// Comparison.
    pub op: CompareOp,
    /// Left side.
    pub a: Scalar,
    /// Right side.
    pub b: Scalar,
}

/// Comparison of two values. With a NaN, every comparison except `!=` is false.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the comparisons")]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

macro_rules! named {
    ($(#[$m:meta])* $ty:ident { $($v:ident = $s:literal),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(missing_docs, reason = "the names are the functions")]
        pub enum $ty { $($v),* }
        impl $ty {
            /// All functions.
            pub const ALL: &'static [$ty] = &[$($ty::$v),*];
            /// Returns the name in `.kb` and `.kir`.
            pub fn name(self) -> &'static str { match self { $($ty::$v => $s),* } }
            /// Returns the function of that name.
            pub fn parse(s: &str) -> Option<Self> { Self::ALL.iter().copied().find(|f| f.name() == s) }
        }
    };
}
named!(
    /// Scalar functions of one operand.
    ScalarUn {
        Neg = "neg",
        Abs = "abs",
        Exp = "exp",
        Log = "log",
        Sqrt = "sqrt",
        Rsqrt = "rsqrt",
        Tanh = "tanh",
        Erf = "erf",
        Sin = "sin",
        Cos = "cos",
        Log1p = "log1p",
    }
);
impl ScalarUn {
    /// Checks whether integers have the function. The others exist for floating-point types only.
    pub fn has_integers(self) -> bool {
        matches!(self, ScalarUn::Neg | ScalarUn::Abs)
    }
}

named!(
    /// Scalar functions of two operands.
    ScalarBin { Add = "add", Sub = "sub", Mul = "mul", Div = "div", Min = "min", Max = "max" }
);

/// A named elementwise function.
#[derive(Clone, PartialEq, Debug)]
pub struct ScalarFn {
    /// Name, for readers (`gelu`, `add`).
    pub name: Name,
    /// Parameter names, for readers.
    pub params: Vec<Name>,
    /// Expression of the result.
    pub body: Scalar,
}

impl CompareOp {
    /// Returns the operator in the text.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }
}

impl Scalar {
    /// Creates `a op b`.
    pub fn bin(op: ScalarBin, a: Scalar, b: Scalar) -> Scalar {
        Scalar::Bin(op, Box::new(a), Box::new(b))
    }

    /// Returns the expression with its parameters replaced by expressions (composition of kernels).
    pub fn subst(&self, args: &[Scalar]) -> Scalar {
        match self {
            Scalar::Num(_) => self.clone(),
            Scalar::Arg(i) => args.get(*i).cloned().unwrap_or_else(|| self.clone()),
            Scalar::Un(op, a) => Scalar::Un(*op, Box::new(a.subst(args))),
            Scalar::Bin(op, a, b) => Scalar::bin(*op, a.subst(args), b.subst(args)),
            Scalar::Pow(a, n) => Scalar::Pow(Box::new(a.subst(args)), *n),
            Scalar::If(c, a, b) => Scalar::If(
                Box::new(Compare { op: c.op, a: c.a.subst(args), b: c.b.subst(args) }),
                Box::new(a.subst(args)),
                Box::new(b.subst(args)),
            ),
        }
    }
}

/// Writes the expression with the given parameter names, in the syntax of a `.kb` kernel. Every
/// operation except a call is in parentheses, so that text and tree correspond one to one.
pub fn write_scalar(e: &Scalar, params: &[Name], f: &mut impl fmt::Write) -> fmt::Result {
    match e {
        Scalar::Num(v) => write!(f, "{v:?}"),
        Scalar::Arg(i) => match params.get(*i) {
            Some(p) => write!(f, "{p}"),
            None => write!(f, "${i}"),
        },
        Scalar::Un(op, a) => {
            write!(f, "{}(", op.name())?;
            write_scalar(a, params, f)?;
            f.write_char(')')
        }
        Scalar::Bin(op, a, b) => {
            let infix = match op {
                ScalarBin::Add => " + ",
                ScalarBin::Sub => " - ",
                ScalarBin::Mul => " * ",
                ScalarBin::Div => " / ",
                ScalarBin::Min | ScalarBin::Max => {
                    write!(f, "{}(", op.name())?;
                    write_scalar(a, params, f)?;
                    f.write_str(", ")?;
                    write_scalar(b, params, f)?;
                    return f.write_char(')');
                }
            };
            f.write_char('(')?;
            write_scalar(a, params, f)?;
            f.write_str(infix)?;
            write_scalar(b, params, f)?;
            f.write_char(')')
        }
        Scalar::Pow(a, n) => {
            f.write_str("pow_int(")?;
            write_scalar(a, params, f)?;
            write!(f, ", {n})")
        }
        Scalar::If(c, a, b) => {
            f.write_str("if ")?;
            write_scalar(&c.a, params, f)?;
            write!(f, " {} ", c.op.symbol())?;
            write_scalar(&c.b, params, f)?;
            f.write_str(" { ")?;
            write_scalar(a, params, f)?;
            f.write_str(" } else { ")?;
            write_scalar(b, params, f)?;
            f.write_str(" }")
        }
    }
}
