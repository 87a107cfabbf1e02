//! Functions of lists of f64: the bits of the crate `libm`, computed in vectors.
//!
//! The steps are those of `libm`, with selections in the place of its branches. Numbers for which
//! it has further steps (very small or very large ones, infinities, NaN, and those whose reduction
//! cancels) are left to it.

use crate::tensor::in_vectors;

/// Returns the smallest positive number with this high word.
const fn word(high: u64) -> f64 {
    f64::from_bits(high << 32)
}

const LN2_HI: f64 = 6.931_471_803_691_238_164_90e-01;
const LN2_LO: f64 = 1.908_214_929_270_587_700_02e-10;

/// An integer that is added to this stands in the last bits of the sum.
const INTEGER: u64 = 1 << 52;

/// Writes the exponentials of the numbers `from` to `to`, which has the same length: `x = k ln 2 +
/// r`, a rational approximation of `exp(r)`, and a multiplication by `2^k`.
pub fn exponentials(from: &[f64], to: &mut [f64]) {
    const INV_LN2: f64 = 1.442_695_040_888_963_387_00e+00;
    const P1: f64 = 1.666_666_666_666_660_190_37e-01;
    const P2: f64 = -2.777_777_777_701_559_338_42e-03;
    const P3: f64 = 6.613_756_321_437_934_361_17e-05;
    const P4: f64 = -1.653_390_220_546_525_153_90e-06;
    const P5: f64 = 4.138_136_797_057_238_460_39e-08;
    // From here on `k` is computed, from the second on it is 1 or -1, below it is 0.
    const SEVERAL: f64 = word(0x3ff0_a2b2);
    const ONE: f64 = word(0x3fd6_2e43);
    const BIAS: f64 = (INTEGER + 1023) as f64;
    let decides = |x: f64| (x.abs() >= word(0x3e30_0001)) & (x.abs() < word(0x4086_232b));
    let mut decided = true;
    in_vectors(|| {
        for (x, y) in from.iter().zip(&mut *to) {
            let x = *x;
            decided &= decides(x);
            let rounded = (INV_LN2 * x + 0.5f64.copysign(x)).trunc();
            let one = if x.abs() < ONE { 0.0 } else { 1.0f64.copysign(x) };
            let k = if x.abs() < SEVERAL { one } else { rounded };
            let (hi, lo) = (x - k * LN2_HI, k * LN2_LO);
            let r = hi - lo;
            let rr = r * r;
            let c = r - rr * (P1 + rr * (P2 + rr * (P3 + rr * (P4 + rr * P5))));
            let power = f64::from_bits((k + BIAS).to_bits() << 52);
            *y = (1.0 + (r * c / (2.0 - c) - lo + hi)) * power;
        }
    });
    others(decided, from, to, decides, libm::exp);
}

/// Writes the natural logarithms of the numbers `from` to `to`, which has the same length: `x = 2^k
/// (1 + f)`, and a polynomial in `f / (2 + f)`.
pub fn logarithms(from: &[f64], to: &mut [f64]) {
    const L1: f64 = 6.666_666_666_666_735_130e-01;
    const L2: f64 = 3.999_999_999_940_941_908e-01;
    const L3: f64 = 2.857_142_874_366_239_149e-01;
    const L4: f64 = 2.222_219_843_214_978_396e-01;
    const L5: f64 = 1.818_357_216_161_805_012e-01;
    const L6: f64 = 1.531_383_769_920_937_332e-01;
    const L7: f64 = 1.479_819_860_511_658_591e-01;
    const BIAS: f64 = (INTEGER + 1023) as f64;
    // The high word of the root of 1/2, where the range of `1 + f` begins.
    const ROOT: u64 = 0x3fe6_a09e;
    let decides = |x: f64| (x >= f64::MIN_POSITIVE) & (x < f64::INFINITY) & (x != 1.0);
    let mut decided = true;
    in_vectors(|| {
        for (x, y) in from.iter().zip(&mut *to) {
            decided &= decides(*x);
            let bits = x.to_bits();
            let high = (bits >> 32) + (0x3ff0_0000 - ROOT);
            let k = f64::from_bits((INTEGER as f64).to_bits() | (high >> 20)) - BIAS;
            let near = (high & 0x000f_ffff) + ROOT;
            let f = f64::from_bits(near << 32 | (bits & 0xffff_ffff)) - 1.0;
            let half = 0.5 * f * f;
            let s = f / (2.0 + f);
            let z = s * s;
            let w = z * z;
            let odd = w * (L2 + w * (L4 + w * L6));
            let even = z * (L1 + w * (L3 + w * (L5 + w * L7)));
            *y = s * (half + (even + odd)) + k * LN2_LO - half + f + k * LN2_HI;
        }
    });
    others(decided, from, to, decides, libm::log);
}

