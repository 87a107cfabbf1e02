//! The fastest trees for every size: few and shallow ones for few bytes, those of the best rate for
//! many.

use super::{failed, number};
use crate::failure::Outcome;
use crate::report::amounts::{bytes, time};
use kbc_machine::topology::Topology;
use kbc_passes::packed::{
    MachineNetwork, PackedCollective, PackedParameters, PackedRequest, TreeMethod, parameters, phases,
    planned_ns,
};
use serde_json::{Value, json};

/// Sizes in bytes: 1 KiB to 1 GiB in steps of 4.
const SIZES: std::ops::RangeInclusive<u32> = 5..=15;

/// What is planned for a size.
struct SizedPlan {
    bytes: u64,
    method: TreeMethod,
    parameters: PackedParameters,
    messages: usize,
    ns: f64,
}

/// Returns the fastest plans for a ladder of sizes, as text and as JSON.
///
/// # Errors
/// E595.
pub(super) fn ladder(
    topology: &Topology,
    machine: &MachineNetwork,
    request: &PackedRequest,
) -> Outcome<(String, Value)> {
    let methods = match request.method {
        TreeMethod::Fastest if request.collective == PackedCollective::AllReduce => {
            &[TreeMethod::Trees, TreeMethod::Greedy, TreeMethod::Spanning][..]
        }
        TreeMethod::Fastest => &[TreeMethod::Trees, TreeMethod::Greedy],
        TreeMethod::Trees => &[TreeMethod::Trees],
        TreeMethod::Greedy => &[TreeMethod::Greedy],
        TreeMethod::Spanning => &[TreeMethod::Spanning],
    };
    let mut rows = vec![];
    for bytes in SIZES.map(|i| 1u64 << (2 * i)) {
        let mut plans = vec![];
        let mut refused = None;
        for &method in methods {
            let request = PackedRequest { method, bytes, ..*request };
            match phases(machine, &request) {
                Ok(phases) => plans.push(SizedPlan {
                    bytes,
                    method,
                    parameters: parameters(machine, &request, &phases),
                    messages: phases.iter().map(|p| p.messages()).sum(),
                    ns: planned_ns(&phases),
                }),
                Err(error) => refused = Some(error),
            }
        }
        match (plans.is_empty(), refused) {
            (true, Some(error)) => return Err(failed(topology, error)),
            _ => rows.push(plans),
        }
    }
    let name = kbc_machine::topology::brief(&topology.to_string());
    let ranks = topology.device_count();
    let mut text =
        format!("{} on {name}: {ranks} ranks\nfastest plan for each size\n", request.collective.name());
    let mut json = vec![];
    for plans in &rows {
        let Some(best) = plans.iter().min_by(|a, b| a.ns.total_cmp(&b.ns)) else { continue };
        text += &line(best, plans);
        json.push(row(best, plans));
    }
    let json = json!({
        "schema": 1, "command": "synth", "ok": true, "collective": request.collective.name(), "sizes": json,
    });
    Ok((text, json))
}

/// Returns the trees of a plan in words.
fn trees(plan: &SizedPlan) -> String {
    let PackedParameters { pieces, trees, greedy, gather, spanning } = plan.parameters;
    match plan.method {
        TreeMethod::Greedy if gather > 0 => {
            format!("greedy: {greedy}, gather: {gather}, pieces: {pieces}")
        }
        TreeMethod::Greedy => format!("greedy: {greedy}, pieces: {pieces}"),
        TreeMethod::Spanning => format!("spanning: {spanning}, pieces: {pieces}"),
        _ if trees > 0 => format!("trees: {trees}, pieces: {pieces}"),
        _ => format!("pieces: {pieces}"),
    }
}

fn line(best: &SizedPlan, plans: &[SizedPlan]) -> String {
    let rate = best.bytes as f64 / best.ns;
    let size = bytes(best.bytes);
    let mut out = format!(
        "  {size:>10}  {:<24} {:>6} messages {:>11} {:>9} GB/s",
        trees(best),
        best.messages,
        time(best.ns),
        number(rate)
    );
    for other in plans.iter().filter(|p| p.method != best.method) {
        out += &format!("; {} {}", other.method.name(), time(other.ns));
    }
    out + "\n"
}

fn row(best: &SizedPlan, plans: &[SizedPlan]) -> Value {
    let PackedParameters { pieces, trees, greedy, gather, spanning } = best.parameters;
    let all: serde_json::Map<String, Value> =
        plans.iter().map(|p| (format!("{}_ns", p.method.name()), json!(p.ns))).collect();
    let mut row = json!({
        "bytes": best.bytes,
        "method": best.method.name(),
        "pieces": pieces,
        "trees": trees,
        "greedy": greedy,
        "gather": gather,
        "spanning": spanning,
        "messages": best.messages,
        "planned_ns": best.ns,
    });
    if let Value::Object(row) = &mut row {
        row.extend(all);
    }
    row
}
