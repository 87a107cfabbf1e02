//! Comparison of an execution with the contracts in the text of a schedule.

use crate::analyse::{comparison, joined};
use crate::data::Inputs;
use crate::report::CompareReport;
use kbc_backend_sim::contract::contract_results;
use kbc_backend_sim::interp::RunResult;
use kbc_ir::schedule::Schedule;
use kbc_numerics::compare::compare_held;

/// Compares every element of every result on every rank, in every call.
///
/// # Errors
/// Why nothing could be compared, in words.
pub fn compare(schedule: &Schedule, inputs: &Inputs, result: &RunResult) -> Result<CompareReport, String> {
    if schedule.regions.iter().all(|r| r.contract.is_none())
        && schedule.regions.iter().any(|r| !r.over.is_empty())
    {
        return Err("no region has a contract".into());
    }
    let want = contract_results(schedule, &inputs.calls, result.outputs.len() as u32)?;
    let mut total: Option<CompareReport> = None;
    let mut wrong: Vec<String> = vec![];
    for (call, (got, (want, off))) in
        result.outputs.iter().zip(want.outputs.iter().zip(&want.off)).enumerate()
    {
        let found = compare_held(got, want, off);
        let report = comparison(&schedule.mesh, "results", AGAINST, &found);
        if report.mismatches > 0 {
            wrong.push(call.to_string());
        }
        total = Some(match total {
            None => report,
            Some(t) => joined(t, report),
        });
    }
    let mut total = total.filter(|t| t.elements > 0).ok_or("it has no results")?;
    if !wrong.is_empty() && result.outputs.len() > 1 {
        total.hints.push(format!("in call {} of {}", wrong.join(", "), result.outputs.len()));
    }
    if total.unbounded == total.elements {
        return Err("its results are functions of rounded sums, for which there is no error bound".into());
    }
    Ok(total)
}

/// What results are compared with.
const AGAINST: &str = "the contracts in the text";
