//! About: the parts of a report that are known before anything is proven or timed, and those of an
//! execution.

use crate::analyse::{self, Executed};
use crate::build::Built;
use crate::data;
use crate::host;
use crate::report::{AxisReport, InputReport, ParamReport, Report, SCHEMA};
use kbc_backend_sim::interp::RunResult;
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;

/// The report of a schedule that comes from text.
pub fn about_schedule(command: &'static str, file: &str, module: &Module, schedule: &Schedule) -> Report {
    Report {
        schema: SCHEMA,
        command,
        file: file.to_owned(),
        program: module.name.to_string(),
        machine: module.machine.clone(),
        mesh: schedule
            .mesh
            .axes
            .iter()
            .map(|a| AxisReport { name: a.name.to_string(), size: a.size })
            .collect(),
        collectives: analyse::collectives(schedule, &[]),
        ..Report::default()
    }
}

/// The parts of a report that are known once the schedule is.
pub fn begin(command: &'static str, file: &str, built: &Built, schedule: &Schedule) -> Report {
    Report {
        machine: Some(built.topology.to_string()),
        chosen: built.chosen.clone(),
        order: built.order.clone(),
        params: built.params.iter().map(|(n, v)| ParamReport { name: n.clone(), value: v.clone() }).collect(),
        collectives: analyse::collectives(schedule, &analyse::names_algorithm(built)),
        ..about_schedule(command, file, &built.module, schedule)
    }
}

/// Puts an execution into the report: engine, inputs, what the host read, and the comparisons. The
/// report is ok if all of them pass. Returns the inputs and the results.
pub fn executed(
    report: &mut Report,
    built: &Built,
    schedule: &Schedule,
    done: Executed,
) -> (data::Inputs, RunResult) {
    report.engine = Some(done.engine.name());
    report.inputs = inputs(built, &done.inputs);
    report.host_reads = host::reads(schedule, &done.result);
    report.ok = analyse::passes(&done.compare) && done.expect.iter().all(analyse::passes);
    (report.compare, report.expect) = (Some(done.compare), done.expect);
    (done.inputs, done.result)
}

/// Inputs with their types and origins.
pub fn inputs(built: &Built, made: &data::Inputs) -> Vec<InputReport> {
    let types = built.typed.inputs.iter().map(|i| i.ty.to_string());
    made.origin
        .iter()
        .zip(types)
        .map(|((name, from), ty)| InputReport { name: name.clone(), r#type: ty, from: from.clone() })
        .collect()
}
