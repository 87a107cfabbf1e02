//! Tests on the feed-forward layer of a real encoder: the evaluator against PyTorch's stored
//! result, a plain f32 execution against the evaluator's bounds, and a wrong gelu that must fail.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util;

use kbc_ir::graph::Graph;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::{DType, Mesh, ReduceOp, TensorType};
use kbc_numerics::compare::{Expected, compare};
use kbc_numerics::formats;
use kbc_numerics::numbers;
use kbc_numerics::scalar_eval;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{EvalOptions, RefTensor, evaluate};
use reference_util::{Builder, arg, bin, num, partial, ty, un};

const TOKENS: usize = 25;
const WIDE: usize = 384;
const HIDDEN: usize = 1536;
const KEYS: [&str; 5] = ["ffn_in", "w1", "b1", "w2", "b2"];

fn load(key: &str) -> Tensor {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../specs/minilm/ffn.npz");
    let bytes = std::fs::read(path).expect("the file is in the repository");
    formats::read("minilm/ffn.npz", &bytes, Some(key)).unwrap()
}

fn floats(t: &Tensor) -> &[f32] {
    match t.data() {
        Data::F32(v) => v,
        other => panic!("{} data", other.dtype()),
    }
}

/// `0.5 * x * (1 + erf(x * 0.70710678))`
#[expect(clippy::approx_constant, reason = "the number as the program writes it")]
fn gelu() -> Scalar {
    let erf = un(ScalarUn::Erf, bin(ScalarBin::Mul, arg(0), num(0.70710678)));
    bin(ScalarBin::Mul, bin(ScalarBin::Mul, num(0.5), arg(0)), bin(ScalarBin::Add, num(1.0), erf))
}

/// `0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))`
fn gelu_tanh() -> Scalar {
    let cube = bin(ScalarBin::Mul, num(0.044715), Scalar::Pow(Box::new(arg(0)), 3));
    let inner = bin(ScalarBin::Mul, num(0.7978845608), bin(ScalarBin::Add, arg(0), cube));
    let tanh = un(ScalarUn::Tanh, inner);
    bin(ScalarBin::Mul, bin(ScalarBin::Mul, num(0.5), arg(0)), bin(ScalarBin::Add, num(1.0), tanh))
}

/// Returns a graph whose results are the layer's and its hidden values.
fn layer(act: Scalar, second: TensorType) -> Graph {
    let (t, w, h) = (TOKENS as u64, WIDE as u64, HIDDEN as u64);
    let mut b = Builder::default();
    let sizes = [vec![t, w], vec![w, h], vec![h], vec![h, w], vec![w]];
    let inputs: Vec<_> = KEYS.iter().zip(&sizes).map(|(k, s)| b.input(k, ty(DType::F32, s))).collect();
    let product = b.matmul(inputs[0], inputs[1]);
    let biased = b.map(bin(ScalarBin::Add, arg(0), arg(1)), &[product, inputs[2]]);
    let hidden = b.map(act, &[biased]);
    let product = b.op(kbc_ir::graph::OpKind::Matmul { accumulate_f32: false }, second, &[hidden, inputs[3]]);
    let out = b.map_to(bin(ScalarBin::Add, arg(0), arg(1)), ty(DType::F32, &[t, w]), &[product, inputs[4]]);
    b.output(out);
    b.output(hidden);
    b.graph
}

fn run(act: Scalar) -> Vec<RefTensor> {
    let inputs: Vec<Tensor> = KEYS.iter().map(|k| load(k)).collect();
    let whole = ty(DType::F32, &[TOKENS as u64, WIDE as u64]);
    evaluate(&layer(act, whole), &inputs, &EvalOptions { max_parts: 1, ..EvalOptions::default() }).unwrap()
}

/// `1e-6 * (sum_j |h_j| |w2_jk| + |b2_k|)` for each element.
fn tolerance(hidden: &RefTensor) -> Vec<f64> {
    let (w2, b2) = (load("w2"), load("b2"));
    let (w2, b2) = (floats(&w2), floats(&b2));
    let mut out = vec![0.0; TOKENS * WIDE];
    for i in 0..TOKENS {
        let row = &mut out[i * WIDE..(i + 1) * WIDE];
        for j in 0..HIDDEN {
            let h = hidden.value[i * HIDDEN + j].abs();
            row.iter_mut().zip(&w2[j * WIDE..]).for_each(|(o, w)| *o += h * f64::from(w.abs()));
        }
        row.iter_mut().zip(b2).for_each(|(o, b)| *o = 1e-6 * (*o + f64::from(b.abs())));
    }
    out
}

/// Returns `c = a b` in f32, with the contracted dimension in `parts` pieces that are added at the
/// end.
fn product(a: &[f32], b: &[f32], (m, k, n): (usize, usize, usize), parts: usize) -> Vec<f32> {
    let mut c = vec![0f32; m * n];
    for p in 0..parts {
        let mut piece = vec![0f32; m * n];
        for i in 0..m {
            for j in (k * p).div_ceil(parts)..(k * (p + 1)).div_ceil(parts) {
                let (x, row) = (a[i * k + j], &b[j * n..(j + 1) * n]);
                piece[i * n..(i + 1) * n].iter_mut().zip(row).for_each(|(c, y)| *c += x * y);
            }
        }
        c.iter_mut().zip(&piece).for_each(|(c, x)| *c += x);
    }
    c
}

