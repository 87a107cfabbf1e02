//! Tests of feeding ranks, making inputs, and comparing results.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use kbc_ir::types::{Axis, Cut, CutRule, DType, Dim, Mesh, ReduceOp, TensorType};
use kbc_numerics::compare::{
    Comparison, Expected, FaultyContribution, Hint, ReferenceValues, compare, compare_rows, contributions,
};
use kbc_numerics::element::Value;
use kbc_numerics::generate::{ExactRange, exact, exact_limit, exact_range, exact_value, mix32, normal, ones};
use kbc_numerics::numbers::{from_f64, from_i64};
use kbc_numerics::shard::{Part, assemble, check_feed, contribution, contributor_name, cut, feed_shape};
use kbc_numerics::tensor::{Data, Tensor};

fn mesh(axes: &[(&str, u64)]) -> Mesh {
    Mesh {
        axes: axes.iter().map(|(n, size)| Axis { name: (*n).into(), size: *size, parts: vec![] }).collect(),
    }
}

fn ty(dtype: DType, dims: &[(u64, &[&str], CutRule)]) -> TensorType {
    let dim = |(size, axes, rule): &(u64, &[&str], CutRule)| Dim {
        size: *size,
        cut: (!axes.is_empty())
            .then(|| Cut { axes: axes.iter().map(|a| (*a).into()).collect(), rule: rule.clone() }),
    };
    TensorType { dtype, dims: dims.iter().map(dim).collect(), partial: None, only: None }
}

fn partial(mut t: TensorType, op: ReduceOp, axes: &[&str]) -> TensorType {
    t.partial = Some((op, axes.iter().map(|a| (*a).into()).collect()));
    t
}

fn numbered(dtype: DType, shape: &[u64]) -> Tensor {
    let n: i64 = shape.iter().product::<u64>() as i64;
    Tensor::new(shape, from_i64(dtype, &(0..n).collect::<Vec<_>>())).unwrap()
}

const E: CutRule = CutRule::Even;
const C: CutRule = CutRule::Ceil;

#[test]
fn parts_put_together_are_the_whole() {
    let m = mesh(&[("a", 2), ("b", 3)]);
    for (t, copies) in [
        (ty(DType::I32, &[(7, &["b"], E), (5, &["a"], C)]), 1),
        (ty(DType::I32, &[(7, &["a", "b"], E), (5, &[], E)]), 1),
        (ty(DType::I32, &[(7, &["b", "a"], C)]), 1),
        (ty(DType::I32, &[(2, &["b"], E), (3, &[], E)]), 2),
        (ty(DType::I32, &[(5, &[], E)]), 6),
        (ty(DType::I32, &[]), 6),
        (ty(DType::I32, &[(0, &["a"], E), (4, &["b"], E)]), 1),
    ] {
        let whole = numbered(DType::I32, &t.sizes());
        let parts: Vec<Part> = (0..6).map(|r| cut("x", &t, &m, &whole, r).unwrap()).collect();
        let held: usize = parts.iter().map(|p| p.tensor.elements()).sum();
        assert_eq!(held, copies * whole.elements(), "{t}");
        assert_eq!(assemble(&t, &parts), Some((whole, true)), "{t}");
    }
}

