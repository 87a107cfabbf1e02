//! Fills: tensors whose elements follow from their position alone. They hold one number everywhere,
//! or the index along a dimension.
//!
//! The module owns their definition and the check of which numbers an element type can represent.
//! Every rank can create any part of a fill, so fills have no placement of their own; `place`
//! creates them where they are wanted.

use crate::dtype::{DType, Format};
use std::fmt;

/// A tensor that is filled by position.
#[derive(Clone, PartialEq, Debug)]
pub struct Fill {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<u64>,
    /// Content.
    pub with: FillContent,
}

/// Content of a fill.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FillContent {
    /// A number, rounded once to the element type.
    Number(f64),
    /// The index along this dimension, from 0.
    Place(usize),
}

impl Fill {
    /// Checks that the fill's dimension exists and that the element type can represent its numbers.
    ///
    /// # Errors
    /// Returns a message, to be printed after `fill gives %x, but`.
    pub fn fault(&self) -> Result<(), String> {
        match self.with {
            FillContent::Number(v) => has(self.dtype, v),
            FillContent::Place(d) => match self.sizes.get(d) {
                None => Err(format!("dimension {d} does not exist; there are {}", self.sizes.len())),
                Some(n) if n.saturating_sub(1) > counts_to(self.dtype) => Err(format!(
                    "{} cannot represent every integer up to {}, only up to {}",
                    self.dtype,
                    n - 1,
                    counts_to(self.dtype)
                )),
                Some(_) => Ok(()),
            },
        }
    }
}

/// Returns the largest n such that the type represents every integer from 0 to n.
pub fn counts_to(dtype: DType) -> u64 {
    match dtype.row().format {
        Format::Float(f) => 1 << f.digits,
        Format::Int { bits, signed } => u64::MAX >> (64 - bits + u32::from(signed)),
    }
}

/// Checks that a type can represent a number. Floating-point types round, so they accept every
/// number; integer types accept the integers in their range.
///
/// # Errors
/// Returns a message if the type cannot represent the number.
pub fn has(dtype: DType, v: f64) -> Result<(), String> {
    // 2^53: up to this magnitude, f64 represents every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let inside = |(lo, hi): (i64, i64)| {
        v.fract() == 0.0 && ((lo as f64).max(-EXACT)..=(hi as f64).min(EXACT)).contains(&v)
    };
    match dtype.range().is_none_or(inside) {
        true => Ok(()),
        false => Err(format!("{dtype} cannot represent {v}")),
    }
}

/// Writes the fill as in `.kir`: `f32[25, 8] number 0.5`, `i32[25, 8] index dim 1`.
impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        if !self.sizes.is_empty() {
            write!(f, "{:?}", self.sizes)?;
        }
        match self.with {
            FillContent::Number(v) => write!(f, " number {v:?}"),
            FillContent::Place(d) => write!(f, " index dim {d}"),
        }
    }
}
