//! Tests of sums of absolute terms, computed by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util;

use kbc_ir::scalar::{CompareOp, ScalarBin, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::Tensor;
use kbc_reference::{EvalOptions, OUTER, RefTensor, evaluate};
use reference_util::{Builder, arg, bin, branch, f32s, i32s, num, ty, un};

fn run(b: &Builder, inputs: &[Tensor]) -> Vec<RefTensor> {
    evaluate(&b.graph, inputs, &EvalOptions { terms: true, ..EvalOptions::default() }).unwrap()
}

/// Compares to first order, with the roundings of operations after a contraction.
fn near(t: &RefTensor, want: &[f64]) {
    let terms = t.terms.as_ref().expect("they are known");
    assert_eq!(terms.len(), want.len());
    for (s, w) in terms.iter().zip(want) {
        assert!((s - w).abs() <= 0.01 * w + 1e-30, "{terms:?} and {want:?}");
    }
}

#[test]
fn products_and_addends_are_added_without_their_signs() {
    let mut b = Builder::default();
    let a = b.input("a", ty(DType::F32, &[2, 3]));
    let w = b.input("w", ty(DType::F32, &[3, 2]));
    let bias = b.input("bias", ty(DType::F32, &[2]));
    let y = b.matmul(a, w);
    let y = b.map(bin(ScalarBin::Sub, arg(0), arg(1)), &[y, bias]);
    b.output(y);
    let rows = b.reduce(ReduceOp::Sum, false, 1, y);
    b.output(rows);
    let half = b.map(bin(ScalarBin::Mul, arg(0), num(-0.5)), &[y]);
    b.output(half);
    let inputs = [
        f32s(&[2, 3], &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]),
        f32s(&[3, 2], &[1.0, 10.0, 1.0, -10.0, -1.0, 0.5]),
        f32s(&[2], &[7.0, -8.0]),
    ];
    let out = run(&b, &inputs);
    assert_eq!(out[0].value, [-11.0, 39.5, 8.0, -5.0]);
    // |1| + |2| + |3| + |7|, and so on.
    near(&out[0], &[13.0, 39.5, 22.0, 101.0]);
    near(&out[1], &[52.5, 123.0]);
    // A factor is a term of its own: 0.5 of the sum, and 0.5 of the value.
    near(&out[2], &[0.5 * (13.0 + 11.0), 39.5, 0.5 * (22.0 + 8.0), 0.5 * (101.0 + 5.0)]);
    assert_eq!(evaluate(&b.graph, &inputs, &EvalOptions::default()).unwrap()[0].terms, None);
}

#[test]
fn the_last_contraction_counts_alone() {
    let mut b = Builder::default();
    let a = b.input("a", ty(DType::F32, &[1, 2]));
    let w = b.input("w", ty(DType::F32, &[2, 2]));
    let h = b.matmul(a, w);
    let y = b.matmul(h, w);
    b.output(y);
    // h = [1, 1] from terms of about a thousand.
    let out = run(&b, &[f32s(&[1, 2], &[1000.0, 1001.0]), f32s(&[2, 2], &[-1.0, -1.0, 1.0, 1.0])]);
    assert_eq!(out[0].value, [0.0, 0.0]);
    near(&out[0], &[2.0, 2.0]);
}

#[test]
fn functions_have_slopes_and_their_own_value() {
    let mut b = Builder::default();
    let a = b.input("a", ty(DType::F32, &[2, 2]));
    let w = b.input("w", ty(DType::F32, &[2, 1]));
    let x = b.matmul(a, w);
    for op in [ScalarUn::Tanh, ScalarUn::Exp, ScalarUn::Erf] {
        let y = b.map(un(op, arg(0)), &[x]);
        b.output(y);
    }
    let relu = b.map(bin(ScalarBin::Max, arg(0), num(0.0)), &[x]);
    b.output(relu);
    // 0 and -1, from terms of sums 200 and 3.
    let out = run(&b, &[f32s(&[2, 2], &[100.0, 100.0, 1.0, 2.0]), f32s(&[2, 1], &[1.0, -1.0])]);
    let (t, e, r) = ((-1.0f64).tanh(), (-1.0f64).exp(), libm::erf(-1.0));
    near(&out[0], &[200.0, (1.0 - t * t) * 3.0 - t]);
    near(&out[1], &[1.0 + 200.0, e * 3.0 + e]);
    let slope = std::f64::consts::FRAC_2_SQRT_PI;
    near(&out[2], &[slope * 200.0, slope * e * 3.0 - r]);
    // 0 may be on either side; -1 is far from the limit.
    near(&out[3], &[200.0, 0.0]);
}

#[test]
fn masks_choose_and_add_nothing() {
    let mut b = Builder::default();
    let a = b.input("a", ty(DType::F32, &[2, 1]));
    let w = b.input("w", ty(DType::F32, &[1, 2]));
    let mask = b.input("mask", ty(DType::F32, &[2, 2]));
    let x = b.matmul(a, w);
    let chosen = branch(CompareOp::Ge, (arg(1), num(3.0)), arg(0), num(-1e9));
    let y = b.map(chosen, &[x, mask]);
    let y = b.map(un(ScalarUn::Exp, arg(0)), &[y]);
    b.output(y);
    let inputs =
        [f32s(&[2, 1], &[0.5, 2.0]), f32s(&[1, 2], &[1.0, 1.0]), f32s(&[2, 2], &[3.0, 2.0, 3.0, 4.0])];
    let (half, two) = (0.5f64.exp(), 2f64.exp());
    near(&run(&b, &inputs)[0], &[half * 1.5, 0.0, two * 3.0, two * 3.0]);
}

#[test]
fn narrow_floats_and_whole_numbers_have_none() {
    for dtype in [DType::BF16, DType::F16] {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[1]));
        let y = b.cast(dtype, x);
        let y = b.cast(DType::F32, y);
        b.output(y);
        assert_eq!(run(&b, &[f32s(&[1], &[1.0])])[0].terms, None);
    }
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::I32, &[2]));
    b.output(x);
    let y = b.cast(DType::F32, x);
    b.output(y);
    let out = run(&b, &[i32s(&[2], &[3, -4])]);
    assert_eq!(out[0].terms, None);
    near(&out[1], &[3.0, 4.0]);
    assert_eq!(OUTER, 2e-5);
}
