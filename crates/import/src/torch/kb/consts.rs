//! Tensors that are known at import: what they hold, and how operations on them are evaluated.
//!
//! Owns the arithmetic of folding: in f64, rounded to the element type after every operation. Which operation is which
//! function is the table's.

use crate::torch::dtype::DType;
use half::{bf16, f16};

/// Elements of a constant that are kept one by one; one value everywhere may have any number.
const MOST: i64 = 1 << 24;

/// Whole numbers are exact in f64 up to here.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a constant holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Held {
    /// The same everywhere.
    One(f64),
    /// Each element, in row-major order.
    Each(Vec<f64>),
}

/// A tensor that is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Const {
    /// Of an element.
    pub dtype: DType,
    /// One a dimension.
    pub sizes: Vec<i64>,
    /// Its elements.
    pub held: Held,
}

/// A number as an element type holds it; none where a whole number is beyond what f64 holds.
pub fn rounded(dtype: DType, x: f64) -> Option<f64> {
    Some(match dtype {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::Bf16 => bf16::from_f64(x).to_f64(),
        DType::Bool => f64::from(u8::from(x != 0.0)),
        d if d.class() == 1 => return Some(x.trunc()).filter(|x| x.abs() <= EXACT),
        _ => return None,
    })
}

/// Steps of the dimensions of a tensor in row-major order.
pub fn strides(sizes: &[i64]) -> Vec<i64> {
    let mut out = vec![1i64; sizes.len()];
    for d in (1..sizes.len()).rev() {
        out[d - 1] = out[d].saturating_mul(sizes[d].max(1));
    }
    out
}

fn elements(sizes: &[i64]) -> Result<usize, String> {
    let n = sizes.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).filter(|n| *n <= MOST);
    n.and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| format!("a constant of sizes {sizes:?}, which is too large"))
}

impl Const {
    /// The same everywhere.
    pub fn one(dtype: DType, sizes: &[i64], x: f64) -> Result<Const, String> {
        let x = rounded(dtype, x).ok_or_else(|| format!("{x} as {}", dtype.name()))?;
        Ok(Const { dtype, sizes: sizes.to_vec(), held: Held::One(x) })
    }

    /// Of elements in row-major order; one value everywhere is noticed.
    pub fn each(dtype: DType, sizes: &[i64], list: Vec<f64>) -> Result<Const, String> {
        let list = list
            .into_iter()
            .map(|x| rounded(dtype, x).ok_or_else(|| format!("{x} as {}", dtype.name())))
            .collect::<Result<Vec<f64>, _>>()?;
        let same = list.first().is_some_and(|a| list.iter().all(|b| a.to_bits() == b.to_bits()));
        let held = if same { Held::One(list[0]) } else { Held::Each(list) };
        Ok(Const { dtype, sizes: sizes.to_vec(), held })
    }

    /// The value that it has everywhere.
    pub fn uniform(&self) -> Option<f64> {
        match &self.held {
            Held::One(x) => Some(*x),
            Held::Each(_) => None,
        }
    }

    /// All elements, in row-major order.
    pub fn elements(&self) -> Result<Vec<f64>, String> {
        match &self.held {
            Held::One(x) => Ok(vec![*x; elements(&self.sizes)?]),
            Held::Each(l) => Ok(l.clone()),
        }
    }

    /// The elements that a walk over it meets: `sizes` of the result, the step of each of its dimensions, the first.
    pub fn walked(&self, sizes: &[i64], steps: &[i64], first: i64) -> Result<Const, String> {
        let Held::Each(list) = &self.held else {
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

    /// The same in larger sizes: dimensions of one element and missing ones are repeated.
    pub fn broadcast(&self, sizes: &[i64]) -> Result<Const, String> {
        let own = strides(&self.sizes);
        let new = sizes.len().checked_sub(self.sizes.len()).ok_or("a constant with more dimensions")?;
        let steps: Vec<i64> = (0..sizes.len())
            .map(|d| if d < new || self.sizes[d - new] == 1 { 0 } else { own[d - new] })
            .collect();
        self.walked(sizes, &steps, 0)
    }

    /// The same elements in other sizes.
    pub fn viewed(self, sizes: &[i64]) -> Const {
        Const { sizes: sizes.to_vec(), ..self }
    }

    /// As another type.
    pub fn cast(&self, dtype: DType) -> Result<Const, String> {
        Const::map(dtype, &self.sizes, &[self], |x| x[0])
    }

    /// A function of the elements of several constants, broadcast to `sizes`.
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

    /// Combines along dimensions, which stay as 1.
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
