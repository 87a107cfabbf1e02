//! Tests of numbers: conversions, combiners, scalar functions, and the printed table.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use half::{bf16, f16};
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::element::Value;
use kbc_numerics::functions::{Errors, function};
use kbc_numerics::numbers::{self, cast, combine, from_f64, from_i64, narrow, round_to};
use kbc_numerics::scalar_eval::{eval_f32, eval_f64, eval_i32, map, un_f32, un_f64};
use kbc_numerics::tensor::Data;

#[test]
fn the_document_holds_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/numbers.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text.contains(&numbers::table()),
        "docs/reference/numbers.md must contain:\n{}",
        numbers::table()
    );
}

/// All 2^16 halves against a search: the nearer neighbour, or the even one on a tie.
#[test]
fn rounding_to_halves_is_nearest_even() {
    fn check(dtype: DType, of: impl Fn(u16) -> f64, last: u16) {
        let values: Vec<f64> = (0..=last).map(&of).collect();
        for (bits, pair) in values.windows(2).enumerate() {
            let (a, b) = (pair[0], pair[1]);
            assert_eq!(round_to(a, dtype), a);
            let middle = (a + b) / 2.0;
            let even = if bits % 2 == 0 { a } else { b };
            assert_eq!(round_to(middle, dtype), even, "{dtype} {middle:e}");
            assert_eq!(round_to(-middle, dtype), -even);
            assert_eq!(round_to(f64::from_bits(middle.to_bits() - 1), dtype), a);
            assert_eq!(round_to(f64::from_bits(middle.to_bits() + 1), dtype), b);
            // Results computed in f32 round in the same way, also in long vectors.
            let middles = vec![middle as f32; 9];
            assert_eq!(narrow(middles, dtype).unwrap(), from_f64(dtype, &[even; 9]));
        }
    }
    check(DType::F16, |b| f16::from_bits(b).to_f64(), 0x7bff);
    check(DType::BF16, |b| bf16::from_bits(b).to_f64(), 0x7f7f);
    assert_eq!(round_to(65520.0, DType::F16), f64::INFINITY);
    assert_eq!(round_to(65519.999, DType::F16), 65504.0);
}

#[test]
fn casts_round_once() {
    // Just above the middle of two bf16 values, by less than f32 can represent at that size:
    // rounding twice would make it a tie.
    let (low, step) = (1i64 << 40, 1i64 << 33);
    let above = low + step / 2 + 1;
    assert_eq!(cast(&Data::I64(vec![above]), DType::BF16).get(0), Some(Value::Float((low + step) as f64)));
    let far = (1i64 << 62) + (1 << 54) + 1;
    assert_eq!(cast(&Data::I64(vec![far, -far]), DType::BF16).to_f64(), {
        let up = ((1i64 << 62) + (1 << 55)) as f64;
        vec![up, -up]
    });
    assert_eq!(cast(&Data::I64(vec![i64::MIN]), DType::F16).get(0), Some(Value::Float(f64::NEG_INFINITY)));
    let floats = Data::F32(vec![2.5, 3.5, -2.5, f32::NAN, 3e9, -3e9, f32::INFINITY]);
    assert_eq!(cast(&floats, DType::I32), Data::I32(vec![2, 4, -2, 0, i32::MAX, i32::MIN, i32::MAX]));
    assert_eq!(cast(&floats, DType::U8), Data::U8(vec![2, 4, 0, 0, 255, 0, 255]));
    assert_eq!(cast(&Data::I32(vec![-1, 300, 16_777_217]), DType::I8), Data::I8(vec![-1, 44, 1]));
    assert_eq!(cast(&Data::I32(vec![16_777_217]), DType::F32), Data::F32(vec![16_777_216.0]));
    for d in DType::ALL {
        let v = from_i64(d, &[0, 1, 5, 96]);
        assert_eq!(v.dtype(), d);
        for e in DType::ALL {
            assert_eq!(cast(&cast(&v, e), d), v, "{d} {e}");
        }
        assert_eq!(from_f64(d, &[0.0, 1.0, 5.0, 96.0]), v);
    }
}

