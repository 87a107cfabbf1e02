//! Tests of the evaluator's bounds against executions in the program's types: random expressions,
//! orders, and ways to share a contraction. An execution outside its bound is an error of the
//! evaluator.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::reference_util;

use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::numbers::{combine, from_f64, narrow, round_to, widen};
use kbc_numerics::scalar_eval;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{Accuracy, EvalOptions, RefTensor, evaluate};
use reference_util::{Builder, Seq, arg, bin, branch, f32s, num, partial, ty, un};

/// Counts of comparisons.
#[derive(Default, Debug)]
struct Tally {
    compared: usize,
    /// Elements without a bound.
    skipped: usize,
    /// Elements with bound 0.
    exact: usize,
    /// The largest error in units of its bound.
    largest: f64,
}

impl Tally {
    fn check(&mut self, got: &Data, want: &RefTensor, what: &dyn Fn(usize) -> String) {
        for (i, g) in got.to_f64().into_iter().enumerate() {
            let (v, e) = (want.value[i], want.bound[i]);
            assert!(!e.is_nan() && e >= 0.0, "{}: bound {e}", what(i));
            if e.is_infinite() {
                self.skipped += 1;
                continue;
            }
            self.compared += 1;
            self.exact += usize::from(e == 0.0);
            if g == v || (g.is_nan() && v.is_nan()) {
                continue;
            }
            assert!((g - v).abs() <= e, "{}: got {g:?}, reference {v:?} +- {e:?}", what(i));
            self.largest = self.largest.max((g - v).abs() / e);
        }
    }
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn tensor(dtype: DType, shape: &[u64], values: &[f32]) -> Tensor {
    Tensor::new(shape, narrow(values.to_vec(), dtype).unwrap()).unwrap()
}

/// Returns an expression of two arguments.
fn expression(s: &mut Seq, depth: usize) -> Scalar {
    if depth == 0 || s.below(8) == 0 {
        return match s.below(4) {
            0 => num(f64::from(s.number())),
            1 => num([0.0, 1.0, 0.5, 2.0, -1.0][s.below(5)]),
            k => arg(k - 2),
        };
    }
    let a = expression(s, depth - 1);
    match s.below(12) {
        0..=5 => {
            let op = ScalarBin::ALL[s.below(ScalarBin::ALL.len())];
            bin(op, a, expression(s, depth - 1))
        }
        6..=9 => un(ScalarUn::ALL[s.below(ScalarUn::ALL.len())], a),
        10 => Scalar::Pow(Box::new(a), [0, 1, 2, 3, 7, 70][s.below(6)]),
        _ => {
            let op =
                [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge]
                    [s.below(6)];
            let b = expression(s, depth - 1);
            branch(op, (a, b), expression(s, depth - 1), expression(s, depth - 1))
        }
    }
}

/// Returns a number, sometimes a special one.
fn special(s: &mut Seq) -> f32 {
    match s.below(40) {
        0 => [0.0, -0.0, 1.0, -1.0][s.below(4)],
        1 => [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX][s.below(4)],
        2 => [1e-40, -1e-38, 1e-20, f32::from_bits(1)][s.below(4)],
        3 => [1e20, -1e30, 65504.0, 88.0][s.below(4)],
        4 => s.below(10) as f32,
        _ => s.number(),
    }
}

#[test]
fn random_expressions() {
    let mut s = Seq(1);
    let mut tally = Tally::default();
    let n = 32;
    for case in 0..4000 {
        let dtype = FLOATS[case % 3];
        let depth = 1 + s.below(4);
        let body = expression(&mut s, depth);
        let f = ScalarFn { name: "f".into(), params: vec!["a".into(), "b".into()], body: body.clone() };
        let args: Vec<Tensor> = (0..2)
            .map(|_| {
                let values: Vec<f32> = (0..n).map(|_| special(&mut s)).collect();
                tensor(dtype, &[n], &values)
            })
            .collect();
        let got = scalar_eval::map(&f, &[args[0].data(), args[1].data()], n as usize, dtype).unwrap();
        let mut b = Builder::default();
        let ids = [b.input("a", ty(dtype, &[n])), b.input("b", ty(dtype, &[n]))];
        let y = b.map(body.clone(), &ids);
        b.output(y);
        let want = b.run(&args).unwrap().remove(0);
        let at = |i: usize| {
            format!("{dtype} {body:?} of {:?}, {:?}", args[0].data().get(i), args[1].data().get(i))
        };
        tally.check(&got, &want, &at);
    }
    assert!(tally.compared > 100_000 && tally.skipped < tally.compared / 5, "{tally:?}");
    assert!(tally.largest > 0.9 && tally.exact > 1000, "{tally:?}");
}

/// Returns the sum of terms in f32 in a random order, by a random tree.
fn sum(s: &mut Seq, mut terms: Vec<f32>) -> f32 {
    while terms.len() > 1 {
        let a = terms.swap_remove(s.below(terms.len()));
        // A chain or a tree, at random.
        let at = if s.below(3) == 0 { terms.len() - 1 } else { s.below(terms.len()) };
        terms[at] += a;
    }
    terms.first().copied().unwrap_or(0.0)
}

/// Returns sums in the type, over ranks, in a random order.
fn add_parts(s: &mut Seq, mut parts: Vec<Data>) -> Data {
    while parts.len() > 1 {
        let a = parts.swap_remove(s.below(parts.len()));
        let at = s.below(parts.len());
        combine(ReduceOp::Sum, &mut parts[at], &a).unwrap();
    }
    parts.remove(0)
}

/// Assigns each of n terms to one of `parts` ranks; some ranks may get none.
fn shares(s: &mut Seq, n: usize, parts: usize) -> Vec<usize> {
    (0..n).map(|_| s.below(parts)).collect()
}

/// Returns operands of a contraction: normal, with large cancellation, small integers, or with tiny
/// numbers.
fn operands(s: &mut Seq, n: usize, kind: usize) -> Vec<f32> {
    (0..n)
        .map(|_| match kind {
            0 => s.number(),
            1 => s.number() * [1.0, 1e3][s.below(2)],
            2 => s.below(4) as f32 - 1.0,
            _ => s.number() * [1.0, 1e-5, 1e-22][s.below(3)],
        })
        .collect()
}

#[test]
fn contractions_in_any_order_and_share() {
    let mut s = Seq(2);
    let mut tally = Tally::default();
    for case in 0..600 {
        let dtype = FLOATS[case % 3];
        let (m, k, n) = (1 + s.below(3), 1 + s.below(40), 1 + s.below(3));
        let parts = [1, 1, 2, 3, 8][s.below(5)];
        let kind = s.below(4);
        let a = tensor(dtype, &[m as u64, k as u64], &operands(&mut s, m * k, kind));
        let b = tensor(dtype, &[k as u64, n as u64], &operands(&mut s, k * n, kind));
        let (x, y) = (widen(a.data()).unwrap(), widen(b.data()).unwrap());
        let share = shares(&mut s, k, parts);
        let pieces: Vec<Data> = (0..parts)
            .map(|p| {
                let mut piece = vec![];
                for at in 0..m * n {
                    let (i, j) = (at / n, at % n);
                    let mine = (0..k).filter(|t| share[*t] == p);
                    let terms: Vec<f32> = mine.map(|t| x[i * k + t] * y[t * n + j]).collect();
                    piece.push(sum(&mut s, terms));
                }
                narrow(piece, dtype).unwrap()
            })
            .collect();
        let got = add_parts(&mut s, pieces);
        let sizes = [m as u64, n as u64];
        let mut g = Builder::default();
        let ids = [g.input("a", ty(dtype, a.shape())), g.input("b", ty(dtype, b.shape()))];
        let of = if parts > 1 { partial(ReduceOp::Sum, dtype, &sizes) } else { ty(dtype, &sizes) };
        let p = g.op(OpKind::Matmul { accumulate_f32: false }, of, &ids);
        let p = g.op(OpKind::Demand, ty(dtype, &sizes), &[p]);
        g.output(p);
        let want = g.run_shared(&[a.clone(), b.clone()], parts as u64).unwrap().remove(0);
        tally.check(&got, &want, &|i| {
            format!("{dtype} {m} x {k} x {n} element {i} over {parts}, kind {kind}")
        });
    }
    assert!(tally.exact > 100 && tally.skipped < 250 && tally.largest > 0.3, "{tally:?}");
}

#[test]
fn chains_with_parts_in_flight() {
    // x is partial over ranks: 0.3 x + y x, then a matmul with w, summed at the very end in the
    // type.
    let mut s = Seq(3);
    let mut tally = Tally::default();
    for case in 0..600 {
        let dtype = FLOATS[case % 3];
        let (ranks, k) = (2 + s.below(4), 1 + s.below(8));
        let kind = s.below(4);
        let x = tensor(dtype, &[ranks as u64, 1, k as u64], &operands(&mut s, ranks * k, kind));
        let y = tensor(dtype, &[k as u64], &operands(&mut s, k, kind));
        let w = tensor(dtype, &[k as u64, 1], &operands(&mut s, k, kind));
        let factor = if s.below(2) == 0 { 0.3 } else { 2.0 };
        let scaled = bin(ScalarBin::Mul, arg(0), num(factor));
        let body = bin(ScalarBin::Add, scaled, bin(ScalarBin::Mul, arg(1), arg(0)));
        let f = ScalarFn { name: "f".into(), params: vec!["x".into(), "y".into()], body: body.clone() };
        let parts = (0..ranks)
            .map(|r| {
                let z = scalar_eval::map(&f, &[&x.data().slice(r * k, k), y.data()], k, dtype).unwrap();
                let (z, w) = (widen(&z).unwrap().into_owned(), widen(w.data()).unwrap());
                let terms = z.iter().zip(w.iter()).map(|(z, w)| z * w).collect();
                narrow(vec![sum(&mut s, terms)], dtype).unwrap()
            })
            .collect();
        let got = add_parts(&mut s, parts);
        let mut g = Builder::default();
        let row = partial(ReduceOp::Sum, dtype, &[1, k as u64]);
        let ids = [
            g.input("x", row.clone()),
            g.input("y", ty(dtype, &[k as u64])),
            g.input("w", ty(dtype, w.shape())),
        ];
        let z = g.map_to(body, row, &ids[..2]);
        let p = g.op(
            OpKind::Matmul { accumulate_f32: false },
            partial(ReduceOp::Sum, dtype, &[1, 1]),
            &[z, ids[2]],
        );
        let p = g.op(OpKind::Demand, ty(dtype, &[1, 1]), &[p]);
        g.output(p);
        let want = g.run_shared(&[x.clone(), y, w], ranks as u64).unwrap().remove(0);
        tally.check(&got, &want, &|_| format!("{dtype} {ranks} ranks, k {k}, kind {kind}"));
    }
    assert!(tally.exact > 50 && tally.skipped < 120 && tally.largest > 0.1, "{tally:?}");
}

#[test]
fn reductions_of_dimensions_and_ranks() {
    let mut s = Seq(4);
    let mut tally = Tally::default();
    for case in 0..1500 {
        let dtype = FLOATS[case % 3];
        let op = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max][s.below(4)];
        let mean = op == ReduceOp::Sum && s.below(2) == 0;
        let n = 1 + s.below(12);
        let kind = s.below(3);
        let x = tensor(dtype, &[n as u64], &operands(&mut s, n, kind));
        let ranks = [1, 1, 2, 4][s.below(4)];
        let share = shares(&mut s, n, ranks);
        let wide = widen(x.data()).unwrap().into_owned();
        let one = |values: Vec<f32>, s: &mut Seq| match op {
            ReduceOp::Sum if mean => sum(s, values) / n as f32,
            ReduceOp::Sum => sum(s, values),
            ReduceOp::Prod => values.iter().fold(1.0, |a, b| a * b),
            ReduceOp::Min => values.iter().fold(f32::INFINITY, |a, b| a.min(*b)),
            ReduceOp::Max => values.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)),
        };
        let mut got: Option<Data> = None;
        for r in 0..ranks {
            let values = (0..n).filter(|i| share[*i] == r).map(|i| wide[i]).collect();
            let part = narrow(vec![one(values, &mut s)], dtype).unwrap();
            match &mut got {
                None => got = Some(part),
                Some(all) => combine(op, all, &part).unwrap(),
            }
        }
        let mut g = Builder::default();
        let id = g.input("x", ty(dtype, &[n as u64]));
        let of = if ranks > 1 { partial(op, dtype, &[]) } else { ty(dtype, &[]) };
        let y = g.op(OpKind::ReduceDim { op, mean, dim: 0, keep: false }, of, &[id]);
        let y = g.op(OpKind::Demand, ty(dtype, &[]), &[y]);
        g.output(y);
        let want = g.run_shared(std::slice::from_ref(&x), ranks as u64).unwrap().remove(0);
        tally.check(&got.unwrap(), &want, &|_| {
            format!("{dtype} {op} mean {mean} of {wide:?} over {ranks} {share:?}")
        });
    }
    assert!(tally.exact > 500 && tally.largest > 0.3 && tally.skipped < 100, "{tally:?}");
}

