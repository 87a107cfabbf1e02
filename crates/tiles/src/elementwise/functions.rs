//! Functions without an instruction of a vector core, as sequences of instructions, and their error
//! bounds.
//!
//! The polynomials are minimax fits made for this project (Remez algorithm, weighted by the
//! relative error of the whole function), rounded to f32. The bounds hold if `exp` and `log` of the
//! core are wrong by at most one unit in the last place; tests measure the bounds with such
//! functions.

use super::build::{Build, R, Val};
use crate::lower::chain::Bound;
use crate::tile::VecOp;
use kbc_ir::scalar::{CompareOp, ScalarBin, ScalarUn};

/// Returns the error bound of a function; `None` for functions that are exact.
pub fn bound(f: ScalarUn) -> Option<Bound> {
    match f {
        ScalarUn::Neg | ScalarUn::Abs | ScalarUn::Sqrt | ScalarUn::Rsqrt => None,
        ScalarUn::Exp | ScalarUn::Log => Some(Bound::Ulps(1.0)),
        ScalarUn::Tanh => Some(Bound::Ulps(1.5)),
        ScalarUn::Erf => Some(Bound::Ulps(3.0)),
        ScalarUn::Log1p => Some(Bound::Ulps(4.0)),
        ScalarUn::Sin | ScalarUn::Cos => Some(Bound::Absolute { error: 2.5e-7, within: 30_000.0 }),
    }
}

/// Coefficients of (tanh(x) / x - 1) / x^2 as a polynomial in x^2, for |x| <= 0.625.
const TANH: [f32; 5] = [-0.333_332_8, 0.133_314_43, -0.053_739_753, 0.020_639_218, -0.005_705_14];
#[expect(clippy::approx_constant, reason = "a coefficient of a fit, next to the constant and not it")]
/// Coefficients of erf(x) / x as a polynomial in x^2, for |x| <= 1.
const ERF: [f32; 7] = [
    1.128_379_1,
    -0.376_126_26,
    0.112_835_854,
    -0.026_853_81,
    0.005_188_328,
    -0.000_801_019_4,
    0.000_078_538_66,
];
/// Coefficients of ln(1 - erf(x)) as a polynomial in x, for 0.95 <= x <= 4. The last one is
/// negative, so the polynomial tends to minus infinity beyond that range.
const ERFC: [f32; 8] = [
    0.000_185_835_29,
    -1.129_568_5,
    -0.633_238_73,
    -0.108_398_95,
    0.025_196_165,
    -0.004_200_144_7,
    0.000_440_449_8,
    -0.000_021_611_35,
];
/// Coefficients of (sin(x) / x - 1) / x^2 as a polynomial in x^2, for |x| <= pi/2.
const SIN: [f32; 5] = [-0.166_666_67, 0.008_333_331, -0.000_198_408_67, 0.000_002_752_530_2, -2.388_743_6e-8];
/// pi as a sum of four parts. The first two have few bits, so that their products with whole
/// numbers up to 2^14 are exact.
const PI: [f32; 4] = [3.140_625, 0.000_967_025_76, 6.277_114e-7, 1.215_420_1e-10];
/// 1.5 * 2^23: adding and then subtracting it rounds to a whole number.
const ROUND: f64 = 12_582_912.0;

/// 2^26: beyond it, 1 + x is x in f32.
const LOST: f64 = 67_108_864.0;