#[test]
fn combining_rounds_once_and_wraps() {
    let case = |d: DType, op, a: &[f64], b: &[f64]| {
        let mut x = from_f64(d, a);
        combine(op, &mut x, &from_f64(d, b)).unwrap();
        x.to_f64()
    };
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for d in [DType::F32, DType::F16, DType::BF16] {
        let bits = |v: Vec<f64>| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (a, b) = ([1.0, -0.0, 0.0, -inf, 2.0], [2.0, 0.0, -0.0, 1.0, 1.0]);
        assert_eq!(bits(case(d, ReduceOp::Min, &a, &b)), bits(vec![1.0, -0.0, -0.0, -inf, 1.0]), "{d}");
        assert_eq!(bits(case(d, ReduceOp::Max, &a, &b)), bits(vec![2.0, 0.0, 0.0, 1.0, 2.0]), "{d}");
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            assert!(case(d, op, &[nan, 1.0], &[1.0, nan]).iter().all(|x| x.is_nan()));
        }
    }
    assert_eq!(case(DType::F16, ReduceOp::Sum, &[2048.0, 2050.0], &[1.0, 1.0]), [2048.0, 2052.0]);
    assert_eq!(case(DType::BF16, ReduceOp::Sum, &[256.0, 258.0], &[1.0, 1.0]), [256.0, 260.0]);
    let mut x = Data::I32(vec![i32::MAX, 1 << 30]);
    combine(ReduceOp::Sum, &mut x, &Data::I32(vec![1, 1 << 30])).unwrap();
    assert_eq!(x, Data::I32(vec![i32::MIN, i32::MIN]));
    combine(ReduceOp::Prod, &mut x, &Data::I32(vec![3, 2])).unwrap();
    assert_eq!(x, Data::I32(vec![i32::MIN, 0]));
    assert!(combine(ReduceOp::Sum, &mut x, &Data::I32(vec![1])).is_err());
    assert!(combine(ReduceOp::Sum, &mut x, &Data::F32(vec![1.0, 1.0])).is_err());
    let mut bytes = Data::I8(vec![1]);
    assert!(
        combine(ReduceOp::Max, &mut bytes, &Data::I8(vec![2])).unwrap_err().text.contains("kbc can move i8")
    );
}

/// The f32 functions against the f64 ones, in units of the last place.
#[test]
fn scalar_functions_are_accurate() {
    for op in ScalarUn::ALL.iter().copied() {
        let mut worst = (0.0, 0.0);
        for i in -4000..=4000 {
            // Small and large arguments of both signs.
            for x in [i as f32 * 0.0037, (i as f32 * 0.004).sinh() * 1e-3] {
                let want = un_f64(op, f64::from(x));
                let got = un_f32(op, x);
                if want.is_nan() {
                    assert!(got.is_nan(), "{} {x}", op.name());
                    continue;
                }
                let near = want as f32;
                if got == near {
                    continue;
                }
                let ulp = f64::from(f32::from_bits(near.abs().to_bits() + 1)) - f64::from(near.abs());
                let off = (f64::from(got) - want).abs() / ulp;
                if off > worst.0 {
                    worst = (off, x);
                }
            }
        }
        let limit = match function(op).errors {
            Errors::Library(l) => l.ulps,
            Errors::InverseRoot => 1.5,
            Errors::Sign | Errors::Root => 0.5,
        };
        assert!(worst.0 <= limit, "{}: {} ulp at {}", op.name(), worst.0, worst.1);
    }
    assert_eq!(un_f32(ScalarUn::Erf, 0.5).to_bits(), 0.520_499_9_f32.to_bits());
}

fn arg(i: usize) -> Scalar {
    Scalar::Arg(i)
}

fn un(op: ScalarUn, a: Scalar) -> Scalar {
    Scalar::Un(op, Box::new(a))
}

fn kernel(n: usize, body: Scalar) -> ScalarFn {
    let params = (0..n).map(|i| format!("a{i}").into()).collect();
    ScalarFn { name: "k".into(), params, body }
}

/// `0.5 * x * (1 + erf(x * 1 / sqrt(2)))`
fn gelu() -> Scalar {
    use ScalarBin::{Add, Mul};
    let inner = un(ScalarUn::Erf, Scalar::bin(Mul, arg(0), Scalar::Num(std::f64::consts::FRAC_1_SQRT_2)));
    let half_x = Scalar::bin(Mul, Scalar::Num(0.5), arg(0));
    Scalar::bin(Mul, half_x, Scalar::bin(Add, Scalar::Num(1.0), inner))
}

/// Returns every operation in one expression of two arguments.
fn everything() -> Scalar {
    let guard = Compare { op: CompareOp::Lt, a: arg(0), b: arg(1) };
    let mut e = Scalar::If(Box::new(guard), Box::new(gelu()), Box::new(Scalar::Pow(Box::new(arg(1)), 3)));
    for op in ScalarUn::ALL {
        e = Scalar::bin(ScalarBin::Add, e, un(*op, arg(0)));
    }
    for op in ScalarBin::ALL {
        e = Scalar::bin(*op, e, Scalar::bin(*op, arg(1), Scalar::Num(0.3)));
    }
    e
}

