//! Values during a translation: constants, nodes, nodes that stand for larger tensors,
//! and comparisons.
//!
//! This module owns the conversions between them: what `expand` repeats, truth values, and
//! element types.

use super::consts::{Const, ConstData};
use super::graph::{Graph, NodeId, NodeOp, Operand};
use crate::torch::dtype::DType;

/// A comparison that is not in the graph yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The operator, such as `<`.
    pub how: &'static str,
    /// The two sides, of one element type.
    pub sides: [Operand; 2],
    /// Whether the comparison is negated.
    pub not: bool,
    /// Sizes of the tensor of truth values.
    pub sizes: Vec<i64>,
}

/// A value of PyTorch's program.
#[derive(Clone, PartialEq, Debug)]
pub enum Val {
    /// A constant.
    Const(Const),
    /// A node.
    Node(NodeId),
    /// A node that is broadcast to these sizes.
    Wide(NodeId, Vec<i64>),
    /// A comparison.
    Compared(Compared),
}

/// Returns the element type in which kbc keeps a type of PyTorch.
///
/// # Errors
/// Returns a sentence if there is none.
pub fn stored_dtype(dtype: DType) -> Result<DType, String> {
    match dtype {
        DType::I32 => Ok(dtype),
        DType::I64 | DType::Bool => Ok(DType::I32),
        other if other.ours().is_some_and(|d| d.is_float()) => Ok(dtype),
        other => Err(format!("kbc does not compute with {}", other.name())),
    }
}

/// Greatest number of copies along a dimension that are concatenated. More copies are made by a
/// multiplication with ones.
const COPIES: i64 = 8;

impl Graph {
    /// Returns the sizes of a value.
    pub fn sizes<'a>(&'a self, v: &'a Val) -> &'a [i64] {
        match v {
            Val::Const(c) => &c.sizes,
            Val::Node(n) => &self.nodes[*n].sizes,
            Val::Wide(_, sizes) => sizes,
            Val::Compared(c) => &c.sizes,
        }
    }

    /// Returns a value as an operand that broadcasts, in an element type of kbc.
    ///
    /// # Errors
    /// Returns a sentence about a constant that cannot be represented.
    pub fn operand(&mut self, v: &Val, dtype: DType) -> Result<Operand, String> {
        Ok(match v {
            // Other ranks may have other constants, some of which may be one repeated value.
            Val::Const(c) if self.plain && !c.sizes.is_empty() => Operand::Node(self.stored(c, dtype)?),
            Val::Const(c) => match c.uniform().filter(|x| x.is_finite()) {
                Some(x) => Operand::Num(x),
                None => {
                    let c = match c.uniform() {
                        Some(_) => Const { sizes: vec![], ..c.clone() },
                        None => c.clone(),
                    };
                    Operand::Node(self.stored(&c, dtype)?)
                }
            },
            Val::Node(n) | Val::Wide(n, _) => Operand::Node(self.cast(*n, dtype)),
            Val::Compared(c) => match self.truth(c) {
                Operand::Node(n) => Operand::Node(self.cast(n, dtype)),
                num => num,
            },
        })
    }

    /// Makes a constant an argument.
    fn stored(&mut self, c: &Const, dtype: DType) -> Result<NodeId, String> {
        let c = c.cast(dtype)?;
        if dtype == DType::I32 && c.elements()?.iter().any(|x| x.abs() > f64::from(i32::MAX)) {
            return Err("a constant has integers beyond i32".into());
        }
        if let Some(n) = self.formed(&c) {
            return Ok(n);
        }
        let name = match c.uniform() {
            Some(x) if x == f64::NEG_INFINITY => "neg_inf",
            Some(x) if x == f64::INFINITY => "inf",
            _ => "",
        };
        Ok(self.constant(name, c))
    }

    /// Makes an infinity an argument.
    pub(super) fn infinite(&mut self, dtype: DType, x: f64) -> NodeId {
        let name = if x < 0.0 { "neg_inf" } else { "inf" };
        self.constant(name, Const { dtype, sizes: vec![], held: ConstData::One(x) })
    }

    /// Returns a comparison as 0 and 1, in the type of its sides.
    fn truth(&mut self, c: &Compared) -> Operand {
        let [a, b] = c.sides;
        let (yes, no) = if c.not { (0.0, 1.0) } else { (1.0, 0.0) };
        self.elementwise(NodeOp::Select(c.how), &[a, b, Operand::Num(yes), Operand::Num(no)])
    }

