//! Tests of the rules of the reference evaluator, one by one: values, exact bounds, sound bounds,
//! rejections.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util;

use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarUn};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{Axis, DType, Mesh, ReduceOp};
use kbc_numerics::generate::{ExactRange, exact};
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{RefTensor, exact_modulus};
use reference_util::{Builder, Seq, arg, bin, branch, f32s, i32s, map_f32, num, partial, ty, un};

const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Compares a bound; bounds are widened by 2^-20 at the end.
fn close(got: f64, want: f64) -> bool {
    (got - want).abs() <= 2e-6 * want
}

#[test]
fn roundings_of_exact_operands() {
    // Body, operands, value, and the bound in units of the value's roundoff u |value|.
    let third = 1.0f32 / 3.0;
    let cases: Vec<(Scalar, [f32; 2], f64, f64)> = vec![
        (bin(ScalarBin::Add, arg(0), arg(1)), [3.0, 4.0], 7.0, 0.0),
        (bin(ScalarBin::Add, arg(0), arg(1)), [16_777_216.0, 1.0], 16_777_217.0, 1.0),
        (bin(ScalarBin::Sub, arg(0), arg(1)), [0.5, 0.125], 0.375, 0.0),
        (bin(ScalarBin::Mul, arg(0), arg(1)), [1.5, -3.0], -4.5, 0.0),
        (bin(ScalarBin::Mul, arg(0), arg(1)), [third, third], f64::from(third) * f64::from(third), 1.0),
        (bin(ScalarBin::Div, arg(0), arg(1)), [7.0, 2.0], 3.5, 0.0),
        (bin(ScalarBin::Div, arg(0), arg(1)), [1.0, 3.0], 1.0 / 3.0, 1.0),
        (bin(ScalarBin::Min, arg(0), arg(1)), [1.0, third], f64::from(third), 0.0),
        (bin(ScalarBin::Max, arg(0), arg(1)), [1.0, third], 1.0, 0.0),
        (un(ScalarUn::Sqrt, arg(0)), [2.25, 0.0], 1.5, 0.0),
        (un(ScalarUn::Sqrt, arg(0)), [2.0, 0.0], 2.0f64.sqrt(), 1.0),
        (un(ScalarUn::Rsqrt, arg(0)), [0.25, 0.0], 2.0, 0.0),
        (un(ScalarUn::Exp, arg(0)), [0.0, 0.0], 1.0, 0.0),
        (un(ScalarUn::Exp, arg(0)), [1.0, 0.0], 1f64.exp(), 2.0),
        (un(ScalarUn::Tanh, arg(0)), [0.5, 0.0], 0.5f64.tanh(), 5.0),
        (un(ScalarUn::Neg, arg(0)), [third, 0.0], -f64::from(third), 0.0),
        (un(ScalarUn::Abs, arg(0)), [-third, 0.0], f64::from(third), 0.0),
        (Scalar::Pow(Box::new(arg(0)), 3), [3.0, 0.0], 27.0, 0.0),
        (Scalar::Pow(Box::new(arg(0)), 0), [third, 0.0], 1.0, 0.0),
        // A number is first rounded to f32, as the program defines.
        (bin(ScalarBin::Mul, arg(0), num(0.1)), [2.0, 0.0], f64::from(0.1f32) * 2.0, 0.0),
    ];
    for (body, [a, b], value, bound) in cases {
        let got = map_f32(body.clone(), &[&[a], &[b]]);
        assert!(
            (got.value[0] - value).abs() <= 1e-15 * value.abs(),
            "{body:?}: {} for {value}",
            got.value[0]
        );
        let want = bound * U * value.abs();
        assert!(close(got.bound[0], want), "{body:?}: bound {} for {want}", got.bound[0]);
    }
}

#[test]
fn underflow_has_the_smallest_subnormal() {
    let got = map_f32(bin(ScalarBin::Mul, arg(0), arg(1)), &[&[1e-30], &[1.1e-12]]);
    let eta = f64::from(f32::from_bits(1));
    assert!(close(got.bound[0], 0.5 * eta), "{}", got.bound[0]);
    // Differences of subnormals are exact.
    let got = map_f32(bin(ScalarBin::Sub, arg(0), arg(1)), &[&[3e-40], &[1e-40]]);
    assert_eq!(got.bound, [0.0]);
}

