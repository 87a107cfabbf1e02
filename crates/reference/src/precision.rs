//! Floating-point types: which numbers a type holds, and the largest error of one rounding.
//!
//! All arithmetic here is exact in f64 (powers of two, and at most 24 significant bits), so nothing
//! is assumed about the conversions that the interpreter uses.

use kbc_ir::types::DType;

/// A binary floating-point type with gradual underflow, rounded to nearest even.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Precision {
    /// Number of significant bits, including the hidden one.
    pub bits: i32,
    /// Unit roundoff, 2^-bits: the largest relative error of one rounding in the normal range.
    pub u: f64,
    /// Smallest normal number.
    pub tiny: f64,
    /// Smallest subnormal number.
    pub eta: f64,
    /// Largest finite number.
    pub max: f64,
    /// Whether larger numbers round to infinity, and not to the largest finite number.
    pub infinite: bool,
}

/// f32, in which elementwise expressions, sums and products are computed.
pub(super) const F32: Precision = Precision::new(24, -126, f32::MAX as f64, true);

impl Precision {
    const fn new(bits: i32, least: i32, max: f64, infinite: bool) -> Precision {
        Precision { bits, u: pow2(-bits), tiny: pow2(least), eta: pow2(least - bits + 1), max, infinite }
    }

    /// Returns the precision of a floating-point type, or None for integers.
    pub fn of(dtype: DType) -> Option<Precision> {
        dtype.float().map(|f| Precision::new(f.digits as i32, f.least, f.max, f.infinite))
    }

    /// Whether `x` is a value of the type. Infinities (if there are any) and NaN are.
    pub fn holds(&self, x: f64) -> bool {
        if x == 0.0 || !x.is_finite() {
            return self.infinite || !x.is_infinite();
        }
        x.abs() <= self.max && grain(x) >= self.eta && x.abs() < grain(x) * pow2(self.bits)
    }

    /// Returns `x` rounded to the type.
    pub fn round(&self, x: f64) -> f64 {
        if !self.infinite && x.abs() > self.max {
            return self.max.copysign(x);
        }
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        let step = pow2(exponent(x) - self.bits + 1).max(self.eta);
        let rounded = (x / step).round_ties_even() * step;
        if rounded.abs() > self.max { f64::INFINITY.copysign(x) } else { rounded }
    }

    /// Returns the largest change that one rounding can make to a number of absolute value at most
    /// `size`: u times it, or half the smallest subnormal where it may be subnormal.
    pub fn rounding(&self, size: f64) -> f64 {
        (self.u * size).max(0.5 * self.eta)
    }

    /// Returns Higham's gamma_n = n u / (1 - n u), the relative error of n consecutive roundings;
    /// infinite from n = 1/u on.
    pub fn gamma(&self, n: f64) -> f64 {
        let nu = n * self.u;
        if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
    }

    /// Returns the smallest absolute value that rounds to infinity, or would if the type had one.
    pub fn overflow(&self) -> f64 {
        self.max + 0.5 * pow2(exponent(self.max) - self.bits + 1)
    }

    /// Whether sums of multiples of `grain` whose absolute values add up to at most `size` are
    /// exact in any order.
    pub fn exact(&self, size: f64, grain: f64) -> bool {
        // `size` may carry the errors of an f64 sum, far below one grain in 2^25; the next possible
        // size is a grain away.
        grain >= self.eta && size <= grain * pow2(self.bits) * (1.0 + pow2(-26)) && size <= self.max
    }
}

/// Returns 2^e for -1022 <= e <= 1023.
pub(super) const fn pow2(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// Returns the exponent of a number: 2^exponent <= |x| < 2^(exponent + 1) if it is normal in f64.
fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// Returns the largest power of two of which `x` is a multiple. It is infinite for 0, and 0 if
/// nothing can be stated (x is not finite, or too small for any type of kbc).
pub(super) fn grain(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY;
    }
    let e = exponent(x);
    if !(-900..1024).contains(&e) {
        return 0.0;
    }
    pow2(e - 52 + ((x.to_bits() | 1 << 52).trailing_zeros() as i32).min(52))
}

/// Returns the number divided by its [`grain`], without its sign: an odd integer; 0 if it is 0 or
/// nothing can be stated.
pub(super) fn odd_factor(x: f64) -> f64 {
    let grain = grain(x);
    if grain == 0.0 || x == 0.0 { 0.0 } else { x.abs() / grain }
}

/// Returns the largest power of two of which all numbers are multiples, or a larger one if that
/// already shows that a sum of this size is rounded ([`Precision::exact`] for f32).
pub(super) fn grain_of_sum(values: impl IntoIterator<Item = f64>, size: f64) -> f64 {
    let mut least = f64::INFINITY;
    for v in values {
        least = grain(v).min(least);
        if size > 2.0 * least * pow2(F32.bits) {
            break;
        }
    }
    least
}

/// Returns the largest power of two of which all numbers are multiples.
pub(super) fn common_grain(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(grain).fold(f64::INFINITY, f64::min)
}

/// Returns the number of significant bits: 1 for a power of two, 0 for 0.
pub(super) fn significant_bits(x: f64) -> i32 {
    if x == 0.0 { 0 } else { 53 - ((x.to_bits() | 1 << 52).trailing_zeros() as i32).min(52) }
}

/// Whether a number has more significant bits than f32. May return false for some that have.
pub(super) fn too_long(v: f64) -> bool {
    v.to_bits() & ((1 << (53 - F32.bits)) - 1) != 0
}

/// Returns `x y`, where zero times anything, also infinity, is zero; used for bounds.
pub(super) fn times(x: f64, y: f64) -> f64 {
    if x == 0.0 || y == 0.0 { 0.0 } else { x * y }
}
