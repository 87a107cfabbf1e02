//! Elementwise functions of golden values as expressions of Python, and what goes with them.

use crate::package::description::{Package, refused};
use crate::package::python::{self, float};
use kbc_diag::Diagnostic;
use kbc_ir::graph::GraphOp;
use kbc_ir::name::Name;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarUn};
use kbc_ir::types::DType;
use std::collections::BTreeSet;

/// Representation of the values of the definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Tensors of float64 and int64.
    Plain,
    /// Such tensors with error bounds.
    Bounded,
}

impl Numbers {
    /// Returns [`Numbers::Bounded`] if integers do not stay exact at some rank count.
    pub fn of(package: &Package<'_>) -> Numbers {
        if package.moduli.values().any(Option::is_none) { Numbers::Bounded } else { Numbers::Plain }
    }
}

/// Printer of an elementwise function of these operands.
pub(super) struct Elementwise<'a> {
    pub(super) args: &'a [String],
    pub(super) dtype: DType,
    pub(super) numbers: Numbers,
}

impl Elementwise<'_> {
    /// Prints an expression with every operation in parentheses or as a call, as in the program's
    /// text.
    pub(super) fn scalar(&self, e: &Scalar) -> String {
        let dtype = self.dtype;
        let plain = self.numbers == Numbers::Plain;
        let torch = if plain { "torch." } else { "" };
        let go = |e: &Scalar| self.scalar(e);
        let wrapped = |text: String| stored(&text, dtype);
        match e {
            Scalar::Num(v) => format!("number({}, \"{dtype}\")", float(*v)),
            Scalar::Arg(i) => self.args.get(*i).cloned().unwrap_or_default(),
            Scalar::Un(op, a) => match op {
                ScalarUn::Neg => wrapped(format!("(-{})", go(a))),
                ScalarUn::Abs => wrapped(format!("abs({})", go(a))),
                other => format!("{torch}{}({})", other.name(), go(a)),
            },
            Scalar::Bin(op, a, b) => {
                let (a, b) = (go(a), go(b));
                match op {
                    ScalarBin::Add => wrapped(format!("({a} + {b})")),
                    ScalarBin::Sub => wrapped(format!("({a} - {b})")),
                    ScalarBin::Mul => wrapped(format!("({a} * {b})")),
                    ScalarBin::Div if dtype.is_float() => format!("({a} / {b})"),
                    ScalarBin::Div if !plain => wrapped(format!("quotient({a}, {b})")),
                    ScalarBin::Div => wrapped(format!("torch.div({a}, {b}, rounding_mode=\"trunc\")")),
                    ScalarBin::Min => format!("{torch}minimum({a}, {b})"),
                    ScalarBin::Max => format!("{torch}maximum({a}, {b})"),
                }
            }
            Scalar::Pow(a, n) if dtype.is_float() => format!("({} ** {n})", go(a)),
            // Integers wrap after every multiplication.
            Scalar::Pow(a, n) => {
                let one = format!("number(1.0, \"{dtype}\")");
                (0..*n).fold(one, |acc, _| wrapped(format!("({acc} * {})", go(a))))
            }
            Scalar::If(c, a, b) => {
                let (left, symbol, right) = (go(&c.a), c.op.symbol(), go(&c.b));
                if plain {
                    format!("torch.where({left} {symbol} {right}, {}, {})", go(a), go(b))
                } else {
                    format!("select({left}, \"{symbol}\", {right}, {}, {})", go(a), go(b))
                }
            }
        }
    }
}

/// Returns the parameters that an expression reads.
pub(super) fn arguments(e: &Scalar) -> BTreeSet<usize> {
    match e {
        Scalar::Num(_) => BTreeSet::new(),
        Scalar::Arg(i) => BTreeSet::from([*i]),
        Scalar::Un(_, a) => arguments(a),
        Scalar::Pow(a, n) => {
            if *n == 0 {
                BTreeSet::new()
            } else {
                arguments(a)
            }
        }
        Scalar::Bin(_, a, b) => &arguments(a) | &arguments(b),
        Scalar::If(c, a, b) => &(&arguments(&c.a) | &arguments(&c.b)) | &(&arguments(a) | &arguments(b)),
    }
}

pub(super) fn broken(op: &GraphOp, why: &str) -> Diagnostic {
    refused(format!("%{} has no golden value: {why}", op.name)).primary(op.span, "this operation")
}

/// Allocates Python names for names of the graph.
#[derive(Default)]
pub(super) struct Names(pub(super) BTreeSet<String>);

impl Names {
    pub(super) fn fresh(&mut self, name: &Name) -> String {
        let mut base: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !python::identifier(&base) {
            base.insert(0, 'v');
        }
        let mut out = base.clone();
        let mut n = 1;
        while !self.0.insert(out.clone()) {
            n += 1;
            out = format!("{base}_{n}");
        }
        out
    }
}

/// Wraps a value to its type if integers of that type wrap. Floating-point values keep the
/// precision of float64.
pub(super) fn stored(value: &str, dtype: DType) -> String {
    if dtype.is_float() || dtype == DType::I64 {
        value.to_owned()
    } else {
        format!("stored({value}, \"{dtype}\")")
    }
}