#[test]
fn special_values_are_certain() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let cases = [
        (bin(ScalarBin::Mul, arg(0), arg(1)), [3e38, 10.0], f64::INFINITY),
        (bin(ScalarBin::Sub, arg(0), arg(1)), [inf, inf], f64::NAN),
        (bin(ScalarBin::Mul, arg(0), arg(1)), [inf, 0.0], f64::NAN),
        (bin(ScalarBin::Div, arg(0), arg(1)), [0.0, 0.0], f64::NAN),
        (bin(ScalarBin::Div, arg(0), arg(1)), [-inf, 2.0], f64::NEG_INFINITY),
        (bin(ScalarBin::Max, arg(0), arg(1)), [1.0, nan], f64::NAN),
        (un(ScalarUn::Log, arg(0)), [0.0, 0.0], f64::NEG_INFINITY),
        (un(ScalarUn::Sqrt, arg(0)), [-2.0, 0.0], f64::NAN),
        (un(ScalarUn::Exp, arg(0)), [100.0, 0.0], f64::INFINITY),
        (un(ScalarUn::Tanh, arg(0)), [nan, 0.0], f64::NAN),
    ];
    for (body, [a, b], want) in cases {
        let got = map_f32(body.clone(), &[&[a], &[b]]);
        let same = got.value[0] == want || (got.value[0].is_nan() && want.is_nan());
        assert!(same && got.bound[0] == 0.0, "{body:?}({a}, {b}) = {} +- {}", got.value[0], got.bound[0]);
    }
}

/// Returns `x * y`, which has an error, as an expression.
fn blurred() -> Scalar {
    bin(ScalarBin::Mul, arg(0), arg(1))
}

#[test]
fn no_bound_where_there_is_none() {
    // x * y - x * y may be slightly below 0, above 0, or 0.
    let nothing = bin(ScalarBin::Sub, blurred(), blurred());
    for f in [
        un(ScalarUn::Log, nothing.clone()),
        un(ScalarUn::Sqrt, nothing.clone()),
        un(ScalarUn::Rsqrt, nothing.clone()),
        un(ScalarUn::Log1p, bin(ScalarBin::Sub, nothing.clone(), num(1.0))),
    ] {
        let got = map_f32(f.clone(), &[&[0.3], &[0.7]]);
        assert!(got.bound[0].is_infinite() && got.unbounded() == 1, "{f:?}: {}", got.bound[0]);
    }
    let got = map_f32(bin(ScalarBin::Div, num(1.0), nothing.clone()), &[&[0.3], &[0.7]]);
    assert!(got.bound[0].is_infinite());
    // The sign of a zero may depend on the order of additions, and with it the sign of the
    // infinity.
    assert!(map_f32(bin(ScalarBin::Div, arg(0), arg(1)), &[&[1.0], &[0.0]]).bound[0].is_infinite());
    // A function of an operand without a bound has none either, even times zero.
    let hidden = bin(ScalarBin::Mul, num(0.0), un(ScalarUn::Tanh, un(ScalarUn::Log, nothing)));
    assert!(map_f32(hidden, &[&[0.3], &[0.7]]).bound[0].is_infinite());
}

#[test]
fn uncertain_conditions_cover_both_sides() {
    // The exact product of these f32 is slightly below the nearest f32.
    let limit = f64::from(0.3f32 * 0.7f32);
    let jump = |op| branch(op, (blurred(), num(limit)), num(0.0), num(5.0));
    for op in [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq, CompareOp::Ne] {
        let got = map_f32(jump(op), &[&[0.3], &[0.7]]);
        assert!(close(got.bound[0], 5.0), "{op:?}: {}", got.bound[0]);
    }
    // Far from the limit there is no doubt.
    let got = map_f32(jump(CompareOp::Lt), &[&[0.3], &[0.8]]);
    assert_eq!((got.value[0], got.bound[0]), (5.0, 0.0));
    // relu is continuous: no more than the operand's own bound.
    let relu = branch(CompareOp::Gt, (blurred(), num(0.0)), blurred(), num(0.0));
    let got = map_f32(relu, &[&[0.3], &[0.7]]);
    assert!(close(got.bound[0], U * got.value[0]));
    let near = bin(ScalarBin::Max, blurred(), num(limit));
    let got = map_f32(near, &[&[0.3], &[0.7]]);
    assert!(got.bound[0] > 0.0 && got.bound[0] < 2.0 * U, "{}", got.bound[0]);
}