#[test]
fn casts_between_floats() {
    let mut s = Seq(5);
    let mut tally = Tally::default();
    for case in 0..300 {
        let (from, to) = (FLOATS[case % 3], FLOATS[case / 3 % 3]);
        let values: Vec<f32> = (0..40).map(|_| special(&mut s)).collect();
        let x = tensor(from, &[40], &values);
        let back: Vec<f64> = x.data().to_f64().iter().map(|v| round_to(*v, to)).collect();
        let got = from_f64(to, &back);
        let mut g = Builder::default();
        let id = g.input("x", ty(from, &[40]));
        let y = g.cast(to, id);
        g.output(y);
        let want = g.run(std::slice::from_ref(&x)).unwrap().remove(0);
        tally.check(&got, &want, &|i| format!("{from} to {to}: {:?}", x.data().get(i)));
    }
    assert!(tally.skipped < tally.compared / 50 && tally.largest > 0.9, "{tally:?}");
}

#[test]
fn masks_of_the_largest_number_have_bounds() {
    // The number that attention adds at masked positions: finite, and close to infinity.
    let largest = f64::from(f32::MIN);
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[3]));
    let masked = b.map(bin(ScalarBin::Add, arg(0), num(largest)), &[x]);
    let shifted = b.map(bin(ScalarBin::Sub, arg(0), num(5.25)), &[masked]);
    let e = b.map(un(ScalarUn::Exp, arg(0)), &[shifted]);
    b.output(masked);
    b.output(e);
    let out = b.run(&[f32s(&[3], &[-1.2, 0.0, 3.5])]).unwrap();
    for (i, x) in [1.2f32, 0.0, 3.5].iter().enumerate() {
        // An execution has the largest number itself: its error is what was added.
        assert!((out[0].value[i] - largest).abs() <= f64::from(*x) + 1e-3);
        assert!(out[0].bound[i] >= (out[0].value[i] - largest).abs() && out[0].bound[i] < 1e33);
    }
    assert!(out[0].unbounded() == 0 && out[1].bound.iter().all(|b| *b < 1e-30), "{:?}", out[1].bound);
    // A sum that may overflow has no bound.
    let mut b = Builder::default();
    let x = b.input("x", ty(DType::F32, &[1]));
    let twice = b.map(bin(ScalarBin::Add, arg(0), num(largest)), &[x]);
    b.output(twice);
    let out = b.run(&[f32s(&[1], &[-1.1e31])]).unwrap();
    assert!(out[0].value[0].is_infinite() || out[0].bound[0].is_infinite());
}

#[test]
fn functions_of_another_program_are_further_off() {
    let run = |op: ScalarUn, accuracy: Accuracy| {
        let mut b = Builder::default();
        let x = b.input("x", ty(DType::F32, &[2]));
        let y = b.map(un(op, arg(0)), &[x]);
        b.output(y);
        let options = EvalOptions { accuracy, ..EvalOptions::default() };
        evaluate(&b.graph, &[f32s(&[2], &[0.001, 1.5])], &options).unwrap().remove(0)
    };
    for op in [ScalarUn::Erf, ScalarUn::Exp] {
        let (own, others) = (run(op, Accuracy::Own), run(op, Accuracy::Others));
        assert_eq!(own.value, others.value);
        assert!(own.bound.iter().zip(&others.bound).all(|(a, b)| 2.0 * a < *b && *b < 1e-4));
    }
    // Relative errors may be large where the function is near zero.
    assert!(run(ScalarUn::Erf, Accuracy::Others).bound[0] >= 5e-7);
    assert!(run(ScalarUn::Sin, Accuracy::Others).bound[0] >= 2.5e-7);
    assert_eq!(run(ScalarUn::Tanh, Accuracy::Own), run(ScalarUn::Tanh, Accuracy::Others));
}