#[test]
fn partial_inputs_are_fed_per_rank_and_only_inputs_to_one() {
    let m = mesh(&[("a", 2), ("b", 3)]);
    // Summed over b and a, in this order: contributor = b * 2 + a.
    let t = partial(ty(DType::F32, &[(4, &[], E)]), ReduceOp::Sum, &["b", "a"]);
    assert_eq!(feed_shape(&t, &m), [6, 4]);
    let feed = numbered(DType::F32, &[6, 4]);
    for rank in 0..6 {
        let (a, b) = (rank / 3, rank % 3);
        assert_eq!(contribution(&t, &m, rank), Some((b * 2 + a, 6)));
        let got = cut("x", &t, &m, &feed, rank).unwrap();
        assert_eq!(*got.tensor.data(), feed.data().slice((b * 2 + a) as usize * 4, 4));
    }
    assert_eq!(assemble(&t, &[]), None);
    // Summed over a, split over b.
    let t = partial(ty(DType::F32, &[(4, &["b"], E)]), ReduceOp::Sum, &["a"]);
    let feed = numbered(DType::F32, &[2, 4]);
    let got = cut("x", &t, &m, &feed, 5).unwrap();
    assert_eq!((got.bounds, got.tensor.data().to_f64()), (vec![(3, 4)], vec![7.0]));
    let mut t = ty(DType::F32, &[(4, &[], E)]);
    t.only = Some((1, "a".into()));
    let feed = numbered(DType::F32, &[4]);
    let parts: Vec<Part> = (0..6).map(|r| cut("x", &t, &m, &feed, r).unwrap()).collect();
    assert_eq!(parts.iter().map(|p| p.tensor.elements()).collect::<Vec<_>>(), [0, 0, 0, 4, 4, 4]);
    let d = check_feed("x", &t, &m, &numbered(DType::F16, &[4])).unwrap_err();
    assert_eq!((d.code, d.title.as_str()), ("E360", "input x is f16[4], and the program expects f32[4]"));
}

#[test]
fn exact_inputs_are_as_large_as_they_may_be() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        for summands in [1, 2, 7, 64, 256] {
            for factors in [1, 2] {
                let r = exact_range(dtype, summands, factors, false);
                let largest = u64::from(r.modulus) - 1;
                let fits = |v: u64| summands * v.pow(factors) <= exact_limit(dtype);
                assert_eq!(r.exact, fits(1));
                if r.exact {
                    assert!(
                        fits(largest) && (largest + 1 >= u64::from(u32::MAX >> 1) || !fits(largest + 1)),
                        "{r:?}"
                    );
                } else {
                    assert_eq!(r.modulus, 2);
                }
                let c = exact_range(dtype, summands, factors, true);
                assert_eq!((c.modulus, c.exact), (2 * largest as u32 + 1, r.exact));
                let values: Vec<i64> = (0..2000).map(|i| exact_value(c, i, 3, 1)).collect();
                assert!(values.iter().all(|v| v.unsigned_abs() <= largest));
                assert!(values.iter().any(|v| *v < 0) && values.iter().any(|v| *v > 0));
            }
        }
    }
    assert_eq!(
        exact_range(DType::F16, 8, 1, false),
        ExactRange { modulus: 257, centred: false, exact: true }
    );
    assert!(!exact_range(DType::BF16, 257, 1, false).exact);
}

#[test]
fn exact_inputs_have_no_period_and_differ_everywhere() {
    // Reports depend on these values, so they must not change.
    assert_eq!([mix32(0, 0, 0), mix32(1, 0, 0), mix32(0, 1, 0), mix32(0, 0, 1)], MIXED);
    let m = mesh(&[("a", 4)]);
    let t = partial(ty(DType::F32, &[(1000, &[], E)]), ReduceOp::Sum, &["a"]);
    let range = exact_range(DType::F32, 4, 1, false);
    let x = exact(&t, &m, range, 0, 0).unwrap();
    assert_eq!(x.shape(), [4, 1000]);
    assert!((0..4000).all(|i| x.data().get(i)
        == Some(Value::Float(exact_value(range, i as u32 % 1000, i as u32 / 1000, 0) as f64))));
    let same = |a: &Data, b: &Data, shift: usize| {
        (0..a.len() - shift).filter(|i| a.get(i + shift) == b.get(*i)).count()
    };
    for shift in 1..1000 {
        assert!(same(x.data(), x.data(), shift) < 20, "{shift}");
    }
    for other in [exact(&t, &m, range, 1, 0).unwrap(), exact(&t, &m, range, 0, 1).unwrap()] {
        assert!(same(x.data(), other.data(), 0) < 20);
    }
}

