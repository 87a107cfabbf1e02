//! Blocks of elements: values and bounds as lists of their own, on which the frequent operations of
//! an expression are loops that processors execute in vectors.
//!
//! The module owns these loops, and the way in which the elements of an operand are brought into
//! the order of the result. A loop has the rule of [`super::scalar`] for elements whose result is
//! rounded and far from overflow, which are almost all. It names the others, for which that module
//! decides.

use super::precision::{F32, too_long};
use kbc_ir::scalar::ScalarBin;
use kbc_numerics::lists::exponentials;
use kbc_numerics::tensor::in_vectors;

/// Number of elements of a block.
pub(super) const BLOCK: usize = 512;

/// Values and bounds of the elements of a block.
#[derive(Clone)]
pub(super) struct Lanes {
    /// The values.
    pub v: Vec<f64>,
    /// The bounds.
    pub e: Vec<f64>,
}

impl Lanes {
    /// Creates a block of elements that all have this value and this bound.
    pub fn all(v: f64, e: f64) -> Lanes {
        Lanes { v: vec![v; BLOCK], e: vec![e; BLOCK] }
    }

    /// Returns the value and the bound of element `i`.
    pub fn at(&self, i: usize) -> (f64, f64) {
        (self.v[i], self.e[i])
    }

    /// Replaces element `i`.
    pub fn put(&mut self, i: usize, (v, e): (f64, f64)) {
        (self.v[i], self.e[i]) = (v, e);
    }

    /// Returns the results of an operation on the first `n` elements of two blocks. `rare` returns
    /// the result for elements that the loops do not decide.
    pub fn pair(
        &self,
        op: ScalarBin,
        other: &Lanes,
        n: usize,
        rare: impl Fn((f64, f64), (f64, f64)) -> (f64, f64),
    ) -> Lanes {
        let mut out = Lanes::all(0.0, 0.0);
        let mut left = [1.0; BLOCK];
        let sum = |_: f64, _: f64, ex: f64, ey: f64| (ex + ey, true);
        match op {
            ScalarBin::Add => each(self, other, &mut out, &mut left, |x, y| x + y, sum, too_long),
            ScalarBin::Sub => each(self, other, &mut out, &mut left, |x, y| x - y, sum, too_long),
            ScalarBin::Mul => {
                let product =
                    |x: f64, y: f64, ex: f64, ey: f64| (x.abs() * ey + ex * y.abs() + ex * ey, true);
                each(self, other, &mut out, &mut left, |x, y| x * y, product, too_long);
            }
            ScalarBin::Div => {
                let quotient = |x: f64, y: f64, ex: f64, ey: f64| {
                    ((ex + (x / y).abs() * ey) / (y.abs() - ey), y.abs() > ey)
                };
                each(self, other, &mut out, &mut left, |x, y| x / y, quotient, too_long);
            }
            ScalarBin::Min | ScalarBin::Max => {}
        }
        for i in (0..n).filter(|i| left[*i] != 0.0) {
            out.put(i, rare(self.at(i), other.at(i)));
        }
        out
    }

    /// Changes the signs of all elements.
    pub fn negate(&mut self) {
        self.v.iter_mut().for_each(|v| *v = -*v);
    }

    /// Replaces the first `n` elements by their exponentials, which have an error of `ulps` units
    /// in the last place. `rare` returns the result for elements that the loops do not decide, from
    /// the element, its bound and the exponential.
    pub fn exponential(&mut self, ulps: f64, n: usize, rare: impl Fn(f64, f64, f64) -> (f64, f64)) {
        let (mut values, mut left) = ([0.0; BLOCK], [0.0; BLOCK]);
        exponentials(&self.v, &mut values);
        let (Some(x), Some(e)) = (self.v.first_chunk::<BLOCK>(), self.e.first_chunk_mut::<BLOCK>()) else {
            return;
        };
        let overflow = F32.overflow();
        in_vectors(
            #[inline(always)]
            || {
                for i in 0..BLOCK {
                    let own = ulps * (2.0 * F32.u * values[i].abs()).max(F32.eta);
                    // The exponential of 0 is exact.
                    let decided = (e[i] == 0.0) & (x[i] != 0.0) & (values[i].abs() + own < overflow);
                    e[i] = if decided { own } else { e[i] };
                    left[i] = if decided { 0.0 } else { 1.0 };
                }
            },
        );
        for i in (0..n).filter(|i| left[*i] != 0.0) {
            (values[i], self.e[i]) = rare(self.v[i], self.e[i], values[i]);
        }
        self.v.copy_from_slice(&values);
    }
}

