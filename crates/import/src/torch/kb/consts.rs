//! Constant tensors: their contents at import, and constant folding.
//!
//! This module owns the arithmetic of folding: f64, rounded to the element type after every
//! operation. The table of operations decides which function an operation applies.

use crate::torch::dtype::DType;
use kbc_numerics::numbers::round_to;

/// Greatest number of elements of a constant that are stored individually. A constant with one
/// repeated value may have any number of elements.
const MAX_ELEMENTS: i64 = 1 << 24;

/// Integers are exact in f64 up to this bound.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The contents of a constant.
#[derive(Clone, PartialEq, Debug)]
pub enum ConstData {
    /// The same value in every element.
    One(f64),
    /// Each element, in row-major order.
    Each(Vec<f64>),
}

/// A constant tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Const {
    /// Element type.
    pub dtype: DType,
    /// One size per dimension.
    pub sizes: Vec<i64>,
    /// Contents.
    pub held: ConstData,
}

/// Rounds a number to an element type; none for an integer that f64 does not represent exactly.
pub fn rounded(dtype: DType, x: f64) -> Option<f64> {
    Some(match dtype {
        DType::F64 => x,
        d if let Some(ours) = d.ours().filter(|d| d.is_float()) => round_to(x, ours),
        DType::Bool => f64::from(u8::from(x != 0.0)),
        d if d.class() == 1 => return Some(x.trunc()).filter(|x| x.abs() <= EXACT),
        _ => return None,
    })
}

/// Returns the strides of a tensor in row-major order.
pub fn strides(sizes: &[i64]) -> Vec<i64> {
    let mut out = vec![1i64; sizes.len()];
    for d in (1..sizes.len()).rev() {
        out[d - 1] = out[d].saturating_mul(sizes[d].max(1));
    }
    out
}

fn elements(sizes: &[i64]) -> Result<usize, String> {
    let n = sizes.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).filter(|n| *n <= MAX_ELEMENTS);
    n.and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| format!("a constant of sizes {sizes:?}, which is too large"))
}

impl Const {
    /// Makes a constant with one repeated value.
    pub fn one(dtype: DType, sizes: &[i64], x: f64) -> Result<Const, String> {
        let x = rounded(dtype, x).ok_or_else(|| format!("{x} as {}", dtype.name()))?;
        Ok(Const { dtype, sizes: sizes.to_vec(), held: ConstData::One(x) })
    }

    /// Makes a constant from elements in row-major order. A repeated value is detected.
    pub fn each(dtype: DType, sizes: &[i64], list: Vec<f64>) -> Result<Const, String> {
        let list = list
            .into_iter()
            .map(|x| rounded(dtype, x).ok_or_else(|| format!("{x} as {}", dtype.name())))
            .collect::<Result<Vec<f64>, _>>()?;
        let same = list.first().is_some_and(|a| list.iter().all(|b| a.to_bits() == b.to_bits()));
        let held = if same { ConstData::One(list[0]) } else { ConstData::Each(list) };
        Ok(Const { dtype, sizes: sizes.to_vec(), held })
    }

    /// Returns the repeated value, if all elements are equal.
    pub fn uniform(&self) -> Option<f64> {
        match &self.held {
            ConstData::One(x) => Some(*x),
            ConstData::Each(_) => None,
        }
    }

    /// Returns all elements, in row-major order.
    pub fn elements(&self) -> Result<Vec<f64>, String> {
        match &self.held {
            ConstData::One(x) => Ok(vec![*x; elements(&self.sizes)?]),
            ConstData::Each(l) => Ok(l.clone()),
        }
    }

