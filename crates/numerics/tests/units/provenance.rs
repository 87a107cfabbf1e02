//! Contributions that are missing or repeated.

use kbc_ir::types::{Axis, DType, ReduceOp};
use kbc_ir::types::{Mesh, TensorType};
use kbc_numerics::numbers::from_i64;
use kbc_numerics::provenance::{Provenance, provenance};
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;

fn mesh(p: u64) -> Mesh {
    Mesh { axes: vec![Axis { name: "r".into(), size: p, parts: vec![] }] }
}

/// A sum that leaves out contributor 1 at element 2 of rank 0, and counts contributor 2 three
/// times at element 0 of rank 1.
#[test]
fn missing_and_repeated_contributions_are_told_apart() {
    let mut ty = TensorType::replicated(DType::F16, &[3]);
    ty.partial = Some((ReduceOp::Sum, vec!["r".into()]));
    let mut run = |feed: Tensor| {
        let v = feed.data().to_f64();
        let part = |rank: u64| {
            let element = |i: usize| {
                let weight = |c: usize| match (rank, i, c) {
                    (0, 2, 1) => 0.0,
                    (1, 0, 2) => 3.0,
                    _ => 1.0,
                };
                (0..4).map(|c| weight(c) * v[c * 3 + i]).sum::<f64>() as i64
            };
            let values: Vec<i64> = (0..3).map(element).collect();
            Part { bounds: vec![(0, 3)], tensor: Tensor::line(from_i64(DType::F16, &values)) }
        };
        Some((0..4).map(part).collect())
    };
    let found = provenance(&ty, &mesh(4), &[(0, 2), (1, 0), (3, 1)], &mut run).expect("whole numbers");
    assert_eq!(found[0], Provenance { missing: vec![1], repeated: vec![] });
    assert_eq!(found[1], Provenance { missing: vec![], repeated: vec![(2, 3)] });
    assert!(found[2].is_complete());
    assert_eq!(provenance(&ty, &mesh(4), &[(0, 0)], &mut |_| None), None);
}