#[test]
fn sums_and_products_of_a_dimension() {
    let values: Vec<f32> = vec![1.0, -2.5, 4.0, 0.5, 8.0, -1.0, 3.0, 2.0];
    let third: Vec<f32> = values.iter().map(|v| v / 3.0).collect();
    let run = |op, mean, data: &[f32]| -> RefTensor {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[2, 4]));
        let y = b.reduce(op, mean, 1, x);
        b.output(y);
        b.run(&[f32s(&[2, 4], data)]).unwrap().remove(0)
    };
    // Multiples of 1/2 with few bits are exact in any order, and so are quotients by 4.
    assert_eq!(
        (run(ReduceOp::Sum, false, &values).value, run(ReduceOp::Sum, false, &values).bound),
        (vec![3.0, 12.0], vec![0.0; 2])
    );
    assert_eq!(
        (run(ReduceOp::Sum, true, &values).value, run(ReduceOp::Sum, true, &values).bound),
        (vec![0.75, 3.0], vec![0.0; 2])
    );
    assert_eq!(
        (run(ReduceOp::Prod, false, &values).value, run(ReduceOp::Prod, false, &values).bound),
        (vec![-5.0, -48.0], vec![0.0; 2])
    );
    assert_eq!(run(ReduceOp::Min, false, &third).value, [f64::from(third[1]), f64::from(third[5])]);
    assert_eq!(run(ReduceOp::Max, false, &third).bound, [0.0; 2]);
    let sum = run(ReduceOp::Sum, false, &third);
    let size: f64 = third[..4].iter().map(|v| f64::from(v.abs())).sum();
    assert!(close(sum.bound[0], 3.0 * U * size), "{} for {}", sum.bound[0], 3.0 * U * size);
    let prod = run(ReduceOp::Prod, false, &third);
    assert!(close(prod.bound[0], 3.0 * U * prod.value[0].abs()));
}

#[test]
fn products_that_may_leave_the_range_have_no_bound() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[4]));
    let y = b.reduce(ReduceOp::Prod, false, 0, x);
    b.output(y);
    // 1e-30 * 1e-30 underflows; in another order the product is 1.
    let got = b.run(&[f32s(&[4], &[1e-30, 1e30, 1e-30, 1e30])]).unwrap().remove(0);
    assert!(got.bound[0].is_infinite());
}

#[test]
fn matmul_of_integers_is_exact_up_to_the_mantissa() {
    let run = |dtype, largest: f32| {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[1, 2]));
        let w = b.input("w", ty(DType::F32, &[2, 1]));
        let (x, w) = if dtype == DType::F32 { (x, w) } else { (b.cast(dtype, x), b.cast(dtype, w)) };
        let y = b.matmul(x, w);
        b.output(y);
        b.run(&[f32s(&[1, 2], &[largest, 1.0]), f32s(&[2, 1], &[1.0, 3.0])]).unwrap().remove(0)
    };
    for (dtype, limit) in [(DType::F32, 16_777_216.0), (DType::F16, 2048.0), (DType::BF16, 256.0)] {
        let (exact, rounded) = (run(dtype, limit - 4.0), run(dtype, limit));
        assert_eq!((exact.value[0], exact.bound[0]), (f64::from(limit) - 1.0, 0.0), "{dtype}");
        assert!(rounded.bound[0] > 0.9, "{dtype}: {} + 3 is no {dtype}", limit);
    }
}

