//! An all-to-all for one machine, from paths between all pairs of ranks.

use super::{AlgorithmFile, SynthesizedAlgorithm, failed, formatted, number, ratio, text};
use crate::failure::Outcome;
use kbc_machine::topology::Topology;
use kbc_passes::packed::{MachineNetwork, OrderedFlow, PackedRequest, flow_tables, ordered_flow};
use serde_json::{Value, json};

/// Synthesises an all-to-all.
///
/// # Errors
/// E595.
pub(super) fn synthesize(
    (topology, machine): (&Topology, &MachineNetwork),
    file: Option<&AlgorithmFile>,
    request: &PackedRequest,
) -> Outcome<SynthesizedAlgorithm> {
    let found = ordered_flow(machine, request).map_err(|e| failed(topology, e))?;
    let summary = summary(topology, machine, &found);
    let ranks = topology.device_count();
    let text =
        |file| text::file((file, ranks), request, &flow_tables(&found.plan, ranks), &super::head(&summary));
    let text = file.map(|file| formatted(&text(file))).transpose()?;
    Ok(SynthesizedAlgorithm { text, json: certificate(machine, &found), summary })
}

fn summary(topology: &Topology, machine: &MachineNetwork, found: &OrderedFlow) -> String {
    let name = kbc_machine::topology::brief(&topology.to_string());
    let OrderedFlow { flow, plan, .. } = found;
    let gb = |units: f64| number(units * machine.unit / 1e9);
    let paths: usize = flow.pairs.iter().map(|p| p.paths.len()).sum();
    let hops = flow.pairs.iter().flat_map(|p| &p.paths).map(|p| p.hops.len()).max().unwrap_or(0);
    let mut out = format!("all_to_all on {name}: {} ranks\n", flow.members.len());
    if machine.rounded {
        out += "rates of links are rounded down to 1/1048576 of the fastest\n";
    }
    out += &format!(
        "all_to_all\n  rate: {} GB/s between every two ranks; {} GB/s with whole pieces\n  \
         no paths carry more than {} GB/s: with lengths for all links, capacity times length is {}, \
         and all distances together are {}\n  \
         paths: {paths}, of at most {hops} hops; pieces of a block: {}\n  \
         rounds: {}, of which the busiest link needs {}; {} messages\n",
        gb(flow.rate.to_f64()),
        gb(plan.rate.to_f64()),
        gb(flow.bound.to_f64()),
        flow.capacity_length,
        flow.demand_length,
        plan.pieces,
        plan.rounds.len(),
        plan.least,
        plan.messages(),
    );
    out
}

/// Returns the paths, the loads and lengths of all links, and the rate with its bound. Exact
/// numbers are text, because they may be larger than numbers of JSON.
fn certificate(machine: &MachineNetwork, found: &OrderedFlow) -> Value {
    let OrderedFlow { flow, plan, .. } = found;
    let edges = flow
        .edges
        .iter()
        .map(|e| json!([e.from, e.to, e.capacity.to_string(), e.load.to_string(), e.length.to_string()]));
    let pairs = flow.pairs.iter().map(|p| {
        let paths: Value = p
            .paths
            .iter()
            .map(|path| json!({ "hops": path.hops, "shares": path.shares.to_string() }))
            .collect();
        json!({ "source": p.source, "destination": p.destination, "paths": paths })
    });
    json!({
        "schema": 1,
        "command": "synth",
        "ok": true,
        "collective": "all_to_all",
        "unit_bytes_per_second": machine.unit,
        "rounded": machine.rounded,
        "rate": ratio(flow.rate),
        "whole_pieces_rate": ratio(plan.rate),
        "bound": ratio(flow.bound),
        "shares": flow.shares.to_string(),
        "capacity_length": flow.capacity_length.to_string(),
        "demand_length": flow.demand_length.to_string(),
        "edges": edges.collect::<Value>(),
        "pairs": pairs.collect::<Value>(),
        "pieces": plan.pieces,
        "rounds": plan.rounds.len(),
        "least_rounds": plan.least as u64,
        "messages": plan.messages(),
    })
}
