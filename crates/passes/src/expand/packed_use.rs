//! Packed algorithms in schedules: the trees of a use.

use super::lower::Lower;
use crate::packed::{self, PackedSite, PackedUse};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{Collective, Using};
use std::rc::Rc;

impl Lower<'_> {
    /// Returns the trees of a use of a packed algorithm. `select` has written down the number of
    /// pieces.
    pub(super) fn packed(
        &self,
        c: &Collective,
        using: &Using,
        at: Span,
    ) -> Result<Rc<PackedUse>, Diagnostic> {
        let mesh = &self.out.mesh;
        let Some(topology) = self.cx.topology else {
            return Err(packed::refused(None, using, at, "packed trees need a machine"));
        };
        if !packed::is_complete(&using.args) {
            return Err(Diagnostic::error("E901", format!("`{}` has no number of pieces yet", using.alg))
                .primary(at, "run `select` first"));
        }
        let site = PackedSite::complete(topology, mesh, c);
        let found = site.pack(&using.args, &self.cx.packed);
        found.map_err(|why| packed::refused(Some(topology), using, at, &why))
    }
}
