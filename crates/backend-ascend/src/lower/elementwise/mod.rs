//! Elementwise functions as straight-line programs of vector instructions.
//!
//! The module decides which instructions a function becomes, in which order, and in how many
//! registers. [`functions`] does so for functions without an instruction of their own. A register
//! is a tile of the compute type, which is f32 for f32, f16 and bf16, and i32 for i32. The caller
//! loads, converts and stores.
//!
//! Values are those of `docs/numbers.md`: every operation rounds to f32, in the order in which it
//! is written, and numbers are first rounded to the operands' type. A function without libm
//! functions is exact to the bit, with two reservations, because no document states what the
//! instructions do: `max` and `min` of NaN, and of zeros of different sign, are those of the core.

mod functions;

use crate::tile::VecOp;
use kbc_diag::Diagnostic;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;
use std::collections::BTreeMap;
use std::fmt;

pub use functions::{Bound, bound, golden};

/// A register, which is a tile of the compute type.
pub type Reg = usize;

/// Maximum number of instructions of a chain, so that the kernel remains readable.
const LONGEST: usize = 4096;

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// A register.
    Reg(Reg),
    /// A number, as the last operand; it is a value of the compute type.
    Num(f64),
}

/// An instruction. Its destination may be one of its operands.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// `dst = op(args)`.
    Vector {
        /// The instruction.
        op: VecOp,
        /// Destination.
        dst: Reg,
        /// Operands.
        args: Vec<Arg>,
    },
    /// `dst = if a cmp b { x } else { y }`.
    Select {
        /// The comparison.
        cmp: CompareOp,
        /// Destination.
        dst: Reg,
        /// Left side of the comparison.
        a: Reg,
        /// Right side of the comparison.
        b: Reg,
        /// Operand that is taken where the comparison holds.
        x: Reg,
        /// Operand that is taken where it does not hold.
        y: Reg,
    },
}

/// A function as a sequence of instructions.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// Element type of every register.
    pub compute: DType,
    /// Number of operands; registers `0..params` hold them at the start.
    pub params: usize,
    /// Instructions in order.
    pub steps: Vec<Step>,
    /// Register of the result at the end; the register of an operand if there are no steps.
    pub result: Reg,
    /// Number of registers in use, including those of the operands.
    pub registers: usize,
    /// Whether a mask tile is needed, because there is a `select`.
    pub mask: bool,
    /// Whether the result is that of `docs/numbers.md` to the bit.
    pub exact: bool,
    /// Functions that are only exact up to an error bound ([`bound`]), each once.
    pub inexact: Vec<ScalarUn>,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for s in &self.steps {
            match s {
                Step::Vector { op, dst, args } => {
                    let args: Vec<String> = args
                        .iter()
                        .map(|a| match a {
                            Arg::Reg(r) => format!("r{r}"),
                            Arg::Num(v) => format!("{v:?}"),
                        })
                        .collect();
                    writeln!(f, "r{dst} = {} {}", op.name(), args.join(", "))?;
                }
                Step::Select { cmp, dst, a, b, x, y } => {
                    writeln!(f, "r{dst} = select r{a} {} r{b}, r{x}, r{y}", cmp.symbol())?;
                }
            }
        }
        write!(f, "result r{} of {} registers", self.result, self.registers)
    }
}

/// A value: a number, or the result of an instruction, or an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Val {
    Num(f64),
    Id(usize),
}

/// An operand as a key, with numbers by their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Operand {
    Id(usize),
    Num(u64),
}

/// What computes a value: a parameter or an instruction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Node {
    Param(usize),
    Vector(VecOp, Vec<Operand>),
    Select(u8, [usize; 4]),
}

const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// Values under construction; equal values are computed once.
struct Build<'f> {
    func: &'f ScalarFn,
    dtype: DType,
    nodes: Vec<Node>,
    known: BTreeMap<Node, usize>,
    inexact: Vec<ScalarUn>,
}

type R<T> = Result<T, Box<Diagnostic>>;