    /// Gathers a strided view: `sizes` of the result, the stride in this constant for each of its
    /// dimensions, and the index of the first element.
    pub fn walked(&self, sizes: &[i64], steps: &[i64], first: i64) -> Result<Const, String> {
        let ConstData::Each(list) = &self.held else {
            return Ok(Const { sizes: sizes.to_vec(), ..self.clone() });
        };
        let n = elements(sizes)?;
        let mut out = Vec::with_capacity(n);
        let mut at = vec![0i64; sizes.len()];
        for _ in 0..n {
            let place: i64 = first + at.iter().zip(steps).map(|(a, s)| a * s).sum::<i64>();
            let x = usize::try_from(place).ok().and_then(|p| list.get(p));
            out.push(*x.ok_or("an element outside of its constant")?);
            for d in (0..sizes.len()).rev() {
                at[d] += 1;
                if at[d] < sizes[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        Const::each(self.dtype, sizes, out)
    }

    /// Broadcasts the constant to larger sizes. Dimensions of length 1 and missing
    /// dimensions are repeated.
    pub fn broadcast(&self, sizes: &[i64]) -> Result<Const, String> {
        let own = strides(&self.sizes);
        let new = sizes.len().checked_sub(self.sizes.len()).ok_or("a constant with more dimensions")?;
        let steps: Vec<i64> = (0..sizes.len())
            .map(|d| if d < new || self.sizes[d - new] == 1 { 0 } else { own[d - new] })
            .collect();
        self.walked(sizes, &steps, 0)
    }

    /// Returns the same elements in another shape.
    pub fn viewed(self, sizes: &[i64]) -> Const {
        Const { sizes: sizes.to_vec(), ..self }
    }

    /// Converts the constant to another type.
    pub fn cast(&self, dtype: DType) -> Result<Const, String> {
        Const::map(dtype, &self.sizes, &[self], |x| x[0])
    }

    /// Applies a function to the elements of several constants, broadcast to `sizes`.
    pub fn map(
        dtype: DType,
        sizes: &[i64],
        of: &[&Const],
        f: impl Fn(&[f64]) -> f64,
    ) -> Result<Const, String> {
        if let Some(all) = of.iter().map(|c| c.uniform()).collect::<Option<Vec<f64>>>() {
            return Const::one(dtype, sizes, f(&all));
        }
        let lists = of.iter().map(|c| c.broadcast(sizes)?.elements()).collect::<Result<Vec<_>, String>>()?;
        let n = elements(sizes)?;
        let out = (0..n).map(|i| f(&lists.iter().map(|l| l[i]).collect::<Vec<f64>>())).collect();
        Const::each(dtype, sizes, out)
    }

    /// Reduces along dimensions, which remain with length 1.
    pub fn reduced(
        &self,
        dtype: DType,
        dims: &[usize],
        f: impl Fn(f64, f64) -> f64,
    ) -> Result<Const, String> {
        let sizes: Vec<i64> =
            (0..self.sizes.len()).map(|d| if dims.contains(&d) { 1 } else { self.sizes[d] }).collect();
        let list = self.elements()?;
        let steps = strides(&sizes);
        let own = strides(&self.sizes);
        let mut out: Vec<Option<f64>> = vec![None; elements(&sizes)?];
        for (i, x) in list.iter().enumerate() {
            let mut to = 0;
            for d in (0..sizes.len()).filter(|d| !dims.contains(d)) {
                to += (i as i64 / own[d]) % self.sizes[d] * steps[d];
            }
            let slot = &mut out[to as usize];
            *slot = Some(slot.map_or(*x, |y| f(y, *x)));
        }
        let out = out.into_iter().collect::<Option<Vec<f64>>>().ok_or("a reduction of no elements")?;
        Const::each(dtype, &sizes, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_and_maps() {
        let c = Const::each(DType::I64, &[2, 3], (0..6).map(f64::from).collect()).expect("a constant");
        let t = c.walked(&[3, 2], &[1, 3], 0).expect("a transpose");
        assert_eq!(t.elements(), Ok(vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        let row = c.walked(&[3], &[1], 3).expect("a row");
        let sum = Const::map(DType::I64, &[2, 3], &[&c, &row], |x| x[0] + x[1]).expect("a sum");
        assert_eq!(sum.elements(), Ok(vec![3.0, 5.0, 7.0, 6.0, 8.0, 10.0]));
        let all = sum.reduced(DType::I64, &[1], |a, b| a + b).expect("a reduction");
        assert_eq!((all.sizes.clone(), all.elements()), (vec![2, 1], Ok(vec![15.0, 24.0])));
        assert_eq!(
            Const::one(DType::F32, &[1 << 40], 0.1).expect("one value").uniform(),
            Some(f64::from(0.1f32))
        );
        assert!(Const::one(DType::I64, &[], 1e300).is_err());
    }
}
