//! Elements of a tensor as little-endian bytes, the form in which all three formats store them.

use crate::tensor::{Data, Tensor};
use half::{bf16, f16};
use kbc_ir::types::DType;

/// Returns the tensor with these bytes as elements in row-major order, or None if their number is
/// wrong.
pub(super) fn decode(dtype: DType, shape: Vec<u64>, bytes: &[u8]) -> Option<Tensor> {
    macro_rules! all {
        ($variant:ident, $t:ty, $n:literal) => {{
            let (elements, rest) = bytes.as_chunks::<$n>();
            if !rest.is_empty() {
                return None;
            }
            Data::$variant(elements.iter().map(|b| <$t>::from_le_bytes(*b)).collect())
        }};
    }
    let data = match dtype {
        DType::F32 => all!(F32, f32, 4),
        DType::F16 => all!(F16, f16, 2),
        DType::BF16 => all!(BF16, bf16, 2),
        DType::I32 => all!(I32, i32, 4),
        DType::I8 => all!(I8, i8, 1),
        DType::U8 => all!(U8, u8, 1),
        DType::I16 => all!(I16, i16, 2),
        DType::I64 => all!(I64, i64, 8),
    };
    Tensor::new(shape, data)
}

/// Returns the elements in row-major order as bytes.
pub(super) fn encode(tensor: &Tensor) -> Vec<u8> {
    macro_rules! all {
        ($v:expr) => {
            $v.iter().flat_map(|x| x.to_le_bytes()).collect()
        };
    }
    match tensor.data() {
        Data::F32(v) => all!(v),
        Data::F16(v) => all!(v),
        Data::BF16(v) => all!(v),
        Data::I32(v) => all!(v),
        Data::I8(v) => all!(v),
        Data::U8(v) => all!(v),
        Data::I16(v) => all!(v),
        Data::I64(v) => all!(v),
    }
}
