//! Findings of passes, for reports and `kbc explain`.
//!
//! A pass puts its findings into the context of its run ([`crate::PassCx`]).

pub mod overlap;
pub mod select;

use kbc_diag::Diagnostics;
use overlap::OverlapTable;
use select::SelectTable;

/// Findings of passes for reports and `kbc explain`.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The alternatives that `select` considered, one entry per collective.
    pub select: SelectTable,
    /// The findings of `overlap`.
    pub overlap: OverlapTable,
    /// Warnings and notes.
    pub messages: Diagnostics,
}
