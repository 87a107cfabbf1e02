//! Elements of a tensor as little-endian bytes, the form in which all three formats store them.

use crate::tensor::{Data, Tensor};
use kbc_ir::types::DType;

/// Returns the tensor with these bytes as elements in row-major order, or None if their number is
/// wrong.
pub(super) fn decode(dtype: DType, shape: Vec<u64>, bytes: &[u8]) -> Option<Tensor> {
    Tensor::new(shape, Data::of_bytes(dtype, bytes)?)
}

/// Returns the elements in row-major order as bytes.
pub(super) fn encode(tensor: &Tensor) -> Vec<u8> {
    tensor.data().to_bytes()
}