/// Inputs are made in pieces, on several threads, by remainders without divisions, and small
/// integers come from a table.
#[test]
fn exact_inputs_are_the_same_however_they_are_made() {
    let m = mesh(&[("a", 2)]);
    for (n, moduli) in [
        (1000, &[1, 2, 3, 61, 4095, 4096, 4097, 65_537, 1 << 24, (1 << 31) - 1, 1 << 31, u32::MAX][..]),
        (9_000_000, &[2049]),
    ] {
        for dtype in [DType::F32, DType::I64, DType::F16] {
            let t = partial(ty(dtype, &[(n, &[], E)]), ReduceOp::Sum, &["a"]);
            for (modulus, centred) in moduli.iter().flat_map(|m| [(*m, false), (*m, true)]) {
                let range = ExactRange { modulus, centred, exact: true };
                let x = exact(&t, &m, range, 0, 5).unwrap();
                let value = |k: u64| exact_value(range, (k % n) as u32, (k / n) as u32, 5);
                for k in (0..2 * n).filter(|k| n == 1000 || k % 9_973 == 0) {
                    let want = Data::of_i64(dtype, &[value(k)]);
                    assert_eq!(x.data().get(k as usize), want.get(0), "{dtype} {range:?} {k}");
                }
            }
        }
    }
}

const MIXED: [u32; 4] = [173_787_045, 2_931_781_582, 2_621_465_115, 1_694_956_234];

#[test]
fn ones_and_normal_numbers() {
    let m = mesh(&[("a", 2)]);
    let t = ty(DType::BF16, &[(3, &["a"], E)]);
    assert_eq!(ones(&t, &m).unwrap().data().to_f64(), [1.0; 3]);
    let t = ty(DType::F32, &[(20_000, &[], E)]);
    let v = normal(&t, &m, 7, 0).unwrap().data().to_f64();
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    assert!(mean.abs() < 0.03 && (var - 1.0).abs() < 0.05, "{mean} {var}");
    let beyond = v.iter().filter(|x| x.abs() > 2.0).count() as f64 / n;
    assert!((beyond - 0.0455).abs() < 0.006, "{beyond}");
    assert_ne!(v, normal(&t, &m, 8, 0).unwrap().data().to_f64());
    assert_ne!(v, normal(&t, &m, 7, 1).unwrap().data().to_f64());
    assert_eq!(normal(&ty(DType::I32, &[]), &m, 7, 0).unwrap_err().code, "E369");
    assert_eq!(ones(&ty(DType::I8, &[(1 << 62, &[], E), (9, &[], E)]), &m).unwrap_err().code, "E369");
}

fn expected<'a>(shape: &'a [u64], v: &'a [f64], bound: &'a [f64]) -> Expected<'a> {
    Expected { shape, values: ReferenceValues::Float(v), bound }
}

fn parts(t: &TensorType, m: &Mesh, whole: &Tensor) -> Vec<Part> {
    (0..m.ranks()).map(|r| cut("y", t, m, whole, r).unwrap()).collect()
}

#[test]
fn every_element_has_its_own_bound() {
    let m = mesh(&[("a", 2)]);
    let t = ty(DType::F32, &[(2, &["a"], E), (3, &[], E)]);
    let want = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let bound = [0.5, 0.0, 0.25, 1.0, 0.5, 0.125];
    let got = |v: &[f64]| parts(&t, &m, &Tensor::new([2, 3], from_f64(DType::F32, v)).unwrap());
    let e = expected(&[2, 3], &want, &bound);
    let c = compare(&t, &m, &got(&want), &e, None);
    assert_eq!((c.elements, c.mismatches, c.max_err, c.worst.is_none(), c.ok()), (6, 0, 0.0, true, true));
    // A value on the bound passes; the largest error is in units of its own bound.
    let c = compare(&t, &m, &got(&[1.5, 2.0, 2.75, 4.5, 5.0, 6.0]), &e, None);
    assert_eq!((c.mismatches, c.max_err), (0, 1.0));
    assert_eq!(c.worst.unwrap().index, [0, 0]);
    let c = compare(&t, &m, &got(&[1.0, 2.0, 3.0, 5.5, 5.0, 6.5]), &e, None);
    assert_eq!((c.mismatches, c.max_err, c.ok()), (2, 4.0, false));
    let (first, worst) = (c.first.unwrap(), c.worst.unwrap());
    assert_eq!((first.rank, first.index, first.got), (1, vec![1, 0], Value::Float(5.5)));
    assert_eq!(
        (worst.rank, worst.index.clone(), worst.expected, worst.got),
        (1, vec![1, 2], Value::Float(6.0), Value::Float(6.5))
    );
    assert_eq!((worst.bound, worst.error), (0.125, 4.0));
    // A bound of zero: any difference is infinite.
    let c = compare(&t, &m, &got(&[1.0, 2.0000002, 3.0, 4.0, 5.0, 6.0]), &e, None);
    assert_eq!((c.mismatches, c.max_err), (1, f64::INFINITY));
}

