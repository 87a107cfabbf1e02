//! Elements of 8 bits.

use kbc_numerics::element::{Element, F8E4M3FN, F8E5M2, f16};
use std::f32::consts::SQRT_2;

/// The number with this code in a format with these exponent bits, from the definition alone:
/// `(-1)^s 2^(e - bias) (1 + m / 2^k)`, and without the 1 for the exponent field 0.
fn defined(code: u8, exponent_bits: i32, bias: i32) -> f64 {
    let mantissa_bits = 7 - exponent_bits;
    let (e, m) = (i32::from(code & 0x7f) >> mantissa_bits, i32::from(code) & ((1 << mantissa_bits) - 1));
    let part = f64::from(m) / f64::from(1 << mantissa_bits);
    let size = if e == 0 { part * f64::powi(2.0, 1 - bias) } else { (1.0 + part) * f64::powi(2.0, e - bias) };
    if code & 0x80 != 0 { -size } else { size }
}

/// The nearest of all finite values; of two equally near ones the one with an even code.
fn nearest(v: f64, finite: &[(u8, f64)]) -> u8 {
    // Beyond the largest values, differences of f64 would be equal.
    let v = v.clamp(-1e6, 1e6);
    let key = |(code, x): &(u8, f64)| ((x - v).abs(), code & 1);
    let same = finite.iter().filter(|f| f.1.is_sign_negative() == v.is_sign_negative());
    same.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("finite")).expect("there are values").0
}

#[test]
fn all_codes_have_the_values_of_the_definition() {
    for code in 0..=255u8 {
        let (a, b) = (F8E4M3FN::from_bits(code), F8E5M2::from_bits(code));
        match code & 0x7f {
            0x7f => assert!(a.is_nan()),
            _ => assert_eq!(f64::from(a).to_bits(), defined(code, 4, 7).to_bits()),
        }
        match code & 0x7f {
            0x7c => {
                assert_eq!(f64::from(b), if code == 0x7c { f64::INFINITY } else { f64::NEG_INFINITY })
            }
            0x7d..=0x7f => assert!(b.is_nan()),
            _ => assert_eq!(f64::from(b).to_bits(), defined(code, 5, 15).to_bits()),
        }
        // What is a value stays itself.
        assert!(F8E4M3FN::from_f32(a.to_f32()).same(a) && F8E5M2::from_f32(b.to_f32()).same(b));
    }
}

/// Rounds every f16, and numbers on and beside every midpoint, and compares with the search.
#[test]
fn numbers_round_to_the_nearest_value() {
    let fn4: Vec<(u8, f64)> = (0..=255).filter(|c| c & 0x7f < 0x7f).map(|c| (c, defined(c, 4, 7))).collect();
    let e5: Vec<(u8, f64)> = (0..=255).filter(|c| c & 0x7f < 0x7c).map(|c| (c, defined(c, 5, 15))).collect();
    let check = |v: f64| {
        let (a, b) = (F8E4M3FN::of_f64(v).to_bits(), F8E5M2::of_f64(v).to_bits());
        assert_eq!(a, nearest(v, &fn4), "{v:e}");
        // From half a step above the largest number on there is infinity.
        let sign = if v < 0.0 { 0x80 } else { 0 };
        assert_eq!(b, if v.abs() >= 61_440.0 { sign | 0x7c } else { nearest(v, &e5) }, "{v:e}");
        let narrow = v as f32;
        if f64::from(narrow) == v {
            assert_eq!((F8E4M3FN::down(narrow).to_bits(), F8E5M2::down(narrow).to_bits()), (a, b));
        }
    };
    (0..=u16::MAX).map(f16::from_bits).filter(|x| x.is_finite()).for_each(|x| check(x.to_f64()));
    for list in [&fn4, &e5] {
        for pair in list.windows(2).filter(|p| p[0].0 != 0x7f) {
            let middle = f64::midpoint(pair[0].1, pair[1].1);
            // The second ones are far below the precision of f32.
            for v in [middle, middle.next_up(), middle.next_down(), middle * f64::from(SQRT_2)] {
                check(v);
            }
        }
    }
    for v in [1e-300, -1e-30, 447.0, 464.0, 465.0, 1e6, 1e300, -1e9] {
        check(v);
    }
}

#[test]
fn special_values_and_integers() {
    let both = |v: f64| (F8E4M3FN::of_f64(v).to_f32(), F8E5M2::of_f64(v).to_f32());
    assert_eq!(both(f64::INFINITY), (448.0, f32::INFINITY));
    assert_eq!(both(f64::NEG_INFINITY), (-448.0, f32::NEG_INFINITY));
    assert!(both(f64::NAN).0.is_nan() && both(f64::NAN).1.is_nan());
    assert_eq!(both(-0.0).0.to_bits(), (-0.0f32).to_bits());
    assert_eq!((F8E4M3FN::of_i64(17).to_f32(), F8E4M3FN::of_i64(19).to_f32()), (16.0, 20.0));
    assert_eq!(
        (F8E5M2::of_i64(i64::MIN).to_f32(), F8E4M3FN::of_i64(i64::MAX).to_f32()),
        (f32::NEG_INFINITY, 448.0)
    );
    let mut out = vec![];
    F8E5M2::of_f64(1.0).write(&mut out);
    assert_eq!((out.as_slice(), F8E5M2::read(&out)[0].to_f32()), (&[0x3c][..], 1.0));
}
