//! The files of the built-in library.
//!
//! Owns the one list of them: name as messages show it, and text. They are read by the same front end as the user's.

/// Name and text of every file of `specs/lib`, in the order they are added.
pub const LIBRARY: &[(&str, &str)] = &[
    ("<lib>/bruck.kb", include_str!("../../../specs/lib/bruck.kb")),
    ("<lib>/collectives.kb", include_str!("../../../specs/lib/collectives.kb")),
    ("<lib>/direct.kb", include_str!("../../../specs/lib/direct.kb")),
    ("<lib>/doubling.kb", include_str!("../../../specs/lib/doubling.kb")),
    ("<lib>/grids.kb", include_str!("../../../specs/lib/grids.kb")),
    ("<lib>/kernels.kb", include_str!("../../../specs/lib/kernels.kb")),
    ("<lib>/levels.kb", include_str!("../../../specs/lib/levels.kb")),
    ("<lib>/own.kb", include_str!("../../../specs/lib/own.kb")),
    ("<lib>/moves.kb", include_str!("../../../specs/lib/moves.kb")),
    ("<lib>/ring.kb", include_str!("../../../specs/lib/ring.kb")),
    ("<lib>/swing.kb", include_str!("../../../specs/lib/swing.kb")),
    ("<lib>/trees.kb", include_str!("../../../specs/lib/trees.kb")),
];
