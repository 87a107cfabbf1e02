//! Tests of functions of lists: they give the bits of the functions of single numbers.

use kbc_numerics::lists::{cosines, exponentials, logarithms};
use kbc_numerics::rng::mix64;

/// Returns the number whose bits are these.
fn number(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// A number in [0, 1).
fn fraction(i: u64) -> f64 {
    (mix64(i) >> 11) as f64 / (1u64 << 53) as f64
}

/// Compares all functions on a list and on its negative.
fn same(list: &[f64]) {
    let negative: Vec<f64> = list.iter().map(|x| -x).collect();
    for list in [list, &negative] {
        of(list, "exp", exponentials, libm::exp);
        of(list, "log", logarithms, libm::log);
        of(list, "cos", cosines, libm::cos);
    }
}

fn of(list: &[f64], name: &str, all: fn(&[f64], &mut [f64]), one: fn(f64) -> f64) {
    let mut out = vec![0.0; list.len()];
    all(list, &mut out);
    for (x, y) in list.iter().zip(out) {
        let want = one(*x);
        assert!(y.to_bits() == want.to_bits() || (y.is_nan() && want.is_nan()), "{name}({x:e}): {y:e}");
    }
}

#[test]
fn lists_have_the_bits_of_single_numbers() {
    // All exponents.
    same(&(0..200_000).map(|i| number(mix64(i))).collect::<Vec<_>>());
    // The range in which exponentials are finite, and angles.
    for width in [1e-8, 1e-3, 0.4, 1.0, 2.0, 7.2, 90.0, 1500.0] {
        same(&(0..100_000).map(|i| width * fraction(i)).collect::<Vec<_>>());
    }
}

#[test]
fn numbers_at_the_limits_of_steps() {
    let mut list = vec![0.0, f64::INFINITY, f64::NAN, 1.0, 709.782_712_893_384, 745.133_219_101_941_2];
    list.extend([1.0f64.next_up(), 1.0f64.next_down(), f64::MIN_POSITIVE, f64::MIN_POSITIVE.next_down()]);
    let exp = [0x3e30_0000u64, 0x3fd6_2e42, 0x3ff0_a2b2, 0x4086_232b];
    let cos = [0x3e46_a09e, 0x3fe9_21fb, 0x3ff9_21fb, 0x4002_d97c, 0x4009_21fb, 0x400f_6a7a];
    let more = [0x4012_d97c, 0x4015_fdbc, 0x4019_21fb, 0x401c_463b, 0x3fe6_a09e, 0x3ff6_a09e];
    for high in exp.into_iter().chain(cos).chain(more) {
        for near in high - 1..=high + 2 {
            list.extend([0, 1, 0x5444_2d18, u64::from(u32::MAX)].map(|low| number(near << 32 | low)));
        }
    }
    for k in 1..1022 {
        let half = (f64::from(k) + 0.5) * std::f64::consts::LN_2;
        list.extend([half, half.next_up(), half.next_down()]);
    }
    same(&list);
    // Lists without special numbers are decided in vectors alone.
    same(&[0.5, 0.7, 3.0]);
}