/// Writes the cosines of the numbers `from` to `to`, which has the same length. Those from 0 to
/// 9/4 pi are computed in vectors: by the sine or the cosine of the distance to the nearest multiple
/// of pi/2.
pub fn cosines(from: &[f64], to: &mut [f64]) {
    const PIO2: f64 = 1.570_796_326_734_125_614_17e+00;
    const PIO2_REST: f64 = 6.077_100_506_506_192_249_32e-11;
    const C1: f64 = 4.166_666_666_666_660_190_37e-02;
    const C2: f64 = -1.388_888_888_887_410_957_49e-03;
    const C3: f64 = 2.480_158_728_947_672_941_78e-05;
    const C4: f64 = -2.755_731_435_139_066_330_35e-07;
    const C5: f64 = 2.087_572_321_298_174_827_90e-09;
    const C6: f64 = -1.135_964_755_778_819_482_65e-11;
    const S1: f64 = -1.666_666_666_666_663_243_48e-01;
    const S2: f64 = 8.333_333_333_322_489_461_24e-03;
    const S3: f64 = -1.984_126_982_985_794_931_34e-04;
    const S4: f64 = 2.755_731_370_707_006_767_89e-06;
    const S5: f64 = -2.505_076_025_340_686_341_95e-08;
    const S6: f64 = 1.589_690_995_211_550_102_21e-10;
    // Where the nearest multiple of pi/2 changes.
    const LIMITS: [f64; 5] =
        [word(0x3fe9_21fc), word(0x4002_d97d), word(0x400f_6a7b), word(0x4015_fdbd), word(0x401c_463c)];
    // The high words of the multiples themselves.
    const MULTIPLES: [u64; 4] = [0x3ff9_21fb, 0x4009_21fb, 0x4012_d97c, 0x4019_21fb];
    let decides = |x: f64| {
        let high = x.to_bits() >> 32;
        let far = MULTIPLES.iter().fold(true, |far, m| far & (high != *m));
        (x >= word(0x3e46_a09e)) & (x < LIMITS[4]) & far
    };
    let mut decided = true;
    in_vectors(|| {
        for (x, y) in from.iter().zip(&mut *to) {
            let x = *x;
            decided &= decides(x);
            let n = LIMITS[..4].iter().fold(0.0, |n, limit| if x < *limit { n } else { n + 1.0 });
            let z = x - n * PIO2;
            let rest = n * PIO2_REST;
            let a = z - rest;
            let b = (z - a) - rest;
            let z = a * a;
            let w = z * z;
            let r = z * (C1 + z * (C2 + z * C3)) + w * w * (C4 + z * (C5 + z * C6));
            let half = 0.5 * z;
            let near = 1.0 - half;
            let cos = near + (((1.0 - near) - half) + (z * r - a * b));
            let r = S2 + z * (S3 + z * S4) + z * w * (S5 + z * S6);
            let v = z * a;
            let sin = a - ((z * (0.5 * b - v * r) - b) - v * S1);
            let size = if (n == 1.0) | (n == 3.0) { sin } else { cos };
            *y = if (n == 1.0) | (n == 2.0) { -size } else { size };
        }
    });
    others(decided, from, to, decides, libm::cos);
}

/// Computes the numbers that are not decided in vectors, if there are any.
fn others(
    all_decided: bool,
    from: &[f64],
    to: &mut [f64],
    decides: impl Fn(f64) -> bool,
    function: fn(f64) -> f64,
) {
    if !all_decided {
        for (x, y) in from.iter().zip(to).filter(|(x, _)| !decides(**x)) {
            *y = function(*x);
        }
    }
}
