//! Shape operations: operations that move elements and compute nothing.
//!
//! The module owns the name and text of each operation, the shape of its result, and which
//! dimension of the result each dimension of an operand becomes. `infer` derives placements from
//! the latter, and `expand` decides how ranks carry out the operation.

use crate::fill::has;
use crate::types::{DType, ReduceOp};
use std::fmt;

/// A shape operation: which elements of its operands the result has, and where.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapeOp {
    /// Transposition: dimension i of the result is dimension `perm[i]` of the operand.
    Transpose(Vec<usize>),
    /// Reshape: the same elements, in row-major order, in a tensor of these sizes.
    Reshape(Vec<u64>),
    /// Slice: elements `from .. to` of a dimension.
    Slice {
        /// Dimension.
        dim: usize,
        /// First element.
        from: u64,
        /// One past the last element.
        to: u64,
    },
    /// Entry of the first dimension with this number. The result does not have that dimension.
    Entry(u64),
    /// Padding: the operand with a number before and after it along a dimension.
    Pad {
        /// Dimension.
        dim: usize,
        /// Number of elements before the operand.
        before: u64,
        /// Number of elements after the operand.
        after: u64,
        /// Value of the added elements, rounded once to the element type.
        value: f64,
    },
    /// Concatenation: the operands one after another along a dimension.
    Concat {
        /// Dimension.
        dim: usize,
    },
}

/// The dimension of the result that a dimension of an operand becomes.
///
/// Both dimensions run over a common sequence of elements: index i of the operand's dimension
/// covers the elements `i * step .. (i + 1) * step` of the sequence, and index j of the result's
/// dimension covers `j * result_step .. (j + 1) * result_step`. With equal steps, both are the same
/// dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follows {
    /// Dimension of the result.
    pub dim: usize,
    /// Elements of the sequence per index of the operand's dimension.
    pub step: u64,
    /// Elements of the sequence per index of the result's dimension.
    pub result_step: u64,
}

impl ShapeOp {
    /// Returns the first word in `.kb` and `.kir`.
    pub fn name(&self) -> &'static str {
        match self {
            ShapeOp::Transpose(_) => "transpose",
            ShapeOp::Reshape(_) => "reshape",
            ShapeOp::Slice { .. } => "slice",
            ShapeOp::Entry(_) => "entry",
            ShapeOp::Pad { .. } => "pad",
            ShapeOp::Concat { .. } => "concat",
        }
    }

    /// Returns the number of operands, or `None` if any number except 0 is allowed.
    pub fn arity(&self) -> Option<usize> {
        match self {
            ShapeOp::Concat { .. } => None,
            _ => Some(1),
        }
    }

    /// Returns the sizes of the result for operands of these sizes.
    ///
    /// # Errors
    /// Returns a message about what does not fit, to be printed after `reshape of f32[2, 3]:`.
    pub fn sizes(&self, operands: &[Vec<u64>]) -> Result<Vec<u64>, String> {
        let Some(x) = operands.first() else { return Err("it has no operand".into()) };
        let dimension = |dim: usize| match dim < x.len() {
            true => Ok(()),
            false => Err(format!("dimension {dim} does not exist; there are {}", counted(x.len()))),
        };
        match self {
            ShapeOp::Transpose(perm) => {
                if perm.len() != x.len() {
                    return Err(format!(
                        "{perm:?} names {}, and the operand has {}",
                        counted(perm.len()),
                        x.len()
                    ));
                }
                for (i, d) in perm.iter().enumerate() {
                    dimension(*d)?;
                    if perm[..i].contains(d) {
                        return Err(format!("{perm:?} names dimension {d} twice"));
                    }
                }
                Ok(perm.iter().map(|d| x[*d]).collect())
            }
            ShapeOp::Reshape(sizes) => {
                let count = |s: &[u64]| s.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
                match (count(x), count(sizes)) {
                    (Some(a), Some(b)) if a == b => Ok(sizes.clone()),
                    (Some(a), Some(b)) => {
                        Err(format!("{a} elements cannot have the shape {sizes:?}, which has {b}"))
                    }
                    _ => Err("the number of elements exceeds 64 bits".into()),
                }
            }
            ShapeOp::Slice { dim, from, to } => {
                dimension(*dim)?;
                if from > to || *to > x[*dim] {
                    return Err(format!(
                        "elements {from}..{to} are outside the {} elements of dimension {dim}",
                        x[*dim]
                    ));
                }
                let mut out = x.clone();
                out[*dim] = to - from;
                Ok(out)
            }
            ShapeOp::Entry(index) => {
                dimension(0)?;
                if *index >= x[0] {
                    return Err(format!("entry {index} is outside the {} entries of dimension 0", x[0]));
                }
                Ok(x[1..].to_vec())
            }
            ShapeOp::Pad { dim, before, after, .. } => {
                dimension(*dim)?;
                let mut out = x.clone();
                let longer = before.checked_add(*after).and_then(|n| n.checked_add(x[*dim]));
                out[*dim] = longer.ok_or("the number of elements exceeds 64 bits")?;
                Ok(out)
            }
            ShapeOp::Concat { dim } => {
                dimension(*dim)?;
                let mut out = x.clone();
                out[*dim] = 0;
                for y in operands {
                    let others =
                        |s: &[u64]| s.iter().enumerate().filter(|(d, _)| d != dim).all(|(d, n)| *n == x[d]);
                    if y.len() != x.len() || !others(y) {
                        return Err(format!("{y:?} and {x:?} differ in other dimensions than {dim}"));
                    }
                    out[*dim] =
                        out[*dim].checked_add(y[*dim]).ok_or("the number of elements exceeds 64 bits")?;
                }
                Ok(out)
            }
        }
    }

    /// Checks that the element type can represent the value of added elements.
    ///
    /// # Errors
    /// Returns a message if it cannot.
    pub fn has_number(&self, dtype: DType) -> Result<(), String> {
        match self {
            ShapeOp::Pad { value, .. } => has(dtype, *value),
            _ => Ok(()),
        }
    }

    /// Checks whether the operation commutes with a pending reduction: elements that every rank
    /// adds must not change when the ranks' values are combined.
    pub fn commutes(&self, op: ReduceOp) -> bool {
        match (self, op) {
            (ShapeOp::Pad { value, .. }, ReduceOp::Sum) => *value == 0.0,
            (ShapeOp::Pad { value, .. }, ReduceOp::Prod) => *value == 1.0,
            _ => true,
        }
    }

    /// Returns, for each dimension of an operand, the dimension of the result that it becomes, or
    /// `None` if every rank must hold the dimension as a whole. The sizes are those of the operand
    /// and of the matching result.
    pub fn follows(&self, operand: &[u64], result: &[u64]) -> Vec<Option<Follows>> {
        let same = |dim| Some(Follows { dim, step: 1, result_step: 1 });
        let all_but =
            |whole: usize| (0..operand.len()).map(|d| if d == whole { None } else { same(d) }).collect();
        match self {
            ShapeOp::Transpose(perm) => {
                (0..operand.len()).map(|d| perm.iter().position(|p| *p == d).and_then(same)).collect()
            }
            ShapeOp::Reshape(_) => groups(operand, result),
            ShapeOp::Entry(_) => (0..operand.len()).map(|d| d.checked_sub(1).and_then(same)).collect(),
            ShapeOp::Slice { dim, .. } | ShapeOp::Pad { dim, .. }
                if operand.get(*dim) == result.get(*dim) =>
            {
                all_but(operand.len())
            }
            ShapeOp::Slice { dim, .. } | ShapeOp::Pad { dim, .. } | ShapeOp::Concat { dim } => all_but(*dim),
        }
    }
}

