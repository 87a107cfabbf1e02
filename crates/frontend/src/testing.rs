//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

pub use crate::library::index::{INDEX, ItemKind, declared, has_others};
pub use crate::machine::starts::{NONE as NO_TEXT, starts};
pub use crate::machine::tree::NodeKind;
pub use crate::machine::yaml::Document;

/// Returns the edits of messages that are applied together, in ascending order.
pub fn edits(file: kbc_diag::FileId, found: &kbc_diag::Diagnostics) -> Vec<kbc_diag::Edit> {
    crate::migrate::edits(file, found)
}