    /// Returns a value as a node with all its elements.
    ///
    /// # Errors
    /// Returns a sentence about a constant that cannot be represented.
    pub fn whole(&mut self, v: &Val, dtype: DType) -> Result<NodeId, String> {
        let sizes = self.sizes(v).to_vec();
        match v {
            Val::Const(c) => {
                let all = Const::each(c.dtype, &sizes, c.elements()?)?;
                self.stored(&all, dtype)
            }
            _ => match self.operand(v, dtype)? {
                Operand::Node(n) => self.repeated(n, &sizes),
                Operand::Num(x) => {
                    let c = Const::one(dtype, &sizes, x)?;
                    self.stored(&c, dtype)
                }
            },
        }
    }

    /// Broadcasts a node to larger sizes by copying.
    fn repeated(&mut self, n: NodeId, sizes: &[i64]) -> Result<NodeId, String> {
        let own = self.nodes[n].sizes.clone();
        if own == sizes {
            return Ok(n);
        }
        let mut full = vec![1; sizes.len().saturating_sub(own.len())];
        full.extend(own);
        let grown: Vec<usize> = (0..sizes.len()).filter(|d| full[*d] != sizes[*d]).collect();
        match grown[..] {
            [] => Ok(self.reshape(n, sizes)),
            [d] if sizes[d] <= COPIES && sizes[d] > 0 => {
                let n = self.reshape(n, &full);
                Ok(self.concat(&vec![n; sizes[d] as usize], d))
            }
            _ => {
                let dtype = self.nodes[n].dtype;
                let ones = Const::one(dtype, sizes, 1.0)?;
                let ones = self.stored(&ones, dtype)?;
                Ok(self.push(
                    NodeOp::Infix('*'),
                    vec![Operand::Node(n), Operand::Node(ones)],
                    dtype,
                    sizes.to_vec(),
                ))
            }
        }
    }

    /// Turns the result of an elementwise operation into a value of these sizes.
    ///
    /// # Errors
    /// Returns a sentence about a number that the type cannot represent.
    pub fn of(&self, result: Operand, dtype: DType, sizes: &[i64]) -> Result<Val, String> {
        Ok(match result {
            Operand::Num(x) => Val::Const(Const::one(dtype, sizes, x)?),
            Operand::Node(n) if self.nodes[n].sizes == sizes => Val::Node(n),
            Operand::Node(n) => Val::Wide(n, sizes.to_vec()),
        })
    }

    /// Returns a truth value as a comparison.
    ///
    /// # Errors
    /// Returns a sentence about a constant that cannot be represented.
    pub fn compared(&mut self, v: &Val) -> Result<Compared, String> {
        if let Val::Compared(c) = v {
            return Ok(c.clone());
        }
        let dtype = match v {
            Val::Node(n) | Val::Wide(n, _) => self.nodes[*n].dtype,
            _ => DType::I32,
        };
        let sizes = self.sizes(v).to_vec();
        let a = self.operand(v, dtype)?;
        Ok(Compared { how: "!=", sides: [a, Operand::Num(0.0)], not: false, sizes })
    }

    /// Builds `select(c, x, y)` with a result of the given type.
    ///
    /// # Errors
    /// Returns a sentence about a constant that cannot be represented.
    pub fn select(&mut self, c: &Val, x: &Val, y: &Val, dtype: DType) -> Result<Operand, String> {
        if let Val::Const(k) = c
            && let Some(yes) = k.uniform()
            && !self.plain
        {
            return self.operand(if yes != 0.0 { x } else { y }, dtype);
        }
        let (mut x, mut y) = (self.operand(x, dtype)?, self.operand(y, dtype)?);
        let mut c = match c {
            // A constant mask becomes a comparison of indices, or data in the type of the
            // selected values.
            Val::Const(k) => match self.formed_mask(k, dtype) {
                Some(c) => c,
                None => {
                    let mask = Operand::Node(self.stored(k, dtype)?);
                    Compared { how: "!=", sides: [mask, Operand::Num(0.0)], not: false, sizes: vec![] }
                }
            },
            other => self.compared(other)?,
        };
        let other = c.sides.iter().any(|s| matches!(s, Operand::Node(n) if self.nodes[*n].dtype != dtype));
        if other {
            let flag = match (c.how, c.sides) {
                // Integers that are compared with 0 need no conversion.
                ("!=", [Operand::Node(n), Operand::Num(0.0)]) if self.nodes[n].dtype == DType::I32 => {
                    Operand::Node(n)
                }
                _ => {
                    let flag = self.truth(&c);
                    c.not = false;
                    flag
                }
            };
            let flag = match flag {
                Operand::Node(n) => Operand::Node(self.cast(n, dtype)),
                num => num,
            };
            c = Compared { how: "!=", sides: [flag, Operand::Num(0.0)], not: c.not, sizes: vec![] };
        }
        if c.not {
            std::mem::swap(&mut x, &mut y);
        }
        let [a, b] = c.sides;
        Ok(self.elementwise(NodeOp::Select(c.how), &[a, b, x, y]))
    }
}