/// A sum has bound 0 where it is exact in every order: the sum of the absolute values of its terms
/// has at most 24 bits, counted from the largest power of two that divides the row and the column.
/// Long, short, single and missing numbers stand in any rows and columns.
#[test]
fn sums_of_a_matmul_are_exact_element_by_element() {
    let mut s = Seq(19);
    let mut some = |lines: usize, len: usize| -> Vec<Vec<i64>> {
        let mut line = || {
            let (kind, at, sign) = (s.below(4), s.below(len), 1 - 2 * s.below(2) as i64);
            let one = |i: usize, s: &mut Seq| match kind {
                0 => sign * (1 + 2 * s.below(1 << 23) as i64),
                1 => s.below(16) as i64 * 8 - 64,
                2 => i64::from(i == at) * sign,
                _ => {
                    if i.is_multiple_of(4) {
                        0
                    } else {
                        s.below(1 << 24) as i64
                    }
                }
            };
            (0..len).map(|i| one(i, &mut s)).collect()
        };
        (0..lines).map(|_| line()).collect()
    };
    let mut seen = [0; 2];
    for trial in 0..400 {
        let (m, k, n) = (1 + trial % 4, 1 + trial * 7 % 70, 1 + trial % 5);
        let (rows, columns) = (some(m, k), some(n, k));
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[m as u64, k as u64]));
        let w = b.input("w", ty(DType::F32, &[k as u64, n as u64]));
        let y = b.matmul(x, w);
        b.output(y);
        let left: Vec<f32> = rows.iter().flatten().map(|v| *v as f32).collect();
        let right: Vec<f32> = (0..k).flat_map(|i| columns.iter().map(move |c| c[i] as f32)).collect();
        let inputs = [f32s(&[m as u64, k as u64], &left), f32s(&[k as u64, n as u64], &right)];
        let got = b.run(&inputs).unwrap().remove(0);
        let zeros = |line: &[i64]| line.iter().map(|v| v.trailing_zeros()).min().unwrap_or(64);
        for (i, (row, column)) in rows.iter().flat_map(|r| columns.iter().map(move |c| (r, c))).enumerate() {
            let size: u128 = row.iter().zip(column).map(|(a, b)| u128::from((a * b).unsigned_abs())).sum();
            let exact = size == 0 || size >> (zeros(row) + zeros(column)) <= 1 << 24;
            assert_eq!(got.bound[i] == 0.0, exact, "{trial}: {row:?} {column:?}: {}", got.bound[i]);
            seen[usize::from(exact)] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 400), "{seen:?}");
}

#[test]
fn shared_contractions_of_f16_are_rounded_once_a_rank() {
    let run = |shared: bool, parts| {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F16, &[1, 8]));
        let w = b.input("w", ty(DType::F16, &[8, 1]));
        let result =
            if shared { partial(ReduceOp::Sum, DType::F16, &[1, 1]) } else { ty(DType::F16, &[1, 1]) };
        let y = b.op(OpKind::Matmul { accumulate_f32: false }, result, &[x, w]);
        b.output(y);
        let halves = |shape: [u64; 2]| {
            let data = (0..8).map(|i| half::f16::from_f32(0.1 * (i as f32 - 3.3))).collect();
            Tensor::new(shape, Data::F16(data)).unwrap()
        };
        b.run_shared(&[halves([1, 8]), halves([8, 1])], parts).unwrap().remove(0)
    };
    let (whole, four, eight) = (run(false, 4), run(true, 4), run(true, 8));
    assert_eq!(whole.value, four.value);
    let u16 = 1.0 / 2048.0;
    // All terms are positive here: the sum of absolute values is the sum.
    assert!((whole.bound[0] / (u16 * whole.value[0]) - 1.0).abs() < 0.01, "{}", whole.bound[0]);
    assert!((four.bound[0] / (4.0 * u16 * four.value[0]) - 1.0).abs() < 0.01, "{}", four.bound[0]);
    assert!((eight.bound[0] / (8.0 * u16 * eight.value[0]) - 1.0).abs() < 0.01, "{}", eight.bound[0]);
}

