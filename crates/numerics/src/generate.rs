//! Generated inputs: exact integers, ones, normal numbers.
//!
//! The module owns the generators and the permitted size of exact inputs. [`crate::formats`] reads
//! data from files.
//!
//! **exact** (the default). Element i of the slice with which rank r is fed in call c is
//! `mix32(i, r, c) % m`: small whole numbers without a period, so that a misplaced chunk is
//! visible. Inputs that are not partial have rank 0. The m is the largest one for which every
//! partial result of a sum of products stays exact in the dtype ([`exact_range`]). If exactness
//! would need m < 2, m is 2 and the caller is informed that results may be rounded. Centred inputs
//! subtract (m - 1) / 2 (m odd), for programs whose functions need both signs.

use crate::lists::{cosines, logarithms};
use crate::rng::mix64;
use crate::shard::feed_shape;
use crate::tensor::{Data, Tensor, WIDE, count, in_vectors};
use kbc_diag::Diagnostic;
use kbc_ir::types::{DType, Mesh, TensorType};

/// Mixes the bits of `(i, rank, iteration)` to 32 bits: the finaliser of MurmurHash3 over three odd
/// multiples.
#[inline(always)]
pub fn mix32(i: u32, rank: u32, iteration: u32) -> u32 {
    let h = i.wrapping_mul(0x9e37_79b1)
        ^ rank.wrapping_add(1).wrapping_mul(0x85eb_ca77).rotate_left(13)
        ^ iteration.wrapping_add(1).wrapping_mul(0xc2b2_ae3d).rotate_left(26);
    let h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    let h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The range of exact inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExactRange {
    /// Values are `0 .. modulus`, or, if `centred`, from `-(modulus - 1) / 2` to
    /// `(modulus - 1) / 2`.
    pub modulus: u32,
    /// Whether both signs occur; the modulus is then odd.
    pub centred: bool,
    /// Whether every partial result is exact; the comparison bound is then zero.
    pub exact: bool,
}

/// Returns the largest integer up to which all integers are exact in a type and in the evaluator's
/// f64.
pub fn exact_limit(dtype: DType) -> u64 {
    kbc_ir::fill::counts_to(dtype).min(1 << 53)
}

/// Returns the range for sums of at most `summands` terms (0 and 1 are the same), each a product of
/// `factors` inputs: the largest modulus with `summands * largest^factors <= exact_limit(dtype)`.
/// An all-reduce over p ranks is `(p, 1)`. A matmul over K is `(K, 2)`; if an all-reduce of its p
/// parts follows, it is still `(K, 2)` for the global K.
pub fn exact_range(dtype: DType, summands: u64, factors: u32, centred: bool) -> ExactRange {
    let budget = exact_limit(dtype) / summands.max(1);
    let fits = |v: u64| v.checked_pow(factors.max(1)).is_some_and(|x| x <= budget);
    // The largest v with v^factors <= budget, by bisection.
    let (mut lo, mut hi) = (0u64, u64::from(u32::MAX >> 1));
    while lo < hi {
        let mid = lo + (hi - lo).div_ceil(2);
        if fits(mid) { lo = mid } else { hi = mid - 1 }
    }
    let exact = lo >= 1;
    let largest = lo.max(1);
    let modulus = if centred { 2 * largest + 1 } else { largest + 1 };
    let odd_max = u32::MAX;
    ExactRange { modulus: modulus.min(u64::from(odd_max)) as u32, centred, exact }
}

/// Returns element `i` of an exact input on a rank in a call.
pub fn exact_value(range: ExactRange, i: u32, rank: u32, iteration: u32) -> i64 {
    let v = i64::from(mix32(i, rank, iteration) % range.modulus.max(1));
    if range.centred { v - i64::from(range.modulus / 2) } else { v }
}

/// A divisor whose remainders are computed without a division, which has no vector form.
#[derive(Clone, Copy)]
struct Divisor {
    of: u32,
    /// 2^32 / `of`, rounded down, and at most 2^32 - 1.
    reciprocal: u32,
}

impl Divisor {
    fn new(of: u32) -> Divisor {
        let of = of.max(1);
        Divisor { of, reciprocal: u32::try_from((1u64 << 32) / u64::from(of)).unwrap_or(u32::MAX) }
    }

    /// Returns the remainder of a number.
    #[inline(always)]
    fn remainder(self, v: u32) -> u32 {
        // The quotient is at most 1 too small.
        let quotient = ((u64::from(v) * u64::from(self.reciprocal)) >> 32) as u32;
        let rest = v.wrapping_sub(quotient.wrapping_mul(self.of));
        rest.min(rest.wrapping_sub(self.of))
    }
}

/// Returns an exact input: the global tensor, with a leading axis if it is partial (slice r is
/// contributor r's). `input` distinguishes the inputs of one program. Fails with E369 for shapes
/// that are too large.
pub fn exact(
    ty: &TensorType,
    mesh: &Mesh,
    range: ExactRange,
    input: u32,
    iteration: u32,
) -> Result<Tensor, Diagnostic> {
    let low = if range.centred { i64::from(range.modulus / 2) } else { 0 };
    numbered(ty, mesh, range.modulus, (input, iteration), |v| i64::from(v) - low)
}

/// Returns signed powers of two up to `most`, distinguished as by [`exact`]. Their products are
/// exact in any order, and none erases the others, as 0 would. Fails with E369 for shapes that are
/// too large.
pub fn powers(
    ty: &TensorType,
    mesh: &Mesh,
    most: u32,
    input: u32,
    iteration: u32,
) -> Result<Tensor, Diagnostic> {
    let signed = |v: u32| if v.is_multiple_of(2) { 1 << (v / 2) } else { -(1 << (v / 2)) };
    numbered(ty, mesh, 2 * (most.max(1).ilog2() + 1), (input, iteration), signed)
}

/// Returns an input of mixed numbers below `modulus`, each mapped to an element.
fn numbered(
    ty: &TensorType,
    mesh: &Mesh,
    modulus: u32,
    (input, iteration): (u32, u32),
    map: impl Fn(u32) -> i64 + Sync,
) -> Result<Tensor, Diagnostic> {
    let (salt, divisor) = (input.wrapping_mul(0x0100_0193), Divisor::new(modulus));
    let value = |rank: u32, i: u32| divisor.remainder(mix32(i.wrapping_add(salt), rank, iteration));
    build(ty, mesh, |n, slice| Ok(Data::converted(ty.dtype, (n, slice), modulus, value, map)))
}

/// Returns a tensor of ones.
pub fn ones(ty: &TensorType, mesh: &Mesh) -> Result<Tensor, Diagnostic> {
    build(ty, mesh, |n, _| Ok(Data::converted(ty.dtype, (n, n), 1, |_, _| 0, |_| 1)))
}

/// Returns normally distributed numbers (mean 0, deviation 1) from a seed, the same on every
/// machine. Only for floating-point types.
pub fn normal(ty: &TensorType, mesh: &Mesh, seed: u64, iteration: u32) -> Result<Tensor, Diagnostic> {
    if !ty.dtype.is_float() {
        return Err(Diagnostic::error("E369", format!("normal({seed}) cannot generate {}", ty.dtype))
            .help("use exact() for integers"));
    }
    build(ty, mesh, |n, _| {
        let key = mix64(seed ^ mix64(u64::from(iteration) + 1));
        // Box-Muller transform: one number from two uniform ones, the first of them in (0, 1].
        let uniform = |k: u64| (mix64(key.wrapping_add(k.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 11) as f64;
        let values = |first: usize, out: &mut [f64]| {
            let (mut near, mut angle, mut wave) = ([0.0; WIDE], [0.0; WIDE], [0.0; WIDE]);
            let n = out.len();
            let (near, angle, wave) = (&mut near[..n], &mut angle[..n], &mut wave[..n]);
            let scale = 1.0 / (1u64 << 53) as f64;
            in_vectors(
                #[inline(always)]
                || {
                    for (k, (a, b)) in (first as u64..).zip(near.iter_mut().zip(angle.iter_mut())) {
                        *a = (uniform(2 * k + 1) + 1.0) * scale;
                        *b = std::f64::consts::TAU * uniform(2 * k + 2) * scale;
                    }
                },
            );
            logarithms(near, out);
            cosines(angle, wave);
            out.iter_mut().zip(wave).for_each(|(x, wave)| *x = (-2.0 * *x).sqrt() * *wave);
        };
        Ok(Data::reals(ty.dtype, n, values))
    })
}

/// Maximum number of elements of a generated input.
const MAX_ELEMENTS: u64 = 1 << 31;

/// Builds an input. `fill` gets the number of elements and that of one contributor's slice.
fn build(
    ty: &TensorType,
    mesh: &Mesh,
    fill: impl FnOnce(usize, usize) -> Result<Data, Diagnostic>,
) -> Result<Tensor, Diagnostic> {
    let shape = feed_shape(ty, mesh);
    let too_large = || {
        Diagnostic::error("E369", format!("an input of shape {shape:?} does not fit in memory"))
            .help("use smaller sizes")
    };
    let n = count(&shape).filter(|n| *n <= MAX_ELEMENTS).ok_or_else(too_large)?;
    let slice = count(&ty.sizes()).unwrap_or(1).max(1);
    let data = fill(n as usize, slice as usize)?;
    Tensor::new(shape.clone(), data).ok_or_else(too_large)
}
