//! Built-in library: the `.kb` files that are compiled into kbc.
//!
//! This module owns the only list of these files, with the names that messages show and the texts.
//! Single declarations are parsed on demand, with an index that is generated when kbc is built
//! (`library/index.rs`). The files go through the same front end as the user's files.

pub(crate) mod index;

pub(crate) use index::{declared, declares, has_others};

/// The name and text of every file of `specs/lib`, in the order in which they are added.
pub const LIBRARY: &[(&str, &str)] = &[
    ("<lib>/bruck.kb", include_str!("../../../specs/lib/bruck.kb")),
    ("<lib>/collectives.kb", include_str!("../../../specs/lib/collectives.kb")),
    ("<lib>/direct.kb", include_str!("../../../specs/lib/direct.kb")),
    ("<lib>/doubling.kb", include_str!("../../../specs/lib/doubling.kb")),
    ("<lib>/grids.kb", include_str!("../../../specs/lib/grids.kb")),
    ("<lib>/kernels.kb", include_str!("../../../specs/lib/kernels.kb")),
    ("<lib>/layers.kb", include_str!("../../../specs/lib/layers.kb")),
    ("<lib>/levels.kb", include_str!("../../../specs/lib/levels.kb")),
    ("<lib>/own.kb", include_str!("../../../specs/lib/own.kb")),
    ("<lib>/moves.kb", include_str!("../../../specs/lib/moves.kb")),
    ("<lib>/packed.kb", include_str!("../../../specs/lib/packed.kb")),
    ("<lib>/parallel.kb", include_str!("../../../specs/lib/parallel.kb")),
    ("<lib>/ring.kb", include_str!("../../../specs/lib/ring.kb")),
    ("<lib>/swing.kb", include_str!("../../../specs/lib/swing.kb")),
    ("<lib>/trees.kb", include_str!("../../../specs/lib/trees.kb")),
];

/// Returns the name of file number `number` as a module: `ring` for `specs/lib/ring.kb`.
pub(crate) fn module(number: usize) -> Option<&'static str> {
    LIBRARY.get(number)?.0.strip_prefix("<lib>/")?.strip_suffix(".kb")
}
