//! State of the parser of `.tile` texts: the kernel that was read so far, and its names.

use crate::tile::{Core, Dialect, Kernel};
use kbc_diag::Diagnostics;
use kbc_ir::name::Name;
use kbc_ir::text::reader::Names;

/// The kernel so far, and the names declared so far.
pub(super) struct Reader<'d> {
    pub(super) k: Kernel,
    pub(super) tensors: Names,
    pub(super) signals: Names,
    pub(super) areas: Names,
    pub(super) tiles: Names,
    pub(super) named: bool,
    pub(super) out: &'d mut Diagnostics,
}

impl<'d> Reader<'d> {
    pub(super) fn new(dialect: &'static Dialect, out: &'d mut Diagnostics) -> Self {
        Reader {
            k: Kernel {
                name: Name::from(""),
                dialect,
                core: Core::Vector,
                cores: 1,
                scalars: vec![],
                root: None,
                tensors: vec![].into(),
                tables: vec![],
                signals: vec![].into(),
                areas: vec![].into(),
                tiles: vec![],
                body: vec![],
            },
            tensors: Names::new("tensor", "%"),
            signals: Names::new("array of signals", "@"),
            areas: Names::new("window", "@"),
            tiles: Names::new("tile", "$"),
            named: false,
            out,
        }
    }
}
