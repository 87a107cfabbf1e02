//! Synthesis: an algorithm for one machine, made from trees that are packed into its links or
//! matched with them.
//!
//! The passes turn the machine into a network, pack trees and make tables of their messages
//! (`kbc_passes::packed`). `text.rs` writes the algorithm of the library with these tables as
//! `.kb`. The text is compiled and proven like one that was written by hand; nothing here is
//! trusted.

mod flow;
mod shown;
mod sizes;
mod text;

use crate::failure::{Failure, Outcome};
use crate::report::amounts::{bytes, time};
use kbc_diag::Diagnostic;
use kbc_machine::topology::Topology;
use kbc_passes::packed::{
    CONNECTED, MachineNetwork, OrderedPhase, PackedFailure, PhaseTrees, best_phases, routed_network, tables,
    whole_network,
};
use kbc_synthesis::{ExactRatio, RateProof, SynthesisError};
use serde_json::{Value, json};
use std::rc::Rc;

pub use shown::{EdgeOnMachine, TreeOnMachine, packed_trees, trees_on_machine};

pub use kbc_passes::packed::{MessageLimit, PackedCollective, PackedRequest, TreeMethod};

/// A synthesised algorithm.
pub struct SynthesizedAlgorithm {
    /// The file, if the machine has a name for it: topology, tables, algorithm, and a program that
    /// uses it.
    pub text: Option<String>,
    /// What was made, line by line.
    pub summary: String,
    /// The same as JSON.
    pub json: Value,
}

/// What the file of a synthesised algorithm says beside it.
#[derive(Clone, Debug)]
pub struct AlgorithmFile {
    /// The machine as `.kb` says it: a shape with settings, or the name of a machine file in
    /// quotation marks.
    pub machine: String,
    /// The option `instances` of the program that uses the algorithm.
    pub instances: u64,
}

/// Synthesises an algorithm for all devices of a machine. Without `file` no text is made. `ladder`
/// asks for the fastest plans for many sizes in place of one algorithm.
///
/// # Errors
/// E595: the machine has no such algorithm, or it would be too large; E413: a root that is not a
/// rank.
pub fn synthesize(
    topology: &Topology,
    file: Option<&AlgorithmFile>,
    request: &PackedRequest,
    ladder: bool,
) -> Outcome<SynthesizedAlgorithm> {
    if topology.is_package() {
        let why = "it is a package, whose devices are not joined by links alone";
        return Err(refused(topology, why, CONNECTED));
    }
    let ranks = topology.device_count() as u64;
    if request.collective.has_root() && request.root >= ranks {
        let title = format!("there is no rank {}: the machine has {ranks}", request.root);
        return Err(Failure::Usage(Diagnostic::error("E413", title).help("ranks count from 0").into()));
    }
    let machine = whole_network(topology).map_err(|e| failed(topology, e))?;
    if request.collective == PackedCollective::AllToAll {
        if ladder {
            return Err(refused(topology, "an all-to-all has no trees", "leave out --sizes"));
        }
        return flow::synthesize((topology, &machine), file, request);
    }
    if ladder {
        let (summary, json) = sizes::ladder(topology, &machine, request)?;
        return Ok(SynthesizedAlgorithm { text: None, summary, json });
    }
    let routed = routed_network(topology).map_err(|e| failed(topology, e))?;
    let (machine, phases) = best_phases(topology, Rc::new(machine), routed.map(Rc::new), request)
        .map_err(|e| failed(topology, e))?;
    let summary = summary(topology, &machine, request, &phases);
    let ranks = topology.device_count();
    let made = tables((topology, &machine), request, &phases);
    let written = |source| text::file((source, ranks), request, &made, &head(&summary));
    let text = file.map(|source| formatted(&written(source))).transpose()?;
    let json = certificate(&machine, request, &phases);
    Ok(SynthesizedAlgorithm { text, summary, json })
}

/// Returns the first comment of a file.
fn head(summary: &str) -> String {
    format!("Synthesised by `kbc synth`.\n\n{summary}")
}

/// Returns the text of a file as `kbc fmt` writes it. The formatter accepts every text that parses.
fn formatted(text: &str) -> Outcome<String> {
    crate::format::format(kbc_diag::FileId::default(), "synthesised.kb", text).map_err(Failure::Program)
}

/// Returns E595 for an error of the packing, with names of devices in place of numbers of nodes.
fn failed(topology: &Topology, error: SynthesisError) -> Failure {
    let help = match error {
        SynthesisError::Overflow { .. } | SynthesisError::TooManyMessages { .. } => {
            "ask for fewer trees or pieces: --trees 1, --pieces 1"
        }
        _ => CONNECTED,
    };
    refused(topology, &PackedFailure::from(error).words(topology, None), help)
}

fn refused(topology: &Topology, why: &str, help: &str) -> Failure {
    let machine = kbc_machine::topology::brief(&topology.to_string());
    let title = format!("no algorithm can be synthesised for {machine}: {why}");
    Diagnostic::error("E595", title).help(help.to_owned()).into()
}

