//! Operations that a kernel executes: those of its complete form, with flags, barriers and fences.
//!
//! The kernel is lowered at the size of the schedule, completed by the passes of its target, and
//! verified. What a rank executes is read from its trace ([`kbc_tiles::tile::counts`]). Beside it
//! are the bytes of the schedule's operations.

use super::roofline::Roofline;
use super::{MAX_OPERATIONS, ScheduleBytes, count_with_bytes};
use kbc_compiler::emit;
use kbc_compiler::watch::Unwatched;
use kbc_diag::Diagnostics;
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_tiles::backend::Target;
use kbc_tiles::family::{Instance, single};
use kbc_tiles::lower::{Shares, Staging};
use kbc_tiles::tile::Dialect;
use kbc_tiles::tile::counts::{self, OpCounts};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// What a rank executes in a launch of a kernel: the largest of each number over the ranks.
#[derive(Serialize)]
pub struct ExecutedKernel {
    /// Name of the target.
    target: &'static str,
    /// The numbers.
    most: Named,
    /// Bytes that the operations of the schedule read, on the rank with the most.
    schedule_reads: u64,
    /// Bytes that they write.
    schedule_writes: u64,
    /// The least time of each task; None for a schedule, which has no machine.
    roofline: Option<Roofline>,
}

/// Numbers with the names that a target gives to them.
struct Named {
    counts: OpCounts,
    dialect: &'static Dialect,
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.counts.named(self.dialect))
    }
}

impl ExecutedKernel {
    /// Counts what the kernel of a schedule executes. `machine`: the one of its program, and what
    /// the user calls it.
    ///
    /// # Errors
    /// Returns the errors of the target for this schedule, those of its passes and of the verifier,
    /// and E431 for a kernel with too many operations.
    pub fn of(
        schedule: &Schedule,
        target: &'static dyn Target,
        machine: Option<(&Topology, Option<&str>)>,
    ) -> Result<ExecutedKernel, Diagnostics> {
        let kernel = target.lower(schedule, Staging::Rows, &|_| None, &mut Shares::default())?;
        let ranks = schedule.mesh.ranks();
        let kernel = single(&Instance { ranks, count: 0, kernel });
        let kernel = emit::complete(&kernel, target, &mut Unwatched)?;
        let limit = usize::try_from(MAX_OPERATIONS).unwrap_or(usize::MAX);
        let counts = counts::executed(&kernel, ranks, &BTreeMap::new(), limit)?;
        let (_, bytes) = count_with_bytes(schedule)?;
        let most = |get: fn(&ScheduleBytes) -> u64| bytes.iter().map(get).max().unwrap_or(0);
        let roofline = machine.map(|m| Roofline::of(&kernel, ranks, target, m)).transpose()?;
        Ok(ExecutedKernel {
            roofline,
            target: target.name(),
            most: Named { counts, dialect: target.device().dialect() },
            schedule_reads: most(|b| b.read),
            schedule_writes: most(|b| b.written),
        })
    }

    /// Formats the numbers for people, one a line, with the schedule's bytes beside the kernel's.
    pub fn text(&self) -> String {
        let mut out = format!("kernel for {}, executed by a rank (the most)\n", self.target);
        for (name, n) in self.most.counts.named(self.most.dialect) {
            let beside = match name.as_str() {
                "bytes_loaded" => format!("   the schedule reads {}", self.schedule_reads),
                "bytes_stored" => format!("   the schedule writes {}", self.schedule_writes),
                _ => String::new(),
            };
            out += &format!("  {:<24} {n:>12}{beside}\n", name.replace('_', " "));
        }
        if let Some(roofline) = &self.roofline {
            out += &roofline.text();
        }
        out
    }
}
