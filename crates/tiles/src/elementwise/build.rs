//! Builder of chains: the values of a function as instructions, equal values computed once.

use crate::lower::chain::round;
use crate::tile::VecOp;
use kbc_diag::Diagnostic;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;

use std::collections::BTreeMap;

/// Maximum number of instructions of a chain, so that the kernel remains readable.
pub(super) const LONGEST: usize = 4096;

/// A value: a number, or the result of an instruction, or an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Val {
    Num(f64),
    Id(usize),
}

/// An operand as a key, with numbers by their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Operand {
    Id(usize),
    Num(u64),
}

/// What computes a value: a parameter or an instruction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Node {
    Param(usize),
    Vector(VecOp, Vec<Operand>),
    Select(u8, [usize; 4]),
}

pub(super) const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// Values under construction; equal values are computed once.
pub(super) struct Build<'f> {
    pub(super) func: &'f ScalarFn,
    pub(super) dtype: DType,
    /// Whether the core divides integers by numbers, and compares integers.
    pub(super) integers: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) known: BTreeMap<Node, usize>,
    pub(super) inexact: Vec<ScalarUn>,
}

pub(super) type R<T> = Result<T, Box<Diagnostic>>;

impl Build<'_> {
    pub(super) fn refused(&self, why: impl Into<String>, help: &str) -> Box<Diagnostic> {
        let title = format!("{} of {} cannot be emitted", self.func.name, self.dtype);
        Box::new(Diagnostic::error("E451", title).note(why).help(help))
    }

    pub(super) fn float(&self) -> bool {
        self.dtype.is_float()
    }

    pub(super) fn node(&mut self, node: Node) -> usize {
        if let Some(id) = self.known.get(&node) {
            return *id;
        }
        self.nodes.push(node.clone());
        self.known.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub(super) fn vector(&mut self, op: VecOp, args: &[Val]) -> R<Val> {
        if self.nodes.len() > 2 * LONGEST {
            return Err(self.refused("it becomes too many instructions", "split it into several kernels"));
        }
        let args = args
            .iter()
            .map(|a| match a {
                Val::Num(n) => Operand::Num(n.to_bits()),
                Val::Id(i) => Operand::Id(*i),
            })
            .collect();
        Ok(Val::Id(self.node(Node::Vector(op, args))))
    }

    /// Returns a value in a register; a number is filled into one.
    pub(super) fn id(&mut self, v: Val) -> R<usize> {
        match v {
            Val::Id(i) => Ok(i),
            Val::Num(_) => match self.vector(VecOp::Fill, &[v])? {
                Val::Id(i) => Ok(i),
                Val::Num(_) => Err(self.refused("a number is used as a register", "")),
            },
        }
    }

    pub(super) fn expr(&mut self, e: &Scalar) -> R<Val> {
        match e {
            Scalar::Num(v) => self.number(*v),
            Scalar::Arg(i) if *i < self.func.params.len() => Ok(Val::Id(*i)),
            Scalar::Arg(i) => {
                Err(self.refused(format!("it reads parameter {i}, which it does not have"), "declare it"))
            }
            Scalar::Un(op, a) => {
                let a = self.expr(a)?;
                self.un(*op, a)
            }
            Scalar::Bin(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.bin(*op, a, b)
            }
            Scalar::Pow(a, n) => {
                let a = self.expr(a)?;
                if *n == 0 {
                    return Ok(Val::Num(1.0));
                }
                (1..*n).try_fold(a, |acc, _| self.bin(ScalarBin::Mul, acc, a))
            }
            Scalar::If(c, x, y) => {
                let (a, b) = (self.expr(&c.a)?, self.expr(&c.b)?);
                let (x, y) = (self.expr(x)?, self.expr(y)?);
                self.select(c.op, a, b, x, y)
            }
        }
    }

    pub(super) fn number(&self, v: f64) -> R<Val> {
        let n = round(v, self.dtype);
        if self.float() || n == v {
            return Ok(Val::Num(n));
        }
        Err(self
            .refused(format!("{v:?} is not an i32"), "write an integer in range, or convert the operands"))
    }

    /// Adds `a op b`. A number becomes the last operand if such a form gives the same bits.
    pub(super) fn bin(&mut self, op: ScalarBin, a: Val, b: Val) -> R<Val> {
        if op == ScalarBin::Div && !self.float() {
            // A divisor that is a number is not 0, which would be an error.
            let known = matches!(b, Val::Num(c) if c != 0.0);
            let why = match self.integers {
                true if known => return self.quotient(a, b),
                true => "integers are divided by numbers other than 0, because a division by 0 is an error",
                false => "the core cannot divide integers",
            };
            return Err(self.refused(why, "convert to f32 first"));
        }
        if let (Val::Num(x), Val::Num(y)) = (a, b) {
            return Ok(Val::Num(self.fold(op, x, y)));
        }
        match (op, a, b) {
            (ScalarBin::Add, Val::Num(_), _) => self.vector(VecOp::Add, &[b, a]),
            (ScalarBin::Add, ..) => self.vector(VecOp::Add, &[a, b]),
            (ScalarBin::Mul, Val::Num(_), _) => self.vector(VecOp::Mul, &[b, a]),
            (ScalarBin::Mul, ..) => self.vector(VecOp::Mul, &[a, b]),
            (ScalarBin::Max, Val::Num(_), _) => self.vector(VecOp::Max, &[b, a]),
            (ScalarBin::Max, ..) => self.vector(VecOp::Max, &[a, b]),
            (ScalarBin::Min, Val::Num(_), _) => self.vector(VecOp::Min, &[b, a]),
            (ScalarBin::Min, ..) => self.vector(VecOp::Min, &[a, b]),
            // x - c is x + (-c), also for zeros. The subtraction with a number would convert it to
            // a float.
            (ScalarBin::Sub, _, Val::Num(c)) => {
                let c = self.negative(c);
                self.vector(VecOp::Add, &[a, Val::Num(c)])
            }
            // c - x is (-x) + c, also for zeros.
            (ScalarBin::Sub, Val::Num(_), _) => {
                let minus = self.vector(VecOp::Mul, &[b, Val::Num(-1.0)])?;
                self.vector(VecOp::Add, &[minus, a])
            }
            (ScalarBin::Sub, ..) => self.vector(VecOp::Sub, &[a, b]),
            // Division by a power of two is a multiplication. By any other number, the instruction
            // with a number would not be exact.
            (ScalarBin::Div, _, Val::Num(c)) if reciprocal(c).is_some() => {
                self.vector(VecOp::Mul, &[a, Val::Num(1.0 / c)])
            }
            (ScalarBin::Div, ..) => {
                let (a, b) = (self.id(a)?, self.id(b)?);
                self.vector(VecOp::Div, &[Val::Id(a), Val::Id(b)])
            }
        }
    }

    /// Adds a division of integers by a number.
    fn quotient(&mut self, a: Val, b: Val) -> R<Val> {
        if let (Val::Num(x), Val::Num(y)) = (a, b) {
            return Ok(Val::Num(f64::from((x as i32).wrapping_div(y as i32))));
        }
        let (a, b) = (self.id(a)?, self.id(b)?);
        self.vector(VecOp::Div, &[Val::Id(a), Val::Id(b)])
    }

    pub(super) fn negative(&self, c: f64) -> f64 {
        if self.float() { -c } else { f64::from((c as i32).wrapping_neg()) }
    }

    /// Computes an operation of two numbers as for an element.
    pub(super) fn fold(&self, op: ScalarBin, a: f64, b: f64) -> f64 {
        if self.float() {
            let (a, b) = (a as f32, b as f32);
            return f64::from(match op {
                ScalarBin::Add => a + b,
                ScalarBin::Sub => a - b,
                ScalarBin::Mul => a * b,
                ScalarBin::Div => a / b,
                ScalarBin::Min if a.is_nan() || b.is_nan() => f32::NAN,
                ScalarBin::Max if a.is_nan() || b.is_nan() => f32::NAN,
                ScalarBin::Min if a < b || (a == b && a.is_sign_negative()) => a,
                ScalarBin::Max if a > b || (a == b && a.is_sign_positive()) => a,
                ScalarBin::Min | ScalarBin::Max => b,
            });
        }
        let (a, b) = (a as i32, b as i32);
        f64::from(match op {
            ScalarBin::Add => a.wrapping_add(b),
            ScalarBin::Sub => a.wrapping_sub(b),
            ScalarBin::Mul => a.wrapping_mul(b),
            ScalarBin::Min => a.min(b),
            // Division has been rejected before.
            ScalarBin::Max | ScalarBin::Div => a.max(b),
        })
    }

    pub(super) fn un(&mut self, op: ScalarUn, a: Val) -> R<Val> {
        let minus = Val::Num(-1.0);
        match (op, self.float()) {
            (ScalarUn::Neg, _) => self.bin(ScalarBin::Mul, a, minus),
            (ScalarUn::Abs, true) => match a {
                Val::Num(n) => Ok(Val::Num(n.abs())),
                _ => self.vector(VecOp::Abs, &[a]),
            },
            // i32 has no such instruction. The smallest i32 stays itself either way.
            (ScalarUn::Abs, false) => {
                let other = self.bin(ScalarBin::Mul, a, minus)?;
                self.bin(ScalarBin::Max, a, other)
            }
            (_, false) => {
                let why = format!("the core has no {} of integers", op.name());
                Err(self.refused(why, "convert to f32 first"))
            }
            (ScalarUn::Sqrt, _) => self.function(VecOp::Sqrt, a),
            // The `rsqrt` instruction is an estimate; square root and division give the bits of the
            // rule.
            (ScalarUn::Rsqrt, _) => {
                let root = self.function(VecOp::Sqrt, a)?;
                self.bin(ScalarBin::Div, Val::Num(1.0), root)
            }
            // The others are sequences of instructions.
            (_, true) => {
                self.inexact.push(op);
                let id = self.id(a)?;
                self.libm(op, Val::Id(id))
            }
        }
    }

    pub(super) fn function(&mut self, op: VecOp, a: Val) -> R<Val> {
        let id = self.id(a)?;
        self.vector(op, &[Val::Id(id)])
    }

    pub(super) fn select(&mut self, cmp: CompareOp, a: Val, b: Val, x: Val, y: Val) -> R<Val> {
        if x == y {
            return Ok(x);
        }
        if let (Val::Num(a), Val::Num(b)) = (a, b) {
            return Ok(if holds(cmp, a, b) { x } else { y });
        }
        if !self.float() && !self.integers {
            return Err(self.refused("the core compares integers only for equality", "convert to f32 first"));
        }
        let ids = [self.id(a)?, self.id(b)?, self.id(x)?, self.id(y)?];
        let which = COMPARISONS.iter().position(|c| *c == cmp).unwrap_or(0) as u8;
        Ok(Val::Id(self.node(Node::Select(which, ids))))
    }
}

fn holds(cmp: CompareOp, a: f64, b: f64) -> bool {
    match cmp {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}

/// Returns 1/c if both 1/c and c are normal powers of two of f32.
fn reciprocal(c: f64) -> Option<f64> {
    let r = 1.0 / c;
    let power = |v: f64| (v as f32).is_normal() && (v as f32).to_bits() & 0x007f_ffff == 0;
    (power(c) && power(r)).then_some(r)
}
