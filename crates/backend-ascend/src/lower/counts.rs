//! A kernel for counting what it moves: with marks where regions of the schedule begin.

use super::{Lower, Staging, whole};
use crate::tile::{Kernel, Object, Stmt};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::Schedule;

/// The kernel of a schedule at its sizes, as [`super::lower`] makes it, and which of its statements are of which region.
pub struct Counts {
    /// The kernel. `let` [`Counts::REGION`] is in front of what belongs to that region of the schedule; one more than there are is what stands behind all.
    pub kernel: Kernel,
    /// Memory that each region works on.
    pub operands: Vec<Vec<Object>>,
    /// Ranks.
    pub ranks: u64,
}

/// The kernel of a schedule, for counting.
///
/// # Errors
/// Of [`super::lower`].
pub fn counts(schedule: &Schedule) -> Result<Counts, Diagnostics> {
    let (kernel, operands) = whole(schedule, Staging::Fused, &|_| None, true)?;
    Ok(Counts { kernel, operands, ranks: schedule.mesh.ranks() })
}

impl Counts {
    /// The name of the marks: no name of a kernel is written so.
    pub const REGION: &str = "#region";

    /// How a memory is called: `%v`.
    pub fn name(&self, object: Object) -> String {
        match object {
            Object::Tensor(t) => format!("%{}", self.kernel.tensors[t.0 as usize].name),
            Object::Area(a) => format!("%{}", self.kernel.areas[a.0 as usize].name),
        }
    }

    /// Bytes of an element of a memory.
    pub fn width(&self, object: Object) -> u64 {
        match object {
            Object::Tensor(t) => self.kernel.tensors[t.0 as usize].dtype.bytes(),
            Object::Area(a) => self.kernel.areas[a.0 as usize].dtype.bytes(),
        }
    }
}

impl Lower<'_, '_> {
    /// What follows is of this region.
    pub(super) fn mark(&mut self, region: i64) {
        if self.marks {
            self.build.push(Stmt::Let { name: Counts::REGION.into(), value: Expr::Int(region) });
        }
    }
}