/// Returns what a phase is limited by, and its rate in bytes per second: of each rank's block, of
/// the vector of a root, or of the vector of an all-reduce.
///
/// Whole trees of a number that was chosen may be slower than more of them, so the text says of
/// which trees it speaks.
fn limit(machine: &MachineNetwork, request: &PackedRequest, phase: &OrderedPhase) -> (f64, String) {
    let gb = |units: f64| format!("{} GB/s", number(units * machine.unit / 1e9));
    match &phase.trees {
        PhaseTrees::Spanning(packing) => {
            let why = match &packing.proof {
                Some(proof) => format!(
                    "no trees are faster: {} groups of devices are joined by {}, and a tree that joins all \
                     crosses {} times or more",
                    proof.parts.len(),
                    gb(proof.crossing as f64),
                    proof.parts.len() - 1
                ),
                None => "chosen one after another, with no proof that no trees are faster".to_owned(),
            };
            (packing.rate.to_f64() * machine.unit, why)
        }
        PhaseTrees::Rooted(packing) => {
            let per_root = packing.roots.first().map_or(0, |r| r.1);
            let (none, cut, carries) = match &packing.proof {
                RateProof::Cut(cut) => ("no trees are".to_owned(), cut, gb(cut.capacity as f64)),
                RateProof::WholeTrees { cut, .. } => {
                    let none = format!("with {per_root} per root no trees are");
                    (none, cut, format!("{} whole trees at the next higher rate", cut.capacity))
                }
            };
            let data = match phase.collective {
                c if c.has_root() => "all data of the root".to_owned(),
                _ => format!("the data of {} ranks", cut.weight),
            };
            let nodes = cut.nodes.len();
            let why = format!(
                "{none} faster: {data} crosses the boundary of {nodes} nodes, which carries {carries}"
            );
            (packing.rate.to_f64() * machine.unit, why)
        }
        PhaseTrees::Matched(_) => {
            let rate = machine.root_bytes(request) / phase.plan.least_ns * 1e9;
            (rate, "matched greedily for these bytes, with no proof that nothing is faster".to_owned())
        }
    }
}

/// Returns an exact number as JSON: text, because it may be larger than numbers of JSON.
fn ratio(r: ExactRatio) -> Value {
    json!([r.numerator().to_string(), r.denominator().to_string()])
}

/// Returns a number with at most three digits after the point.
fn number(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn summary(
    topology: &Topology,
    machine: &MachineNetwork,
    request: &PackedRequest,
    phases: &[Rc<OrderedPhase>],
) -> String {
    let name = kbc_machine::topology::brief(&topology.to_string());
    let mut out = format!("{} on {name}: {} ranks\n", request.collective.name(), topology.device_count());
    if machine.via {
        out += "messages name the relays that they pass: the algorithm fits no other machine\n";
    }
    if machine.rounded {
        out += "rates of links are rounded down to 1/1048576 of the fastest\n";
    }
    for phase in phases {
        let (rate, why) = limit(machine, request, phase);
        let of = match phase.collective {
            PackedCollective::AllGather | PackedCollective::ReduceScatter => "per rank",
            _ => "of the vector",
        };
        let (count, shapes, depth) = match &phase.trees {
            PhaseTrees::Rooted(p) => {
                let per_root = p.roots.first().map_or(0, |r| r.1);
                (format!("{per_root} per root"), p.classes.len(), p.classes.iter().map(|c| c.depth()).max())
            }
            PhaseTrees::Spanning(p) => {
                let deepest = p.classes.iter().map(|c| c.height(|_| 1.0) as usize).max();
                (format!("{} spanning", p.trees), p.classes.len(), deepest)
            }
            PhaseTrees::Matched(m) => {
                let of = if phase.collective == PackedCollective::AllReduce { "" } else { " per root" };
                let both = [&m.up, &m.down];
                let all = both.into_iter().flatten();
                (format!("{}{of}", m.trees), m.up.len().max(m.down.len()), all.map(|c| c.depth()).max())
            }
        };
        let depth = depth.map_or(String::new(), |d| format!(", depth at most {d}"));
        let messages = phase.messages();
        out += &format!(
            "{}\n  rate: {} GB/s {of}\n  {why}\n  trees: {count}, {shapes} shapes{depth}; \
             pieces of a tree: {}\n  {messages} messages in {} rounds; {} planned for {}, {:.1} % of the rate\n",
            phase.collective.name(),
            number(rate / 1e9),
            phase.plan.cuts,
            phase.plan.rounds.len(),
            time(phase.plan.ns),
            bytes(request.bytes),
            100.0 * phase.plan.least_ns / phase.plan.ns,
        );
    }
    out
}

fn certificate(machine: &MachineNetwork, request: &PackedRequest, phases: &[Rc<OrderedPhase>]) -> Value {
    let phases: Vec<Value> = phases
        .iter()
        .map(|phase| {
            let common = json!({
                "collective": phase.collective.name(),
                "pieces": phase.plan.cuts,
                "rounds": phase.plan.rounds.len(),
                "bytes": request.bytes,
                "planned_ns": phase.plan.ns,
                "least_ns": phase.plan.least_ns,
                "messages": phase.messages(),
            });
            let own = match &phase.trees {
                PhaseTrees::Rooted(p) => text::tree_certificate(p),
                PhaseTrees::Spanning(p) => text::spanning_certificate(p),
                PhaseTrees::Matched(m) => text::matching_certificate(m),
            };
            let (Value::Object(mut all), Value::Object(own)) = (common, own) else { return Value::Null };
            all.extend(own);
            Value::Object(all)
        })
        .collect();
    json!({
        "schema": 1,
        "command": "synth",
        "ok": true,
        "collective": request.collective.name(),
        "unit_bytes_per_second": machine.unit,
        "rounded": machine.rounded,
        "phases": phases,
    })
}
