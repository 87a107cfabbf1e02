//! Programs that are evaluated in blocks, against their evaluation as a whole.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util::{Builder, Seq, arg, bin, num, partial, ty, un};

use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{ScalarBin, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{Blocks, EvalOptions, LargestNumbers, RefTensor, evaluate};

const RANKS: u64 = 3;

/// Returns the results put together from all blocks.
fn in_blocks(b: &Builder, inputs: &[Tensor], options: &EvalOptions) -> Option<(Vec<RefTensor>, bool)> {
    let blocks = Blocks::of(&b.graph, inputs, options)?;
    let mut all: Vec<(RefTensor, LargestNumbers)> = vec![];
    for rows in blocks.ranges() {
        for (i, block) in blocks.evaluate(rows.clone()).unwrap().into_iter().enumerate() {
            let largest = LargestNumbers::of(&block);
            match all.get_mut(i) {
                None => all.push((block, largest)),
                Some((t, before)) => {
                    t.shape[blocks.dim()] += rows.end - rows.start;
                    t.value.extend(block.value);
                    t.bound.extend(block.bound);
                    t.exact = t.exact.take().zip(block.exact).map(|(mut a, b)| {
                        a.extend(b);
                        a
                    });
                    *before = before.merged(largest);
                }
            }
        }
    }
    let tight = all.iter().all(|(t, largest)| largest.bounds_are_tight(t.dtype));
    Some((all.into_iter().map(|a| a.0).collect(), tight))
}

fn input(dtype: DType, shape: &[u64], value: impl FnMut(usize) -> f64) -> Tensor {
    let n = shape.iter().product::<u64>() as usize;
    let values: Vec<f64> = (0..n).map(value).collect();
    Tensor::new(shape, Data::of_f64(dtype, &values)).unwrap()
}

/// Numbers of each kind: integers, multiples of a half, normal numbers, special ones.
fn number(kind: usize, seq: &mut Seq) -> f64 {
    match kind {
        0 => seq.below(30) as f64 - 12.0,
        1 => seq.below(9) as f64 / 2.0,
        2 => f64::from(seq.number()),
        3 if seq.below(40_000) == 0 => [f64::INFINITY, f64::NAN, -0.0, 1e-40][seq.below(4)],
        _ => seq.below(3) as f64,
    }
}

#[test]
fn blocks_have_the_values_and_bounds_of_the_whole() {
    let options = EvalOptions { max_parts: RANKS, ..EvalOptions::default() };
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max] {
            for kind in 0..4 {
                let sizes: &[u64] = if kind == 1 { &[1, 700, 100] } else { &[100_001] };
                let mut b = Builder::default();
                let x = b.input("x", partial(op, dtype, sizes));
                let whole = b.op(OpKind::Demand, ty(dtype, sizes), &[x]);
                let y = b.map(bin(ScalarBin::Add, arg(0), num(3.0)), &[whole]);
                b.output(whole);
                b.output(y);
                let mut seq = Seq(kind as u64);
                let shape = [&[RANKS], sizes].concat();
                let given = [input(dtype, &shape, |_| number(kind, &mut seq))];
                let want = evaluate(&b.graph, &given, &options).unwrap();
                let (got, tight) = in_blocks(&b, &given, &options).unwrap();
                if tight {
                    for (got, want) in got.iter().zip(&want) {
                        let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        let name = format!("{dtype} {op} {kind}");
                        assert_eq!((&got.shape, &got.exact), (&want.shape, &want.exact), "{name}");
                        assert!(bits(&got.value) == bits(&want.value), "{name}");
                        assert!(bits(&got.bound) == bits(&want.bound), "{name}");
                    }
                }
                assert!(tight || kind > 1, "{dtype} {op} {kind}");
            }
        }
    }
}

/// The rule for sums of integers, which is faster, is that for all numbers: halves of the terms
/// have halves of the bounds.
#[test]
fn sums_of_integers_have_the_bounds_of_other_sums() {
    let sums = |scale: f64, large: f64| {
        let mut b = Builder::default();
        let x = b.input("x", partial(ReduceOp::Sum, DType::F32, &[9_000]));
        let whole = b.op(OpKind::Demand, ty(DType::F32, &[9_000]), &[x]);
        b.output(whole);
        let value = |i: usize| if i % 4_500 == 17 { large } else { (i % 61) as f64 - 20.0 };
        let given = [input(DType::F32, &[RANKS, 9_000], |i| scale * value(i))];
        b.run_shared(&given, RANKS).unwrap().remove(0)
    };
    for large in [0.0, 16_777_215.0, 16_777_216.0, 1e9] {
        let (one, half) = (sums(1.0, large), sums(0.5, large));
        assert!(one.value.iter().zip(&half.value).all(|(a, b)| 0.5 * a == *b));
        assert!(one.bound.iter().zip(&half.bound).all(|(a, b)| 0.5 * a == *b), "{large}");
        // Multiples of large powers of two are exact in f32, too.
        assert_eq!(one.bound.iter().all(|b| *b == 0.0), large != 16_777_215.0);
    }
}

#[test]
fn other_programs_are_evaluated_as_a_whole() {
    let options = EvalOptions::default();
    let f = |sizes: &[u64]| ty(DType::F32, sizes);
    let possible = |b: &Builder| Blocks::possible(&b.graph, &options).is_some();
    // A matmul, a reduction, an operand that is repeated, and a function of parts.
    let mut b = Builder::default();
    let x = b.input("x", f(&[4, 4]));
    let y = b.map(un(ScalarUn::Exp, arg(0)), &[x]);
    b.output(y);
    assert!(possible(&b));
    let y = b.matmul(x, x);
    b.output(y);
    assert!(!possible(&b));
    let mut b = Builder::default();
    let x = b.input("x", f(&[4, 4]));
    let y = b.reduce(ReduceOp::Sum, false, 0, x);
    b.output(y);
    assert!(!possible(&b));
    let mut b = Builder::default();
    let (x, y) = (b.input("x", f(&[4, 4])), b.input("y", f(&[1, 4])));
    let z = b.map(bin(ScalarBin::Add, arg(0), arg(1)), &[x, y]);
    b.output(z);
    assert!(!possible(&b));
    let mut b = Builder::default();
    let x = b.input("x", partial(ReduceOp::Sum, DType::F32, &[4, 4]));
    let y = b.map(bin(ScalarBin::Mul, arg(0), num(2.0)), &[x]);
    let z = b.op(OpKind::Demand, f(&[4, 4]), &[y]);
    b.output(z);
    assert!(!possible(&b));
}
