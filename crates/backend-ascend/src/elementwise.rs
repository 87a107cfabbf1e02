//! Elementwise functions as instructions of a vector core ([`kbc_tiles::elementwise`]), which
//! neither divides nor orders integers.

use kbc_diag::Diagnostic;
use kbc_ir::scalar::ScalarFn;
use kbc_ir::types::DType;

pub use kbc_tiles::elementwise::{Arg, Bound, Chain, Reg, Step, bound, round};

/// Returns the instructions of a function on elements of a type.
///
/// # Errors
/// Returns E451 for what the instructions do not compute.
pub fn chain(func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic> {
    kbc_tiles::elementwise::chain(func, dtype, false)
}