/// Returns the instructions of a function on elements of a type.
///
/// # Errors
/// Returns E451 for a type that cannot be computed with, an operation of i32 that the core does not
/// have, a number that is not an i32, a parameter that the function does not have, or more
/// instructions than [`LONGEST`].
pub fn chain(func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic> {
    make(func, dtype).map_err(|d| *d)
}

fn make(func: &ScalarFn, dtype: DType) -> R<Chain> {
    let mut b = Build { func, dtype, nodes: vec![], known: BTreeMap::new(), inexact: vec![] };
    if !dtype.reduces() {
        return Err(b.refused(format!("{dtype} only moves"), "convert the operands first"));
    }
    (0..func.params.len()).for_each(|i| {
        b.node(Node::Param(i));
    });
    let value = b.expr(&func.body)?;
    let result = b.id(value)?;
    if b.nodes.len() > LONGEST {
        let why = format!("it becomes {} instructions; {LONGEST} are the most", b.nodes.len());
        return Err(b.refused(why, "compute it in several steps"));
    }
    let compute = if dtype.is_float() { DType::F32 } else { dtype };
    let (steps, result, registers) = allocate(&b.nodes, func.params.len(), result);
    b.inexact.sort();
    b.inexact.dedup();
    Ok(Chain {
        compute,
        params: func.params.len(),
        mask: steps.iter().any(|s| matches!(s, Step::Select { .. })),
        steps,
        result,
        registers,
        exact: b.inexact.is_empty(),
        inexact: b.inexact,
    })
}

impl Build<'_> {
    fn refused(&self, why: impl Into<String>, help: &str) -> Box<Diagnostic> {
        let title = format!("{} of {} cannot be emitted", self.func.name, self.dtype);
        Box::new(Diagnostic::error("E451", title).note(why).help(help))
    }

    fn float(&self) -> bool {
        self.dtype.is_float()
    }

    fn node(&mut self, node: Node) -> usize {
        if let Some(id) = self.known.get(&node) {
            return *id;
        }
        self.nodes.push(node.clone());
        self.known.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn vector(&mut self, op: VecOp, args: &[Val]) -> R<Val> {
        if self.nodes.len() > 2 * LONGEST {
            return Err(self.refused("it becomes too many instructions", "compute it in several steps"));
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
    fn id(&mut self, v: Val) -> R<usize> {
        match v {
            Val::Id(i) => Ok(i),
            Val::Num(_) => match self.vector(VecOp::Fill, &[v])? {
                Val::Id(i) => Ok(i),
                Val::Num(_) => Err(self.refused("a number that is no register", "")),
            },
        }
    }

    fn expr(&mut self, e: &Scalar) -> R<Val> {
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

    fn number(&self, v: f64) -> R<Val> {
        let n = round(v, self.dtype);
        if self.float() || n == v {
            return Ok(Val::Num(n));
        }
        Err(self
            .refused(format!("{v:?} is no i32"), "write a whole number of range, or convert the operands"))
    }

    /// Adds `a op b`. A number becomes the last operand if such a form gives the same bits.
    fn bin(&mut self, op: ScalarBin, a: Val, b: Val) -> R<Val> {
        if op == ScalarBin::Div && !self.float() {
            return Err(self.refused("the core does not divide integers", "convert to f32 first"));
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

    fn negative(&self, c: f64) -> f64 {
        if self.float() { -c } else { f64::from((c as i32).wrapping_neg()) }
    }

    /// Computes an operation of two numbers as for an element.
    fn fold(&self, op: ScalarBin, a: f64, b: f64) -> f64 {
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

    fn un(&mut self, op: ScalarUn, a: Val) -> R<Val> {
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
                let why = format!("there is no {} of integers", op.name());
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

    fn function(&mut self, op: VecOp, a: Val) -> R<Val> {
        let id = self.id(a)?;
        self.vector(op, &[Val::Id(id)])
    }

    fn select(&mut self, cmp: CompareOp, a: Val, b: Val, x: Val, y: Val) -> R<Val> {
        if x == y {
            return Ok(x);
        }
        if let (Val::Num(a), Val::Num(b)) = (a, b) {
            return Ok(if holds(cmp, a, b) { x } else { y });
        }
        if !self.float() {
            return Err(self.refused("the core compares integers for equality alone", "convert to f32 first"));
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

/// Rounds a number to a value of a type, once, to nearest even (`docs/numbers.md`).
pub fn round(v: f64, dtype: DType) -> f64 {
    let Some(f) = dtype.float().filter(|_| dtype != DType::F32) else {
        return if dtype == DType::I32 { f64::from(v.round_ties_even() as i32) } else { f64::from(v as f32) };
    };
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let exponent = ((v.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let last = f64::powi(2.0, exponent.max(f.least) - (f.digits as i32 - 1));
    let n = (v / last).round_ties_even() * last;
    if n.abs() > f.max { f64::INFINITY.copysign(v) } else { n }
}

/// Assigns registers to values. A register is free after the last use of its value, and a result
/// may take the register of an operand.
fn allocate(nodes: &[Node], params: usize, result: usize) -> (Vec<Step>, Reg, usize) {
    let reads = |n: &Node| -> Vec<usize> {
        match n {
            Node::Param(_) => vec![],
            Node::Vector(_, args) => {
                args.iter().filter_map(|a| if let Operand::Id(i) = a { Some(*i) } else { None }).collect()
            }
            Node::Select(_, ids) => ids.to_vec(),
        }
    };
    // Values that the result depends on, each with the last node that reads it.
    let mut last: Vec<Option<usize>> = vec![None; nodes.len()];
    last[result] = Some(nodes.len());
    for i in (0..nodes.len()).rev().filter(|i| *i <= result) {
        if last[i].is_some() {
            for r in reads(&nodes[i]) {
                last[r].get_or_insert(i);
            }
        }
    }
    let mut free: Vec<Reg> = (0..params).filter(|p| last[*p].is_none()).collect();
    let mut place: Vec<Reg> = (0..nodes.len()).collect();
    let mut registers = params;
    let mut steps = vec![];
    for (i, node) in nodes.iter().enumerate().skip(params).filter(|(i, _)| last[*i].is_some()) {
        for r in reads(node) {
            if last[r] == Some(i) && !free.contains(&place[r]) {
                free.push(place[r]);
            }
        }
        free.sort_unstable_by(|a, b| b.cmp(a));
        let dst = free.pop().unwrap_or_else(|| {
            registers += 1;
            registers - 1
        });
        let arg = |a: &Operand| match a {
            Operand::Id(r) => Arg::Reg(place[*r]),
            Operand::Num(bits) => Arg::Num(f64::from_bits(*bits)),
        };
        steps.push(match node {
            Node::Param(_) => continue,
            Node::Vector(op, args) => Step::Vector { op: *op, dst, args: args.iter().map(arg).collect() },
            Node::Select(cmp, [a, b, x, y]) => Step::Select {
                cmp: COMPARISONS[usize::from(*cmp)],
                dst,
                a: place[*a],
                b: place[*b],
                x: place[*x],
                y: place[*y],
            },
        });
        place[i] = dst;
    }
    (steps, place[result], registers)
}
