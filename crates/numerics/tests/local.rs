//! Tests of local operations against the simplest equivalent loops.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use kbc_ir::Parts;
use kbc_ir::expr::Expr;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn};
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::{CutRule, DType, ReduceOp};
use kbc_numerics::broadcast::broadcast;
use kbc_numerics::local::{apply, footprint};
use kbc_numerics::numbers::{from_f64, from_i64};
use kbc_numerics::tensor::{Data, Tensor, multi_index};

const D: BufferId = BufferId(0);
const S: BufferId = BufferId(1);

/// Returns whole numbers of both signs that depend on the position.
fn numbered(dtype: DType, shape: &[u64]) -> Tensor {
    let n: u64 = shape.iter().product();
    let values: Vec<i64> = (0..n as i64).map(|i| (i * 7 + i * i % 5) % 23 - 11).collect();
    Tensor::new(shape, from_i64(dtype, &values)).unwrap()
}

fn index(shape: &[u64], at: &[u64]) -> usize {
    at.iter().zip(shape).fold(0, |n, (i, d)| n * d + i) as usize
}

#[test]
fn lines_hold_the_parts_one_after_another() {
    for shape in [vec![7], vec![3, 5], vec![5, 3], vec![2, 4, 3], vec![2, 0, 3], vec![1, 1]] {
        for dim in 0..shape.len() {
            for parts in 1..5 {
                // The first and the last part have elements, those between have none.
                let mut given = vec![0; parts as usize];
                given[0] = shape[dim] / 2;
                given[parts as usize - 1] += shape[dim] - shape[dim] / 2;
                let given = CutRule::Lengths(Parts::row(&given).unwrap());
                for rule in [CutRule::Even, CutRule::Ceil, given] {
                    let t = numbered(DType::I32, &shape);
                    let n = shape[dim];
                    let mut want = vec![];
                    let mut blocks = vec![];
                    for b in 0..parts {
                        let (lo, hi) = (rule.boundary(n, b, parts), rule.boundary(n, b + 1, parts));
                        let start = want.len();
                        for i in 0..t.elements() {
                            let x = multi_index(&shape, i as u64)[dim];
                            if (lo..hi).contains(&x) {
                                want.push(t.data().to_i64().unwrap()[i]);
                            }
                        }
                        blocks.push((start, want.len() - start, lo, hi));
                    }
                    let want = from_i64(DType::I32, &want);
                    let count = [t.elements() as u64];
                    let (dim, at) = (dim as u32, |b: u64| Some(Expr::Int(b as i64)));
                    let pack = |at| LocalOp::Pack { dst: D, src: S, dim, parts, rule: rule.clone(), at };
                    let unpack = |at| LocalOp::Unpack { dst: D, src: S, dim, parts, rule: rule.clone(), at };
                    let line = apply(&pack(None), (&count, DType::I32), &[&t], None).unwrap();
                    assert_eq!(line, want, "{shape:?} {dim} {parts} {rule:?}");
                    let line = Tensor::line(line);
                    let back = apply(&unpack(None), (&shape, DType::I32), &[&line], None).unwrap();
                    assert_eq!(back, *t.data());
                    // One part alone.
                    for (b, (start, len, lo, hi)) in blocks.into_iter().enumerate() {
                        let mut bounds: Vec<(u64, u64)> = shape.iter().map(|n| (0, *n)).collect();
                        bounds[dim as usize] = (lo, hi);
                        let part = t.extract(&bounds).unwrap();
                        let (op, k) = (pack(at(b as u64)), Some(b as i64));
                        let f = footprint(&op, &count, &[part.shape()], k).unwrap();
                        assert_eq!(f.write.1 as usize, len);
                        if len > 0 {
                            assert_eq!(f.write.0 as usize, start);
                        }
                        let block = apply(&op, (&count, DType::I32), &[&part], k).unwrap();
                        assert_eq!(block, want.slice(start, len));
                        let op = unpack(at(b as u64));
                        let f = footprint(&op, part.shape(), &[&count], k).unwrap();
                        assert_eq!(f.reads[0].1 as usize, len);
                        let out = apply(&op, (part.shape(), DType::I32), &[&Tensor::line(block)], k).unwrap();
                        assert_eq!(out, *part.data());
                        let op = LocalOp::Slice {
                            dst: D,
                            src: S,
                            dim,
                            index: Expr::Int(b as i64),
                            of: parts,
                            rule: rule.clone(),
                        };
                        assert_eq!(apply(&op, (part.shape(), DType::I32), &[&t], k).unwrap(), *part.data());
                    }
                }
            }
        }
    }
    let t = numbered(DType::I32, &[4]);
    let bad = LocalOp::Slice { dst: D, src: S, dim: 0, index: Expr::Int(2), of: 2, rule: CutRule::Even };
    assert!(apply(&bad, (&[2], DType::I32), &[&t], Some(2)).unwrap_err().text.contains("part 2 of 2"));
    let none = LocalOp::Pack { dst: D, src: S, dim: 0, parts: 0, rule: CutRule::Even, at: None };
    assert!(apply(&none, (&[4], DType::I32), &[&t], None).is_err());
}

