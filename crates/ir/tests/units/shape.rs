//! Operations that change shapes.

use kbc_ir::shape::ShapeOp;

fn reshape(from: &[u64], to: &[u64]) -> Vec<Option<(usize, u64, u64)>> {
    let op = ShapeOp::Reshape(to.to_vec());
    assert_eq!(op.sizes(&[from.to_vec()]).as_deref(), Ok(to));
    op.follows(from, to).into_iter().map(|f| f.map(|f| (f.dim, f.step, f.result_step))).collect()
}

#[test]
fn the_outermost_factor_of_a_group_is_followed() {
    assert_eq!(reshape(&[25, 384], &[25, 12, 32]), [Some((0, 1, 1)), Some((1, 1, 32))]);
    assert_eq!(reshape(&[25, 12, 32], &[25, 384]), [Some((0, 1, 1)), Some((1, 32, 1)), None]);
    assert_eq!(reshape(&[6, 4], &[8, 3]), [Some((0, 4, 3)), None]);
    assert_eq!(reshape(&[1, 6, 1, 2], &[3, 1, 4]), [None, Some((0, 2, 4)), None, None]);
    assert_eq!(reshape(&[2, 0], &[0]), [None, None]);
    assert_eq!(reshape(&[], &[1, 1]), []);
}

#[test]
fn what_does_not_fit_is_said() {
    let x = [vec![2, 3]];
    let why = |op: ShapeOp| op.sizes(&x).unwrap_err();
    assert_eq!(why(ShapeOp::Transpose(vec![0, 0])), "[0, 0] names dimension 0 twice");
    assert_eq!(why(ShapeOp::Transpose(vec![0])), "[0] names 1 dimension, and the operand has 2");
    assert_eq!(why(ShapeOp::Reshape(vec![4])), "6 elements cannot have the shape [4], which has 4");
    assert_eq!(
        why(ShapeOp::Slice { dim: 1, from: 1, to: 4 }),
        "elements 1..4 are outside the 3 elements of dimension 1"
    );
    assert_eq!(
        why(ShapeOp::Slice { dim: 2, from: 0, to: 0 }),
        "dimension 2 does not exist; there are 2 dimensions"
    );
    assert_eq!(why(ShapeOp::Entry(2)), "entry 2 is outside the 2 entries of dimension 0");
    assert_eq!(ShapeOp::Entry(1).sizes(&x), Ok(vec![3]));
    assert_eq!(
        ShapeOp::Entry(1).sizes(&[vec![]]).unwrap_err(),
        "dimension 0 does not exist; there are 0 dimensions"
    );
    let y = [vec![2, 3], vec![3, 3]];
    assert_eq!(ShapeOp::Concat { dim: 0 }.sizes(&y), Ok(vec![5, 3]));
    assert!(ShapeOp::Concat { dim: 1 }.sizes(&y).is_err());
}
