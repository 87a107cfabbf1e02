//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

pub use crate::bag::{Bag, words_for};

use crate::expand::expand_by;
use crate::library::Library;
use crate::rounds::{Call, Limits, Rounds};
use kbc_diag::Diagnostics;

/// Returns what `expand` does, without templates.
///
/// # Errors
/// Those of `expand`.
pub fn interpreted(lib: &Library, call: &Call, limits: &Limits) -> Result<Rounds, Diagnostics> {
    expand_by(lib, call, limits, false)
}