#[test]
fn partial_inputs_are_combined_over_their_leading_dimension() {
    let run = |op, dtype, t: Tensor| {
        let mut b = Builder::default();
        let x = b.input("x", partial(op, dtype, &[2]));
        let y = b.op(OpKind::Demand, ty(dtype, &[2]), &[x]);
        b.output(y);
        b.run(&[t]).unwrap().remove(0)
    };
    let whole = f32s(&[3, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let sum = run(ReduceOp::Sum, DType::F32, whole.clone());
    assert_eq!((sum.value, sum.bound), (vec![6.0, 60.0], vec![0.0, 0.0]));
    assert_eq!(run(ReduceOp::Max, DType::F32, whole.clone()).value, [3.0, 30.0]);
    assert_eq!(run(ReduceOp::Prod, DType::F32, whole).value, [6.0, 6000.0]);
    // Cancellation: the bound is that of the parts' size, not of the sum.
    let sum = run(ReduceOp::Sum, DType::F32, f32s(&[3, 2], &[1e6, 0.1, -1e6, 0.2, 0.3, 0.3]));
    assert!(close(sum.bound[0], 2.0 * U * (2e6 + f64::from(0.3f32))), "{}", sum.bound[0]);
    let ints = run(ReduceOp::Sum, DType::I32, i32s(&[2, 2], &[i32::MAX, 1, 1, 2]));
    assert_eq!(ints.exact, Some(vec![i64::from(i32::MIN), 3]));
    assert_eq!(ints.bound, [0.0, 0.0]);
}

#[test]
fn operations_on_parts_use_the_size_of_the_parts() {
    // 0.3 x on each of three ranks, where the sum of x cancels: each term is rounded on its rank.
    let run = |kept: bool| {
        let mut b = Builder::default();
        let x = b.input("x", partial(ReduceOp::Sum, DType::F32, &[1]));
        let of = if kept { partial(ReduceOp::Sum, DType::F32, &[1]) } else { ty(DType::F32, &[1]) };
        let y = b.map_to(bin(ScalarBin::Mul, arg(0), num(0.3)), of, &[x]);
        let y = b.op(OpKind::Demand, ty(DType::F32, &[1]), &[y]);
        b.output(y);
        b.run(&[f32s(&[3, 1], &[1001.0, -1000.0, 8.0])]).unwrap().remove(0)
    };
    let (kept, combined) = (run(true), run(false));
    assert_eq!(kept.value, combined.value);
    let third = f64::from(0.3f32);
    assert!(close(combined.bound[0], U * 9.0 * third), "{}", combined.bound[0]);
    // One rounding per rank, and two more for adding values that are no longer exact.
    assert!(close(kept.bound[0], 3.0 * U * 2009.0 * third), "{}", kept.bound[0]);
    // Exact as long as the parts are.
    let mut b = Builder::default();
    let of = partial(ReduceOp::Sum, DType::F32, &[1]);
    let x = b.input("x", of.clone());
    let y = b.map_to(bin(ScalarBin::Div, bin(ScalarBin::Add, arg(0), arg(0)), num(4.0)), of, &[x]);
    b.output(y);
    let got = b.run(&[f32s(&[3, 1], &[1001.0, -1000.0, 7.0])]).unwrap().remove(0);
    assert_eq!((got.value[0], got.bound[0]), (4.0, 0.0));
}

#[test]
fn casts() {
    let run = |from: Tensor, to| {
        let mut b = Builder::default();
        let x = b.input("x", ty(from.dtype(), from.shape()));
        let y = b.cast(to, x);
        b.output(y);
        b.run(&[from]).unwrap().remove(0)
    };
    let x = f32s(&[6], &[0.5, 1.5, -2.5, 300.7, f32::NAN, -1e20]);
    let got = run(x.clone(), DType::I32);
    assert_eq!(got.exact, Some(vec![0, 2, -2, 301, 0, i64::from(i32::MIN)]));
    assert_eq!(got.bound, [0.0; 6]);
    assert_eq!(run(x.clone(), DType::U8).exact, Some(vec![0, 2, 0, 255, 0, 0]));
    let half = run(x, DType::F16);
    assert_eq!(half.value[5], f64::NEG_INFINITY);
    assert_eq!((half.bound[0], half.bound[5]), (0.0, 0.0));
    assert!((half.bound[3] / (f64::from(300.7f32) / 2048.0) - 1.0).abs() < 1e-5);
    let ints = i32s(&[3], &[16_777_217, 300, -1]);
    let got = run(ints.clone(), DType::F32);
    assert!(got.bound[0] >= 1.0 && got.bound[1] == 0.0);
    assert_eq!(run(ints, DType::I8).exact, Some(vec![1, 44, -1]));
}

#[test]
fn integers_after_uncertain_floats() {
    // round(x * y) where x * y is 1.5 up to a rounding error: 1 or 2.
    let run = |body: Scalar| {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[1]));
        let y = b.input("y", ty(DType::F32, &[1]));
        let p = b.map(blurred(), &[x, y]);
        let i = b.cast(DType::I32, p);
        let z = b.map(body, &[i]);
        b.output(z);
        b.run(&[f32s(&[1], &[0.3]), f32s(&[1], &[5.0])]).unwrap().remove(0)
    };
    assert_eq!(run(arg(0)).bound, [1.0]);
    assert_eq!(run(bin(ScalarBin::Mul, arg(0), num(10.0))).bound, [10.0]);
    assert_eq!(
        run(bin(ScalarBin::Sub, arg(0), arg(0))).bound,
        [2.0],
        "intervals forget that both are one value"
    );
    assert_eq!(run(bin(ScalarBin::Max, arg(0), num(7.0))).bound, [0.0]);
    assert!(run(bin(ScalarBin::Mul, arg(0), num(2e9))).bound[0].is_infinite(), "it may wrap");
}

