//! Chains: elementwise functions as straight-line programs of vector instructions.
//!
//! The module owns the data. A target decides which instructions a function becomes
//! ([`crate::device::Device::chain`]); lowering puts them into loops over tiles.

use crate::tile::VecOp;
use kbc_ir::scalar::{CompareOp, ScalarUn};
use kbc_ir::types::DType;
use std::fmt;

/// A register, which is a tile of the compute type.
pub type Reg = usize;

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
    /// Whether the result is that of `docs/reference/numbers.md` to the bit.
    pub exact: bool,
    /// Functions that are only exact up to an error bound, each once.
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

/// Error bound of a function.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bound {
    /// Units in the last place of the f32 result.
    Ulps(f64),
    /// Absolute error, for arguments up to a given size. Nothing is known about larger arguments.
    Absolute {
        /// The error.
        error: f64,
        /// The largest absolute value of an argument.
        within: f64,
    },
}

/// Rounds a number to a value of a type, once, to nearest even (`docs/reference/numbers.md`).
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