/// Executes the layer in f32, with plain loops and the partial sums of `parts` ranks.
fn execute(act: &Scalar, parts: usize) -> Tensor {
    let tensors: Vec<Tensor> = KEYS.iter().map(|k| load(k)).collect();
    let [x, w1, b1, w2, b2] = [0, 1, 2, 3, 4].map(|i| floats(&tensors[i]));
    let mut h = product(x, w1, (TOKENS, WIDE, HIDDEN), 1);
    h.iter_mut().zip(b1.iter().cycle()).for_each(|(h, b)| *h += b);
    let f = ScalarFn { name: "gelu".into(), params: vec!["x".into()], body: act.clone() };
    let h = scalar_eval::map(&f, &[&Data::F32(h)], TOKENS * HIDDEN, DType::F32).unwrap();
    let h = numbers::widen(&h).unwrap();
    let mut y = product(&h, w2, (TOKENS, HIDDEN, WIDE), parts);
    y.iter_mut().zip(b2.iter().cycle()).for_each(|(y, b)| *y += b);
    Tensor::new([TOKENS as u64, WIDE as u64], Data::F32(y)).unwrap()
}

/// Returns the number of elements of `got` that are further than `limit` from `want`.
fn beyond(got: &[f64], want: &[f64], limit: &[f64]) -> usize {
    got.iter().zip(want).zip(limit).filter(|((g, w), l)| (*g - *w).abs() > **l).count()
}

#[test]
fn reference_agrees_with_pytorch() {
    let results = run(gelu());
    let stored = load("ffn_out").data().to_f64();
    let limit = tolerance(&results[1]);
    assert_eq!(results[0].shape, [25, 384]);
    assert_eq!(beyond(&results[0].value, &stored, &limit), 0);
    // PyTorch's own execution is within twice the evaluator's bounds, as any other execution.
    let doubled: Vec<f64> = results[0].bound.iter().map(|b| 2.0 * b).collect();
    assert_eq!(beyond(&stored, &results[0].value, &doubled), 0);
    assert_eq!(results[0].unbounded(), 0);
}

#[test]
fn tanh_gelu_is_not_gelu() {
    let results = run(gelu_tanh());
    let stored = load("ffn_out").data().to_f64();
    let wrong = beyond(&results[0].value, &stored, &tolerance(&results[1]));
    assert!(wrong > 9000, "{wrong} of 9600 elements are too far off");
}

#[test]
fn f32_execution_lies_within_the_bounds() {
    let exact = run(gelu()).remove(0);
    let expected = Expected::from(&exact);
    let all = ty(DType::F32, &[25, 384]);
    for parts in [1, 2, 3, 5, 8] {
        let got = execute(&gelu(), parts);
        let part = Part { bounds: vec![(0, 25), (0, 384)], tensor: got };
        let found = compare(&all, &Mesh::default(), &[part], &expected, None);
        assert!(found.ok(), "{parts} parts: {found:?}");
        assert_eq!(found.elements, 9600);
        // The bounds are for the worst order and the worst roundings, but not arbitrarily larger.
        assert!(found.max_err > 1e-4, "{parts} parts: largest error {} of the bound", found.max_err);
    }
}

#[test]
fn lost_and_doubled_parts_are_beyond_the_bounds() {
    let exact = run(gelu()).remove(0);
    let right = execute(&gelu(), 4).data().to_f64();
    let bias = load("b2").data().to_f64();
    for factor in [-1.0, 1.0] {
        let wrong: Vec<f64> = right.iter().zip(bias.iter().cycle()).map(|(y, b)| y + factor * b).collect();
        let found = beyond(&wrong, &exact.value, &exact.bound);
        assert!(found > 9000, "bias {factor:+}: {found} of 9600");
    }
    // One hidden unit of one token, the one that contributes most.
    let (hidden, w2) = (run(gelu()).remove(1), load("w2"));
    let unit = (0..HIDDEN).max_by(|a, b| hidden.value[*a].abs().total_cmp(&hidden.value[*b].abs())).unwrap();
    let lost: Vec<f64> =
        (0..WIDE).map(|k| right[k] - hidden.value[unit] * f64::from(floats(&w2)[unit * WIDE + k])).collect();
    let found = beyond(&lost, &exact.value[..WIDE], &exact.bound[..WIDE]);
    assert!(found > 300, "unit {unit}: {found} of 384");
}

#[test]
fn a_partial_second_product_has_the_same_values() {
    let inputs: Vec<Tensor> = KEYS.iter().map(|k| load(k)).collect();
    let shared = partial(ReduceOp::Sum, DType::F32, &[25, 384]);
    let split =
        evaluate(&layer(gelu(), shared), &inputs, &EvalOptions { max_parts: 8, ..EvalOptions::default() })
            .unwrap();
    let whole = run(gelu());
    assert_eq!(split[0].value, whole[0].value);
    // In f32, the additions across ranks are among those counted for the contraction.
    assert_eq!(split[0].bound, whole[0].bound);
}