#[test]
fn a_transpose_has_every_element_where_its_index_is() {
    let orders: [&[u32]; 9] =
        [&[], &[0], &[1, 0], &[0, 1], &[2, 0, 1], &[1, 0, 2], &[0, 2, 1], &[2, 1, 0], &[3, 1, 0, 2]];
    for perm in orders {
        for sizes in [[2u64, 3, 4, 5], [1, 4, 1, 3], [5, 0, 2, 2]] {
            for dtype in [DType::F32, DType::BF16, DType::U8, DType::I64] {
                let shape = &sizes[..perm.len()];
                let t = numbered(dtype, shape);
                let to: Vec<u64> = perm.iter().map(|d| shape[*d as usize]).collect();
                let op = LocalOp::Transpose { dst: D, src: S, perm: perm.to_vec() };
                let got = Tensor::new(&to[..], apply(&op, (&to, dtype), &[&t], None).unwrap()).unwrap();
                let (got, values) = (got.data().to_f64(), t.data().to_f64());
                assert_eq!(values.len(), t.elements());
                for (i, value) in values.iter().enumerate() {
                    let from = multi_index(shape, i as u64);
                    let at: Vec<u64> = perm.iter().map(|d| from[*d as usize]).collect();
                    assert_eq!(got[index(&to, &at)], *value, "{perm:?} of {shape:?}");
                }
            }
        }
    }
    let t = numbered(DType::I32, &[2, 3]);
    for (perm, to) in [(vec![0, 0], [2, 2]), (vec![1], [3, 2]), (vec![0, 2], [2, 3])] {
        let op = LocalOp::Transpose { dst: D, src: S, perm };
        assert!(apply(&op, (&to, DType::I32), &[&t], None).is_err());
    }
}

#[test]
fn operands_are_repeated_from_the_right() {
    let result = [2u64, 3, 4];
    for shape in
        [vec![2, 3, 4], vec![3, 4], vec![4], vec![1], vec![], vec![3, 1], vec![2, 1, 4], vec![1, 3, 1]]
    {
        let t = numbered(DType::F32, &shape);
        let got = broadcast(&t, &result).unwrap();
        for i in 0..24 {
            let at = multi_index(&result, i);
            let own: Vec<u64> =
                at[3 - shape.len()..].iter().zip(&shape).map(|(x, n)| if *n == 1 { 0 } else { *x }).collect();
            assert_eq!(got.get(i as usize), t.data().get(index(&shape, &own)), "{shape:?} {at:?}");
        }
    }
    assert!(broadcast(&numbered(DType::F32, &[2]), &result).is_err());
    assert!(broadcast(&numbered(DType::F32, &[1, 2, 3, 4]), &result).is_err());
    assert!(broadcast(&numbered(DType::F32, &[1]), &[0, 5]).unwrap().is_empty());
}

#[test]
fn elementwise_functions_broadcast() {
    let body = Scalar::bin(ScalarBin::Sub, Scalar::Arg(0), Scalar::Arg(1));
    let func = ScalarFn { name: "sub".into(), params: vec!["a".into(), "b".into()], body };
    let op = LocalOp::Compute { func, dst: D, args: vec![S, S] };
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        let (a, b) = (numbered(dtype, &[3, 4]), numbered(dtype, &[4]));
        let got = apply(&op, (&[3, 4], dtype), &[&a, &b], None).unwrap();
        let want: Vec<i64> =
            (0..12).map(|i| a.data().to_f64()[i] as i64 - b.data().to_f64()[i % 4] as i64).collect();
        assert_eq!(got, from_i64(dtype, &want));
    }
    let (a, b) = (numbered(DType::F32, &[3, 4]), numbered(DType::F16, &[4]));
    assert!(apply(&op, (&[3, 4], DType::F32), &[&a, &b], None).unwrap_err().help.contains("cast first"));
}