#[test]
fn i32_is_exact_and_wraps() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::I32, &[2, 2]));
    let y = b.matmul(x, x);
    let z = b.map(bin(ScalarBin::Div, arg(0), num(-7.0)), &[y]);
    let s = b.reduce(ReduceOp::Sum, false, 0, y);
    for v in [y, z, s] {
        b.output(v);
    }
    let got = b.run(&[i32s(&[2, 2], &[65_536, 3, 65_536, -5])]).unwrap();
    let square = [3i64 * 65_536, 3 * 65_536 - 15, -5 * 65_536, 3 * 65_536 + 25];
    assert_eq!(got[0].exact, Some(square.to_vec()));
    assert_eq!(got[1].exact, Some(square.map(|v| v / -7).to_vec()));
    assert_eq!(got[2].exact, Some(vec![square[0] + square[2], square[1] + square[3]]));
    assert!(got.iter().all(|t| t.bound.iter().all(|e| *e == 0.0)));
}

#[test]
fn operands_broadcast_from_the_right() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[2, 1, 3]));
    let y = b.input("y", ty(DType::F32, &[2, 1]));
    let z = b.map_to(bin(ScalarBin::Add, arg(0), arg(1)), ty(DType::F32, &[2, 2, 3]), &[x, y]);
    b.output(z);
    let got = b.run(&[f32s(&[2, 1, 3], &[0., 1., 2., 10., 11., 12.]), f32s(&[2, 1], &[100., 200.])]).unwrap();
    assert_eq!(got[0].value, [100., 101., 102., 200., 201., 202., 110., 111., 112., 210., 211., 212.]);
}

#[test]
fn leading_dimensions_of_matmul_broadcast() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[2, 1, 2]));
    let w = b.input("w", ty(DType::F32, &[2, 2]));
    let y = b.op(OpKind::Matmul { accumulate_f32: false }, ty(DType::F32, &[2, 1, 2]), &[x, w]);
    b.output(y);
    let got = b.run(&[f32s(&[2, 1, 2], &[1., 2., 3., 4.]), f32s(&[2, 2], &[1., 10., 100., 1000.])]).unwrap();
    assert_eq!(got[0].value, [201., 2010., 403., 4030.]);
}

#[test]
fn empty_sizes() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[0, 3]));
    let w = b.input("w", ty(DType::F32, &[3, 0]));
    let inner = b.matmul(w, x);
    let outer = b.op(OpKind::Matmul { accumulate_f32: false }, ty(DType::F32, &[0, 0]), &[x, w]);
    let sum = b.reduce(ReduceOp::Sum, false, 0, x);
    let prod = b.reduce(ReduceOp::Prod, false, 0, x);
    for v in [inner, outer, sum, prod] {
        b.output(v);
    }
    let got = b.run(&[f32s(&[0, 3], &[]), f32s(&[3, 0], &[])]).unwrap();
    assert_eq!(got[0].value, [0.0; 9]);
    assert_eq!(got[1].value, [0.0; 0]);
    assert_eq!((&got[2].value[..], &got[3].value[..]), (&[0.0; 3][..], &[1.0; 3][..]));
    assert!(got.iter().all(|t| t.bound.iter().all(|e| *e == 0.0)));
}