/// Computes all elements of a block by an operation. `passed` returns the error that comes from the
/// operands, and whether its formula holds; its arguments are both values and both bounds.
/// `inexact` states that a value is certainly rounded, even if both operands are
/// exact. `left` is 0 for the elements that are decided.
#[inline(always)]
fn each(
    a: &Lanes,
    b: &Lanes,
    out: &mut Lanes,
    left: &mut [f64; BLOCK],
    value: impl Fn(f64, f64) -> f64,
    passed: impl Fn(f64, f64, f64, f64) -> (f64, bool),
    inexact: impl Fn(f64) -> bool,
) {
    let overflow = F32.overflow();
    let lists = [&a.v, &a.e, &b.v, &b.e].map(|list| list.first_chunk::<BLOCK>());
    let outs = (out.v.first_chunk_mut::<BLOCK>(), out.e.first_chunk_mut::<BLOCK>());
    let ([Some(x), Some(ex), Some(y), Some(ey)], (Some(v), Some(e))) = (lists, outs) else { return };
    in_vectors(
        #[inline(always)]
        || {
            for i in 0..BLOCK {
                v[i] = value(x[i], y[i]);
                let (propagated, holds) = passed(x[i], y[i], ex[i], ey[i]);
                e[i] = propagated + F32.rounding(v[i].abs() + propagated);
                let rounded = (propagated > 0.0) | inexact(v[i]);
                let decided = holds & rounded & (v[i].abs() + e[i] < overflow);
                left[i] = if decided { 0.0 } else { 1.0 };
            }
        },
    );
}

/// The order in which a result takes the elements of an operand: along each dimension of the
/// result, elements of the operand that are equally far apart.
pub(super) struct Gather {
    /// The element of the operand that is the first of the result.
    first: usize,
    /// Number of elements, and distance of two, along each dimension, slowest first.
    dims: Vec<(usize, usize)>,
}

impl Gather {
    /// Creates the order for a result of this shape. `strides` has the distance along each
    /// dimension.
    pub fn new(shape: &[u64], strides: &[usize], first: usize) -> Gather {
        let mut dims: Vec<(usize, usize)> = vec![];
        for (size, stride) in shape.iter().map(|n| *n as usize).zip(strides.iter().copied()) {
            match dims.last_mut() {
                _ if size == 1 => {}
                // The elements of both dimensions are equally far apart.
                Some(outer) if outer.1 == stride * size => *outer = (outer.0 * size, stride),
                _ => dims.push((size, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 0));
        }
        Gather { first, dims }
    }

    /// Writes the elements of the result from number `at` on.
    pub fn read(&self, from: &[f64], at: usize, out: &mut [f64]) {
        let Some(((inner, stride), outer)) = self.dims.split_last() else { return };
        let mut done = 0;
        while done < out.len() {
            let (mut row, within) = ((at + done) / inner, (at + done) % inner);
            let len = (inner - within).min(out.len() - done);
            let mut base = self.first + within * stride;
            for (size, stride) in outer.iter().rev() {
                base += row % size * stride;
                row /= size;
            }
            let part = &mut out[done..done + len];
            match stride {
                0 => part.fill(from[base]),
                1 => part.copy_from_slice(&from[base..base + len]),
                _ => part.iter_mut().zip(from[base..].iter().step_by(*stride)).for_each(|(o, x)| *o = *x),
            }
            done += len;
        }
    }
}