impl Build<'_> {
    fn num(v: f32) -> Val {
        Val::Num(f64::from(v))
    }

    fn add(&mut self, a: Val, b: Val) -> R<Val> {
        self.bin(ScalarBin::Add, a, b)
    }

    fn mul(&mut self, a: Val, b: Val) -> R<Val> {
        self.bin(ScalarBin::Mul, a, b)
    }

    /// Evaluates a polynomial by Horner's rule. The coefficients begin with the constant.
    fn poly(&mut self, x: Val, coefficients: &[f32]) -> R<Val> {
        let mut rest = coefficients.iter().rev().map(|c| Self::num(*c));
        let first = rest.next().unwrap_or(Val::Num(0.0));
        rest.try_fold(first, |acc, c| {
            let product = self.mul(acc, x)?;
            self.add(product, c)
        })
    }

    /// Rounds to the nearest whole number, ties to even, for absolute values below 2^22.
    fn whole(&mut self, x: Val) -> R<Val> {
        let up = self.add(x, Val::Num(ROUND))?;
        self.bin(ScalarBin::Sub, up, Val::Num(ROUND))
    }

    /// Computes a function of the libm row of `docs/reference/numbers.md`.
    pub(super) fn libm(&mut self, f: ScalarUn, x: Val) -> R<Val> {
        match f {
            ScalarUn::Exp => self.vector(VecOp::Exp, &[x]),
            ScalarUn::Log => self.vector(VecOp::Log, &[x]),
            ScalarUn::Tanh => self.tanh(x),
            ScalarUn::Erf => self.erf(x),
            ScalarUn::Sin => self.sin(x),
            ScalarUn::Cos => self.cos(x),
            ScalarUn::Log1p => self.log1p(x),
            ScalarUn::Neg | ScalarUn::Abs | ScalarUn::Sqrt | ScalarUn::Rsqrt => self.un(f, x),
        }
    }

    /// Computes `1 - y` with the sign of x.
    fn rest(&mut self, x: Val, y: Val) -> R<Val> {
        let minus = self.add(y, Val::Num(-1.0))?;
        let plus = self.mul(minus, Val::Num(-1.0))?;
        self.select(CompareOp::Lt, x, Val::Num(0.0), minus, plus)
    }

    /// Computes tanh(x): x (1 + x^2 P(x^2)) near 0, and 1 - 2 / (e^2|x| + 1) with the sign of x
    /// elsewhere.
    fn tanh(&mut self, x: Val) -> R<Val> {
        let size = self.un(ScalarUn::Abs, x)?;
        let twice = self.mul(size, Val::Num(2.0))?;
        let e = self.vector(VecOp::Exp, &[twice])?;
        let e = self.add(e, Val::Num(1.0))?;
        let q = self.bin(ScalarBin::Div, Val::Num(2.0), e)?;
        let far = self.rest(x, q)?;
        let s = self.mul(x, x)?;
        let p = self.poly(s, &TANH)?;
        let p = self.mul(p, s)?;
        let p = self.add(p, Val::Num(1.0))?;
        let near = self.mul(p, x)?;
        self.select(CompareOp::Lt, size, Val::Num(0.625), near, far)
    }

    /// Computes erf(x): x P(x^2) near 0, and 1 - e^Q(|x|) with the sign of x elsewhere.
    fn erf(&mut self, x: Val) -> R<Val> {
        let size = self.un(ScalarUn::Abs, x)?;
        let q = self.poly(size, &ERFC)?;
        let rest = self.vector(VecOp::Exp, &[q])?;
        let far = self.rest(x, rest)?;
        let s = self.mul(x, x)?;
        let p = self.poly(s, &ERF)?;
        let near = self.mul(p, x)?;
        self.select(CompareOp::Lt, size, Val::Num(1.0), near, far)
    }

    /// Computes x - n pi with the four parts of pi; if `half` is set, x - n pi / 2.
    fn reduce(&mut self, x: Val, n: Val, half: bool) -> R<Val> {
        let factor = if half { 0.5 } else { 1.0 };
        PI.iter().try_fold(x, |x, part| {
            let product = self.mul(n, Self::num(part * factor))?;
            self.bin(ScalarBin::Sub, x, product)
        })
    }

    /// Computes sin(r) for |r| <= pi/2, with its sign changed if the whole number n is odd. With
    /// `zero`, the result for -0 is -0, at the cost of an additional rounding.
    fn sine(&mut self, r: Val, n: Val, zero: bool) -> R<Val> {
        // n - 2 round(n / 2) is -1, 0 or 1; its square is 1 if n is odd.
        let h = self.mul(n, Val::Num(0.5))?;
        let h = self.whole(h)?;
        let h = self.mul(h, Val::Num(2.0))?;
        let odd = self.bin(ScalarBin::Sub, n, h)?;
        let odd = self.mul(odd, odd)?;
        let odd = self.mul(odd, Val::Num(-2.0))?;
        let sign = self.add(odd, Val::Num(1.0))?;
        let s = self.mul(r, r)?;
        let p = self.poly(s, &SIN)?;
        let p = self.mul(p, s)?;
        let value = if zero {
            let p = self.add(p, Val::Num(1.0))?;
            self.mul(p, r)?
        } else {
            let p = self.mul(p, r)?;
            self.add(p, r)?
        };
        self.mul(value, sign)
    }

    fn sin(&mut self, x: Val) -> R<Val> {
        let n = self.mul(x, Self::num(std::f32::consts::FRAC_1_PI))?;
        let n = self.whole(n)?;
        let r = self.reduce(x, n, false)?;
        self.sine(r, n, true)
    }

    /// Computes cos(x) with n = round(x / pi - 1/2), x = (2 n + 1) pi/2 + r, cos(x) = -(-1)^n
    /// sin(r).
    fn cos(&mut self, x: Val) -> R<Val> {
        let n = self.mul(x, Self::num(std::f32::consts::FRAC_1_PI))?;
        let n = self.add(n, Val::Num(-0.5))?;
        let n = self.whole(n)?;
        let odd = self.mul(n, Val::Num(2.0))?;
        let odd = self.add(odd, Val::Num(1.0))?;
        let r = self.reduce(x, odd, true)?;
        let value = self.sine(r, n, false)?;
        self.mul(value, Val::Num(-1.0))
    }

    /// Computes log(1 + x) as x log(u) / (u - 1) with u = 1 + x, in which the rounding of u cancels
    /// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 1.14.1). The error is that
    /// of the logarithm (at most 2 units roundoff) and one of each of the two operations: 4 ulp at
    /// the lower end of a binade. Where u is 1, the result is x; where 1 is lost, it is log(u), so
    /// that infinity is not divided by itself.
    fn log1p(&mut self, x: Val) -> R<Val> {
        let u = self.add(x, Val::Num(1.0))?;
        let log = self.vector(VecOp::Log, &[u])?;
        let rest = self.add(u, Val::Num(-1.0))?;
        let slope = self.bin(ScalarBin::Div, log, rest)?;
        let value = self.mul(slope, x)?;
        let value = self.select(CompareOp::Lt, x, Val::Num(LOST), value, log)?;
        self.select(CompareOp::Eq, u, Val::Num(1.0), x, value)
    }
}
