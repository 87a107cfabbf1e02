//! Host reads and failed ranks of a run, for the report.

use crate::report::{FailureReport, HostReadReport};
use kbc_backend_sim::failure::RankFailure;
use kbc_backend_sim::interp::RunResult;
use kbc_ir::schedule::{BufferId, Schedule};
use kbc_numerics::element::Value;

/// Reads shown in a report.
const READS: usize = 64;
/// Elements shown of a read.
const ELEMENTS: usize = 8;

/// What the hosts read.
pub fn reads(schedule: &Schedule, result: &RunResult) -> Vec<HostReadReport> {
    let all = result.reads.iter().enumerate().flat_map(|(call, ranks)| {
        ranks.iter().enumerate().flat_map(move |(rank, reads)| reads.iter().map(move |r| (call, rank, r)))
    });
    all.take(READS)
        .map(|(call, rank, r)| {
            let data = r.tensor.data();
            let text = |v| match v {
                Value::Float(x) if x.abs() >= 1e16 => format!("{x:e}"),
                Value::Float(x) => format!("{x}"),
                Value::Int(x) => format!("{x}"),
            };
            HostReadReport {
                call: call as u64,
                rank: schedule.mesh.show(rank as u64),
                buffer: schedule.buffer(r.buffer).name.to_string(),
                elements: data.len() as u64,
                first: (0..data.len().min(ELEMENTS)).filter_map(|i| data.get(i)).map(text).collect(),
                time_ns: None,
            }
        })
        .collect()
}

/// Notes when the reads of the first call happened: `(rank, buffer, ns)`, for each rank in its
/// order.
pub fn times(schedule: &Schedule, reads: &mut [HostReadReport], at: &[(u64, BufferId, f64)]) {
    let mut left: Vec<(String, f64)> =
        at.iter().map(|(rank, _, ns)| (schedule.mesh.show(*rank), *ns)).collect();
    for r in reads.iter_mut().filter(|r| r.call == 0) {
        if let Some(i) = left.iter().position(|(rank, _)| *rank == r.rank) {
            r.time_ns = Some(left.remove(i).1);
        }
    }
}

/// Ranks that did not come to their end, causes first.
pub fn failures(schedule: &Schedule, ranks: &[RankFailure]) -> Vec<FailureReport> {
    ranks
        .iter()
        .map(|f| FailureReport {
            rank: schedule.mesh.show(f.rank),
            kind: if f.root { "root" } else { "aborted" },
            code: f.code,
            what: f.what.clone(),
            because: f.because.clone(),
        })
        .collect()
}