#[test]
fn whole_vectors_and_single_numbers_agree_bit_for_bit() {
    for (k, e) in [gelu(), everything()].into_iter().enumerate() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for n in [0, 1, 63, 64, 65, 200] {
                let values = |s: i64| -> Vec<f64> {
                    (0..n).map(|i| ((i * 37 + s * 11) % 101 - 50) as f64 * 0.13).collect()
                };
                let (a, b) = (from_f64(dtype, &values(1)), from_f64(dtype, &values(2)));
                let got = map(&kernel(2, e.clone()), &[&a, &b], n as usize, dtype).unwrap();
                let want: Vec<f64> = a
                    .to_f64()
                    .iter()
                    .zip(b.to_f64())
                    .map(|(x, y)| f64::from(eval_f32(&e, &[*x as f32, y as f32], dtype)))
                    .collect();
                // Computed in f32 throughout, rounded once.
                assert_eq!(got, from_f64(dtype, &want), "{k} {dtype} {n}");
            }
        }
    }
}

#[test]
fn numbers_take_the_type_they_meet() {
    let tenth = Scalar::bin(ScalarBin::Mul, arg(0), Scalar::Num(0.1));
    assert_eq!(eval_f32(&tenth, &[1.0], DType::F32), 0.1);
    assert_eq!(eval_f32(&tenth, &[1.0], DType::F16), f16::from_f32(0.1).to_f32());
    assert_eq!(eval_f64(&tenth, &[1.0], DType::F32), f64::from(0.1f32));
    assert_eq!(eval_f64(&tenth, &[1.0], DType::BF16), bf16::from_f32(0.1).to_f64());
    assert!(eval_i32(&tenth, &[1]).unwrap_err().text.contains("0.1 is not an i32"));
    assert!(eval_i32(&Scalar::Num(3e9), &[]).is_err());
}

#[test]
fn i32_wraps_and_refuses_what_it_cannot_say() {
    use ScalarBin::*;
    let two = |op| Scalar::bin(op, arg(0), arg(1));
    assert_eq!(eval_i32(&two(Add), &[i32::MAX, 1]), Ok(i32::MIN));
    assert_eq!(eval_i32(&two(Div), &[-7, 2]), Ok(-3));
    assert_eq!(eval_i32(&two(Div), &[i32::MIN, -1]), Ok(i32::MIN));
    assert_eq!(eval_i32(&un(ScalarUn::Abs, arg(0)), &[i32::MIN]), Ok(i32::MIN));
    assert_eq!(eval_i32(&Scalar::Pow(Box::new(arg(0)), 5), &[7]), Ok(16807));
    assert_eq!(eval_i32(&Scalar::Pow(Box::new(arg(0)), 0), &[7]), Ok(1));
    let e = map(&kernel(2, two(Div)), &[&Data::I32(vec![4, 9]), &Data::I32(vec![2, 0])], 2, DType::I32);
    assert!(e.unwrap_err().text.contains("division of 9 by zero at element 1"));
    // A guarded division is not evaluated if the guard fails.
    let guard = Compare { op: CompareOp::Ne, a: arg(1), b: Scalar::Num(0.0) };
    let guarded = Scalar::If(Box::new(guard), Box::new(two(Div)), Box::new(Scalar::Num(-1.0)));
    let ok = map(&kernel(2, guarded), &[&Data::I32(vec![4, 9]), &Data::I32(vec![2, 0])], 2, DType::I32);
    assert_eq!(ok.unwrap(), Data::I32(vec![2, -1]));
    assert!(eval_i32(&un(ScalarUn::Exp, arg(0)), &[1]).is_err());
    assert!(map(&kernel(2, two(Add)), &[&Data::F32(vec![1.0])], 1, DType::F32).is_err());
}

#[test]
fn comparisons_are_false_with_nan() {
    for (op, want) in [
        (CompareOp::Eq, 0.0),
        (CompareOp::Ne, 1.0),
        (CompareOp::Lt, 0.0),
        (CompareOp::Le, 0.0),
        (CompareOp::Gt, 0.0),
        (CompareOp::Ge, 0.0),
    ] {
        let c = Compare { op, a: arg(0), b: Scalar::Num(1.0) };
        let e = Scalar::If(Box::new(c), Box::new(Scalar::Num(1.0)), Box::new(Scalar::Num(0.0)));
        assert_eq!(eval_f32(&e, &[f32::NAN], DType::F32), want, "{op:?}");
        let block = map(&kernel(1, e), &[&Data::F32(vec![f32::NAN])], 1, DType::F32).unwrap();
        assert_eq!(block.get(0), Some(Value::Float(f64::from(want))));
    }
}
