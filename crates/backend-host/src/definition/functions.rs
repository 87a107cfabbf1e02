//! Elementwise functions of a definition as functions of C: an element with its bound
//! (`templates/kbc_near.h`).

use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarUn};
use kbc_ir::types::DType;
use kbc_tiles::lower::chain::Bound;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The functions of a program, each once.
pub(super) struct Functions<'f> {
    /// Name of the program in C.
    name: String,
    bound: &'f dyn Fn(ScalarUn) -> Option<Bound>,
    known: BTreeMap<String, String>,
    /// Their text.
    pub text: String,
}

/// Prints a number of C.
pub(super) fn number(v: f64) -> String {
    match v {
        v if v.is_nan() => "NAN".into(),
        v if v.is_infinite() => if v > 0.0 { "INFINITY" } else { "-INFINITY" }.into(),
        v => format!("{v:?}"),
    }
}

impl<'f> Functions<'f> {
    pub(super) fn new(name: &str, bound: &'f dyn Fn(ScalarUn) -> Option<Bound>) -> Functions<'f> {
        Functions { name: name.to_owned(), bound, known: BTreeMap::new(), text: String::new() }
    }

    /// Returns the name of a function of elements of a type. `rounded`: its value is rounded to the
    /// type at the end.
    pub(super) fn of(&mut self, body: &Scalar, dtype: DType, rounded: bool) -> String {
        let value = self.scalar(body, dtype);
        let value = if rounded { format!("kbc_stored({value}, KBC_{dtype})") } else { value };
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        let name = format!("{}_map_{}", self.name, self.known.len());
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "static kbc_x {name}(const kbc_x *a) {{\n    (void)a;\n    return {value};\n}}"
        );
        self.known.insert(value, name.clone());
        name
    }

    fn scalar(&self, e: &Scalar, dtype: DType) -> String {
        let float = dtype.is_float();
        let go = |e: &Scalar| self.scalar(e, dtype);
        let family = if float { "x" } else { "i" };
        // Integers wrap to their type.
        let wraps = if float { String::new() } else { format!(", KBC_{dtype}") };
        match e {
            Scalar::Num(v) => format!("kbc_constant({}, KBC_{dtype})", number(*v)),
            Scalar::Arg(i) => format!("a[{i}]"),
            Scalar::Un(op @ (ScalarUn::Neg | ScalarUn::Abs), a) => {
                format!("kbc_{family}_{}({}{wraps})", op.name(), go(a))
            }
            Scalar::Un(op @ (ScalarUn::Sqrt | ScalarUn::Rsqrt), a) => {
                format!("kbc_x_{}({})", op.name(), go(a))
            }
            Scalar::Un(op, a) => {
                let (ulps, error, within) = match (self.bound)(*op) {
                    None => (0.5, 0.0, f64::INFINITY),
                    Some(Bound::Ulps(n)) => (n, 0.0, f64::INFINITY),
                    Some(Bound::Absolute { error, within }) => (0.0, error, within),
                };
                let [ulps, error, within] = [ulps, error, within].map(number);
                format!("kbc_x_{}({}, (struct kbc_error){{{ulps}, {error}, {within}}})", op.name(), go(a))
            }
            Scalar::Bin(op @ (ScalarBin::Min | ScalarBin::Max), a, b) => {
                format!("kbc_{family}_{}({}, {})", op.name(), go(a), go(b))
            }
            Scalar::Bin(op, a, b) => format!("kbc_{family}_{}({}, {}{wraps})", op.name(), go(a), go(b)),
            Scalar::Pow(a, n) => format!("kbc_{family}_pow({}, {n}{wraps})", go(a)),
            Scalar::If(c, a, b) => {
                let how = word(c.op).to_uppercase();
                let (x, y) = (go(&c.a), go(&c.b));
                format!("kbc_{family}_select(KBC_{how}, {x}, {y}, {}, {})", go(a), go(b))
            }
        }
    }
}

/// Returns the word of a comparison in names of C.
pub fn word(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "eq",
        CompareOp::Ne => "ne",
        CompareOp::Lt => "lt",
        CompareOp::Le => "le",
        CompareOp::Gt => "gt",
        CompareOp::Ge => "ge",
    }
}
