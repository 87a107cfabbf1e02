//! Memory estimates: the memory that a step may take, and the memory that the steps of a run need.

use crate::workspace::Workspace;
use kbc_backend_sim::interp::MAX_BYTES;
use kbc_checker::Orbits;
use kbc_diag::Diagnostic;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::walk::{Act, Cursor, Program, Step};
use kbc_machine::topology::Topology;
use kbc_numerics::shard::feed_shape;
use std::collections::BTreeSet;

/// Variable of the environment that names the limit of the command line: `8GiB`, `500MB`, or a
/// number of bytes.
pub const VARIABLE: &str = "KBC_MEMORY";

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
        match self.limit {
            Some(most) if need > u128::from(most) => Err(Diagnostic::error(
                "E369",
                format!("{what} would need {} of memory (limit of kbc: {})", shown(need), shown(most.into())),
            )
            .help(format!(
                "use smaller sizes, fewer ranks or fewer calls, or raise the limit with {VARIABLE}=8GiB"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the memory that all ranks together may hold while a schedule is executed: the
    /// default of the engines, or the available memory.
    pub fn engine_bytes(self) -> u64 {
        self.limit.map_or(MAX_BYTES, |most| most.min(MAX_BYTES))
    }

    /// Checks whether that many calls of a schedule fit in memory: the inputs, the state of each
    /// rank after each call, and the expected values if results are compared.
    ///
    /// # Errors
    /// Returns E369 if they do not fit.
    pub fn calls_fit(self, schedule: &Schedule, calls: u32, compared: bool) -> Result<(), Diagnostic> {
        let mesh = &schedule.mesh;
        let wide = |sizes: &[u64]| sizes.iter().fold(1u128, |n, d| n.saturating_mul(u128::from(*d)));
        let mut seen = BTreeSet::new();
        let (mut fed, mut making, mut kept) = (0u128, 0u128, 2 * VEC * u128::from(mesh.ranks()));
        for b in &schedule.buffers {
            let Some(ty) = &b.global else { continue };
            let bytes = u128::from(ty.dtype.bytes());
            match b.role {
                BufferRole::Input(i) if seen.insert((false, i)) => {
                    let elements = wide(&feed_shape(ty, mesh));
                    fed = fed.saturating_add(elements.saturating_mul(bytes));
                    // Made as 64-bit numbers first.
                    making = making.max(elements.saturating_mul(8));
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
        let need = fed.saturating_add(kept).saturating_mul(u128::from(calls)).saturating_add(making);
        self.fits(need, &format!("{calls} call{} of {}", if calls == 1 { "" } else { "s" }, schedule.name))
    }

    /// Whether the messages of a call fit in memory where the time of every rank is simulated,
    /// which is all at once where an algorithm sends directly.
    ///
    /// # Errors
    /// E369
    pub fn simulation_fits(self, schedule: &Schedule, topology: &Topology) -> Result<(), Diagnostic> {
        let ranks = schedule.mesh.ranks();
        if ranks <= SMALL {
            return Ok(());
        }
        let spelled = with_host_region(schedule);
        // The simulation reports a schedule that cannot be walked.
        let Ok(program) = Program::compile(&spelled) else { return Ok(()) };
        let mut counts: Vec<u32> = (0..8).map(|i| messages(&program, ranks / 8 * i)).collect();
        // A root may send far more than the others; the median is what most ranks send.
        counts.sort_unstable();
        let need = u128::from(ranks) * u128::from(counts[4]) * MESSAGE;
        let carries = |stride, size, xor| topology.carries(stride, size, xor);
        match self.fits(need, &format!("the simulation of {} messages on each of {ranks} ranks", counts[4])) {
            // One rank that stands for many is simulated in the place of all of them.
            Err(_) if Orbits::find(&program, 1, carries).is_ok_and(|o| o.size() > 1) => Ok(()),
            other => other,
        }
    }
}

/// Ranks up to which a simulation of time takes no room worth a look.
const SMALL: u64 = 512;

/// Bytes of a message on its way, with all that waits for it; measured.
const MESSAGE: u128 = 3000;

/// Messages of a rank that are counted at most.
const COUNTED: u32 = 1 << 20;

/// Messages that a rank sends in a call.
fn messages(program: &Program<'_>, rank: u64) -> u32 {
    let mut out = 0;
    for stream in 0..program.streams.len() as u32 {
        let mut at = Cursor::new(program, rank, stream, 0);
        let mut steps = 0;
        while let (Ok(Some(step)), true) = (at.next_step(), steps < COUNTED) {
            steps += 1;
            let sends = matches!(step, Step::Act(Act::Put { .. } | Act::Get { .. } | Act::Send { .. }, ..));
            out += u32::from(sends);
        }
    }
    out
}

/// Bytes of an empty list.
const VEC: u128 = 24;
/// Bytes of the description of a rank's result, beside its elements.
const PART: u128 = 96;
/// Bytes of an element of the reference: value, bound, integer.
const REFERENCE: u128 = 24;

/// A number of bytes for people.
fn shown(bytes: u128) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} bytes"),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown() {
        assert_eq!((shown(12), shown(3 << 29)), ("12 bytes".into(), "1.5 GiB".into()));
    }
}
