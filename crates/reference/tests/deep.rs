//! Tests of bounds of programs with several successive contractions. The running analysis alone
//! gives no bound there; its replacement accepts every correct execution and no wrong one.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util;

use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{ScalarBin, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::Tensor;
use kbc_reference::RefTensor;
use kbc_reference::testing::{results_by_bounds, results_by_limits};
use reference_util::{Builder, Seq, arg, bin, f32s, num, ty, un};

const ROWS: usize = 6;
const WIDE: usize = 96;
const LAYERS: usize = 5;

/// Returns the input and a weight for each layer.
fn data(seed: u64) -> Vec<Vec<f32>> {
    let mut s = Seq(seed);
    let mut some = |n: usize| -> Vec<f32> {
        (0..n).map(|_| ((s.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5) as f32 * 0.4).collect()
    };
    let mut out = vec![some(ROWS * WIDE)];
    out.extend((0..LAYERS).map(|_| some(WIDE * WIDE)));
    out
}

/// Returns the reference. Each layer: `h = tanh(x w)`, `x = h / sqrt(mean(h h))`.
fn reference(data: &[Vec<f32>]) -> RefTensor {
    let (b, tensors) = program(data);
    b.run(&tensors).unwrap().remove(0)
}

/// Returns the program and its inputs.
fn program(data: &[Vec<f32>]) -> (Builder, Vec<Tensor>) {
    let (r, w) = (ROWS as u64, WIDE as u64);
    let mut b = Builder::default();
    let mut x = b.input("x", ty(DType::F32, &[r, w]));
    for i in 0..data.len() - 1 {
        let weight = b.input(&format!("w{i}"), ty(DType::F32, &[w, w]));
        let y = b.matmul(x, weight);
        let h = b.map(un(ScalarUn::Tanh, arg(0)), &[y]);
        let square = b.map(bin(ScalarBin::Mul, arg(0), arg(0)), &[h]);
        let kind = OpKind::ReduceDim { op: ReduceOp::Sum, mean: true, dim: 1, keep: true };
        let mean = b.op(kind, ty(DType::F32, &[r, 1]), &[square]);
        let norm = bin(ScalarBin::Mul, arg(0), un(ScalarUn::Rsqrt, arg(1)));
        x = b.map(norm, &[h, mean]);
    }
    b.output(x);
    let tensor = |(i, v): (usize, &Vec<f32>)| f32s(&[if i == 0 { r } else { w }, w], v);
    (b, data.iter().enumerate().map(tensor).collect())
}

/// Executes the same in f32, with this order of the terms of contractions.
fn execute(data: &[Vec<f32>], order: &dyn Fn(usize) -> usize) -> Vec<f32> {
    let mut x = data[0].clone();
    for w in &data[1..] {
        let mut h = vec![0f32; ROWS * WIDE];
        for i in 0..ROWS {
            for k in (0..WIDE).map(order) {
                for j in 0..WIDE {
                    h[i * WIDE + j] += x[i * WIDE + k] * w[k * WIDE + j];
                }
            }
        }
        for (row, out) in h.chunks_mut(WIDE).zip(x.chunks_mut(WIDE)) {
            row.iter_mut().for_each(|v| *v = libm::tanhf(*v));
            let square: f32 = (0..WIDE).map(order).map(|k| row[k] * row[k]).sum();
            let scale = 1.0 / (square / WIDE as f32).sqrt();
            out.iter_mut().zip(row).for_each(|(o, h)| *o = *h * scale);
        }
    }
    x
}

/// Returns the largest distance in units of the bound.
fn worst(reference: &RefTensor, got: &[f32]) -> f64 {
    let all = reference.value.iter().zip(&reference.bound).zip(got);
    all.map(|((v, b), g)| (f64::from(*g) - v).abs() / b).fold(0.0, f64::max)
}

#[test]
fn right_executions_pass_in_any_order() {
    for seed in 0..12 {
        let data = data(seed);
        let reference = reference(&data);
        let largest = reference.bound.iter().fold(0.0f64, |m, b| b.max(m));
        assert!(largest < 5e-3, "seed {seed}: the bound is {largest}, of elements around 1");
        assert!(reference.bound.iter().all(|b| *b > 0.0));
        let orders: [&dyn Fn(usize) -> usize; 3] = [&|k| k, &|k| WIDE - 1 - k, &|k| k * 37 % WIDE];
        for (o, order) in orders.iter().enumerate() {
            let off = worst(&reference, &execute(&data, order));
            assert!(off < 0.25, "seed {seed}, order {o}: {off} of the bound");
        }
    }
}

#[test]
fn a_wrong_weight_does_not_pass() {
    let reference = reference(&data(3));
    for layer in 1..=LAYERS {
        let mut wrong = data(3);
        wrong[layer][WIDE + 7] += 0.05;
        let off = worst(&reference, &execute(&wrong, &|k| k));
        assert!(off > 1.0, "layer {layer}: {off} of the bound");
    }
}

#[test]
fn sums_that_round_to_one_side_pass() {
    // Equal terms: all roundings in a run of additions have the same direction.
    let mut data = data(5);
    data[0].iter_mut().for_each(|x| *x = 0.1);
    for w in &mut data[1..] {
        w.iter_mut().for_each(|x| *x = 0.013);
    }
    let off = worst(&reference(&data), &execute(&data, &|k| k));
    assert!(off < 0.5, "{off} of the bound");
}

#[test]
fn the_same_every_time() {
    let data = data(1);
    assert_eq!(reference(&data), reference(&data));
}

/// Lower limits of bounds lead to the same results as the bounds, or to none.
#[test]
fn limits_decide_as_bounds_do() {
    let mut decided = vec![];
    for layers in 1..=LAYERS + 2 {
        let mut data = data(layers as u64);
        let last = data[LAYERS].clone();
        data.resize(layers + 1, last);
        let (b, tensors) = program(&data);
        let bounds = results_by_bounds(&b.graph, &tensors).unwrap();
        let limits = results_by_limits(&b.graph, &tensors).unwrap();
        decided.extend(limits.is_some().then_some(layers));
        assert!(limits.is_none_or(|limits| limits == bounds), "{layers} layers");
        assert_eq!(b.run(&tensors).unwrap(), bounds, "{layers} layers");
    }
    assert_eq!(decided, [5, 6, 7], "numbers of layers that limits decide");
}

/// A value that depends on bounds, because it certainly overflows, is not decided by limits.
#[test]
fn limits_are_given_up_at_infinities() {
    let (mut b, w) = (Builder::default(), WIDE as u64);
    let mut x = b.input("x", ty(DType::F32, &[6, w]));
    let weight = b.input("w", ty(DType::F32, &[w, w]));
    for _ in 0..LAYERS {
        x = b.matmul(x, weight);
    }
    // 1 / (1 + exp(1e3 - x)): the exponential overflows, the result is finite.
    let exp = un(ScalarUn::Exp, bin(ScalarBin::Sub, num(1e3), arg(0)));
    let body = bin(ScalarBin::Div, num(1.0), bin(ScalarBin::Add, num(1.0), exp));
    let y = b.map(bin(ScalarBin::Add, arg(0), body), &[x]);
    b.output(y);
    let data = data(2);
    let tensors = [f32s(&[6, w], &data[0]), f32s(&[w, w], &data[1])];
    assert_eq!(results_by_limits(&b.graph, &tensors).unwrap(), None);
    b.run(&tensors).unwrap();
}

#[test]
fn reductions_of_one_operation_keep_their_bound() {
    // One contraction: the bound of the table, as without probes.
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[1, 1 << 15]));
    let sum = b.reduce(ReduceOp::Sum, false, 1, x);
    b.output(sum);
    let values: Vec<f32> = (0..1 << 15).map(|i| 0.1 + i as f32 * 1e-6).collect();
    let got = values.iter().fold(0f32, |s, v| s + v);
    let t = b.run(&[f32s(&[1, 1 << 15], &values)]).unwrap().remove(0);
    let gamma = f64::from(1 << 15) * 2f64.powi(-24);
    assert!(t.bound[0] >= 0.9 * gamma * t.value[0], "{} of {}", t.bound[0], t.value[0]);
    assert!((f64::from(got) - t.value[0]).abs() <= t.bound[0]);
}