#[test]
fn refusals() {
    let build = |dtype| {
        let mut b = Builder::default();
        let x = b.input("x", ty(dtype, &[2]));
        let y = b.map(bin(ScalarBin::Div, num(1.0), arg(0)), &[x]);
        b.output(y);
        b
    };
    let error = |b: &Builder, inputs: &[Tensor]| {
        let d = b.run(inputs).unwrap_err();
        (d.code, d.title)
    };
    let b = build(DType::F32);
    let cases = [
        (error(&b, &[]), "E405", "has 1 inputs, and data is given for 0"),
        (error(&b, &[f32s(&[3], &[1., 2., 3.])]), "E405", "`x` has the shape [3]"),
        (
            error(&b, &[i32s(&[2], &[1, 2])]),
            "E405",
            "`x` has the element type i32, and the declared type is f32",
        ),
        (error(&build(DType::I32), &[i32s(&[2], &[1, 0])]), "E407", "division by zero"),
        (
            error(&build(DType::I8), &[Tensor::new([2], Data::I8(vec![1, 2])).unwrap()]),
            "E905",
            "but not compute with it",
        ),
    ];
    for ((code, title), want, part) in cases {
        assert!(code == want && title.contains(part), "{code} {title}");
    }
    let mut untyped = build(DType::F32);
    let last = *untyped.graph.order().last().unwrap();
    untyped.graph.op_mut(last).ty = None;
    assert_eq!(error(&untyped, &[f32s(&[2], &[1., 2.])]).0, "E901");
    untyped.graph.op_mut(last).ty = Some(ty(DType::F32, &[3]));
    assert_eq!(error(&untyped, &[f32s(&[2], &[1., 2.])]).0, "E905");
}

fn mesh(tp: u64) -> Mesh {
    Mesh { axes: vec![Axis { name: "tp".into(), size: tp, parts: vec![] }] }
}

#[test]
fn largest_modulus_of_exact_inputs() {
    let all_reduce = |dtype, tp| {
        let mut b = Builder::default();
        let x = b.input("x", partial(ReduceOp::Sum, dtype, &[1000]));
        b.output(x);
        exact_modulus(&b.graph, &mesh(tp), &[None])
    };
    assert_eq!(all_reduce(DType::F32, 4), Some(vec![(1 << 22) + 1]));
    assert_eq!(all_reduce(DType::F16, 4), Some(vec![513]));
    assert_eq!(all_reduce(DType::F16, 7), Some(vec![2048 / 7 + 1]));
    assert_eq!(all_reduce(DType::BF16, 8), Some(vec![33]));
    assert_eq!(all_reduce(DType::BF16, 400), None, "256 ones are the most");
    assert_eq!(all_reduce(DType::I32, 8), Some(vec![i32::MAX as u32 / 8 + 1]));

    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[25, 384]));
    let w = b.input("w", ty(DType::F32, &[384, 8]));
    let c = b.input("c", ty(DType::F32, &[8]));
    let y = b.matmul(x, w);
    let y = b.map(bin(ScalarBin::Add, arg(0), arg(1)), &[y, c]);
    b.output(y);
    let m = exact_modulus(&b.graph, &mesh(4), &[None; 3]).unwrap();
    // 384 * 208^2 + 208 <= 2^24 < 384 * 209^2; then each as large as the others leave room for.
    assert_eq!(m[0], 210, "{m:?}");
    assert!(384 * u64::from(m[0] - 1) * u64::from(m[1] - 1) + u64::from(m[2] - 1) <= 1 << 24, "{m:?}");
    assert!(384 * u64::from(m[0] - 1) * u64::from(m[1] - 1) + u64::from(m[2]) > 1 << 24, "{m:?}");
    // With data for w that are not whole numbers, there is no such m.
    let data = f32s(&[384, 8], &vec![0.1; 384 * 8]);
    assert_eq!(exact_modulus(&b.graph, &mesh(4), &[None, Some(&data), None]), None);
    let ones = f32s(&[384, 8], &vec![1.0; 384 * 8]);
    let m = exact_modulus(&b.graph, &mesh(4), &[None, Some(&ones), None]).unwrap();
    assert_eq!((m[0], m[1]), ((1 << 24) / 385 + 1, 0));

    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[4]));
    let y = b.map(un(ScalarUn::Exp, arg(0)), &[x]);
    b.output(y);
    assert_eq!(exact_modulus(&b.graph, &mesh(4), &[None]), None);
}

