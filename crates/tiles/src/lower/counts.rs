//! Kernels for counting what they move, with marks where regions of the schedule begin.

use super::state::Lower;
use crate::tile::{Kernel, Object, Stmt};
use kbc_ir::expr::Expr;

/// The kernel of a schedule at its sizes, before its last cleanup in [`super::lower`], with marks
/// that state to which region its statements belong.
pub struct CountedKernel {
    /// The kernel. `let` [`CountedKernel::REGION`] precedes what belongs to that region of the
    /// schedule. The number of regions as its value marks what follows all of them.
    pub kernel: Kernel,
    /// Memory that each region works on.
    pub operands: Vec<Vec<Object>>,
    /// Number of ranks.
    pub ranks: u64,
}

impl CountedKernel {
    /// Name of the marks. No name of a kernel is written so.
    pub const REGION: &str = "#region";

    /// Returns the printed name of a memory, such as `%v`.
    pub fn name(&self, object: Object) -> String {
        match object {
            Object::Tensor(t) => format!("%{}", self.kernel.tensors[t.0 as usize].name),
            Object::Area(a) => format!("%{}", self.kernel.areas[a.0 as usize].name),
        }
    }

    /// Returns the size of an element of a memory in bytes.
    pub fn width(&self, object: Object) -> u64 {
        match object {
            Object::Tensor(t) => self.kernel.tensors[t.0 as usize].dtype.bytes(),
            Object::Area(a) => self.kernel.areas[a.0 as usize].dtype.bytes(),
        }
    }
}

impl Lower<'_, '_> {
    /// Marks that what follows belongs to this region.
    pub(super) fn mark(&mut self, region: i64) {
        if self.marks {
            self.build.push(Stmt::Let { name: CountedKernel::REGION.into(), value: Expr::Int(region) });
        }
    }
}