#[test]
fn matrix_products_agree_with_plain_loops() {
    // Leading sizes of a, b and the result.
    type Lead = (&'static [u64], &'static [u64], &'static [u64]);
    let leads: [Lead; 5] =
        [(&[], &[], &[]), (&[2], &[], &[2]), (&[], &[3], &[3]), (&[2, 1], &[3], &[2, 3]), (&[0], &[1], &[0])];
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        for (la, lb, lr) in leads {
            for (m, k, n) in [(1, 1, 1), (2, 3, 4), (5, 7, 3), (3, 0, 2), (0, 2, 2), (9, 17, 8)] {
                let join = |lead: &[u64], r, c| [lead, &[r, c]].concat();
                let (sa, sb, sr) = (join(la, m, k), join(lb, k, n), join(lr, m, n));
                let (a, b) = (numbered(dtype, &sa), numbered(dtype, &sb));
                let (va, vb) = (a.data().to_f64(), b.data().to_f64());
                let spread = |shape: &[u64], at: &[u64], r: u64, c: u64| {
                    let lead = &shape[..shape.len() - 2];
                    let own: Vec<u64> = at[at.len() - lead.len()..]
                        .iter()
                        .zip(lead)
                        .map(|(x, n)| if *n == 1 { 0 } else { *x })
                        .collect();
                    index(shape, &[&own[..], &[r, c]].concat())
                };
                let count: u64 = sr.iter().product();
                let want: Vec<f64> = (0..count)
                    .map(|i| {
                        let at = multi_index(&sr, i);
                        let (lead, rc) = at.split_at(at.len() - 2);
                        (0..k)
                            .map(|j| va[spread(&sa, lead, rc[0], j)] * vb[spread(&sb, lead, j, rc[1])])
                            .fold(0.0, |x, y| x + y)
                    })
                    .collect();
                let op = LocalOp::Matmul { dst: D, a: S, b: S };
                let got = apply(&op, (&sr, dtype), &[&a, &b], None).unwrap();
                // Exact in f32, so rounded exactly once.
                assert_eq!(got, from_f64(dtype, &want), "{dtype} {sa:?} {sb:?}");
                if dtype != DType::I32 {
                    let kept = apply(&op, (&sr, DType::F32), &[&a, &b], None).unwrap();
                    assert_eq!(kept, from_f64(DType::F32, &want));
                }
            }
        }
    }
    let op = LocalOp::Matmul { dst: D, a: S, b: S };
    let wrap = [Data::I32(vec![1 << 20, i32::MAX]), Data::I32(vec![1 << 12, 2])];
    let (a, b) =
        (Tensor::new([1, 2], wrap[0].clone()).unwrap(), Tensor::new([2, 1], wrap[1].clone()).unwrap());
    assert_eq!(apply(&op, (&[1, 1], DType::I32), &[&a, &b], None).unwrap(), Data::I32(vec![-2]));
    for (sa, sb, sr) in [
        (vec![2, 3], vec![4, 2], vec![2, 2]),
        (vec![2, 3], vec![3, 2], vec![2, 3]),
        (vec![3], vec![3, 2], vec![2]),
    ] {
        let (a, b) = (numbered(DType::F32, &sa), numbered(DType::F32, &sb));
        assert!(apply(&op, (&sr, DType::F32), &[&a, &b], None).is_err(), "{sa:?} {sb:?}");
    }
}

