//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

use crate::Theme;

pub use crate::place::{Placer, column, crosses};
pub use crate::text::{Weight, fit, width, wrap};
pub use crate::theme::Style;

/// Returns the style of series number `i`.
pub fn series(theme: Theme, i: usize) -> Style {
    theme.series(i)
}

/// Returns the colour of a utilisation from 0 to 1.
pub fn heat(theme: Theme, share: f64) -> String {
    theme.heat(share)
}
