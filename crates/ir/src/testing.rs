//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

use crate::congruence::{self, Congruence};

pub use crate::verify::classes::representatives;

/// Returns the integers that are `rest` modulo `m`.
pub fn class(m: i128, rest: i128) -> Congruence {
    congruence::class(m, rest)
}