#[test]
fn dimensions_are_reduced_in_order_and_rounded_once() {
    let reduce = |op, mean, dim| LocalOp::ReduceDim { op, mean, dst: D, src: S, dim };
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        let shape = [2u64, 3, 4];
        let t = numbered(dtype, &shape);
        let v = t.data().to_f64();
        for dim in 0..3u32 {
            let mut out_shape = shape.to_vec();
            out_shape.remove(dim as usize);
            for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
                let want: Vec<f64> = (0..24 / shape[dim as usize])
                    .map(|i| {
                        let at = multi_index(&out_shape, i);
                        let all = (0..shape[dim as usize]).map(|j| {
                            let mut full = at.clone();
                            full.insert(dim as usize, j);
                            v[index(&shape, &full)]
                        });
                        match op {
                            ReduceOp::Sum => all.sum(),
                            ReduceOp::Prod => all.product(),
                            ReduceOp::Min => all.fold(f64::INFINITY, f64::min),
                            ReduceOp::Max => all.fold(f64::NEG_INFINITY, f64::max),
                        }
                    })
                    .collect();
                // -0 from a product of zero and a negative number compares with the sign that f64
                // gives, too.
                let got = apply(&reduce(op, None, dim), (&out_shape, dtype), &[&t], None).unwrap();
                assert_eq!(got, from_f64(dtype, &want), "{dtype} {dim} {op}");
            }
        }
    }
    // In index order, in f32: 2^24 + 1 + 1 loses both ones, 1 + 1 + 2^24 keeps them; f16 rounds
    // only at the end.
    let sum = reduce(ReduceOp::Sum, None, 0);
    let of = |d: Data| apply(&sum, (&[], d.dtype()), &[&Tensor::line(d.clone())], None).unwrap();
    assert_eq!(of(Data::F32(vec![16_777_216.0, 1.0, 1.0])), Data::F32(vec![16_777_216.0]));
    assert_eq!(of(Data::F32(vec![1.0, 1.0, 16_777_216.0])), Data::F32(vec![16_777_218.0]));
    assert_eq!(of(from_f64(DType::F16, &[2048.0, 1.0, 1.0])), from_f64(DType::F16, &[2050.0]));
    assert_eq!(of(Data::F32(vec![-0.0, -0.0])), Data::F32(vec![-0.0]));
    let none = Tensor::new([0], Data::F32(vec![])).unwrap();
    for (op, want) in [
        (ReduceOp::Sum, 0.0),
        (ReduceOp::Prod, 1.0),
        (ReduceOp::Min, f32::INFINITY),
        (ReduceOp::Max, f32::NEG_INFINITY),
    ] {
        assert_eq!(
            apply(&reduce(op, None, 0), (&[], DType::F32), &[&none], None).unwrap(),
            Data::F32(vec![want])
        );
    }
    // The mean divides by the global count, whatever part is here.
    let t = Tensor::line(Data::F32(vec![1.0, 2.0]));
    let mean = apply(&reduce(ReduceOp::Sum, Some(6), 0), (&[], DType::F32), &[&t], None).unwrap();
    assert_eq!(mean, Data::F32(vec![0.5]));
    let t = Tensor::line(Data::I32(vec![1, 2]));
    assert!(apply(&reduce(ReduceOp::Sum, Some(2), 0), (&[], DType::I32), &[&t], None).is_err());
    // Huge sizes beside a zero must cost nothing.
    let huge = Tensor::new([1 << 40, 0, 1 << 40], Data::F32(vec![])).unwrap();
    assert!(apply(&reduce(ReduceOp::Sum, None, 1), (&[3], DType::F32), &[&huge], None).is_err());
    let t = Tensor::line(Data::I8(vec![1, 2]));
    assert!(apply(&sum, (&[], DType::I8), &[&t], None).is_err());
    assert!(apply(&reduce(ReduceOp::Sum, None, 3), (&[], DType::I8), &[&t], None).is_err());
}

#[test]
fn copies_and_casts_keep_the_order() {
    let t = numbered(DType::I16, &[2, 3]);
    assert_eq!(
        apply(&LocalOp::Copy { dst: D, src: S }, (&[3, 2], DType::I16), &[&t], None).unwrap(),
        *t.data()
    );
    let cast = LocalOp::Cast { dst: D, src: S };
    let want = from_f64(DType::F16, &t.data().to_f64());
    assert_eq!(apply(&cast, (&[2, 3], DType::F16), &[&t], None).unwrap(), want);
    // Sizes and types are checked for every operation.
    assert!(apply(&cast, (&[2, 2], DType::F16), &[&t], None).is_err());
    assert!(apply(&LocalOp::Copy { dst: D, src: S }, (&[6], DType::I32), &[&t], None).is_err());
    assert!(apply(&cast, (&[2, 3], DType::F16), &[], None).is_err());
}
