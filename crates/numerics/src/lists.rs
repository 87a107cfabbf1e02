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

const LN2_HI: f64 = 0.693_147_180_369_123_8;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// An integer that is added to this stands in the last bits of the sum.
const INTEGER: u64 = 1 << 52;

/// Writes the exponentials of the numbers `from` to `to`, which has the same length: `x = k ln 2 +
/// r`, a rational approximation of `exp(r)`, and a multiplication by `2^k`.
pub fn exponentials(from: &[f64], to: &mut [f64]) {
    const INV_LN2: f64 = std::f64::consts::LOG2_E;
    const P1: f64 = 0.166_666_666_666_666_02;
    const P2: f64 = -0.002_777_777_777_701_559_3;
    const P3: f64 = 6.613_756_321_437_934e-5;
    const P4: f64 = -1.653_390_220_546_525_2e-6;
    const P5: f64 = 4.138_136_797_057_238_5e-8;
    // From here on `k` is computed, from the second on it is 1 or -1, below it is 0.
    const SEVERAL: f64 = word(0x3ff0_a2b2);
    const ONE: f64 = word(0x3fd6_2e43);
    const BIAS: f64 = (INTEGER + 1023) as f64;
    let decides = |x: f64| (word(0x3e30_0001)..word(0x4086_232b)).contains(&x.abs());
    let mut decided = true;
    in_vectors(
        #[inline(always)]
        || {
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
        },
    );
    others(decided, from, to, decides, libm::exp);
}

/// Writes the natural logarithms of the numbers `from` to `to`, which has the same length: `x = 2^k
/// (1 + f)`, and a polynomial in `f / (2 + f)`.
pub fn logarithms(from: &[f64], to: &mut [f64]) {
    const L1: f64 = 0.666_666_666_666_673_5;
    const L2: f64 = 0.399_999_999_994_094_2;
    const L3: f64 = 0.285_714_287_436_623_9;
    const L4: f64 = 0.222_221_984_321_497_84;
    const L5: f64 = 0.181_835_721_616_180_5;
    const L6: f64 = 0.153_138_376_992_093_73;
    const L7: f64 = 0.147_981_986_051_165_86;
    const BIAS: f64 = (INTEGER + 1023) as f64;
    // The high word of the root of 1/2, where the range of `1 + f` begins.
    const ROOT: u64 = 0x3fe6_a09e;
    let decides = |x: f64| (f64::MIN_POSITIVE..f64::INFINITY).contains(&x) & (x != 1.0);
    let mut decided = true;
    in_vectors(
        #[inline(always)]
        || {
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
        },
    );
    others(decided, from, to, decides, libm::log);
}

/// Writes the cosines of the numbers `from` to `to`, which has the same length. Those from 0 to
/// 9/4 pi are computed in vectors: by the sine or the cosine of the distance to the nearest
/// multiple of pi/2.
pub fn cosines(from: &[f64], to: &mut [f64]) {
    const PIO2: f64 = 1.570_796_326_734_125_6;
    const PIO2_REST: f64 = 6.077_100_506_506_192e-11;
    const C1: f64 = 0.041_666_666_666_666_6;
    const C2: f64 = -0.001_388_888_888_887_411;
    const C3: f64 = 2.480_158_728_947_673e-5;
    const C4: f64 = -2.755_731_435_139_066_3e-7;
    const C5: f64 = 2.087_572_321_298_175e-9;
    const C6: f64 = -1.135_964_755_778_819_5e-11;
    const S1: f64 = -0.166_666_666_666_666_32;
    const S2: f64 = 0.008_333_333_333_322_49;
    const S3: f64 = -0.000_198_412_698_298_579_5;
    const S4: f64 = 2.755_731_370_707_006_8e-6;
    const S5: f64 = -2.505_076_025_340_686_3e-8;
    const S6: f64 = 1.589_690_995_211_55e-10;
    // Where the nearest multiple of pi/2 changes.
    const LIMITS: [f64; 5] =
        [word(0x3fe9_21fc), word(0x4002_d97d), word(0x400f_6a7b), word(0x4015_fdbd), word(0x401c_463c)];
    // The high words of the multiples themselves.
    const MULTIPLES: [u64; 4] = [0x3ff9_21fb, 0x4009_21fb, 0x4012_d97c, 0x4019_21fb];
    let decides = |x: f64| {
        let high = x.to_bits() >> 32;
        let far = MULTIPLES.iter().fold(true, |far, m| far & (high != *m));
        (word(0x3e46_a09e)..LIMITS[4]).contains(&x) & far
    };
    let mut decided = true;
    in_vectors(
        #[inline(always)]
        || {
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
        },
    );
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
