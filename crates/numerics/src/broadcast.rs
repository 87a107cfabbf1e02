//! Broadcasting: the elements of a tensor repeated to a larger shape, and walks through a shape by
//! strides.

use crate::numbers::Refusal;
use crate::tensor::{Data, Tensor, count};

/// Returns the range of all elements of a shape.
pub(crate) fn whole(shape: &[u64]) -> Result<(u64, u64), Refusal> {
    let n = count(shape)
        .ok_or_else(|| Refusal::new("a shape has more than 2^64 elements", "use smaller sizes"))?;
    Ok((0, n))
}

/// Returns the elements of a tensor repeated to a larger shape, with dimensions aligned from the
/// right.
pub fn broadcast(t: &Tensor, shape: &[u64]) -> Result<Data, Refusal> {
    let refuse = || {
        Refusal::new(
            format!("{:?} cannot be broadcast to {shape:?}", t.shape()),
            "aligned from the right, each dimension must be equal or 1",
        )
    };
    let lead = shape.len().checked_sub(t.shape().len()).ok_or_else(refuse)?;
    if t.shape().iter().zip(&shape[lead..]).any(|(a, b)| a != b && *a != 1) {
        return Err(refuse());
    }
    if t.shape() == &shape[lead..] && shape[..lead].iter().all(|d| *d == 1) {
        return Ok(t.data().clone());
    }
    let (_, n) = whole(shape)?;
    if n == 0 {
        return Ok(Data::zeros(t.dtype(), 0));
    }
    // Stride of each dimension of the result in the operand; 0 where it is repeated.
    let mut strides = vec![0usize; shape.len()];
    let mut stride = 1;
    for (d, size) in t.shape().iter().enumerate().rev() {
        strides[lead + d] = if *size == 1 { 0 } else { stride };
        stride *= *size as usize;
    }
    Ok(t.data().picked(&walk(shape, &strides, n as usize)))
}

/// Returns the indices of `n` elements, row by row through a shape, with these strides.
pub(crate) fn walk(shape: &[u64], strides: &[usize], n: usize) -> Vec<usize> {
    let mut index = vec![0u64; shape.len()];
    let mut order = Vec::with_capacity(n);
    let mut at = 0usize;
    for _ in 0..n {
        order.push(at);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            at += strides[d];
            if index[d] < shape[d] {
                break;
            }
            at -= strides[d] * shape[d] as usize;
            index[d] = 0;
        }
    }
    order
}