#[test]
fn inputs_of_that_modulus_have_bound_zero() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let build = || {
            let mut b = Builder::default();
            let x = b.input("x", partial(ReduceOp::Sum, dtype, &[4, 6]));
            let w = b.input("w", ty(dtype, &[6, 2]));
            let relu = branch(CompareOp::Gt, (arg(0), num(0.0)), arg(0), num(0.0));
            let whole = b.op(OpKind::Demand, ty(dtype, &[4, 6]), &[x]);
            let r = b.map(relu, &[whole]);
            let y = b.op(
                OpKind::Matmul { accumulate_f32: false },
                partial(ReduceOp::Sum, dtype, &[4, 2]),
                &[r, w],
            );
            let y = b.op(OpKind::Demand, ty(dtype, &[4, 2]), &[y]);
            let s = b.reduce(ReduceOp::Sum, true, 0, y);
            b.output(s);
            b
        };
        let b = build();
        let m = exact_modulus(&b.graph, &mesh(2), &[None, None]).unwrap();
        let inputs = |grow: u32| -> Vec<Tensor> {
            let range = |m: u32| ExactRange { modulus: m, centred: false, exact: true };
            let of =
                |i: usize| exact(&b.graph.inputs[i].ty, &mesh(2), range(m[i] * grow), i as u32, 0).unwrap();
            vec![of(0), of(1)]
        };
        let got = b.run_shared(&inputs(1), 2).unwrap();
        assert_eq!(got[0].bound, [0.0; 2], "{dtype} {m:?}");
        assert!(got[0].value.iter().all(|v| *v > 0.0));
        let beyond = b.run_shared(&inputs(64), 2).unwrap();
        assert!(
            beyond[0].bound.iter().any(|e| *e > 0.0),
            "{dtype} {m:?}: 64 times as large, and still exact"
        );
    }
}

#[test]
fn moved_elements_keep_value_and_bound() {
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[2, 3]));
    let e = b.map(un(ScalarUn::Exp, arg(0)), &[x]);
    let mut shape = |op: ShapeOp, sizes: &[u64], of: &[kbc_ir::graph::OpId]| {
        let id = b.op(OpKind::Shape(op), ty(DType::F32, sizes), of);
        b.output(id);
        id
    };
    let t = shape(ShapeOp::Transpose(vec![1, 0]), &[3, 2], &[e]);
    let r = shape(ShapeOp::Reshape(vec![2, 3]), &[2, 3], &[t]);
    let s = shape(ShapeOp::Slice { dim: 1, from: 1, to: 2 }, &[2, 1], &[e]);
    shape(ShapeOp::Concat { dim: 1 }, &[2, 4], &[s, r]);
    b.output(e);
    let data = f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let out = b.run(&[data]).unwrap();
    let whole = &out[4];
    let orders: [&[usize]; 4] =
        [&[0, 3, 1, 4, 2, 5], &[0, 3, 1, 4, 2, 5], &[1, 4], &[1, 0, 3, 1, 4, 4, 2, 5]];
    for (got, order) in out.iter().zip(orders) {
        let of = |v: &[f64]| order.iter().map(|i| v[*i]).collect::<Vec<f64>>();
        assert_eq!((&got.value, &got.bound), (&of(&whole.value), &of(&whole.bound)));
    }
    assert!(whole.bound.iter().skip(1).all(|e| *e > 0.0));
}

#[test]
fn rows_of_a_table_by_their_numbers() {
    let mut b = Builder::default();
    let table = b.input("w", ty(DType::F32, &[5, 2]));
    let ids = b.input("ids", ty(DType::I32, &[2, 2]));
    let e = b.op(OpKind::Embedding, ty(DType::F32, &[2, 2, 2]), &[table, ids]);
    b.output(e);
    let w = f32s(&[5, 2], &[0.0, 0.1, 1.0, 1.1, 2.0, 2.1, 3.0, 3.1, 4.0, 4.1]);
    let got = b.run(&[w.clone(), i32s(&[2, 2], &[4, 0, 2, 2])]).unwrap().remove(0);
    let want: Vec<f64> = [4.0f32, 4.1, 0.0, 0.1, 2.0, 2.1, 2.0, 2.1].map(f64::from).to_vec();
    assert_eq!((got.shape, got.value), (vec![2, 2, 2], want));
    assert!(got.bound.iter().all(|e| *e == 0.0), "nothing is rounded");
    for wrong in [-1, 5] {
        let found = b.run(&[w.clone(), i32s(&[2, 2], &[0, 0, wrong, 0])]).unwrap_err();
        assert_eq!(found.code, "E409");
        assert!(found.labels[0].text.contains("[1, 0]"), "{:?}", found.labels);
    }
    // Generated numbers are row numbers.
    let m = exact_modulus(&b.graph, &mesh(4), &[None, None]).unwrap();
    assert_eq!(m[1], 5);
    assert!(m[0] > 1 << 20);
}
