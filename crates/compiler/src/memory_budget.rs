//! Memory estimates: the memory that a step may take, and the memory that the steps of a run need.

use crate::workspace::Workspace;
use kbc_backend_sim::interp::MAX_BYTES;
use kbc_diag::{Diagnostic, memory};
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_numerics::shard::feed_shape;
use std::collections::BTreeSet;

pub use kbc_diag::memory::VARIABLE;

/// The memory that a step may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryBudget {
    /// Bytes; `None` if there is no limit.
    pub limit: Option<u64>,
}

impl Workspace {
    /// Returns the memory that a step may take.
    pub fn memory_budget(&self) -> MemoryBudget {
        MemoryBudget { limit: self.environment.memory() }
    }
}

impl MemoryBudget {
    /// Compares the needed memory with the available memory.
    ///
    /// # Errors
    /// Returns E369 if it does not fit.
    pub fn fits(self, need: u128, what: &str) -> Result<(), Diagnostic> {
        memory::fits(self.limit, need, what)
    }

    /// Returns the memory that all ranks together may hold while a schedule is executed: the
    /// default of the engines, or the available memory.
    pub fn engine_bytes(self) -> u64 {
        self.limit.map_or(MAX_BYTES, |most| most.min(MAX_BYTES))
    }

    /// Checks whether that many calls of a schedule fit in memory: the inputs, the state of each
    /// rank after each call, and the expected values if results are compared as a whole.
    ///
    /// # Errors
    /// Returns E369 if they do not fit.
    pub fn calls_fit(self, schedule: &Schedule, calls: u32, compared: bool) -> Result<(), Diagnostic> {
        let mesh = &schedule.mesh;
        let wide = |sizes: &[u64]| sizes.iter().fold(1u128, |n, d| n.saturating_mul(u128::from(*d)));
        let mut seen = BTreeSet::new();
        let (mut fed, mut kept) = (0u128, 2 * VEC * u128::from(mesh.ranks()));
        for b in &schedule.buffers {
            let Some(ty) = &b.global else { continue };
            let bytes = u128::from(ty.dtype.bytes());
            match b.role {
                BufferRole::Input(i) if seen.insert((false, i)) => {
                    fed = fed.saturating_add(wide(&feed_shape(ty, mesh)).saturating_mul(bytes));
                }
                BufferRole::Output(i) if seen.insert((true, i)) => {
                    // Parts differ by an element or two in a dimension.
                    let part = ty.local_box(mesh, &mesh.coords(0));
                    let elements = part.iter().fold(1u128, |n, (a, b)| n.saturating_mul(u128::from(b - a)));
                    let ranks = u128::from(mesh.ranks());
                    kept = kept.saturating_add(ranks.saturating_mul(elements.saturating_mul(bytes) + PART));
                    if compared {
                        kept = kept.saturating_add(wide(&ty.sizes()).saturating_mul(REFERENCE));
                    }
                }
                BufferRole::Input(_) | BufferRole::Output(_) | BufferRole::Temp => {}
            }
        }
        let need = fed.saturating_add(kept).saturating_mul(u128::from(calls));
        self.fits(need, &format!("{calls} call{} of {}", if calls == 1 { "" } else { "s" }, schedule.name))
    }
}

/// Bytes of an empty list.
const VEC: u128 = 24;
/// Bytes of the description of a rank's result, beside its elements.
const PART: u128 = 96;
/// Bytes of an element of the reference: value, bound, integer.
const REFERENCE: u128 = 24;