#[test]
fn special_values_compare_as_stated() {
    let m = mesh(&[("a", 1)]);
    let t = ty(DType::F32, &[(1, &[], E)]);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for (got, want, bound, ok) in [
        (nan, nan, 0.0, true),
        (nan, 1.0, 9.0, false),
        (1.0, nan, 9.0, false),
        (inf, inf, 0.0, true),
        (inf, -inf, 9.0, false),
        (inf, 1.0, 1e300, false),
        (1.0, inf, 9.0, false),
        (-0.0, 0.0, 0.0, true),
        (1.0, 2.0, nan, false),
        (1.0, 2.0, inf, true),
        (1.0, 2.0, 1.0, true),
        (1.0, 2.0, 0.999, false),
    ] {
        let p = parts(&t, &m, &Tensor::line(from_f64(DType::F32, &[got])));
        let c = compare(&t, &m, &p, &expected(&[1], &[want], &[bound]), None);
        assert_eq!(c.ok(), ok, "{got} {want} {bound}");
        assert_eq!(c.max_err <= 1.0, ok);
    }
    // Integers are compared as integers, beyond the precision of f64.
    let t = ty(DType::I64, &[(1, &[], E)]);
    let big = (1i64 << 53) + 1;
    let p = parts(&t, &m, &Tensor::line(Data::I64(vec![big])));
    let passes = |want: i64| {
        let values = ReferenceValues::Int(&[want]);
        compare(&t, &m, &p, &Expected { shape: &[1], values, bound: &[1e9] }, None).ok()
    };
    assert!(passes(big));
    assert!(!passes(big - 1));
}

#[test]
fn a_missing_or_doubled_contribution_is_named() {
    let m = mesh(&[("a", 4)]);
    let t = ty(DType::F32, &[(50, &[], E)]);
    let fed = partial(t.clone(), ReduceOp::Sum, &["a"]);
    let feed = exact(&fed, &m, exact_range(DType::F32, 4, 1, false), 0, 0).unwrap();
    let slices = contributions(&fed, &m, &feed).unwrap();
    assert_eq!(slices[3], feed.data().slice(150, 50).to_f64());
    assert_eq!(contributor_name(&fed, &m, 3), "a=3");
    assert_eq!(contributions(&t, &m, &feed), None);
    let sum = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..50).map(|i| (0..4).map(|r| f(r, i)).sum()).collect()
    };
    let sums = sum(&|r, i| slices[r][i]);
    let want = expected(&[50], &sums, &[]);
    let right = Tensor::line(from_f64(DType::F32, &sum(&|r, i| slices[r][i])));
    for (factor, blame) in [(0.0, FaultyContribution::Missing), (2.0, FaultyContribution::Doubled)] {
        // Rank 1 holds a sum in which the second half of contribution 2 is wrong.
        let wrong = sum(&|r, i| if r == 2 && i >= 25 { factor * slices[r][i] } else { slices[r][i] });
        let mut held = parts(&t, &m, &right);
        held[1].tensor = Tensor::line(from_f64(DType::F32, &wrong));
        let c = compare(&t, &m, &held, &want, Some(&slices));
        assert_eq!((c.elements, c.mismatches), (200, 25));
        assert_eq!(c.hints[0], Hint { contributor: 2, blame, explains: 25 });
        assert_eq!(c.hints.len(), 1);
        assert_eq!((c.first.unwrap().rank, c.worst.unwrap().index), (1, vec![25]));
    }
    // Another error: no hint.
    let noise: Vec<f64> = right.data().to_f64().iter().map(|x| x - 3.0).collect();
    let c =
        compare(&t, &m, &parts(&t, &m, &Tensor::line(from_f64(DType::F32, &noise))), &want, Some(&slices));
    assert_eq!((c.mismatches, c.hints.len()), (200, 0));
}

