//! Facts of rows whose processes have run: medians and spread over rounds.

use super::row::{Facts, MeasuredFacts, Status, described};
use crate::samples::Samples;
use kbc_compiler::failure::Failure;
use kbc_compiler::report::{LaunchReport, Report};
use kbc_diag::{Diagnostic, SourceMap};
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::DType;

/// Returns the facts of a proven program from the runs of its processes, one a round, each with a
/// time. `element` is the type of the elements, if the inputs have one.
pub fn facts(report: &Report, element: Option<DType>, runs: &[LaunchReport], map: &SourceMap) -> Facts {
    let times = Samples(runs.iter().filter_map(|r| r.time_ns).collect());
    let compared: u64 = runs.iter().map(|r| r.compared).sum();
    let wrong: u64 = runs.iter().map(|r| r.wrong).sum();
    let differs = (wrong > 0).then(|| {
        Diagnostic::error("E430", format!("{wrong} of {compared} elements of the processes differ"))
    });
    let facts = described(report);
    let time = times.median();
    let algbw = facts.bytes.filter(|_| wrong == 0 && time > 0.0).map(|b| b as f64 / time);
    let factor = runs.iter().find_map(|r| r.bus_factor);
    Facts {
        status: if wrong > 0 { Status::Wrong } else { Status::Right },
        why: differs.as_ref().map(|d| format!("{} {}", d.code, d.title)),
        failure: differs.map(|d| Failure::Program(d.into()).json(map)),
        checked: compared,
        mismatches: wrong,
        time_ns: (wrong == 0).then_some(time),
        algbw_gbs: algbw,
        busbw_gbs: algbw.zip(factor).map(|(a, f)| a * f),
        measured: runs.first().map(|first| MeasuredFacts {
            transport: first.transport.clone(),
            element: element.map(|d| d.name().to_owned()),
            rounds: runs.len() as u64,
            repeat: first.repeat,
            min_ns: times.quantile(0.0),
            q1_ns: times.quantile(0.25),
            q3_ns: times.quantile(0.75),
            max_ns: times.quantile(1.0),
        }),
        ..facts
    }
}

/// Returns the type of the elements of all inputs of a schedule, if there is one.
pub fn element(schedule: &Schedule) -> Option<DType> {
    let inputs = schedule.buffers.iter().filter(|b| matches!(b.role, BufferRole::Input(_)));
    let mut types = inputs.map(|b| b.dtype);
    let first = types.next()?;
    types.all(|t| t == first).then_some(first)
}