/// Returns where the dimensions of a reshape go. Both shapes are divided into the shortest groups
/// of consecutive dimensions with equal products. In each group, the first dimension of the operand
/// that is larger than 1 becomes the first such dimension of the result.
fn groups(operand: &[u64], result: &[u64]) -> Vec<Option<Follows>> {
    let mut out = vec![None; operand.len()];
    if operand.contains(&0) {
        return out;
    }
    let (mut i, mut j) = (0, 0);
    loop {
        while operand.get(i) == Some(&1) {
            i += 1;
        }
        while result.get(j) == Some(&1) {
            j += 1;
        }
        let (Some(&x), Some(&y)) = (operand.get(i), result.get(j)) else { return out };
        let (first, dim) = (i, j);
        let (mut a, mut b) = (x, y);
        while a != b {
            let (next, product, at) =
                if a < b { (operand, &mut a, &mut i) } else { (result, &mut b, &mut j) };
            *at += 1;
            let Some(n) = next.get(*at) else { return out };
            *product = product.saturating_mul(*n);
        }
        out[first] = Some(Follows { dim, step: a / x, result_step: b / y });
        (i, j) = (i + 1, j + 1);
    }
}

fn counted(n: usize) -> String {
    if n == 1 { "1 dimension".into() } else { format!("{n} dimensions") }
}

/// Writes what follows the operands in `.kir`: `perm [1, 0]`, `to [6]`, `dim 0 from 2 to 5`,
/// `at 3`, `dim 0 before 1 after 2 number 0.0`, `dim 1`.
impl fmt::Display for ShapeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeOp::Transpose(perm) => write!(f, "perm {perm:?}"),
            ShapeOp::Reshape(sizes) => write!(f, "to {sizes:?}"),
            ShapeOp::Slice { dim, from, to } => write!(f, "dim {dim} from {from} to {to}"),
            ShapeOp::Entry(index) => write!(f, "at {index}"),
            ShapeOp::Pad { dim, before, after, value } => {
                write!(f, "dim {dim} before {before} after {after} number {value:?}")
            }
            ShapeOp::Concat { dim } => write!(f, "dim {dim}"),
        }
    }
}