#[test]
fn partial_results_are_summed_before_they_are_compared() {
    let m = mesh(&[("a", 2), ("b", 2)]);
    let t = partial(ty(DType::F32, &[(4, &["a"], E)]), ReduceOp::Sum, &["b"]);
    let feed = numbered(DType::F32, &[2, 4]);
    let p = parts(&t, &m, &feed);
    let c = compare(&t, &m, &p, &expected(&[4], &[4.0, 6.0, 8.0, 10.0], &[0.0]), None);
    assert_eq!((c.elements, c.ok()), (4, true));
    let c = compare(&t, &m, &p, &expected(&[4], &[4.0, 6.0, 8.0, 11.0], &[0.0]), None);
    assert_eq!((c.mismatches, c.worst.unwrap().index), (1, vec![3]));
}

#[test]
fn results_that_do_not_fit_are_said_to() {
    let m = mesh(&[("a", 1)]);
    let t = ty(DType::F32, &[(2, &[], E)]);
    let p = parts(&t, &m, &numbered(DType::F32, &[2]));
    for e in [expected(&[1], &[0.0], &[]), expected(&[2, 1], &[0.0, 1.0], &[]), expected(&[2], &[0.0], &[])] {
        let c = compare(&t, &m, &p, &e, None);
        assert!(!c.ok() && c.unfit.is_some());
    }
}

/// Rows that are compared in pieces give together what the comparison of the whole gives, whatever
/// the order of the pieces.
#[test]
fn pieces_of_a_comparison_add_up_to_the_whole() {
    let m = mesh(&[("a", 2), ("b", 2)]);
    let sizes = [1, 12, 5];
    for by in [&[][..], &["a"]] {
        let t = ty(DType::F32, &[(1, &[], E), (12, by, E), (5, &["b"], E)]);
        for case in 0..40u32 {
            let want: Vec<f64> = (0..60).map(|i| f64::from(mix32(i, 0, case) % 8)).collect();
            let bound: Vec<f64> = (0..60)
                .map(|i| {
                    [0.0, 0.5, 1.0, f64::INFINITY][mix32(i, 1, case) as usize % if case < 20 { 3 } else { 4 }]
                })
                .collect();
            let held: Vec<Part> = (0..4)
                .map(|rank| {
                    // Some elements are off, in some cases on every rank by as much.
                    let of = if case % 2 == 0 { 0 } else { rank };
                    let off = |i: u32| {
                        [0.0, 0.0, 0.25, 0.5, 2.0][mix32(i, 2 + of, case) as usize % (3 + case as usize % 3)]
                    };
                    let data: Vec<f64> = want.iter().zip(0..).map(|(v, i)| v + off(i)).collect();
                    let whole = Tensor::new(sizes, from_f64(DType::F32, &data)).unwrap();
                    cut("y", &t, &m, &whole, u64::from(rank)).unwrap()
                })
                .collect();
            let whole = compare(&t, &m, &held, &expected(&sizes, &want, &bound), None);
            let piece = |rows: std::ops::Range<u64>| {
                let at = 5 * rows.start as usize..5 * rows.end as usize;
                let shape = [1, rows.end - rows.start, 5];
                compare_rows(&t, &m, &held, &expected(&shape, &want[at.clone()], &bound[at]), (1, rows))
            };
            for order in [[0..4, 4..7, 7..12], [7..12, 0..4, 4..7]] {
                let all = order.into_iter().map(piece).fold(Comparison::none(), Comparison::merged);
                assert_eq!(all, whole, "{by:?} {case}");
            }
        }
    }
}
