//! Arrays of PyTorch that are put together.

use kbc_compiler::testing::{joined, print};
use kbc_import::torch::kb::AxisPlacement;
use kbc_numerics::tensor::{Data, Tensor};

#[test]
fn parts_are_put_together() {
    let t = |list: &[f32]| Tensor::new(vec![2, 1], Data::F32(list.to_vec())).expect("a column");
    let parts = vec![t(&[1.0, 2.0]), t(&[3.0, 4.0]), t(&[5.0, 6.0]), t(&[7.0, 8.0])];
    let both = joined(parts.clone(), &[(2, AxisPlacement::Split(0)), (2, AxisPlacement::Split(1))])
        .expect("a matrix");
    assert_eq!(both.shape(), [4, 2]);
    assert_eq!(both.data().to_f64(), [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0]);
    let sum =
        joined(parts, &[(2, AxisPlacement::Whole), (2, AxisPlacement::Partial("sum"))]).expect("a column");
    assert_eq!(sum.data().to_f64(), [4.0, 6.0]);
    assert_ne!(print(&both), print(&sum));
}
