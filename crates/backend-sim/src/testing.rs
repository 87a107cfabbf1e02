//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

pub use crate::jit::calls::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use crate::jit::deferred::{Deferred, Piece, Reader};
